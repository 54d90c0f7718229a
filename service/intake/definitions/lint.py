"""`bitong lint`: the checks of registration on files of a clone, an editor or a pre-commit hook (contract/cli.md).

Nothing in the linted place is executed, followed or taken as configuration: only TOOL.hdlp files are opened, none larger than
MAX_FILE_BYTES, and no symbolic link.
"""

import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from service.domain.definitions import FILE_NAME, MAX_FILE_BYTES, Problem, Reading
from service.domain.quoting import escaped, shown_name
from service.errors import Message
from service.intake.definitions.reading import read_definition, too_large

Results = Sequence[tuple[Path, Reading]]

TOOLS_FOLDER: Final = "tools"
SARIF_VERSION: Final = "2.1.0"
SARIF_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def lint(paths: Iterable[Path]) -> list[tuple[Path, Reading]]:
    """Read each TOOL.hdlp named, and those of each folder named: its own, its folders', and its `tools` folder's.

    A path that is not there, or holds no definition, is a result with a problem. Names that collide within one folder are
    problems of the later one, as registration decides within one commit (contract/registration.md).
    """
    found: dict[Path, Reading] = {}
    for path in paths:
        for file, reading in _read_path(path):
            found.setdefault(file, reading)
    _note_collisions(found)
    return list(found.items())


def _read_path(path: Path) -> Iterator[tuple[Path, Reading]]:
    if not path.is_dir():
        yield path, _read_file(path)
        return
    files = list(_files_in(path))
    if not files:
        yield path, _refusal("no-definitions", f"里面没有{FILE_NAME}。", f"There is no {FILE_NAME} in it.")
    for file in files:
        yield file, _read_file(file)


def _files_in(folder: Path) -> Iterator[Path]:
    """TOOL.hdlp, and files nearly named so, of the folder, its folders and those of its `tools`, in byte order."""
    yield from _definitions_of(folder)
    parents = [folder] if folder.name == TOOLS_FOLDER else [folder, folder / TOOLS_FOLDER]
    for parent in parents:
        if not parent.is_symlink() and parent.is_dir():
            for entry in sorted(os.scandir(parent), key=lambda entry: os.fsencode(entry.name)):
                if entry.is_symlink() and entry.is_dir() and parent.name == TOOLS_FOLDER:
                    yield Path(entry.path)
                elif entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                    yield from _definitions_of(Path(entry.path))


def _definitions_of(folder: Path) -> list[Path]:
    names = sorted(entry.name for entry in folder.iterdir())
    if FILE_NAME in names:
        return [folder / FILE_NAME]
    return [folder / name for name in names if name.lower() in ("tool.hdlp", "tool.hldp")]


