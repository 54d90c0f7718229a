"""Checkpoints: in the table and kept elsewhere, against the log, its keys, and a log that was written anew."""

import json
from pathlib import Path

import pytest

from service.verify import VerifyError, verify_database
from tests.verify.builder import Builder, Signer, change, mth, note_of, read, sha


def found(report):
    return {(one.what, one.where) for one in report.findings}


def kept(tmp_path: Path, note: bytes) -> Path:
    file = tmp_path / "kept"
    file.write_bytes(note)
    return file


def test_checkpoints_signatures_and_confirmations_verify(whole_record):
    log, signers, notes = whole_record

    report = verify_database(log.path, keys=[one.vkey for one in signers])

    assert report.findings == ()
    assert report.checkpoints == len(notes) == 4
    assert report.notes == ()


def test_without_a_key_it_says_whose_keys_it_used(whole_record):
    report = verify_database(whole_record[0].path)

    assert report.findings == ()
    assert any("log itself names" in en for _, en in report.notes)


def test_a_signature_by_nobody_who_was_named_is_found(whole_record):
    """The old key alone was given, and the last checkpoint is the new one's."""
    log, (old, _), notes = whole_record

    report = verify_database(log.path, keys=[old.vkey])

    last = len(log.leaves)
    assert found(report) == {("signature-wrong", f"checkpoints of {last}")}
    assert report.findings[0].index == last - 1
    assert len(notes) == 4


def test_what_is_no_key_is_said_in_a_sentence(whole_record):
    with pytest.raises(VerifyError, match="Not a key"):
        verify_database(whole_record[0].path, keys=["bitong/test+00000000+AAAA"])


@pytest.mark.parametrize("column", ["size", "root", "at", "note"])
def test_a_bit_of_a_checkpoints_row_is_found(record, whole_record, column):
    """S5."""
    size = len(whole_record[0].leaves)
    value = read(record, f"SELECT {column} FROM checkpoints WHERE size = {size}")  # noqa: S608 - SQL of our own
    if isinstance(value, int):
        other = value ^ 1 << 20
    else:
        content = bytearray(value if isinstance(value, bytes) else value.encode())
        content[-3] ^= 1
        other = bytes(content) if isinstance(value, bytes) else content.decode()
    change(record, (f"UPDATE checkpoints SET {column} = ? WHERE size = {size}", (other,)))  # noqa: S608 - SQL of our own

    findings = verify_database(record).findings

    assert findings
    assert all(one.where.startswith("checkpoints") for one in findings)


def test_a_cut_tail_is_found_by_a_stored_checkpoint(record, whole_record):
    """S6: nothing else points past the end here."""
    last = len(whole_record[0].leaves) - 1
    change(record, f"DELETE FROM log_entries WHERE idx = {last}")  # noqa: S608 - SQL of our own

    one = verify_database(record).findings[0]

    assert (one.index, one.what, one.where) == (last, "log-cut", f"checkpoints of {last + 1}")


def test_a_checkpoint_kept_elsewhere_finds_a_cut_tail(record, whole_record, tmp_path):
    """S6: cut together with every row that would tell."""
    log, _, notes = whole_record
    last = len(log.leaves) - 1
    file = kept(tmp_path, notes[-1])
    change(record, f"DELETE FROM log_entries WHERE idx = {last}", "DELETE FROM checkpoints WHERE size > 300")  # noqa: S608

    assert verify_database(record).findings == ()
    assert found(verify_database(record, checkpoints=[file])) == {("log-cut", f"checkpoint {file}")}


def rewritten(path: Path, index: int, old: str, new: str) -> Builder:
    """The whole log written anew with one word changed: all hashes, rows and tiles agree with each other again."""
    log = Builder.__new__(Builder)
    log.path = path
    content = read(path, f"SELECT entry FROM log_entries WHERE idx = {index}").replace(old.encode(), new.encode())  # noqa: S608
    change(path, ("UPDATE log_entries SET entry = ?, leaf = ? WHERE idx = ?", (content, sha(b"\0" + content), index)))
    count = read(path, "SELECT count(*) FROM log_entries")
    leaves = [read(path, f"SELECT leaf FROM log_entries WHERE idx = {at}") for at in range(count)]  # noqa: S608
    change(path, "DELETE FROM log_tiles", "DELETE FROM checkpoints")
    for at in range(len(leaves) // 256):
        change(path, ("INSERT INTO log_tiles VALUES (1, ?, ?)", (at, mth(leaves[256 * at : 256 * at + 256]))))
    log.leaves = leaves
    return log


def test_a_log_written_anew_with_new_hashes_is_found_against_an_older_checkpoint(record, whole_record, tmp_path):
    """S6: it verifies by itself, signed by the same key even; only what somebody else kept tells."""
    _, (old, new), notes = whole_record
    log = rewritten(record, 1, "bubblewrap", "none")
    note = note_of(len(log.leaves), mth(log.leaves), new)
    size = len(log.leaves)
    at = json.loads(read(record, f"SELECT entry FROM log_entries WHERE idx = {size - 1}"))["at"]  # noqa: S608
    change(record, ("INSERT INTO checkpoints VALUES (?, ?, ?, ?)", (size, mth(log.leaves), at, note)))
    keys = [old.vkey, new.vkey]

    assert verify_database(record, keys=keys).findings == ()
    file = kept(tmp_path, notes[0])
    report = verify_database(record, keys=keys, checkpoints=[file])

    assert found(report) == {("checkpoint-differs", f"checkpoint {file}")}
    assert report.findings[0].expected == mth(whole_record[0].leaves[: report.findings[0].index + 1]).hex()


def test_a_checkpoint_of_another_log_is_found(record, whole_record, tmp_path):
    log, (old, new), _ = whole_record
    other = Signer(b"k" * 32, "bitong/other")
    note = note_of(10, mth(log.leaves[:10]), other, origin="bitong/other")

    report = verify_database(record, keys=[old.vkey, new.vkey, other.vkey], checkpoints=[kept(tmp_path, note)])

    assert {what for what, _ in found(report)} == {"origin-differs"}


def test_a_checkpoint_of_nothing_verifies_and_a_forged_one_does_not(record, whole_record, tmp_path):
    _, (old, new), _ = whole_record
    keys = [old.vkey, new.vkey]

    well = verify_database(record, keys=keys, checkpoints=[kept(tmp_path, note_of(0, sha(b""), old))])
    assert well.findings == ()
    forged = verify_database(record, keys=keys, checkpoints=[kept(tmp_path, note_of(0, bytes(32), old))])
    assert {what for what, _ in found(forged)} == {"checkpoint-differs"}


@pytest.mark.parametrize("content", [b"", b"no note", b"\xff\xfe", b"bitong/test\n1\n\n\n"])
def test_a_file_that_holds_no_checkpoint_is_said_in_a_sentence(record, tmp_path, content):
    with pytest.raises(VerifyError, match="holds no checkpoint"):
        verify_database(record, checkpoints=[kept(tmp_path, content)])
    with pytest.raises(VerifyError, match="holds no checkpoint"):
        verify_database(record, checkpoints=[tmp_path / "none"])


def test_a_rotation_away_from_a_key_that_was_never_there_is_found(tmp_path):
    log = Builder(tmp_path / "bitong.db")
    log.key(b"k" * 32)
    log.key(b"n" * 32, previous=Signer(b"x" * 32))
    log.close()

    assert [(one.index, one.what) for one in verify_database(log.path).findings] == [(2, "key-unknown")]
