"""The one Protocol behind every way to run a tool: a checked call in, an Outcome out (contract/executors.md)."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from service.domain.definitions import Definition
from service.errors import Message

HIDDEN: Final = "•••"  # stands for a secret wherever people look


@dataclass(frozen=True, slots=True)
class ToolFile:
    """One file of the tool's folder as registered: path inside the folder, mode, bytes as stored."""

    path: str
    executable: bool
    content: bytes


class Cancel:
    """Asks a run to end. `fileno()` is readable once asked, so that a poll can wait for it beside pipes."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._listeners: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self.reason: str | None = None

    def ask(self, reason: str = "cancelled") -> None:
        """Ask once; later reasons are ignored. Safe from any thread."""
        with self._lock:
            if self._event.is_set():
                return
            self.reason = reason
            self._event.set()
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def asked(self) -> bool:
        """Whether somebody asked."""
        return self._event.is_set()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` when asked; at once if that has happened."""
        with self._lock:
            if not self._event.is_set():
                self._listeners.append(listener)
                return
        listener()


@dataclass(frozen=True, slots=True)
class Call:
    """One checked call. Parameters are after defaults and fit the definition; limits are in milliseconds and bytes."""

    run_id: str
    definition: Definition
    parameters: Mapping[str, Any]
    timeout_ms: int
    max_output_bytes: int
    actor: str
    cancel: Cancel
    files: Sequence[ToolFile] = ()
    on_output: Callable[[str, bytes], None] | None = None  # ("stdout" | "stderr", bytes) as they come


@dataclass(frozen=True, slots=True)
class Stream:
    """What came on one stream: the first bytes as kept, and the count and SHA-256 (hex) of everything."""

    kept: bytes
    total: int
    sha256: str

    @property
    def truncated(self) -> bool:
        """Whether more came than was kept."""
        return self.total > len(self.kept)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an execution ended.

    `state`: succeeded, failed, timed_out, cancelled, interrupted or unknown; `reason` as contract/http-api.md (Run states).
    `why`: one line that says why, where the tool did not end by itself or nothing was on standard error. `totals`:
    "produced", or "received" where a far side did not say. `duration_ms` is from the start of the execution to its end.
    """

    state: str
    stdout: Stream
    stderr: Stream
    duration_ms: int
    reason: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    status: int | None = None
    why: Message | None = None
    totals: str = "produced"
    notes: tuple[Message, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class ParameterProblem:
    """One reason why parameters do not fit; never quotes a secret's value (contract/http-api.md, `problems`)."""

    param: str
    code: str
    zh: str
    en: str

    def as_json(self) -> dict[str, str]:
        """Shape: `{param, code, zh, en}`."""
        return {"param": self.param, "code": self.code, "zh": self.zh, "en": self.en}


class Executor(Protocol):
    """One way to run a tool. Never raises for what a tool or a far side does: that becomes an Outcome."""

    name: str
    uses_files: bool  # whether it lays out the tool's folder as registered

    def unavailable(self, definition: Definition) -> Message | None:
        """Why this definition cannot run here now (no such node, no sandbox), or None."""

    def refusal(self, definition: Definition) -> Message | None:
        """Why the operator does not allow what this definition does, naming the setting, or None."""

    def check(self, definition: Definition, parameters: Mapping[str, Any]) -> list[ParameterProblem]:
        """What of the parameters cannot be sent as the definition says (422), beyond their schema."""

    def preview(self, definition: Definition, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """What will be sent, JSON-ready, for whoever confirms it; secrets in `parameters` are `HIDDEN` already.

        `{"argv": […], "cwd"?, "env"?, "stdin"?}` for a command, `{"verb", "url", "body"?}` for a request; a gatekeeper's
        also names its `node` and `method`.
        """

    def target(self, definition: Definition) -> str | None:
        """Where it runs, for the record: a gatekeeper's node name; None for this host."""

    def run(self, call: Call) -> Outcome:
        """Run it, once, within its limits. Blocks until it ended."""
