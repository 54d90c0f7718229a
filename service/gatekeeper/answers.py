"""What the reference gatekeeper answers: one JSON object for every method (contract/executors.md, gatekeeper).

`{ok, exit_code, stdout | stdout_b64, stdout_bytes, stdout_sha256, (the same for stderr), truncated, duration_ms,
reason?, signal?, why?}`. A stream that is not UTF-8 text stands in `…_b64` alone: no answer grows past twice its bytes.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from service.domain.executors import Stream
from service.errors import Message
from service.execution.executors.process import EMPTY

Answer = dict[str, Any]

DEFAULT_OUTPUT_BYTES: Final = 65_536
FEW_BYTES: Final = 1024
# JSON writes each of these as six bytes: where they are more than a few and an eighth, base64 is shorter.
_CONTROLS: Final = bytes(code for code in range(32) if code not in b"\t\n\r")


class CannotDo(Exception):
    """The method was understood and did not happen; the answer is `ok: false` with this sentence as standard error."""

    def __init__(self, zh: str, en: str) -> None:
        super().__init__(en)
        self.message = Message(zh, en)


def answer(
    *,
    ok: bool,
    stdout: Stream = EMPTY,
    stderr: Stream = EMPTY,
    exit_code: int | None = None,
    reason: str | None = None,
    signal: str | None = None,
    why: str | Message | None = None,
    duration_ms: int = 0,
) -> Answer:
    """The object; `reason`, `signal` and `why` (a text, or `{zh, en}`) stand in it only where there are any."""
    words = why.as_json() if isinstance(why, Message) else why
    rest = {"reason": reason, "signal": signal, "why": words}
    return {
        "ok": ok,
        "exit_code": exit_code,
        **_stream("stdout", stdout),
        **_stream("stderr", stderr),
        "truncated": stdout.truncated or stderr.truncated,
        "duration_ms": duration_ms,
        **{name: value for name, value in rest.items() if value is not None},
    }


def failed(error: CannotDo, duration_ms: int = 0) -> Answer:
    """The answer of what did not happen."""
    sentence = f"{error.message.zh}\n{error.message.en}\n".encode("utf-8", "replace")
    return answer(ok=False, stderr=whole(sentence), duration_ms=duration_ms)


def whole(data: bytes) -> Stream:
    """A stream of which all is kept."""
    return Stream(data, len(data), hashlib.sha256(data).hexdigest())


def cut(data: bytes, keep: int) -> Stream:
    """A stream of which the first `keep` bytes are kept."""
    return Stream(data[:keep], len(data), hashlib.sha256(data).hexdigest())


def json_bytes(value: Any) -> bytes:
    """JSON as it goes out: UTF-8, a lone surrogate replaced."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def without_output(ending: Mapping[str, Any]) -> Answer:
    """An ending whose output is too large to be kept with it: totals and hashes stay."""
    kept = {
        name: value for name, value in ending.items() if name not in ("stdout", "stdout_b64", "stderr", "stderr_b64")
    }
    return kept | {"stdout": "", "stderr": "", "truncated": True}


def _stream(name: str, stream: Stream) -> Answer:
    return {
        **_text(name, stream.kept),
        f"{name}_bytes": stream.total,
        f"{name}_sha256": stream.sha256,
    }


def _text(name: str, data: bytes) -> Answer:
    controls = len(data) - len(data.translate(None, _CONTROLS))
    if controls * 8 <= len(data) + FEW_BYTES:
        try:
            return {name: data.decode()}
        except UnicodeDecodeError:
            pass
    return {f"{name}_b64": base64.b64encode(data).decode()}
