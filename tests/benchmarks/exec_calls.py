"""Table exec: `echo hello` as a registered tool, against the least that an audited exec can cost (floor.c)."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.benchmarks import floor, repository
from tests.benchmarks.service import EXEC_WANTED, Service
from tests.benchmarks.sides import Side, measure_all, table_of
from tests.benchmarks.tables import median, times

BOXED = ("floor + bare bwrap", "bitong, sandbox bubblewrap")


def run(folder: Path, *, quick: bool) -> None:
    """Print the table."""
    with _sides(folder) as sides:
        measure_all(sides, quick=quick, rounds=5)
    table = table_of("exec: `echo hello`, answered once its receipt is durable", sides)
    table.note("aim without the sandbox: c1 p50 <= 2.5x floor")
    boxed = {side.name: side for side in sides}
    if all(name in boxed for name in BOXED):
        bare, ours = (boxed[name] for name in BOXED)
        ratio = times(median(ours.one.latencies), median(bare.one.latencies))
        rate = times(ours.eight.per_second, bare.eight.per_second)
        table.note(f"in bubblewrap against the floor with a bare bwrap: c1 p50 {ratio}, calls/s {rate}")
    table.show()


@contextmanager
def _sides(folder: Path) -> Iterator[list[Side]]:
    """The floor first, then what is compared with it; all of it runs while this is entered."""
    origin = repository.make(folder / "origin.git", {"tools/exec/TOOL.hdlp": repository.exec_text()})
    inside = floor.bwrap_argv()
    with ExitStack() as stack:
        plain = stack.enter_context(floor.Floor(folder, "plain", floor.ECHO))
        name = "floor (C)" if plain.is_c else "floor (Python: no C compiler here, so ratios flatter)"
        sides = [Side(name, plain.port, plain.pid, floor.request(), b"hello")]
        if inside is not None:
            bare = stack.enter_context(floor.Floor(folder, "bwrap", inside))
            sides.append(Side(BOXED[0], bare.port, bare.pid, floor.request(), b"hello"))
        for sandbox in ("none", *(("bubblewrap",) if inside is not None else ())):
            service = stack.enter_context(Service(folder / sandbox, repository_url=origin, shell_sandbox=sandbox))
            asked = service.exec_request("exec", {"cmd": "echo hello"})
            sides.append(Side(f"bitong, sandbox {sandbox}", service.port, service.pid, asked, EXEC_WANTED))
        yield sides