def _read_file(path: Path) -> Reading:
    if path.is_symlink() or path.parent.is_symlink():
        return _refusal("symlink", "是符号链接，登记时会被拒绝。", "It is a symbolic link, which registration rejects.")
    if path.name != FILE_NAME:
        return _misnamed(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return _unreadable(error)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, opened without following links
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            return _refusal("not-a-file", "不是普通文件。", "It is no regular file.")
        if about.st_size > MAX_FILE_BYTES:
            return too_large(about.st_size)
        content = file.read(MAX_FILE_BYTES + 1)
    return read_definition(content, path.absolute().parent.name)


def _misnamed(path: Path) -> Reading:
    if not os.path.lexists(path):
        return _refusal("no-such-file", "没有这个文件或文件夹。", "There is no such file or folder.")
    zh = f"文件名要正好是{FILE_NAME}，不是{shown_name(path.name)}。"
    return _refusal("misnamed-file", zh, f"The file's name must be {FILE_NAME}, not {shown_name(path.name)}.")


def _unreadable(error: OSError) -> Reading:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return _refusal("no-such-file", "没有这个文件或文件夹。", "There is no such file or folder.")
    reason = escaped(error.strerror or type(error).__name__)
    return _refusal("unreadable", f"读不了：{reason}。", f"It cannot be read: {reason}.")


def _refusal(code: str, zh: str, en: str) -> Reading:
    return Reading(None, (Problem(code, zh, en),))


def _note_collisions(found: dict[Path, Reading]) -> None:
    """Folders of one parent whose names differ in case, or in `-` and `_`, only."""
    first: dict[tuple[Path, str], Path] = {}
    for file in sorted(found, key=os.fsencode):
        if found[file].definition is None:
            continue
        folder = file.absolute().parent
        key = (folder.parent, folder.name.lower().replace("_", "-"))
        if (other := first.setdefault(key, file)) != file:
            name = shown_name(other.absolute().parent.name)
            problem = Problem(
                "name-collision",
                f"名字和{name}只差大小写或-_，不能同时登记。",
                f"The name differs from {name} in case or in - and _ only: both cannot be registered.",
                "name",
            )
            found[file] = replace(found[file], definition=None, problems=(*found[file].problems, problem))


def _counts(results: Results) -> tuple[int, int]:
    """How many problems and warnings."""
    return sum(len(reading.problems) for _, reading in results), sum(len(reading.warnings) for _, reading in results)


def _shown(path: Path) -> str:
    return escaped(os.fsencode(path).decode("utf-8", "backslashreplace"))


def as_text(results: Results, language: str = "zh") -> str:
    """Lines as compilers write them, `path:line:column: problem: message [code]`, then one that counts. `language`: zh or en."""
    lines = []
    for path, reading in results:
        for kind, found in _in_order(reading):
            place = "".join(f":{part}" for part in (found.line, found.column) if part is not None)
            word = {"error": Message("问题", "problem"), "warning": Message("提示", "warning")}[kind]
            lines.append(
                f"{_shown(path)}{place}: {_in(word, language)}: {_in(Message(found.zh, found.en), language)} [{found.code}]"
            )
    problems, warnings = _counts(results)
    summary = Message(
        f"{len(results)}个文件，{problems}个问题，{warnings}个提示。",
        f"{len(results)} files, {problems} problems, {warnings} warnings.",
    )
    return "\n".join([*lines, _in(summary, language)]) + "\n"


def _in(message: Message, language: str) -> str:
    return message.zh if language == "zh" else message.en


def _in_order(reading: Reading) -> list[tuple[str, Problem]]:
    both = [("error", found) for found in reading.problems] + [("warning", found) for found in reading.warnings]
    return sorted(both, key=lambda pair: (pair[1].line or 0, pair[1].column or 0))


def as_json(results: Results) -> str:
    """`{files: [{path, ok, definition, problems, warnings}], problems, warnings}`, the last two as counts."""
    problems, warnings = _counts(results)
    files = [{"path": _shown(path), "ok": not reading.problems, **reading.as_json()} for path, reading in results]
    return _dumped({"files": files, "problems": problems, "warnings": warnings})


def as_sarif(results: Results, language: str = "en") -> str:
    """SARIF 2.1.0, as forges and editors read it; columns count code points."""
    found = [(path, kind, problem) for path, reading in results for kind, problem in _in_order(reading)]
    rules = sorted({problem.code for _, _, problem in found})
    run = {
        "tool": {"driver": {"name": "bitong", "rules": [{"id": code} for code in rules]}},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(path, kind, problem, rules, language) for path, kind, problem in found],
    }
    return _dumped({"$schema": SARIF_SCHEMA, "version": SARIF_VERSION, "runs": [run]})


def _sarif_result(path: Path, kind: str, problem: Problem, rules: list[str], language: str) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": _uri(path)}}
    if problem.line is not None:
        location["region"] = {"startLine": problem.line}
        if problem.column is not None:
            location["region"]["startColumn"] = problem.column
    return {
        "ruleId": problem.code,
        "ruleIndex": rules.index(problem.code),
        "level": kind,
        "message": {"text": _in(Message(problem.zh, problem.en), language)},
        "locations": [{"physicalLocation": location}],
    }


def _uri(path: Path) -> str:
    """A relative reference where the path is relative, so that a report means the same in another clone."""
    if path.is_absolute():
        return "file://" + quote(os.fsencode(path))
    return quote(os.fsencode(path))


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
