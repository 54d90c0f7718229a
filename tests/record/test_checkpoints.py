"""Checkpoints as they are made: what they cover, what is never signed, and the key's life (contract/audit.md, Checkpoints)."""

import itertools
import json
import shutil
import stat
from contextlib import closing

import pysqlite3.dbapi2 as sqlite
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.domain.notes import read_checkpoint
from service.errors import CannotRecord, Message, Unavailable, UsageError
from service.store import checkpoints as rows
from service.store import proofs
from service.store.signing import FILE, NEXT_FILE, is_signed_by
from service.verify import verify_database
from service.verify.proofs import extends
from tests.harness.service import eventually
from tests.record.conftest import ORIGIN, SignedLog


def spoil(log: SignedLog, sql: str, *values: object) -> None:
    """Change the file under the service, as whoever owns the disk can."""
    with closing(sqlite.connect(log.file)) as db:
        db.execute(sql, values)
        db.commit()


def stored(log: SignedLog) -> list[int]:
    with log.database.read() as connection:
        return list(connection.exec_driver_sql("SELECT size FROM checkpoints ORDER BY size").scalars())


def test_a_new_log_has_a_key_that_it_names_and_that_others_cannot_read(log):
    with log.database.read() as connection:
        (entry,) = proofs.entries_of(connection, ("key.created",))

    key = log.checkpoints.keys[0]
    assert json.loads(entry.content)["facts"] == {"key": str(key)}
    assert key.name == ORIGIN
    assert stat.S_IMODE((log.folder.path / FILE).stat().st_mode) == 0o600


def test_a_checkpoint_covers_what_was_there_and_stands_in_the_row_and_the_file(log):
    """What is given out is durable first, and the file beside the database is the newest."""
    log.append(times=3)

    note = log.checkpoint()

    head = read_checkpoint(note)
    assert (head.origin, head.size, head.root) == (ORIGIN, log.database.log.size, log.database.log.root())
    assert is_signed_by(note, log.checkpoints.keys[0])
    file = log.folder.path / "checkpoint"
    assert file.read_text() == note
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stored(log) == [head.size]
    assert log.checkpoints.covering(head.size - 1) == note
    assert log.checkpoints.covering(head.size) is None


def test_nothing_new_makes_no_checkpoint(log):
    first = log.checkpoint()

    assert log.checkpoints.current() is log.checkpoints.newest
    assert log.checkpoint() == first
    assert len(stored(log)) == 1


def test_the_thread_makes_one_after_the_log_grew_and_the_last_at_its_end(log):
    log.checkpoints.start()
    entry = log.append()[0]
    eventually(lambda: log.checkpoints.covering(entry.index))
    log.append()

    log.checkpoints.stop()

    assert log.checkpoints.newest.head.size == log.database.log.size


def test_a_restart_goes_on_from_the_newest_one(log):
    log.append(times=5)
    note = log.checkpoint()

    log.again()

    assert log.checkpoints.newest.note == note
    assert log.checkpoints.state == "ok"
    log.append()
    assert read_checkpoint(log.checkpoint()).size == read_checkpoint(note).size + 1


def test_a_log_through_many_tiles_is_signed_and_extends_itself(log):
    """Past 256 entries, and past several pages of what is hashed again."""
    heads = []
    for count in (1, 253, 1, 1, 900, 1700):
        log.append(times=count)
        heads.append(read_checkpoint(log.checkpoint()))

    for older, newer in itertools.pairwise(heads):
        with log.database.read() as connection:
            path = proofs.consistency(connection, older.size, newer.size)
        assert extends(older.size, newer.size, older.root, newer.root, path)
    assert verify_database(log.file, keys=[str(log.checkpoints.keys[0])]).findings == ()


# What is never signed.


@pytest.mark.parametrize("column", ["entry", "leaf"])
def test_a_row_that_is_not_as_it_was_written_is_never_signed(log, column):
    """S5: changed between two checkpoints, in its bytes or its hash."""
    log.checkpoint()
    index = log.append(times=3)[1].index
    spoil(log, f"UPDATE log_entries SET {column} = CAST('x' AS BLOB) WHERE idx = ?", index)  # noqa: S608 - our own

    with pytest.raises(Unavailable):
        log.checkpoint()

    assert log.checkpoints.state == "log-differs"
    assert len(stored(log)) == 1


