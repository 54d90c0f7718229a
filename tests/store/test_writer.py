"""One writer: durable when it returns, grouped, and a job that fails undoes only itself (design.md, Storage)."""

import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select

from service.domain.audit import Fact
from service.errors import CannotRecord, Conflict, Message
from service.store.database import GROUP_LIMIT, Database, Transaction
from service.store.tables import log_entries, log_tiles, registry
from tests.store.kept import append, commits, fact, leaves, log_of, names, outcome, python, root, rows, together

WRITES_AND_TELLS = """
import sys, threading
from pathlib import Path
from service.domain.audit import Fact
from service.store.database import Database
database = Database(Path(sys.argv[1]))
def work(who):
    for number in range(10_000):
        name = f"{who}-{number}"
        database.write(lambda transaction: transaction.append(Fact("run.refused", "a", {"run": name})))
        sys.stdout.write(name + "\\n"); sys.stdout.flush()
threads = [threading.Thread(target=work, args=(who,), daemon=True) for who in "abc"]
[thread.start() for thread in threads]
threads[0].join()
"""


@pytest.mark.parametrize("told", [1, 7, 60])
def test_what_a_write_returned_is_there_after_sigkill(path: Path, told: int) -> None:
    """R8: killed at once after a write returned, with others under way; every name it told is a row."""
    with python(WRITES_AND_TELLS, str(path)) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(told)]
        process.kill()
        said += process.stdout.readlines()

    acknowledged = {line.strip() for line in said if line.endswith("\n")}
    assert len(acknowledged) >= told
    reopened = Database(path)
    reopened.close()
    assert acknowledged <= set(names(path))
    assert reopened.log == log_of(leaves(path))


def test_writes_that_wait_together_share_a_commit(path: Path, database: Database) -> None:
    """Group commit is what makes FULL cheap: 200 jobs, a handful of commits; each still has a result of its own."""
    before = commits(path)

    answers = together(database, [append(f"job-{number}") for number in range(200)])

    assert sorted(answers) == list(range(200))
    assert commits(path) - before <= 8
    assert len(leaves(path)) == 200


def test_a_group_has_a_bound(path: Path, database: Database) -> None:
    """However many wait, a commit holds at most GROUP_LIMIT jobs; the rest come with the next."""
    answers = together(database, [append(f"job-{number}") for number in range(GROUP_LIMIT + 50)])

    assert sorted(answers) == list(range(GROUP_LIMIT + 50))
    assert commits(path) >= 2


def test_a_write_that_fails_alone_leaves_nothing(path: Path, database: Database) -> None:
    """Its rows, its entries and the tree are as before, the error is the job's own, and the next write works."""
    database.write(append("before"))
    log = database.log

    def work(transaction: Transaction) -> None:
        transaction.append_all([fact(f"lost-{number}") for number in range(300)])
        transaction.connection.execute(insert(registry), {"id": 7, "revision": 1})
        raise Conflict(Message("不行", "no"))

    with pytest.raises(Conflict):
        database.write(work)

    assert database.log == log
    assert rows(path, "SELECT * FROM registry") == rows(path, "SELECT * FROM log_tiles") == []
    assert database.write(append("after")) == 1
    assert names(path) == ["before", "after"]


def test_a_job_does_not_see_what_a_failed_one_of_its_group_wrote(path: Path, database: Database) -> None:
    """Each job of a group stands on those that succeeded before it, and on nothing else."""
    seen: list[int] = []

    def fails(transaction: Transaction) -> None:
        transaction.append_all([fact("lost")] * 3)
        transaction.connection.execute(insert(registry), {"id": len(seen) + 1, "revision": 1})
        raise ValueError

    def looks(transaction: Transaction) -> None:
        found = transaction.connection.execute(select(registry.c.id)).all()
        seen.append(len(found))
        assert transaction.append(fact("kept")).index == len(seen) - 1

    answers = together(database, [fails, looks] * 5)

    assert [type(answer) for answer in answers[::2]] == [ValueError] * 5
    assert answers[1::2] == [None] * 5
    assert seen == [0] * 5
    assert names(path) == ["kept"] * 5


class _Chosen(Exception):
    """The way a job of the next test fails."""


