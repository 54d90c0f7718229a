"""Table writer: durable appends a second through `Database.write`, against a file and one fdatasync for each."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from service.domain.audit import SYSTEM, Fact
from service.store.database import Database
from service.store.migrations import ensure_schema
from tests.benchmarks.tables import Table, median, ms, p99, times

THREADS = (1, 8, 64)
FACTS = {"run": "01900000-0000-7000-8000-000000000000", "tool": "exec", "text": "x" * 300}  # an entry of some 500 bytes


def run(folder: Path, *, quick: bool) -> None:
    """Print the table."""
    file = os.open(folder / "records", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    path = folder / "bitong.db"
    ensure_schema(path)
    database = Database(path)

    def to_file() -> None:
        os.write(file, b"r" * 500)
        os.fdatasync(file)

    def to_database() -> None:
        database.write(lambda transaction: transaction.append(Fact("service.started", SYSTEM, FACTS)))

    found: dict[tuple[str, int], list[tuple[float, list[float]]]] = {}
    sides: tuple[tuple[str, Callable[[], None]], ...] = (("file", to_file), ("database", to_database))
    try:
        for number in range(1 if quick else 3):
            for threads in THREADS:
                for name, append in sides if number % 2 == 0 else reversed(sides):
                    found.setdefault((name, threads), []).append(_appends(append, threads, 0.5 if quick else 0.8))
    finally:
        database.close()
        os.close(file)
    _show(found)


def _appends(append: Callable[[], None], threads: int, seconds: float) -> tuple[float, list[float]]:
    """Appends a second of so many threads, and what each of them waited."""
    waited: list[float] = []
    end = time.perf_counter() + seconds

    def work() -> None:
        mine = []
        while (began := time.perf_counter()) < end:
            append()
            mine.append(time.perf_counter() - began)
        waited.extend(mine)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(waited) / (time.perf_counter() - began), waited


def _show(found: dict[tuple[str, int], list[tuple[float, list[float]]]]) -> None:
    columns = (
        "threads",
        "file: appends/s",
        "p50 ms",
        "Database.write: appends/s",
        "p50 ms",
        "p99",
        "x file",
        "x 1 thread",
    )
    table = Table("writer: durable appends of one entry", *columns)
    alone = median([rate for rate, _ in found["database", 1]])
    for threads in THREADS:
        (file, file_waits), (ours, waits) = (_both(found[name, threads]) for name in ("file", "database"))
        numbers = (f"{file:.0f}", ms(median(file_waits)), f"{ours:.0f}", ms(median(waits)), ms(p99(waits)))
        table.row(str(threads), *numbers, times(ours, file), times(ours, alone))
    table.note(
        "file: 500 bytes and one fdatasync each, by as many threads; database: what waits together shares a commit"
    )
    table.note(f"medians of n = {len(found['file', 1])} rounds")
    table.show()


def _both(rounds: list[tuple[float, list[float]]]) -> tuple[float, list[float]]:
    return median([rate for rate, _ in rounds]), [wait for _, waits in rounds for wait in waits]
