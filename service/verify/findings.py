"""What the verifier says: findings, each with its evidence, and the report."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MAX_FINDINGS: Final = 100

WORDS: Final = {
    "schema": ("数据库结构不是预期的普通表", "the schema is not the plain tables expected"),
    "storage-damaged": ("数据库文件自身已损坏", "the database file itself is damaged"),
    "storage-unreadable": ("数据库从这里起无法读取", "the database cannot be read from here on"),
    "index-missing": ("记录缺失", "an entry is missing"),
    "index-repeated": ("序号重复", "an index occurs twice"),
    "log-cut": ("日志末尾被截断", "the log's tail was cut off"),
    "leaf-differs": ("叶子哈希与记录的字节不符", "the leaf is not the hash of the entry's bytes"),
    "entry-unreadable": ("记录不是规范的 JSON", "the entry is no canonical JSON of its shape"),
    "entry-type": ("记录类型不对", "the entry's type is wrong"),
    "facts-shape": ("记录的内容字段不对", "the entry's facts are not of their shape"),
    "tile-differs": ("子树的根与叶子不符", "a subtree's root does not follow from its leaves"),
    "run-begins-twice": ("运行开始了两次", "a run begins twice"),
    "run-ends-unstarted": ("运行没有开始却有结束，或结束了两次", "a run ends that was not started, or ends twice"),
    "column-differs": ("表中的值与日志不符", "a column does not say what the log says"),
    "row-missing": ("日志里有，表里没有", "a row is missing that the log tells of"),
    "row-unlogged": ("表里有，日志里没有", "a row stands there that no entry tells of"),
    "version-differs": ("运行的定义与登记的不符", "what ran is not the version that was registered"),
    "definition-twice": ("同一定义登记了两次", "one definition was registered twice"),
    "checkpoint-unreadable": ("不是签名的检查点", "it is no signed checkpoint"),
    "checkpoint-differs": ("日志与检查点不符", "the log is not the one that was signed"),
    "origin-differs": ("检查点属于另一个日志", "the checkpoint is of another log"),
    "signature-wrong": ("检查点没有正确的签名", "the checkpoint has no right signature"),
    "key-unknown": ("更换的是日志里没有的密钥", "a key was rotated that the log never named"),
    "asked-twice": ("同一个确认提出了两次", "a confirmation was asked twice"),
    "answered-wrongly": ("确认的回答与提出的不符", "a confirmation's answer does not fit its question"),
    "git-missing": ("克隆里没有这个对象", "the clone lacks an object"),
    "git-differs": ("克隆里的提交在该路径上是别的内容", "that commit holds something else at that path"),
    "bytes-differ": ("保存的字节与哈希不符", "kept bytes do not have their hash"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `what`: a key of WORDS; `where`: table.column and row; `index`: where it shows."""

    index: int | None
    what: str
    found: str
    expected: str
    where: str
    zh: str
    en: str


@dataclass(frozen=True, slots=True)
class Report:
    """`root`: hex, of the `size` leaves up to a gap. `checkpoints`: how many were compared. `entries`: how many of each type.

    `notes`: (zh, en) each.
    """

    size: int
    root: str
    checkpoints: int
    open_runs: tuple[str, ...]
    entries: dict[str, int]
    findings: tuple[Finding, ...]
    seconds: float
    notes: tuple[tuple[str, str], ...] = ()


class VerifyError(Exception):
    """The file cannot be read as a database of Bitong's; `zh` and `en` say so."""

    def __init__(self, zh: str, en: str) -> None:
        super().__init__(en)
        self.zh = zh
        self.en = en


def shown(value: object) -> str:
    """A value for people: at most 200 characters, nothing that a terminal would obey."""
    text = "null" if value is None else value.hex() if isinstance(value, bytes) else str(value)
    text = text if len(text) <= 200 else text[:199] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


class OneOf:
    """Equal to each of these values: what a column may say where an entry leaves a choice."""

    def __init__(self, *values: object) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return other in self.values

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return " | ".join(map(shown, self.values))


class Findings:
    """The findings so far. Steps only add to them; none of them keeps the next from its work."""

    def __init__(self) -> None:
        self.total = 0
        self._kept: list[Finding] = []

    def find(self, index: int | None, what: str, where: str, found: object, expected: object) -> None:
        """Note one thing that is wrong. Memory stays bounded: only the first by index are kept."""
        self.total += 1
        place, said, wanted = shown(where), shown(found), shown(expected)
        zh, en = WORDS[what]
        zh, en = f"{zh}（{place}）：实为 {said}，应为 {wanted}。", f"{en} ({place}): found {said}, expected {wanted}."
        self._kept.append(Finding(index, what, said, wanted, place, zh, en))
        if len(self._kept) > 20 * MAX_FINDINGS:
            self._kept = self.first()

    def join(self, other: "Findings") -> None:
        """Take over what another pass found."""
        self.total += other.total
        self._kept += other.first()

    def first(self) -> list[Finding]:
        """By index, then those that show at no entry; each in the order found."""
        return sorted(self._kept, key=lambda one: (one.index is None, one.index or 0))[:MAX_FINDINGS]

    def compare(
        self, index: int | None, table: str, key: object, row: Mapping[str, object], wanted: Mapping[str, object]
    ) -> None:
        """Each column that does not say what the log says is a finding of its own."""
        if wanted.items() <= row.items():  # the same question as below, asked at once
            return
        for name, expected in wanted.items():
            if row[name] != expected:
                self.find(index, "column-differs", f"{table}.{name} of {key}", row[name], expected)


def lines(report: Report) -> list[str]:
    """The report for people, in Chinese and English."""
    count = len(report.findings)
    text = [
        f"{count} 处不符 / {count} findings" if count else "相符 / verifies",
        f"记录 / entries: {report.size}   根 / root: {report.root}   用时 / took: {report.seconds:.1f} s",
        f"检查点 / checkpoints: {report.checkpoints}",
        *(f"未结束的运行 / open run: {shown(run)}" for run in report.open_runs[:MAX_FINDINGS]),
        *(f"注意 / note: {zh} {en}" for zh, en in report.notes),
    ]
    for one in report.findings:
        text += [f"[{'-' if one.index is None else one.index}] {one.what}: {one.zh}", f"    {one.en}"]
    return text
