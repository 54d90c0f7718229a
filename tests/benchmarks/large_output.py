"""Table output: a gigabyte on both streams, and what it costs the service in memory; and sixty-four callers at once."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.benchmarks import repository
from tests.benchmarks.processes import Peaks, rss
from tests.benchmarks.service import Service
from tests.benchmarks.tables import Table, mb, median, ms, p99

GIGABYTE: Final = 1_000_000_000
CALLERS: Final = 64


def run(folder: Path, *, quick: bool) -> None:
    """Print both tables."""
    size = GIGABYTE // 10 if quick else GIGABYTE
    origin = repository.make(folder / "origin.git", {"tools/exec/TOOL.hdlp": repository.exec_text()})
    with Service(folder / "service", repository_url=origin, max_runs=16, max_queue=64) as service:
        _flood(service, size)
        _crowd(service, 2 if quick else 5)


def _flood(service: Service, size: int) -> None:
    half = size // 2
    cmd = f"head -c {half} /dev/zero & head -c {half} /dev/zero >&2; wait"
    service.call("POST", "/api/v1/exec", {"tool": "exec", "params": {"cmd": "true"}})
    before = rss(service.pid)
    began = time.perf_counter()
    with Peaks(service.pid) as peaks:
        status, answer = service.call("POST", "/api/v1/exec", {"tool": "exec", "params": {"cmd": cmd}})
    took = time.perf_counter() - began
    table = Table(
        f"output: {mb(size)} MB on both streams together", "", "seconds", "MB/s", "RSS MB before", "more at most"
    )
    table.row("sandbox none", f"{took:.1f}", mb(size / took), mb(before), mb(max(0, peaks.own - before)))
    run = answer["run"]
    counted = run["output_bytes"] + run["stderr_bytes"]
    table.note(f"status {status}; counted {counted} of {2 * half} bytes; aim: less than 20 MB more")
    table.show()


def _crowd(service: Service, rounds: int) -> None:
    """Sixty-four callers of one token at the same moment: sixteen slots, the others wait their turn."""

    def call(number: int) -> tuple[int, float]:
        began = time.perf_counter()
        status, _ = service.call("POST", "/api/v1/exec", _echo(number))
        return status, time.perf_counter() - began

    told: list[tuple[int, float]] = []
    with ThreadPoolExecutor(CALLERS) as pool:
        for _ in range(rounds):
            told += pool.map(call, range(CALLERS))
    taken = [seconds for _, seconds in told]
    table = Table(f"crowd: {CALLERS} callers at once, 16 slots", "", "calls", "not 200", "p50 ms", "p99")
    bad = sum(status != 200 for status, _ in told)
    table.row("echo", str(len(told)), str(bad), ms(median(taken)), ms(p99(taken)))
    table.note("aim: no error")
    table.show()


def _echo(number: int) -> dict[str, Any]:
    return {"tool": "exec", "params": {"cmd": f"echo {number}"}}
