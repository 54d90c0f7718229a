"""Storage that is read-only, locked or damaged: a failure of ours, said as one, and nothing runs unrecorded (S3)."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from service.errors import CannotRecord, Unavailable
from service.store import log
from service.store.database import Database
from service.store.folder import DataFolder
from tests.harness.parts import Parts
from tests.harness.service import API
from tests.store.kept import PAGE, append, names, python, rows

HOLDS_THE_LOCK = """
import sys, time
import pysqlite3.dbapi2 as sqlite
connection = sqlite.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
connection.close()
"""


def _hold(path: Path) -> "subprocess.Popen[str]":
    """Another process that holds the write lock until it is told to let go."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS_THE_LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


@pytest.mark.slow
def test_a_database_that_another_process_keeps_locked_is_503_and_nothing_runs(parts: Parts) -> None:
    """S3: locked for longer than the 10 s a write waits: 503 `cannot-record`; reads go on at once; then all is well."""
    mark = parts.folder / "mark"
    repo = parts.repo()
    repo.write_tool("mark", command=["touch", str(mark)])
    repo.commit()
    repo.push()
    service = parts.service(repo)
    admin, answers = service.admin, []

    def call() -> None:
        began = time.monotonic()
        answer = service.exec("mark")
        answers.append((answer.status_code, answer.json()["code"], time.monotonic() - began))

    with _hold(service.data_dir / "bitong.db") as holder:
        caller = threading.Thread(target=call)
        caller.start()
        time.sleep(1)
        began = time.monotonic()
        reads = [admin.get(API + path).status_code for path in ("/tools", "/runs", "/audit", "/deliveries")]
        read_s = time.monotonic() - began
        caller.join(60)
        holder.communicate("\n")

    [(status, code, waited_s)] = answers
    assert (status, code) == (503, "cannot-record")
    assert waited_s > 9
    assert reads == [200] * 4
    assert read_s < 5
    assert not mark.exists()
    assert service.run("mark")["ok"]
    assert [run["state"] for run in service.items("/runs")] == ["succeeded"]


def test_a_lock_that_is_let_go_in_time_is_only_waited_for(path: Path, database: Database) -> None:
    """S3: a backup or a look from outside that holds the lock for a moment costs time, not records."""
    with _hold(path) as holder:
        threading.Timer(0.5, holder.communicate, ("\n",)).start()

        assert database.write(append("waited")) == 0

    assert names(path) == ["waited"]


def _spoil(path: Path, table: str) -> None:
    """Zeros over the root page of one table, as a bad sector leaves it."""
    [(page,)] = rows(path, f"SELECT rootpage FROM sqlite_schema WHERE name = '{table}'")  # noqa: S608 - our own names
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(b"\0" * PAGE)


def test_a_damaged_page_is_503_where_it_is_read_and_no_matter_elsewhere(parts: Parts) -> None:
    """S3: never 404 or an empty list for what cannot be read; what does not need the page goes on; verify names it."""
    repo = parts.repo("say")
    service = parts.service(repo)
    run = service.run("say")["run"]["id"]
    service.stop()
    _spoil(service.data_dir / "bitong.db", "run_output")
    service.start()

    read = service.admin.get(f"{API}/runs/{run}/stdout")
    lists = [service.admin.get(API + path).status_code for path in ("/runs", "/tools", "/audit")]

    assert (read.status_code, read.json()["code"]) == (503, "not-available")
    assert "malformed" not in read.text
    assert lists == [200, 200, 200]
    service.stop()
    found = service.cli("audit", "verify", "--json")
    assert found.returncode == 1
    assert json.loads(found.stdout)["findings"]


def test_a_damaged_page_under_the_writer_ends_the_process(path: Path) -> None:
    """S3: what is written next would rest on what is not there; it ends with 74, nothing told, and a start does the same."""
    database = Database(path)
    database.write(append("first"))
    database.close()
    _spoil(path, "runs")
    script = (
        "import sys\nfrom pathlib import Path\nfrom sqlalchemy import select\nfrom service.store.database import Database\n"
        "from service.store.tables import runs\n"
        "print(Database(Path(sys.argv[1])).write(lambda t: t.connection.execute(select(runs)).all()))"
    )

    with python(script, str(path)) as process:
        told = process.communicate()[0]

    assert process.returncode == 74
    assert "[]" not in told


def test_a_damaged_log_opens_no_database(path: Path) -> None:
    """S3: a log that cannot be read is not an empty one: Unavailable, before anything could be appended to it."""
    database = Database(path)
    database.write(append("first"))
    database.close()
    _spoil(path, "log_entries")

    with pytest.raises(Unavailable, match="cannot be read"):
        Database(path)


def test_reading_tells_damage_from_absence(path: Path) -> None:
    """S3: the reader's side: Unavailable from `read`, while an ordinary error of the question stays what it is."""
    database = Database(path)
    database.write(append("first"))
    database.close()
    _spoil(path, "log_tiles")
    database = Database(path)

    with pytest.raises(Unavailable), database.read() as connection:
        connection.exec_driver_sql("SELECT * FROM log_tiles").all()
    with pytest.raises(ZeroDivisionError), database.read() as connection:
        assert 1 / len(log.listed(connection, log.LogFilter(tool="none"), before=None, limit=1))
    with database.read() as connection:
        assert len(log.listed(connection, log.LogFilter(), before=None, limit=9)) == 1
    database.close()


def test_a_read_only_disk_is_refused_in_a_sentence(
    migrated: Path, tmp_path: Path, small_disk: Callable[[str], Path]
) -> None:
    """S3: neither folder, key nor database of a disk that was remounted read-only; no half start, no traceback."""
    disk = small_disk("16m")
    (disk / "bitong.db").write_bytes(migrated.read_bytes())
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

    with pytest.raises(Unavailable, match="Cannot use data_dir"):
        DataFolder(disk).make()
    with pytest.raises(Unavailable, match="cannot be read"):
        Database(disk / "bitong.db")


def test_a_database_that_became_read_only_refuses_writes_and_answers_reads(path: Path) -> None:
    """S3: SQLITE_READONLY at a write is 503 for that write; the process lives, reads go on, and so do later writes."""
    database = Database(path)
    database.write(append("first"))

    def only_reads(transaction):
        transaction.connection.exec_driver_sql("PRAGMA query_only = ON")
        try:
            return append("never")(transaction)
        finally:
            transaction.connection.exec_driver_sql("PRAGMA query_only = OFF")

    with pytest.raises(CannotRecord):
        database.write(only_reads)
    with database.read() as connection:
        assert len(log.listed(connection, log.LogFilter(), before=None, limit=9)) == 1

    assert database.write(append("second")) == 1
    database.close()
