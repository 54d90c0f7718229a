"""Table exec: `echo hello` as a registered tool, against the least that an audited exec can cost (floor.c)."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks import floor, repository
from tests.benchmarks.load import Caller, Load, concurrent, sequential
from tests.benchmarks.processes import cpu_seconds
from tests.benchmarks.service import Service
from tests.benchmarks.tables import Table, median, ms, p99, times

CALLERS = 8
WANTED = b"hello"


@dataclass
class Side:
    """One thing that is measured: where it listens, what it is asked, what it took with one caller and with eight.

    `cpu`: CPU seconds with eight callers, of the server itself and of what it started.
    """

    name: str
    port: int
    pid: int
    request: bytes
    wanted: bytes = WANTED
    cpu: tuple[float, float] = (0.0, 0.0)
    one: Load = field(default_factory=Load)
    eight: Load = field(default_factory=Load)

    def measure(self, count: int, seconds: float) -> None:
        """One more round of both."""
        callers = [Caller(self.port, self.request, self.wanted) for _ in range(CALLERS)]
        try:
            self.one.add(sequential(callers[0], count))
            before = cpu_seconds(self.pid)
            self.eight.add(concurrent(callers, seconds))
            spent = (now - then for now, then in zip(cpu_seconds(self.pid), before, strict=True))
            self.cpu = (self.cpu[0] + next(spent), self.cpu[1] + next(spent))
        finally:
            for caller in callers:
                caller.close()


def measure_all(sides: list[Side], *, quick: bool) -> None:
    """Round by round, every side in each round, so that what else the machine does falls on all of them."""
    for side in sides:
        side.measure(20, 0.2)
        side.one, side.eight, side.cpu = Load(), Load(), (0.0, 0.0)
    for number in range(3 if quick else 8):
        for side in sides if number % 2 == 0 else reversed(sides):
            side.measure(60 if quick else 150, 0.5 if quick else 1.0)


def run(folder: Path, *, quick: bool) -> None:
    """Print the table."""
    with sides(folder) as found:
        measure_all(found, quick=quick)
        show("exec: `echo hello`, answered once its receipt is durable", found)


@contextmanager
def sides(folder: Path) -> Iterator[list[Side]]:
    """The floor first, then what is compared with it; all of it runs while this is entered."""
    origin = repository.make(folder / "origin.git", {"tools/exec/TOOL.hdlp": repository.exec_text()})
    with ExitStack() as stack:
        plain = stack.enter_context(floor.Floor(folder, "plain", floor.ECHO))
        name = "floor (C)" if plain.is_c else "floor (Python: no C compiler here, so ratios flatter)"
        found = [Side(name, plain.port, plain.pid, floor.request())]
        inside = floor.bwrap_argv()
        if inside is not None:
            boxed = stack.enter_context(floor.Floor(folder, "bwrap", inside))
            found.append(Side("floor + bare bwrap", boxed.port, boxed.pid, floor.request()))
        for sandbox in ("none", *(("bubblewrap",) if inside is not None else ())):
            service = stack.enter_context(
                Service(folder / sandbox, repository_url=origin, shell_sandbox=sandbox)
            )
            asked = service.exec_request("exec", {"cmd": "echo hello"})
            found.append(Side(f"bitong, sandbox {sandbox}", service.port, service.pid, asked, b'"output":"hello\\n"'))
        yield found


def show(title: str, found: list[Side]) -> None:
    """One row a side; ratios to the first, and of what runs in bubblewrap to the bare bubblewrap as well."""
    base = found[0]
    table = Table(title, "", "c1 p50 ms", "p99", "x floor", "c8 p50 ms", "p99", "calls/s", "x floor", "CPU ms/call")
    for side in found:
        table.row(
            side.name,
            ms(median(side.one.latencies)),
            ms(p99(side.one.latencies)),
            times(median(side.one.latencies), median(base.one.latencies)),
            ms(median(side.eight.latencies)),
            ms(p99(side.eight.latencies)),
            f"{side.eight.per_second:.0f}",
            times(side.eight.per_second, base.eight.per_second),
            _cpu(side),
        )
        if failures := side.one.failures + side.eight.failures:
            table.note(f"{side.name}: {failures} bad answers, such as {side.one.first_failure or side.eight.first_failure!r}")
    table.note("aim without the sandbox: c1 p50 <= 2.5x floor")
    boxed = [side for side in found if "bwrap" in side.name or "bubblewrap" in side.name]
    if len(boxed) == 2:
        bare, ours = boxed
        ratio = times(median(ours.one.latencies), median(bare.one.latencies))
        rate = times(ours.eight.per_second, bare.eight.per_second)
        table.note(f"in bubblewrap: c1 p50 {ratio} of the floor with a bare bwrap, calls/s {rate}")
    table.note("CPU with eight callers: of the server itself + of the programs it ran")
    table.note(f"n = {len(base.one.latencies)} with one caller a row; c8: eight callers, the next call after each answer")
    table.show()


def _cpu(side: Side) -> str:
    own, below = (1000 * spent / max(1, len(side.eight.latencies)) for spent in side.cpu)
    return f"{own:.2f} + {below:.2f}"
