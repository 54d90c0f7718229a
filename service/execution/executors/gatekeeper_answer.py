"""What a gatekeeper's answer says, as an Outcome. Gatekeepers differ, so which fields mean what is a setting.

Nothing a far side writes raises here: a field of a wrong type is left out with a note, and what cannot be understood at
all is kept as bytes.
"""

import base64
import binascii
import dataclasses
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from service.domain.executors import Outcome, Stream
from service.errors import Message, UsageError
from service.execution.executors.far_side import TooIntricate, parse_json
from service.execution.executors.http import Answer
from service.execution.executors.process import EMPTY

WORDS_CHARACTERS: Final = 300
# The reasons a gatekeeper may give, and the state each one means (contract/http-api.md, Run states).
STATE_OF_REASON: Final = {
    "deadline": "timed_out",
    "cancelled": "cancelled",
    "lost-answer": "unknown",
    "bad-answer": "unknown",
    "interrupted": "interrupted",
    "shutdown": "interrupted",
    "did-not-start": "failed",
    "signal": "failed",
    "out-of-memory": "failed",
    "too-many-processes": "failed",
}
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SIGNAL: Final = re.compile(r"SIG[A-Z0-9+-]{1,20}")


@dataclass(frozen=True, slots=True)
class AnswerFields:
    """Which fields of a node's answer mean what: the first one that is there and not null counts; `a.b` is a path."""

    ok: tuple[str, ...] = ("ok",)
    exit_code: tuple[str, ...] = ("exit_code",)
    stdout: tuple[str, ...] = ("stdout", "output")
    stdout_b64: tuple[str, ...] = ("stdout_b64",)
    stdout_bytes: tuple[str, ...] = ("stdout_bytes",)
    stdout_sha256: tuple[str, ...] = ("stdout_sha256",)
    stderr: tuple[str, ...] = ("stderr", "error")
    stderr_b64: tuple[str, ...] = ("stderr_b64",)
    stderr_bytes: tuple[str, ...] = ("stderr_bytes",)
    stderr_sha256: tuple[str, ...] = ("stderr_sha256",)
    truncated: tuple[str, ...] = ("truncated",)
    reason: tuple[str, ...] = ("reason",)
    signal: tuple[str, ...] = ("signal",)
    why: tuple[str, ...] = ("why",)

    @classmethod
    def read(cls, mapping: Mapping[str, Any]) -> "AnswerFields":
        """From a setting: `{"stdout": "data.out", "ok": ["ok", "success"]}`, the rest by default; UsageError."""
        known = [field.name for field in dataclasses.fields(cls)]
        names: dict[str, tuple[str, ...]] = {}
        for field, value in mapping.items():
            listed = [value] if isinstance(value, str) else value
            if field not in known or not isinstance(listed, list) or not all(isinstance(n, str) and n for n in listed):
                raise UsageError(
                    Message(
                        f"设置 gatekeepers 的 answer 里，{field!r} 不对：字段只有 {'、'.join(known)}，值是名字或列表",
                        f"setting gatekeepers, answer: {field!r} is wrong; the fields are {', '.join(known)}, "
                        "each a name or a list of names",
                    )
                )
            names[field] = tuple(listed)
        return cls(**names)


def read_answer(answer: Answer, fields: AnswerFields, keep: int) -> Outcome:
    """The Outcome a 2xx answer means; `duration_ms` is 0, to be set. `keep`: bytes kept of each stream."""
    body = answer.body
    raw = dataclasses.replace(body, kept=body.kept[:keep])
    if body.truncated:
        return _not_understood(
            raw, Message("网关的回应太大，没有读完", "the gatekeeper's answer is too large to be read")
        )
    declared = "json" in answer.headers.get("content-type", "").lower()
    try:
        document = parse_json(body.kept)
    except RecursionError:
        return _not_understood(raw, Message("网关的回应嵌套太深", "the gatekeeper's answer is nested too deeply"))
    except TooIntricate:
        return _not_understood(
            raw, Message("网关的回应里值太多，没有读", "the gatekeeper's answer holds too many values to be read")
        )
    except ValueError:
        if declared:
            return _not_understood(raw, Message("网关的回应自称 JSON，却不是", "the answer says JSON and is none"))
        return Outcome("succeeded", raw, EMPTY, 0, status=answer.status, totals="received")
    if not isinstance(document, dict) or not _Reader(document, fields, keep).known():
        return Outcome("succeeded", raw, EMPTY, 0, status=answer.status, totals="received")
    return _Reader(document, fields, keep).outcome(raw)


