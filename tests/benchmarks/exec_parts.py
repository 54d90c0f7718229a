"""Table parts: where the time of one exec call goes, part by part, one caller, without the sandbox."""

import json
import os
from bisect import bisect_left
from pathlib import Path
from typing import Final

from tests.benchmarks import repository
from tests.benchmarks.load import Caller, Load
from tests.benchmarks.service import EXEC_WANTED, Service
from tests.benchmarks.tables import Table, median, ms, p99

# From each mark to the next one: what happens in between. The two writes follow each other in this order.
PARTS: Final = (
    ("sent", "edge<", "request through the kernel, parsed, a task for it"),
    ("edge<", "auth<", "routing"),
    ("auth<", "auth>", "token looked up"),
    ("auth>", "pool<", "body read"),
    ("pool<", "thread<", "hop to a thread"),
    ("thread<", "execute<", "JSON read, request checked"),
    ("execute<", "write<", "tool resolved, parameters checked, files read, commitment"),
    ("write<", "work<", "started: hop to the writer, BEGIN"),
    ("work<", "work>", "started: rows and entry"),
    ("work>", "write>", "started: COMMIT with fsync, hop back"),
    ("write>", "run<", "call made ready"),
    ("run<", "run>", "program spawned, read, reaped"),
    ("run>", "write<2", "outcome"),
    ("write<2", "work<2", "finished: hop to the writer, BEGIN"),
    ("work<2", "work>2", "finished: rows and entry"),
    ("work>2", "write>2", "finished: COMMIT with fsync, hop back"),
    ("write>2", "thread>", "the run as a noun, the answer's shape"),
    ("thread>", "pool>", "hop back to the loop"),
    ("pool>", "edge>", "answer as JSON, headers, written"),
    ("edge>", "received", "answer through the kernel"),
)


def run(folder: Path, *, quick: bool) -> None:
    """Print the table."""
    origin = repository.make(folder / "origin.git", {"tools/exec/TOOL.hdlp": repository.exec_text()})
    marks = folder / "marks.json"
    os.environ["BENCH_MARKS"] = str(marks)
    with Service(folder / "service", module="tests.benchmarks.timed_service", repository_url=origin) as service:
        caller = Caller(service.port, service.exec_request("exec", {"cmd": "echo hello"}), EXEC_WANTED)
        calls = [_call(caller) for _ in range(150 if quick else 600)]
        caller.close()
    _place(calls[20:], [(str(name), float(moment)) for name, moment in json.loads(marks.read_bytes())])
    _show(calls[20:])


def _call(caller: Caller) -> dict[str, float]:
    load = Load()
    caller.send()
    while (answer := caller.receive()) is None:
        pass
    caller.note(load, answer)
    if load.failures:
        raise RuntimeError(load.first_failure)
    return {"sent": caller.began, "received": caller.began + load.latencies[0]}


def _place(calls: list[dict[str, float]], marks: list[tuple[str, float]]) -> None:
    """Give each call the marks from its own `edge<` to the next one; a name's second mark ends in 2."""
    marks.sort(key=lambda mark: mark[1])
    begins = [place for place, (name, _) in enumerate(marks) if name == "edge<"]
    moments = [marks[place][1] for place in begins]
    for call in calls:
        number = bisect_left(moments, call["sent"])
        following = begins[number + 1] if number + 1 < len(begins) else len(marks)
        for name, moment in marks[begins[number] : following]:
            call[name + "2" if name in call else name] = moment


def _show(calls: list[dict[str, float]]) -> None:
    table = Table("parts: one exec call, sandbox none, one caller", "part", "p50 ms", "p99", "share")
    whole = sum(median(_spans(calls, begin, end)) for begin, end, _ in PARTS)
    for begin, end, says in PARTS:
        spans = _spans(calls, begin, end)
        table.row(says, ms(median(spans)), ms(p99(spans)), f"{100 * median(spans) / whole:.0f} %")
    spans = _spans(calls, "sent", "received")
    table.row("the call", ms(median(spans)), ms(p99(spans)), "")
    table.note(f"n = {len(calls)}; clocks at the seams cost some microseconds; an fsync of this machine stands on top")
    table.show()


def _spans(calls: list[dict[str, float]], begin: str, end: str) -> list[float]:
    return [call[end] - call[begin] for call in calls if begin in call and end in call]