def _job(name: str, entries: int, fails: str | None):
    def work(transaction: Transaction) -> str:
        half = entries // 2
        transaction.append_all([fact(name)] * half)
        if fails == "raises":
            raise _Chosen
        for _ in range(entries - half):
            transaction.append(fact(name))
        if fails == "statement":
            clash = {"idx": 0, "type": "", "at": "", "actor": "", "leaf": b"", "entry": b""}
            transaction.connection.execute(insert(log_entries), [clash, clash])
        if fails == "tile":
            transaction.connection.execute(insert(log_tiles), [{"level": 1, "idx": -1, "hash": b""}] * 2)
        if fails == "late":
            raise _Chosen
        return name

    return work


JOBS = st.tuples(st.integers(1, 140), st.sampled_from([None, None, None, "raises", "statement", "tile", "late"]))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(groups=st.lists(st.lists(JOBS, min_size=1, max_size=6), min_size=1, max_size=6))
def test_whatever_fails_exactly_the_successful_entries_are_there(migrated: Path, tmp_path: Path, groups) -> None:
    """Jobs alone and in groups, failing before, between and after their entries, over the edges of tiles.

    The log in memory is the tree of the stored leaves, and a restart picks up the same one.
    """
    path = tmp_path / "bitong.db"
    path.with_name("bitong.db").write_bytes(migrated.read_bytes())
    database = Database(path)
    wanted: dict[str, int] = {}
    for place, group in enumerate(groups):
        jobs = [(f"{place}-{number}", *job) for number, job in enumerate(group)]
        made = [_job(*job) for job in jobs]
        answers = [outcome(database, made[0])] if len(made) == 1 else together(database, made)
        for (name, entries, fails), answer in zip(jobs, answers, strict=True):
            assert (answer == name) if fails is None else isinstance(answer, Exception)
            wanted |= {name: entries} if fails is None else {}
    log = database.log
    database.close()

    found = names(path)
    runs = [name for place, name in enumerate(found) if place == 0 or found[place - 1] != name]
    assert {name: found.count(name) for name in runs} == wanted
    assert len(runs) == len(wanted), "the entries of a job stand together"
    assert log == log_of(leaves(path))
    assert log.root() == root(leaves(path))
    again = Database(path)
    again.close()
    assert again.log == log


def test_a_clock_set_back_moves_neither_time_nor_order(
    path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R18: a day back, also across a restart; the times in the log never fall, and order is by index."""
    real = time.time
    database.write(append("first"))
    monkeypatch.setattr("time.time", lambda: real() - 86_400)
    database.write(append("set back"))
    together(database, [append("in a group")] * 3)
    database.close()

    reopened = Database(path)
    reopened.write(append("after a restart"))
    monkeypatch.setattr("time.time", lambda: real() + 60)
    reopened.write(append("set right"))
    reopened.close()

    told = rows(path, "SELECT at FROM log_entries ORDER BY idx")
    assert told == sorted(told)
    assert len(set(told[:6])) == 1
    assert told[6] > told[0]


def test_a_write_after_the_end_is_refused_and_does_not_wait(path: Path) -> None:
    """R7: what comes while the database closes is either done or refused; nobody waits for ever."""
    database = Database(path)
    answers: list[object] = []
    ask = threading.Event()

    def write() -> None:
        ask.wait()
        answers.extend(outcome(database, append(f"late-{number}")) for number in range(200))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    ask.set()
    database.close()
    for thread in threads:
        thread.join(20)

    assert not any(thread.is_alive() for thread in threads)
    assert all(isinstance(answer, int | CannotRecord) for answer in answers)
    assert any(isinstance(answer, CannotRecord) for answer in answers)
    assert sum(isinstance(answer, int) for answer in answers) == len(names(path))


def test_what_no_writer_thread_survives_is_still_an_answer(database: Database) -> None:
    """A job that raises what is no ordinary exception fails alone; the writer goes on."""

    def leaves_the_house(_: Transaction) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        database.write(leaves_the_house)

    assert database.write(append("after")) == 0


@pytest.mark.parametrize("strange", ["\udcff", 10**400, "\x00", [["\ud800"]]])
def test_strange_content_becomes_an_entry(path: Path, database: Database, strange: object) -> None:
    """contract/audit.md, Leaves: only a fault of the storage keeps something from being written."""
    entry = database.write(
        lambda transaction: transaction.append(Fact("run.finished", "a", {"tool": "t", "x": strange}))
    )

    assert entry.index == 0
    assert database.log == log_of(leaves(path))