def read_ending(document: Mapping[str, Any], fields: AnswerFields, keep: int, raw: Stream) -> Outcome | None:
    """The Outcome of a run's ending as a node tells it later; None where that does not say how it ended.

    An answer may count by its HTTP status; an ending stands in somebody else's answer, whose status says nothing of it.
    `raw`, that answer's bytes, is the output where `stdout` is not text.
    """
    reader = _Reader(document, fields, keep)
    return reader.outcome(raw) if reader.says_how() else None


def words_of_far_side(text: str) -> str:
    """Its own words, made fit for a line of ours: no lone surrogates, not too long."""
    return text.encode("utf-8", "replace").decode()[:WORDS_CHARACTERS].strip()


def _not_understood(raw: Stream, why: Message) -> Outcome:
    return Outcome("unknown", raw, EMPTY, 0, reason="bad-answer", why=why, totals="received")


class _Reader:
    """One answer's object while it is read; collects notes on what was not understood."""

    def __init__(self, document: Mapping[str, Any], fields: AnswerFields, keep: int) -> None:
        self._document = document
        self._fields = fields
        self._keep = keep
        self._notes: list[Message] = []

    def known(self) -> bool:
        """Whether any field is there that says something on how it ended."""
        fields = self._fields
        names = (fields.ok, fields.exit_code, fields.stdout, fields.stdout_b64, fields.stderr, fields.stderr_b64)
        return any(self._find(name) is not None for name in names)

    def says_how(self) -> bool:
        """Whether a field that was understood says how it ended."""
        reason = self._find(self._fields.reason)
        return (
            self._ok() is not None
            or self._exit_code() is not None
            or (isinstance(reason, str) and reason in STATE_OF_REASON)
        )

    def outcome(self, raw: Stream) -> Outcome:
        """All of it."""
        fields = self._fields
        streams = (
            self._stream(fields.stdout, fields.stdout_b64, fields.stdout_bytes, fields.stdout_sha256),
            self._stream(fields.stderr, fields.stderr_b64, fields.stderr_bytes, fields.stderr_sha256),
        )
        produced = all(totals for _, totals in streams)
        stdout, stderr = (raw if stream is None else stream for stream, _ in streams)
        if stderr is raw:
            stdout, stderr = raw, EMPTY
        if self._find(fields.truncated) is True and not stdout.truncated and not stderr.truncated:
            self._note("网关说它截断了输出，没说截了多少", "the gatekeeper says it cut the output, not by how much")
        exit_code = self._exit_code()
        state, reason = self._verdict(exit_code)
        why = None if state == "succeeded" else self._why(reason, exit_code, stderr)
        signal = self._find(fields.signal)
        return Outcome(
            state,
            stdout,
            stderr,
            0,
            reason=reason,
            exit_code=exit_code,
            signal=signal if isinstance(signal, str) and _SIGNAL.fullmatch(signal) else None,
            why=why,
            totals="produced" if produced else "received",
            notes=tuple(self._notes),
        )

    def _verdict(self, exit_code: int | None) -> tuple[str, str | None]:
        """State and reason. A failure that any field admits to is one; where none says anything, the 2xx does."""
        ok = self._ok()
        given = self._find(self._fields.reason)
        if ok is True and not exit_code:
            return "succeeded", None
        if isinstance(given, str) and given in STATE_OF_REASON:
            return STATE_OF_REASON[given], given
        if ok is None and exit_code is None:
            return self._unsaid()
        if ok is False or exit_code:
            return "failed", "exit-code" if exit_code else "far-side-error"
        return "succeeded", None

    def _unsaid(self) -> tuple[str, str | None]:
        """Neither `ok` nor an exit code was understood."""
        if self._find(self._fields.ok) is not None or self._find(self._fields.exit_code) is not None:
            return "unknown", "bad-answer"
        name = self._found_name(self._fields.stderr)
        if name is not None and name.rpartition(".")[2] == "error" and self._find((name,)) not in ("", False):
            return "failed", "far-side-error"
        self._note(
            "网关没有给出 ok，也没有退出码；按它的 HTTP 状态算成功",
            "the gatekeeper gave neither ok nor an exit code; its HTTP status counts as success",
        )
        return "succeeded", None

    def _why(self, reason: str | None, exit_code: int | None, stderr: Stream) -> Message | None:
        words = self._words()
        if reason == "exit-code":
            return None if stderr.total else Message(f"退出码 {exit_code}", f"exit code {exit_code}")
        if reason == "bad-answer" and not words:
            return Message("看不懂网关的回应", "the gatekeeper's answer could not be understood")
        zh, en = _REASONS.get(reason or "", ("网关说失败了", "the gatekeeper reports a failure"))
        return Message(f"{zh}：{words.zh}", f"{en}: {words.en}") if words else Message(zh, en)

    def _words(self) -> Message | None:
        """The gatekeeper's own: a text, or one in both languages."""
        given = self._find(self._fields.why)
        zh, en = (given.get("zh"), given.get("en")) if isinstance(given, Mapping) else (given, given)
        if not isinstance(zh, str) or not isinstance(en, str) or not zh or not en:
            return None
        return Message(words_of_far_side(zh), words_of_far_side(en))

    def _ok(self) -> bool | None:
        value = self._find(self._fields.ok)
        if value is not None and not isinstance(value, bool):
            self._note("网关回应里的 ok 不是 true 或 false", "the answer's ok is neither true nor false")
            return None
        return value

    def _exit_code(self) -> int | None:
        value = self._find(self._fields.exit_code)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**32:
            self._note("网关回应里的退出码不是一个可能的整数", "the answer's exit code is no possible integer")
            return None
        return value

    def _stream(
        self,
        text: tuple[str, ...],
        exact: tuple[str, ...],
        total: tuple[str, ...],
        sha256: tuple[str, ...],
    ) -> tuple[Stream | None, bool]:
        """One stream, and whether its totals were given; None where what stands there is not text."""
        data = self._bytes(text, exact)
        if data is None:
            return None, False
        digest = hashlib.sha256(data).hexdigest()
        count, given = self._find(total), self._find(sha256)
        if count is None or given is None:
            return Stream(data[: self._keep], len(data), digest), False
        fits = (
            isinstance(count, int)
            and not isinstance(count, bool)
            and isinstance(given, str)
            and _SHA256.fullmatch(given)
            and (count > len(data) or (count == len(data) and given == digest))
        )
        if not fits:
            self._note(
                "网关给的字节数或哈希与收到的不符", "the byte count or hash given does not fit what was received"
            )
            return Stream(data[: self._keep], len(data), digest), False
        return Stream(data[: self._keep], count, given), True

    def _bytes(self, text: tuple[str, ...], exact: tuple[str, ...]) -> bytes | None:
        encoded, value = self._find(exact), self._find(text)
        if encoded is not None:
            try:
                return base64.b64decode(encoded, validate=True)
            except (TypeError, ValueError, binascii.Error):
                self._note(f"网关回应里的 {exact[0]} 不是 base64", f"the answer's {exact[0]} is not base64")
        if value is None or value is False:
            return b""
        if not isinstance(value, str):
            self._note(
                f"网关回应里的 {text[0]} 不是文本；输出是整个回应的原文",
                f"the answer's {text[0]} is not text; the output is the whole answer as it came",
            )
            return None
        return _exact(value)

    def _found_name(self, names: tuple[str, ...]) -> str | None:
        return next((name for name in names if self._find((name,)) is not None), None)

    def _find(self, names: tuple[str, ...]) -> Any:
        for name in names:
            value: Any = self._document
            for part in name.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            if value is not None:
                return value
        return None

    def _note(self, zh: str, en: str) -> None:
        note = Message(zh, en)
        if note not in self._notes:
            self._notes.append(note)


_REASONS: Final = {
    "deadline": ("超过时限，网关结束了它", "over its time limit, ended by the gatekeeper"),
    "cancelled": ("被取消", "cancelled"),
    "did-not-start": ("没有启动", "did not start"),
    "signal": ("被信号杀死", "killed by a signal"),
    "lost-answer": ("网关没有等到远端的回应", "the gatekeeper got no answer from the far side"),
    "shutdown": ("网关停止，已终止", "stopped because the gatekeeper was shutting down"),
    "interrupted": ("网关中途停过，结果不知道", "the gatekeeper stopped meanwhile; the result is not known"),
    "out-of-memory": ("内存不够", "out of memory"),
    "too-many-processes": ("进程太多", "too many processes"),
}


def _exact(text: str) -> bytes:
    """The bytes of a text: those that were no UTF-8 as they came, a surrogate that was escaped as its three bytes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
