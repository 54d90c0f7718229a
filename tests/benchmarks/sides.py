"""Servers side by side: the same callers on each, round by round, and one table of what they took."""

from dataclasses import dataclass, field

from tests.benchmarks.load import Caller, Load, Request, concurrent, sequential
from tests.benchmarks.processes import cpu_seconds
from tests.benchmarks.tables import Table, median, ms, p99, times

CALLERS = 8


@dataclass
class Side:
    """One thing that is measured: where it listens, what it is asked, what it took with one caller and with eight.

    `wanted` stands in each good answer. `cpu`: CPU seconds with eight callers, of the server itself and of what it started.
    """

    name: str
    port: int
    pid: int
    request: Request
    wanted: bytes
    one: Load = field(default_factory=Load)
    eight: Load = field(default_factory=Load)
    cpu: tuple[float, float] = (0.0, 0.0)

    def measure(self, count: int, seconds: float) -> None:
        """One more round: `count` calls of one caller, then eight callers for so many seconds."""
        callers = [Caller(self.port, self.request, self.wanted) for _ in range(CALLERS)]
        try:
            self.one.add(sequential(callers[0], count))
            before = cpu_seconds(self.pid)
            self.eight.add(concurrent(callers, seconds))
            own, below = (now - then for now, then in zip(cpu_seconds(self.pid), before, strict=True))
            self.cpu = (self.cpu[0] + own, self.cpu[1] + below)
        finally:
            for caller in callers:
                caller.close()

    def forget(self) -> None:
        """What was measured so far was for warming up."""
        self.one, self.eight, self.cpu = Load(), Load(), (0.0, 0.0)


def measure_all(sides: list[Side], *, quick: bool, rounds: int) -> None:
    """Every side in each round, so that what else the machine does falls on all of them."""
    for side in sides:
        side.measure(20, 0.2)
        side.forget()
    for number in range(3 if quick else rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            side.measure(50 if quick else 80, 0.5 if quick else 1.0)


def table_of(title: str, sides: list[Side], floor: str = "floor") -> Table:
    """One row a side, ratios to the first, which the columns call `floor`."""
    ratio = f"x {floor}"
    table = Table(title, "", "c1 p50 ms", "p99", ratio, "c8 p50 ms", "p99", "calls/s", ratio, "CPU ms/call")
    base = sides[0]
    for side in sides:
        one, eight = side.one.latencies, side.eight.latencies
        table.row(
            side.name,
            *(ms(median(one)), ms(p99(one)), times(median(one), median(base.one.latencies))),
            *(ms(median(eight)), ms(p99(eight))),
            *(f"{side.eight.per_second:.0f}", times(side.eight.per_second, base.eight.per_second)),
            _cpu(side),
        )
        if failures := side.one.failures + side.eight.failures:
            said = side.one.first_failure or side.eight.first_failure
            table.note(f"{side.name}: {failures} answers were not what was wanted, the first: {said!r}")
    calls = len(base.one.latencies)
    table.note(f"c1: one caller, n = {calls} a row; c8: eight, each calls again after its answer; keep-alive")
    table.note("CPU with eight callers: of the server itself + of the programs it ran and reaped")
    return table


def _cpu(side: Side) -> str:
    own, below = (1000 * spent / max(1, len(side.eight.latencies)) for spent in side.cpu)
    return f"{own:.2f} + {below:.2f}"
