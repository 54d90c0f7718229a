"""A Run: one attempt to execute one ToolVersion by one Actor (contract/http-api.md, Run states)."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import rfc8785

from service.domain.definitions import Definition, Parameter
from service.domain.executors import Outcome, Stream
from service.domain.tools import ToolVersion
from service.errors import Message

ENDED: Final = ("succeeded", "failed", "timed_out", "cancelled", "interrupted", "unknown")
OPEN: Final = ("queued", "awaiting_confirmation", "started")
STATES: Final = ("refused", *OPEN, *ENDED)
CODES: Final = {  # the stable `code` of an answer whose run did not succeed
    "failed": "failed",
    "timed_out": "timed-out",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "unknown": "unknown",
}
ERROR_CHARACTERS: Final = 200  # of the error, in lists
PROBLEMS_BYTES: Final = 4096  # of the problems, in a refused run

NOTHING: Final = Stream(b"", 0, hashlib.sha256(b"").hexdigest())


@dataclass(frozen=True, slots=True)
class Commitment:
    """What the log says of parameters: SHA-256(salt ‖ masked), where `masked` is RFC 8785 JSON with secrets as HMACs."""

    salt: bytes
    masked: bytes
    digest: bytes


def commit_parameters(definition: Definition, parameters: Mapping[str, Any], *, key: bytes, salt: bytes) -> Commitment:
    """Bind to the parameters without holding a secret's value (contract/audit.md, Parameters).

    Parameters that are no canonical JSON (a refused call's lone surrogates) are committed as their ASCII JSON text.
    """
    masked = {name: mask(definition.params_schema.get(name), value, key) for name, value in parameters.items()}
    try:
        content = rfc8785.dumps(masked)
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError, ValueError):
        content = _ascii_json(masked)
    return Commitment(salt, content, hashlib.sha256(salt + content).digest())


def _ascii_json(value: Any) -> bytes:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode("ascii")
    except RecursionError:
        return b'"nested too deep"'


def mask(parameter: Parameter | None, value: Any, key: bytes) -> Any:
    """The value, or for a secret parameter a keyed hash in its place: `{"secret": <hex>}`."""
    if parameter is None or not parameter.secret:
        return value
    return {"secret": hmac.new(key, _ascii_json(value), hashlib.sha256).hexdigest()}


@dataclass(frozen=True, slots=True)
class Run:
    """A run as recorded. Times RFC 3339 UTC; hashes hex; `start_index`, `end_index`, `end_leaf`: its entries in the log.

    `refusal`: in words, why one that never started was refused.
    """

    seq: int
    id: str
    state: str
    reason: str | None
    version: ToolVersion
    actor: str
    node: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    outcome: Outcome | None
    params_digest: str
    problems: tuple[Mapping[str, Any], ...] = ()
    match_id: str | None = None
    confirmation_id: str | None = None
    refusal: Message | None = None
    key_hash: bytes | None = None
    start_index: int | None = None
    end_index: int | None = None
    end_leaf: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the tool ran and succeeded."""
        return self.state == "succeeded"


def without_output(run: Run) -> Run:
    """The run as lists show it: of its output nothing but the beginning of what was on standard error."""
    outcome = run.outcome
    if outcome is None:
        return run
    stderr = replace(outcome.stderr, kept=outcome.stderr.kept[: 4 * ERROR_CHARACTERS])
    return replace(run, outcome=replace(outcome, stdout=replace(outcome.stdout, kept=b""), stderr=stderr))


def method_text(definition: Definition) -> str:
    """Executor and method as answers name them: `gatekeeper:exec`."""
    return f"{definition.executor}:{definition.method}"


def text_of(stream: Stream) -> tuple[str, bool]:
    """The kept bytes as text, and whether that text is exact.

    No half character stands at the cut: what `max_output_bytes` split is left out. Bytes that are not UTF-8 become U+FFFD.
    """
    content = whole_characters(stream.kept) if stream.truncated else stream.kept
    try:
        return content.decode("utf-8"), True
    except UnicodeDecodeError:
        return content.decode("utf-8", "replace"), False


def whole_characters(content: bytes) -> bytes:
    """`content` without a UTF-8 character that its end cuts in half."""
    for back in range(1, min(4, len(content)) + 1):
        byte = content[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return content[:-back] if length > back else content
    return content


def error_of(outcome: Outcome, said: str | None = None) -> str | None:
    """Standard error untouched, then one line that says why, where the tool did not end by itself or said nothing.

    `said`: what was on standard error as `text_of` gives it, where that is known already.
    """
    if said is None:
        said, _ = text_of(outcome.stderr)
    if outcome.state == "succeeded":
        return said or None
    ended_by_itself = outcome.reason == "exit-code"
    if said and ended_by_itself:
        return said
    why = f"{outcome.why.zh} / {outcome.why.en}" if outcome.why else outcome.state
    if not said:
        return why
    return said + ("" if said.endswith("\n") else "\n") + why
