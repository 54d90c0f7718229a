"""Table verify: `python -m service.verify` on a long log of runs, against only hashing the same bytes."""

import hashlib
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from service.bitong import Bitong
from service.domain.actors import OPERATOR
from service.domain.executors import Outcome, Stream
from service.domain.runs import NOTHING, commit_parameters
from service.domain.times import uuid7
from service.domain.tools import ToolVersion
from service.settings import load
from service.store import run_steps
from service.store.database import Transaction
from service.store.run_steps import Asked
from tests.benchmarks import repository
from tests.benchmarks.tables import Table, median, times

RUNS: Final = 50_000  # two entries each
_BATCH: Final = 1000
_OUTPUT: Final = b"hello\n"


def run(folder: Path, *, quick: bool) -> None:
    """Print the table."""
    database, wrote = _make_log(folder, RUNS // 10 if quick else RUNS)
    found: dict[str, list[float]] = {"hash": [], "verify": []}
    said = ""
    entries = 0
    for reading in ("hash", "verify", "hash"):
        began = time.perf_counter()
        if reading == "hash":
            entries = _hash_only(database)
        else:
            said = _verify(database)
        found[reading].append(time.perf_counter() - began)
    _show(database, entries, found, wrote, said)


def _make_log(folder: Path, count: int) -> tuple[Path, float]:
    """A database with so many runs, written as the service writes them, many in one commit; seconds for the runs."""
    origin = repository.make(folder / "origin.git", {"tools/exec/TOOL.hdlp": repository.exec_text()})
    settings = {
        "BITONG_DATA_DIR": str(folder / "data"),
        "BITONG_REPOSITORY_URL": str(origin),
        "BITONG_REPOSITORY_ID": "1",
    }
    bitong = Bitong(load(settings))
    try:
        bitong.ingest.look()
        tool = bitong.ingest.index.find("exec", OPERATOR)
        assert tool is not None
        assert tool.version is not None
        version = tool.version
        began = time.perf_counter()
        for _ in range(count // _BATCH):
            bitong.database.write(lambda transaction: _write_runs(transaction, version, _BATCH))
        return bitong.database.path, time.perf_counter() - began
    finally:
        bitong.close()


def _write_runs(transaction: Transaction, version: ToolVersion, count: int) -> None:
    stdout = Stream(_OUTPUT, len(_OUTPUT), hashlib.sha256(_OUTPUT).hexdigest())
    outcome = Outcome(state="succeeded", stdout=stdout, stderr=NOTHING, duration_ms=3, exit_code=0)
    commitment = commit_parameters(version.definition, {"cmd": "echo hello"}, key=b"k" * 32, salt=b"s" * 16)
    for _ in range(count):
        run_id = uuid7()
        asked = Asked(run_id, version, "token:0190", commitment)
        begun = run_steps.start(transaction, asked, None, None)
        run_steps.finish(transaction, begun.seq, run_id, "token:0190", outcome)


def _verify(database: Path) -> str:
    """What the verifier said of a log that is not as it should be; empty where it is."""
    done = subprocess.run([sys.executable, "-m", "service.verify", database], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _hash_only(database: Path) -> int:
    connection = sqlite3.connect(database)
    count = 0
    for (content,) in connection.execute("SELECT entry FROM log_entries ORDER BY idx"):
        hashlib.sha256(b"\0" + content).digest()
        count += 1
    connection.close()
    return count


def _show(database: Path, entries: int, found: dict[str, list[float]], wrote: float, said: str) -> None:
    table = Table(f"verify: a log of {entries} entries", "", "s", "entries/s", "x hash only")
    floor = median(found["hash"])
    for name, says in (("hash", "each entry read and hashed, no more"), ("verify", "python -m service.verify")):
        took = median(found[name])
        table.row(says, f"{took:.2f}", f"{entries / took:.0f}", times(took, floor))
    size = database.stat().st_size / entries
    table.note(
        f"written at {entries / wrote:.0f} entries/s, {_BATCH} runs in a commit; {size:.0f} bytes of database an entry"
    )
    table.note("verify once, a process of its own, its start included; hashing before and after, the median")
    if said:
        table.note(f"it did not verify: {said[:500]}")
    table.show()