def test_an_entry_rewritten_with_its_hash_is_never_signed(log):
    """What the service wrote is what it signs, not what stands there now."""
    log.checkpoint()
    log.append(times=2)
    spoil(
        log, "UPDATE log_entries SET (entry, leaf) = (SELECT entry, leaf FROM log_entries WHERE idx = 0) WHERE idx = 3"
    )

    with pytest.raises(Unavailable):
        log.checkpoint()

    assert log.checkpoints.state == "log-differs"


def test_a_log_that_shrank_is_never_signed(log, tmp_path):
    """S16: an older database was put back, and the file beside it still knows."""
    log.checkpoint()
    log.database.close()
    shutil.copy(log.file, tmp_path / "backup.db")
    log.open()
    log.append(times=20)
    newest = log.checkpoint()

    log.again(between=lambda: shutil.copy(tmp_path / "backup.db", log.file))
    log.append()

    with pytest.raises(Unavailable):
        log.checkpoint()
    assert log.checkpoints.state == "log-shrank"
    assert (log.folder.path / "checkpoint").read_text() == newest


def test_a_log_of_the_same_length_with_another_past_is_never_signed(log, tmp_path):
    """S16: restored, and grown past what was signed."""
    log.checkpoint()
    log.database.close()
    shutil.copy(log.file, tmp_path / "backup.db")
    log.open()
    log.append(times=20)
    log.checkpoint()

    log.again(between=lambda: shutil.copy(tmp_path / "backup.db", log.file))
    log.append("session.closed", times=40)

    with pytest.raises(Unavailable):
        log.checkpoint()
    assert log.checkpoints.state == "log-differs"


def test_a_file_that_nobody_signed_stops_nothing(log):
    note = log.checkpoint()
    file = log.folder.path / "checkpoint"

    log.again(between=lambda: file.write_text(note.replace("bitong/test\n", "bitong/test\n9", 1)))

    assert log.checkpoints.newest.note == note
    log.append()
    assert read_checkpoint(log.checkpoint()).size == read_checkpoint(note).size + 1


def test_a_checkpoint_that_cannot_be_written_is_not_given_out(log, monkeypatch):
    """S1: the row first; the log goes on, and so do the checkpoints once there is room."""
    note = log.checkpoint()
    entry = log.append()[0]

    def full(*_: object) -> None:
        raise CannotRecord(Message("满了", "full"))

    monkeypatch.setattr(log.database, "write", full)
    with pytest.raises(Unavailable):
        log.checkpoint()
    assert log.checkpoints.state == "cannot-record"
    assert log.checkpoints.covering(entry.index) is None
    assert log.checkpoints.newest.note == note

    monkeypatch.undo()
    assert log.checkpoint() != note
    assert log.checkpoints.state == "ok"


# The key.


def test_without_its_key_nothing_is_signed_and_the_log_goes_on(log):
    """R12: receipts without a checkpoint, and the state says why; the key put back is taken up."""
    note = log.checkpoint()
    kept = (log.folder.path / FILE).read_bytes()
    (log.folder.path / FILE).unlink()
    entry = log.append()[0]

    with pytest.raises(Unavailable, match="missing"):
        log.checkpoint()

    assert log.checkpoints.state == "key-missing"
    assert log.checkpoints.covering(entry.index) is None
    assert log.checkpoints.newest.note == note
    log.again()
    assert not (log.folder.path / FILE).exists()
    log.folder.write(FILE, kept)
    assert read_checkpoint(log.checkpoint()).size == entry.index + 1
    assert log.checkpoints.state == "ok"


@pytest.mark.parametrize("content", [b"", b"short", bytes(32)])
def test_with_another_key_nothing_is_signed(log, content):
    """R12."""
    log.folder.write(FILE, content)
    log.append()

    with pytest.raises(Unavailable):
        log.checkpoint()

    assert log.checkpoints.state == "key-changed"


