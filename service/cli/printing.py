"""What a run printed, on our own standard output and error, and how it ended: an exit code and a sentence."""

import base64
import sys
from typing import Any, Final

from service.cli import calling, following, showing
from service.cli.calling import Service
from service.errors import BitongError, Message

# A run that was refused for want of the service, not of anything that the caller could have done better.
_NOT_TRIED: Final = ("busy", "shutdown", "crash", "not-available", "internal")
_HALF: Final = 3  # bytes of a character whose rest may lie past the cut


class Printing:
    """Each byte of a run's output once, in order within a stream, the same bytes whether they came live or at the end.

    `limit`: the definition's `max_output_bytes`. Live output stops short of it, since the record says how it ends there.
    """

    def __init__(self, limit: int = 0) -> None:
        self._limit = max(0, limit - _HALF)
        self._written = {"stdout": bytearray(), "stderr": bytearray()}

    def take(self, piece: dict[str, Any]) -> None:
        """An `output` event: print what is new of it. After a gap the record has the rest."""
        written = self._written[piece["stream"]]
        known = len(written) - piece["offset"]
        if known >= 0:
            content = _bytes(piece["text"], piece.get("b64"))
            self._write(piece["stream"], content[known:][: max(0, self._limit - len(written))])

    def finish(self, shape: dict[str, Any], run: dict[str, Any]) -> None:
        """The rest, then why it failed, and the notes. `shape`: `/exec`'s answer with its `run`, or a run's record as both."""
        self._rest("stdout", _bytes(shape["output"], run.get("output_b64")), run["id"])
        said = _bytes(run["stderr"], run.get("stderr_b64"))
        self._rest("stderr", said, run["id"])
        if not shape["ok"]:
            why = (shape["error"] or "")[len(run["stderr"]) :].lstrip("\n")
            self._write("stderr", b"" if not said or said.endswith(b"\n") else b"\n")
            self._write("stderr", f"{why}\n".encode("utf-8", "backslashreplace") if why else b"")
        for note in run["notes"]:
            showing.say(Message(showing.cell(note["zh"]), showing.cell(note["en"])))

    def _rest(self, stream: str, whole: bytes, run: str) -> None:
        written = self._written[stream]
        if whole.startswith(written):
            self._write(stream, whole[len(written) :])
        else:  # as with a far side that streams one thing and answers another
            showing.say(
                Message(
                    f"以上 {stream} 与记录不同；以记录为准：bitong runs show {run}",
                    f"The {stream} above is not what was recorded; the record holds: bitong runs show {run}",
                )
            )

    def _write(self, stream: str, content: bytes) -> None:
        if not content:
            return
        to = sys.stdout if stream == "stdout" else sys.stderr
        to.flush()
        to.buffer.write(content)
        to.buffer.flush()
        self._written[stream] += content


def live(service: Service, run: str, tool: str, version: int) -> int:
    """Print a run while it goes on; its exit code. Raises what keeps it from being followed."""
    with following.left_alone(run):
        printing = Printing(_limit(service, tool, version))
        try:
            for event in following.events(service, run):
                if event.name == "output":
                    printing.take(event.data)
                elif event.name == "state":
                    _say_state(event.data)
        except following.NoEvents:
            pass  # then the record says it all, once it ended
        record = following.ended(service, run)
    printing.finish(record, record)
    return exit_code(record["ok"], record)


def exit_code(ok: bool, run: dict[str, Any]) -> int:
    """How a run ended: 0, or 1, or 3 where the service could not begin it; says so where it was not well."""
    if ok:
        return 0
    state, reason, number = run["state"], run["reason"], run["exit_code"]
    told = ", ".join(str(part) for part in (reason, number) if part is not None)
    told = f"{state} ({told})" if told else state
    problems = run.get("problems")
    showing.failure(
        BitongError(
            Message(f"没有成功：{told}，运行 {run['id']}。", f"Not well: {told}, run {run['id']}."),
            facts={"problems": problems},
        )
    )
    return 3 if state == "refused" and reason in _NOT_TRIED else 1


def _limit(service: Service, tool: str, version: int) -> int:
    """`max_output_bytes` of the version that runs; 0, so that all comes at the end, where that cannot be read."""
    try:
        shown = service.get(f"/tools/{calling.path_part(tool)}/versions/{version}")
        return int(shown["definition"]["constraints"]["max_output_bytes"])
    except (BitongError, KeyError, TypeError, ValueError):
        return 0


def _say_state(told: dict[str, Any]) -> None:
    """Why nothing comes yet, to who looks on; programs get the tool's own bytes alone."""
    if told["state"] in _STATES and sys.stderr.isatty():
        showing.say(_STATES[told["state"]])


def _bytes(text: str, exact: str | None) -> bytes:
    return text.encode("utf-8", "surrogatepass") if exact is None else base64.b64decode(exact)


_STATES: Final = {
    "queued": Message("排队中。", "It waits for its turn."),
    "awaiting_confirmation": Message("等待确认。", "It waits for somebody's yes."),
}
