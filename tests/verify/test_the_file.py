"""Files that are damaged, hostile or no databases at all."""

import subprocess
import sys
from pathlib import Path

import pytest

from service.verify import VerifyError, verify_database
from tests.verify.builder import change, read


def test_the_file_is_only_read(copy):
    """S14, S8: a copy is evidence, so not a byte of it changes."""
    before = copy.read_bytes()

    verify_database(copy)

    assert copy.read_bytes() == before


def test_a_view_in_place_of_a_table_is_not_read_through(copy):
    change(copy, "ALTER TABLE tokens RENAME TO kept", "CREATE VIEW tokens AS SELECT * FROM kept")

    report = verify_database(copy)

    assert [(one.what, one.where) for one in report.findings] == [("schema", "tokens")]
    assert report.size == 0


def test_a_computed_column_is_not_read_through(copy):
    change(copy, "ALTER TABLE blobs RENAME COLUMN content TO kept", "ALTER TABLE blobs ADD COLUMN content AS (kept)")

    assert [(one.what, one.where) for one in verify_database(copy).findings] == [("schema", "blobs.content")]


def test_a_trigger_on_a_table_of_ours_is_found(copy):
    change(copy, "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM tokens; END")

    assert [(one.what, one.found) for one in verify_database(copy).findings] == [("schema", "trigger t")]


def test_an_index_that_contradicts_its_table_is_found(copy):
    """Lists are read from indexes, so one that lies is as bad as a table that does."""
    schema = "SELECT sql FROM sqlite_schema WHERE name = 'ix_runs_state'"
    sql = read(copy, schema)
    change(
        copy,
        "PRAGMA writable_schema = ON",
        ("UPDATE sqlite_schema SET sql = ? WHERE sql = ?", (sql.replace("state,", "actor,"), sql)),
    )

    assert any(one.what == "storage-damaged" for one in verify_database(copy).findings)


@pytest.mark.parametrize(
    "content", [b"", b"no database", b"SQLite format 3\x00" + bytes(84)], ids=["empty", "text", "header"]
)
def test_what_is_no_database_is_said_in_a_sentence(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)

    with pytest.raises(VerifyError) as caught:
        verify_database(path)

    assert caught.value.zh.endswith("。")
    assert caught.value.en.endswith(".")


def test_a_missing_file_and_a_folder_are_said_in_a_sentence(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(VerifyError, match="no such file"):
            verify_database(path)
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_file_is_reported_on(copy):
    content = copy.read_bytes()
    copy.write_bytes(content[: len(content) // 2])

    try:
        report = verify_database(copy)
    except VerifyError:
        return
    assert report.findings


def test_whatever_bit_of_the_file_is_wrong_the_verifier_answers(copy):
    """S5: a report or a sentence, never another error; many bits lie in free space or in columns that no entry speaks of."""
    content = copy.read_bytes()
    step = len(content) // 60
    found = 0
    for at in range(0, len(content), step):
        damaged = bytearray(content)
        damaged[at] ^= 4
        copy.write_bytes(damaged)
        try:
            found += bool(verify_database(copy).findings)
        except VerifyError:
            found += 1
    assert found > 20


def test_a_hostile_text_does_not_reach_the_terminal(copy):
    change(copy, ("UPDATE runs SET state = ? WHERE id = 'r-ended'", ("\x1b]0;owned\x07" + "x" * 5000,)))

    one = verify_database(copy).findings[0]

    assert "\x1b" not in one.found + one.zh + one.en
    assert len(one.found) < 300


def test_no_more_than_100_findings_are_listed_and_the_rest_counted(copy):
    change(copy, "UPDATE runs SET actor = 'x', tool = 'y'")

    report = verify_database(copy)

    assert len(report.findings) == 100
    assert [one.index for one in report.findings] == sorted(one.index for one in report.findings)
    assert any("308 findings" in en for _, en in report.notes), report.notes


def run_module(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "service.verify", str(path)], capture_output=True, text=True, timeout=60
    )


def test_the_module_prints_what_it_found_and_exits_0_1(copy, tmp_path):
    """An auditor needs this package, Python and the file, and nothing else."""
    clean = run_module(copy)
    change(copy, "DELETE FROM log_entries WHERE idx = 7")
    wrong = run_module(copy)
    unreadable = run_module(tmp_path / "none")

    assert (clean.returncode, clean.stdout.splitlines()[0]) == (0, "相符 / verifies")
    assert wrong.returncode == 1
    assert "[7] index-missing" in wrong.stdout
    assert "found 8, expected 7" in wrong.stdout
    assert (unreadable.returncode, unreadable.stdout) == (1, "")
    assert "There is no such file" in unreadable.stderr


@pytest.mark.parametrize("index", ["'x'", "NULL", "1.5", "-1"])
def test_an_index_that_is_no_number_of_an_entry_is_found(copy, index):
    """Possible only where the table has lost its primary key; no comparison with it may end the verifier."""
    change(
        copy,
        "ALTER TABLE log_entries RENAME TO old",
        "CREATE TABLE log_entries AS SELECT * FROM old",
        f"UPDATE log_entries SET idx = {index} WHERE idx = 316",  # noqa: S608 - SQL of our own
        f"UPDATE runs SET end_index = {index} WHERE id = 'r-open'",  # noqa: S608 - SQL of our own
    )

    assert any(one.where == "log_entries.idx" for one in verify_database(copy).findings)
