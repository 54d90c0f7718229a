"""What a far side's HTTP answer, or none, means as an Outcome (contract/executors.md, Common; R1).

The same for every executor that speaks HTTP. A status says how it ended; no answer after the request was sent says
nothing, so that is `unknown`, and nobody tries again.
"""

import json
import logging
import math
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import httpx

from service.domain.executors import Call, Cancel, Outcome, Stream
from service.errors import Message
from service.execution.executors.http import Answer, HttpCaller, Lost, NotSent, Request
from service.execution.executors.process import EMPTY

# What stands between did not pass an answer on: 502, the far side behind it broke; 504, it took too long. It may have acted.
LOST_STATUSES: Final = (502, 504)
WORDS_CHARACTERS: Final = 4096  # of an answer's body, in the line that says why
# JSON of so many texts, or so many bytes that belong to none, takes half a second to read: 8 MiB of `[]` take four.
_TEXTS: Final = 300_000
_FREE_BYTES: Final = 1024 * 1024
_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_DIGITS: Final = 15  # of a count or code: what JSON and every column hold exactly

_LOG = logging.getLogger(__name__)


def send(
    caller: HttpCaller, request: Request, call: Call, who: tuple[str, str], *, keep: int | None = None
) -> tuple[NotSent | Lost | Answer, Outcome]:
    """Send it once within the call's limits: what came, and what that means. `who`: the far side's name in zh and en.

    `keep`: bytes kept of the body in the first of the two, `max_output_bytes` unless given.
    """
    started = time.monotonic()
    result = caller.call(
        request,
        deadline=started + call.timeout_ms / 1000,
        keep=call.max_output_bytes if keep is None else keep,
        cancel=call.cancel,
        on_body=Listener(call.on_output).body,
    )
    outcome = outcome_of(result, cancel=call.cancel, keep=call.max_output_bytes, who=who)
    return result, replace(outcome, duration_ms=int((time.monotonic() - started) * 1000))


def outcome_of(result: NotSent | Lost | Answer, *, cancel: Cancel, keep: int, who: tuple[str, str]) -> Outcome:
    """The Outcome of one exchange; the body, whatever it is, is `stdout`. `duration_ms` is 0, to be set.

    `keep`: bytes kept of it. `totals` is `produced` where a whole answer came or nothing was sent, else `received`.
    """
    if isinstance(result, NotSent):
        return cancelled_outcome(cancel) if result.cause == "cancelled" else not_started(result.why)
    body = replace(result.body, kept=result.body.kept[:keep])
    if isinstance(result, Lost):
        reason = "bad-answer" if result.cause == "garbled" else "lost-answer"
        return Outcome("unknown", body, EMPTY, 0, reason, status=result.status, why=result.why, totals="received")
    if 200 <= result.status < 300:
        return Outcome("succeeded", body, EMPTY, 0, status=result.status)
    zh, en = f"{who[0]}回 HTTP {result.status}", f"{who[1]} answered HTTP {result.status}"
    if result.status in LOST_STATUSES:
        why = with_words(Message(f"{zh}，不知道执行了没有", f"{en}; it may have run"), result.body)
        return Outcome("unknown", body, EMPTY, 0, "lost-answer", status=result.status, why=why)
    why = with_words(Message(zh, en), result.body)
    return Outcome("failed", body, EMPTY, 0, "far-side-status", status=result.status, why=why)


def not_started(why: Message) -> Outcome:
    """Not one byte of a request left, so that the far side did not act."""
    line = Message(f"没有启动：{why.zh}", f"did not start: {why.en}")
    return Outcome("failed", EMPTY, EMPTY, 0, reason="did-not-start", why=line)


def cancelled_outcome(cancel: Cancel, stdout: Stream = EMPTY, stderr: Stream = EMPTY) -> Outcome:
    """Ended because somebody asked, before anything was sent or with the far side's word that nothing runs any more."""
    if cancel.reason == "shutdown":
        why = Message("服务停止，已终止", "stopped because the service was shutting down")
        return Outcome("interrupted", stdout, stderr, 0, reason="shutdown", why=why)
    return Outcome("cancelled", stdout, stderr, 0, reason="cancelled", why=Message("已取消", "cancelled"))


def with_words(line: Message, body: Stream) -> Message:
    """A line, and after it what the far side said in its answer's body, where that is text."""
    words = _words(body)
    return Message(f"{line.zh}：{words}", f"{line.en}: {words}") if words else line


def parse_json(body: bytes) -> Any:
    """JSON as far sides write it: raises TooIntricate, another ValueError or RecursionError only.

    Bytes that are not UTF-8 stay recoverable (surrogateescape); an integer too long to be one becomes infinity.
    """
    if len(body) > _FREE_BYTES and _is_intricate(body):
        raise TooIntricate("too many values to be read")
    return json.loads(
        body.decode("utf-8-sig", "surrogateescape"),
        parse_int=lambda digits: int(digits) if len(digits) <= _DIGITS else math.inf,
    )


def _is_intricate(body: bytes) -> bool:
    """Whether there is much beside texts: the parser makes millions of objects then, and no other thread runs meanwhile."""
    rest, texts = _TEXT.subn(b"", body, count=_TEXTS)
    return texts == _TEXTS or len(rest) > _FREE_BYTES


class TooIntricate(ValueError):
    """JSON that would cost too much to read."""


class Listener:
    """Hands output on as it comes. A listener that fails hears no more: its fault is not the run's."""

    def __init__(self, on_output: Callable[[str, bytes], None] | None) -> None:
        self._on_output = on_output

    def hear(self, stream: str, data: bytes) -> None:
        """The next bytes of `stdout` or `stderr`."""
        if self._on_output is None:
            return
        try:
            self._on_output(stream, data)
        except Exception:  # noqa: BLE001  whatever it is
            self._on_output = None
            _LOG.warning("a listener to a run's output failed and hears no more", exc_info=True)

    def body(self, status: int, headers: httpx.Headers, chunk: bytes) -> None:  # noqa: ARG002  as HttpCaller calls it
        """The next bytes of an answer's body."""
        self.hear("stdout", chunk)


def _words(body: Stream) -> str:
    """The beginning of a body as text; what is no text at all is left to the output."""
    kept = body.kept[: 4 * WORDS_CHARACTERS]
    text = kept.decode("utf-8", "replace")
    if "\0" in text or text.count("�") > len(text) // 4:
        return ""
    text = text.strip()
    return (
        text
        if len(text) <= WORDS_CHARACTERS and len(kept) == body.total
        else text[:WORDS_CHARACTERS].rstrip("�") + " …"
    )