def test_a_rotation_is_signed_by_both_keys_and_then_by_the_new_one(log):
    """Who holds the old key sees in one note that the new one takes over."""
    log.append()
    old = log.checkpoints.keys[0]

    new = log.checkpoints.rotate()

    handover = log.checkpoints.newest.note
    assert is_signed_by(handover, old)
    assert is_signed_by(handover, new)
    log.append()
    after = log.checkpoint()
    assert is_signed_by(after, new)
    assert not is_signed_by(after, old)
    assert list(log.checkpoints.keys) == [old, new]
    log.again()
    assert list(log.checkpoints.keys) == [old, new]
    assert verify_database(log.file, keys=[str(old), str(new)]).findings == ()
    assert verify_database(log.file).findings == ()


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", ["write", "append", "sign", "take over", "forget"])
def test_a_rotation_cut_short_is_ended_or_forgotten_by_the_next_start(log, monkeypatch, step):
    """After any step the log is signed again, by a key that it names."""
    log.append()
    log.checkpoint()
    writes: list[str] = []
    real_write, real_append = log.folder.write, log.database.write

    def crash(*_: object) -> None:
        raise Crash

    def write(name: str, content: bytes) -> None:
        writes.append(name)
        if step == "take over" and name == FILE:
            raise Crash
        real_write(name, content)
        if step == "write" or (step == "forget" and name == FILE):
            raise Crash

    def append(work: object) -> object:
        done = real_append(work)
        if step == "append":
            raise Crash
        return done

    monkeypatch.setattr(log.folder, "write", write)
    monkeypatch.setattr(log.database, "write", append)
    if step == "sign":
        monkeypatch.setattr("service.store.checkpointing.sign", crash)

    with pytest.raises(Crash):
        log.checkpoints.rotate()
    monkeypatch.undo()
    log.again()
    log.append()
    note = log.checkpoint()

    assert log.checkpoints.state == "ok"
    assert is_signed_by(note, log.checkpoints.keys[-1])
    assert len(log.checkpoints.keys) == (1 if step == "write" else 2)
    assert not (log.folder.path / NEXT_FILE).exists()
    assert verify_database(log.file, keys=[str(key) for key in log.checkpoints.keys]).findings == ()


def test_a_key_that_no_entry_names_yet_is_named_by_the_next_start(log, template):
    """Cut short between the file and the entry."""
    seed = (log.folder.path / FILE).read_bytes()
    log.database.close()
    shutil.copy(template, log.file)

    log.open()

    assert (log.folder.path / FILE).read_bytes() == seed
    assert log.checkpoints.state == "ok"


@pytest.mark.parametrize("origin", ["two words", "a+b", "", "line\nbreak"])
def test_a_name_that_no_note_can_carry_is_a_setting_to_mend(tmp_path, template, origin):
    with pytest.raises(UsageError, match="log_origin"):
        SignedLog(tmp_path / "data", template, origin)


def test_old_checkpoints_go_but_those_that_were_anchored(log, monkeypatch):
    """Growth is bounded, and any older size can still be proved."""
    monkeypatch.setattr(rows, "KEPT", 3)
    log.append()
    anchored = read_checkpoint(log.checkpoint()).size
    spoil(log, "INSERT INTO anchors VALUES (1, ?, 'now', 'r', 'b', X'00')", anchored)

    sizes = []
    for _ in range(6):
        log.append()
        sizes.append(read_checkpoint(log.checkpoint()).size)

    assert stored(log) == [anchored, *sizes[-3:]]


# Any order of things.


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(["append", "many", "sign", "crash", "stop", "rotate"]), max_size=14))
def test_whatever_happens_the_log_verifies_and_extends_every_checkpoint_given_out(new_log, steps, tmp_path_factory):
    """Appends, crashes, restarts and rotations in any order."""
    _live(new_log(str(tmp_path_factory.mktemp("any"))), steps)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(["append", "many", "sign", "crash", "stop", "rotate"]), max_size=40))
def test_whatever_happens_for_long_the_log_verifies(new_log, steps, tmp_path_factory):
    """The same, longer."""
    _live(new_log(str(tmp_path_factory.mktemp("any"))), steps)


def _live(log: SignedLog, steps: list[str]) -> None:
    given_out: list[str] = []
    for step in steps:
        if step == "append":
            log.append()
        elif step == "many":
            log.append(times=130)
        elif step == "sign":
            given_out.append(log.checkpoint())
        elif step == "rotate":
            log.checkpoints.rotate()
        else:
            if step == "stop":
                log.checkpoints.start()
                log.checkpoints.stop()
            log.again()
        if log.checkpoints.newest is not None:
            given_out.append(log.checkpoints.newest.note)
    last = read_checkpoint(log.checkpoint())
    with log.database.read() as connection:
        for note in set(given_out):
            head = read_checkpoint(note)
            path = proofs.consistency(connection, head.size, last.size)
            assert extends(head.size, last.size, head.root, last.root, path)
    keys = [str(key) for key in log.checkpoints.keys]
    log.database.close()
    assert verify_database(log.file, keys=keys).findings == ()
