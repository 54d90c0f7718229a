"""Run as its own process with failing_storage.c preloaded: for each case a forked child writes until storage fails.

Arguments: a folder with `bitong.db`, a kind (1 sync, 2 write, 3 read), and the numbers of the calls to fail at; 0 only
counts. Prints for each number: number, exit code, calls seen. Leaves `<number>/bitong.db` and `<number>/told`, the
names of the entries whose write returned.
"""

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from service.domain.audit import Fact
from service.store.database import Database, Transaction

JOBS = 12
LARGE = 600_000  # bytes of every fourth entry, so that checkpoints come within these jobs
LIBRARY = ctypes.CDLL(None)


def job(name: str, size: int) -> Callable[[Transaction], object]:
    """Appends one entry of about that size."""
    return lambda transaction: transaction.append(Fact("run.refused", "a", {"run": name, "x": "x" * size}))


def case(folder: Path, kind: int, number: int) -> None:
    """One child's life. The answer to each write is told by a write of its own, to a file that never fails."""
    told = os.open(folder / "told", os.O_WRONLY | os.O_CREAT, 0o600)
    LIBRARY.storage_arm(kind, number)
    database = Database(folder / "bitong.db")
    for place in range(JOBS):
        name = f"entry-{place}"
        database.write(job(name, LARGE if place % 4 == 3 else 10))
        os.write(told, name.encode() + b"\n")
    database.close()
    (folder / "seen").write_text(str(LIBRARY.storage_seen(kind)))


def main(place: Path, kind: int, numbers: list[int]) -> None:
    """A child for each number, one after the other."""
    for number in numbers:
        folder = place / str(number)
        folder.mkdir()
        shutil.copy(place / "bitong.db", folder)
        child = os.fork()
        if child == 0:
            try:
                case(folder, kind, number)
            except BaseException as error:  # noqa: BLE001 - how it ended is what is asked
                (folder / "error").write_text(type(error).__name__)
                os._exit(1)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        seen = (folder / "seen").read_text() if (folder / "seen").exists() else "-"
        print(number, code, seen, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), [int(number) for number in sys.argv[3:]])
