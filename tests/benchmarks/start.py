"""Table start: how soon a service with 1,000 tools answers, and what it holds when it is idle."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import repository
from tests.benchmarks.git_server import GitServer
from tests.benchmarks.load import Caller, sequential
from tests.benchmarks.processes import cpu_seconds, descendants, pss, rss
from tests.benchmarks.service import EXEC_WANTED, Service
from tests.benchmarks.tables import Table, mb, median, ms

TOOLS = 1000
IDLE_S = 5.0


def run(folder: Path, *, quick: bool) -> None:
    """Print both tables."""
    repository.make(folder / "origin.git", {"tools/exec/TOOL.hdlp": repository.exec_text()}, TOOLS - 1)
    found: dict[str, list[float]] = {}
    spent: list[float] = []
    with GitServer(folder) as server:
        service = Service(folder / "service", repository_url=server.url("origin.git"))
        found["first start: import of 1,000 tools -> /readyz"] = [service.start()]
        service.stop()
        for _ in range(3 if quick else 5):
            _note(found, "python -c pass", lambda: _python("pass"))
            _note(found, "python -c 'import service.app'", lambda: _python("import service.app"))
            _restart(service, found, spent)
            service.stop()
        with service:
            _exec(service)
            time.sleep(IDLE_S)
            memory = _memory(service.pid)
    _show(found, spent, memory)


def _restart(service: Service, found: dict[str, list[float]], spent: list[float]) -> None:
    began = time.perf_counter()
    found.setdefault("start -> /readyz 200", []).append(service.start())
    spent.append(cpu_seconds(service.pid)[0])
    _exec(service)
    found.setdefault("start -> first exec answered", []).append(time.perf_counter() - began)


def _note(found: dict[str, list[float]], name: str, work: Callable[[], None]) -> None:
    began = time.perf_counter()
    work()
    found.setdefault(name, []).append(time.perf_counter() - began)


def _python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def _exec(service: Service) -> None:
    caller = Caller(service.port, service.exec_request("exec", {"cmd": "echo hello"}), EXEC_WANTED)
    answered = sequential(caller, 1)
    caller.close()
    if answered.failures:
        raise RuntimeError(answered.first_failure)


def _memory(pid: int) -> list[tuple[str, int, int | None]]:
    rows = [("service", rss(pid), pss(pid))]
    rows += [(f"helper {_command(child)}", rss(child), pss(child)) for child in descendants(pid)]
    return rows


def _command(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return next((word for word in words if word.startswith("service.")), words[0])


def _show(found: dict[str, list[float]], spent: list[float], memory: list[tuple[str, int, int | None]]) -> None:
    table = Table(f"start: {TOOLS} tools registered, restarts", "", "p50 ms", "slowest", "n")
    for name, spans in found.items():
        table.row(name, ms(median(spans)), ms(max(spans)), str(len(spans)))
    table.note(f"CPU of the service's process until /readyz: median {ms(median(spent))} ms")
    table.note("aim: start -> /readyz <= 1000 ms")
    table.show()
    table = Table(f"memory: {TOOLS} tools registered, {IDLE_S:g} s idle after one exec", "", "RSS MB", "PSS MB")
    for name, held, share in memory:
        table.row(name, mb(held), "-" if share is None else mb(share))
    known = [share for _, _, share in memory if share is not None]
    table.row("together", mb(sum(held for _, held, _ in memory)), mb(sum(known)) if len(known) == len(memory) else "-")
    table.note("aim: <= 75 MB; PSS divides what processes share among them, and so may be added up")
    table.show()
