"""A run's output as a gatekeeper streams it: events `output` {stream, b64} as it comes, then one `answer`."""

import base64

import httpx

from service.domain.executors import Call, Stream
from service.execution.executors.far_side import Listener, parse_json
from service.execution.executors.http import Tally

_END = b"\n\n"


class RunEvents:
    """Takes the bytes of an answer's body; hands output on, and keeps the first `max_output_bytes` of each stream."""

    def __init__(self, call: Call, limit: int) -> None:
        self.began = False
        self.answer: bytes | None = None
        self._listener = Listener(call.on_output)
        self._tallies = {name: Tally(call.max_output_bytes) for name in ("stdout", "stderr")}
        self._buffer = bytearray()
        self._limit = limit

    def streams(self) -> tuple[Stream, Stream]:
        """What came so far."""
        return self._tallies["stdout"].stream(), self._tallies["stderr"].stream()

    def take(self, status: int, headers: httpx.Headers, chunk: bytes) -> None:
        """The next bytes of the body; not looked at where it is no stream of events, nor after one over the limit."""
        if status != 200 or not headers.get("content-type", "").startswith("text/event-stream"):
            return
        self.began = True
        if self._buffer.endswith(b"\r") and chunk.startswith(b"\n"):
            del self._buffer[-1]
        searched = max(0, len(self._buffer) - 1)
        if len(self._buffer) <= self._limit:
            self._buffer += chunk.replace(b"\r\n", b"\n")
        while (end := self._buffer.find(_END, searched)) >= 0:
            self._event(bytes(self._buffer[:end]))
            del self._buffer[: end + len(_END)]
            searched = 0

    def _event(self, event: bytes) -> None:
        fields = [line.partition(b":")[::2] for line in event.split(b"\n")]
        kind = next((value.removeprefix(b" ") for name, value in reversed(fields) if name == b"event"), None)
        data = b"\n".join(value.removeprefix(b" ") for name, value in fields if name == b"data")
        if kind == b"answer":
            self.answer = data
        elif kind == b"output":
            self._output(data)

    def _output(self, data: bytes) -> None:
        try:
            document = parse_json(data)
            name, output = document["stream"], base64.b64decode(document["b64"], validate=True)
            self._tallies[name].take(output)
        except (LookupError, TypeError, ValueError, RecursionError):
            return
        self._listener.hear(name, output)
