"""The verifier against databases built by hand, whole and tampered with."""

import shutil
import subprocess
import sys
from pathlib import Path

import pysqlite3.dbapi2 as sqlite
import pytest

from service.verify import Report, VerifyError, verify_database
from tests.verify.builder import Builder, example, mth, sha

BIT = 1 << 20  # of a number: no small number collides with another by it


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A log of everything, with a tile; built once, and what the builder knows of it."""
    path = tmp_path_factory.mktemp("original") / "bitong.db"
    log = example(path, runs=150)
    log.close()
    return log


@pytest.fixture
def copy(original, tmp_path):
    return Path(shutil.copy(original.path, tmp_path / "copy.db"))


def change(path: Path, *statements) -> None:
    """Run statements on the copy; each is SQL, or a pair of SQL and its values."""
    db = sqlite.connect(path)
    for statement in statements:
        sql, values = (statement, ()) if isinstance(statement, str) else statement
        db.execute(sql, values)
    db.commit()
    db.close()


def read(path: Path, sql: str):
    db = sqlite.connect(path)
    row = db.execute(sql).fetchone()
    db.close()
    return row[0]


def first(report: Report):
    assert report.findings, "nothing was found"
    return report.findings[0]


def test_a_whole_database_verifies(original):
    report = verify_database(original.path)

    assert report.findings == ()
    assert (report.size, report.root) == (len(original.leaves), mth(original.leaves).hex())
    assert report.open_runs == ("r-open",)
    assert report.entries["run.started"] == report.entries["run.finished"] + 1 == 153
    assert any("signature" in en for _, en in report.notes)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 255, 256, 257, 511, 512, 700])
def test_the_root_is_that_of_rfc_6962_at_every_size(tmp_path, size):
    """The builder's root is the RFC's recursive definition word for word; the verifier's is computed otherwise."""
    log = Builder(tmp_path / "bitong.db")
    for number in range(size - 1):
        log.append("session.opened", f"person:{number}")
    log.close()

    report = verify_database(log.path)

    assert (report.findings, report.size, report.root) == ((), size, mth(log.leaves).hex())


def test_progress_is_told_up_to_the_end(original):
    told = []

    verify_database(original.path, progress=lambda done, total: told.append((done, total)))

    assert told[-1] == (len(original.leaves), len(original.leaves))


def test_the_file_is_only_read(copy):
    """S14, S8: a copy is evidence, so not a byte of it changes."""
    before = copy.read_bytes()

    verify_database(copy)

    assert copy.read_bytes() == before


# One bit in every column. The finding is to name the row.

ENDED, REFUSED, OPEN = "id = 'r-ended'", "id = 'r-refused'", "id = 'r-open'"
RUN_TEXT = ("state", "reason", "tool", "actor", "node", "match_id", "confirmation_id", "started_at", "ended_at")
RUN_NUMBER = ("version", "version_id", "exit_code", "status", "duration_ms", "stdout_bytes", "stdout_kept")
RUN_BLOB = ("commit_id", "params_digest", "key_hash", "stdout_sha256", "stderr_sha256", "end_leaf")
VERSION_2 = "tool = 'text-stats' AND number = 2"
FOLDER_2 = f"tree = (SELECT tree FROM tool_versions WHERE {VERSION_2})"
FLIPS = [
    *(("log_entries", name, "idx = 10", f"log_entries.{name} of 10") for name in ("type", "at", "actor", "run", "tool", "leaf")),
    ("log_entries", "entry", "idx = 10", "log_entries.leaf of 10"),
    ("log_entries", "idx", "idx = 10", "log_entries.idx"),
    ("log_tiles", "level", "level = 1", "log_tiles.hash of 1/0"),
    ("log_tiles", "idx", "level = 1", "log_tiles.hash of 1/0"),
    ("log_tiles", "hash", "level = 1", "log_tiles.hash of 1/0"),
    ("runs", "id", ENDED, "runs.id of r-ended"),
    ("runs", "seq", ENDED, "run_parameters of r-ended"),
    *(("runs", name, ENDED, f"runs.{name} of r-ended") for name in (*RUN_TEXT, *RUN_NUMBER, *RUN_BLOB)),
    *(("runs", name, ENDED, f"runs.{name} of r-ended") for name in ("stderr_bytes", "stderr_kept", "start_index", "end_index")),
    *(("runs", name, REFUSED, f"runs.{name} of r-refused") for name in ("state", "reason", "tool", "actor", "problems")),
    *(("runs", name, REFUSED, f"runs.{name} of r-refused") for name in ("ended_at", "stdout_bytes", "end_index", "end_leaf")),
    *(("runs", name, OPEN, f"runs.{name} of r-open") for name in ("state", "tool", "version", "actor", "start_index", "started_at")),
    ("run_parameters", "salt", "run_seq = 1", "run_parameters of r-ended"),
    ("run_parameters", "masked", "run_seq = 1", "run_parameters of r-ended"),
    ("run_parameters", "run_seq", "run_seq = 1", "run_parameters of r-ended"),
    ("run_output", "kept", "run_seq = 1 AND stream = 'stdout'", "run_output.kept of r-ended stdout"),
    ("run_output", "stream", "run_seq = 1 AND stream = 'stderr'", "run_output.kept of r-ended stderr"),
    ("run_output", "run_seq", "run_seq = 1 AND stream = 'stdout'", "run_output.kept of r-ended stdout"),
    *(("tool_versions", name, VERSION_2, "tool_versions of text-stats 2") for name in ("tool", "number")),
    *(("tool_versions", name, VERSION_2, f"tool_versions.{name} of text-stats 2") for name in ("state", "commit_id", "tree", "blob")),
    *(("tool_versions", name, VERSION_2, f"tool_versions.{name} of text-stats 2") for name in ("sha256", "definition", "registered_at")),
    ("tool_versions", "id", VERSION_2, "runs.version_id of r-ended"),
    *(("folder_trees", name, FOLDER_2, "folder_trees of text-stats") for name in ("folder", "tree")),
    *(("folder_trees", name, FOLDER_2, f"folder_trees.{name} of text-stats") for name in ("files", "blob", "sha256")),
    ("blobs", "id", "instr(content, CAST('count' AS BLOB))", "blobs of text-stats"),
    ("blobs", "content", "instr(content, CAST('count' AS BLOB))", "blobs.content of "),
    ("blobs", "content", "instr(content, CAST('name: ' AS BLOB))", "blobs.content of text-stats 2"),
    ("tokens", "id", "id = 't1'", "tokens.id of "),
    *(("tokens", name, "id = 't1'", f"tokens.{name} of t1") for name in ("name", "scopes", "tools", "created_at", "created_by", "expires_at")),
    ("tokens", "revoked_at", "id = 't2'", "tokens.revoked_at of t2"),
    *(("rejections", name, "id = 1", "rejections of 1") for name in ("tool", "commit_id")),
    *(("rejections", name, "id = 1", f"rejections.{name} of 1") for name in ("pusher", "problems")),
]


def flipped(value):
    """The value with one bit the other way; JSON's last letter keeps it JSON."""
    if isinstance(value, int):
        return value ^ BIT
    content = bytearray(value if isinstance(value, bytes) else value.encode())
    content[len(content) // 2] ^= 1
    return bytes(content) if isinstance(value, bytes) else content.decode()


@pytest.mark.parametrize(("table", "column", "where", "named"), FLIPS, ids=lambda value: value if "=" not in value else "")
def test_one_bit_flipped_in_a_column_is_found_and_its_row_named(copy, table, column, where, named):
    """S5: every column that pages, answers or rights are made from follows from the leaves."""
    value = read(copy, f"SELECT {column} FROM {table} WHERE {where}")
    assert value is not None
    change(copy, "DROP INDEX IF EXISTS ix_tool_versions_state", (f"UPDATE {table} SET {column} = ? WHERE {where}", (flipped(value),)))

    report = verify_database(copy)

    assert any(one.where.startswith(named) for one in report.findings), report.findings


def test_text_that_is_no_utf_8_is_a_difference_and_no_end(copy):
    """S5: the highest bit of a letter, after which the column is no text any more."""
    change(copy, "UPDATE runs SET state = CAST(X'F3756363' AS TEXT) WHERE id = 'r-ended'")

    assert first(verify_database(copy)).where == "runs.state of r-ended"


def test_a_value_where_the_log_has_none_is_found(copy):
    change(copy, "UPDATE runs SET end_index = 5 WHERE id = 'r-open'", "UPDATE tokens SET revoked_at = created_at WHERE id = 't1'")

    wheres = [one.where for one in verify_database(copy).findings]

    assert wheres == ["tokens.revoked_at of t1", "runs.end_index of r-open"]


# The log.


def test_a_deleted_entry_is_the_first_missing_index(copy):
    """S6."""
    change(copy, "DELETE FROM log_entries WHERE idx = 120")

    report = verify_database(copy)

    one = first(report)
    assert (one.index, one.what, one.found, one.expected) == (120, "index-missing", "121", "120")
    assert report.size == 120


def test_two_swapped_entries_are_found_at_the_first_of_them(copy):
    """S6."""
    swap = [f"UPDATE log_entries SET idx = {new} WHERE idx = {old}" for old, new in ((40, -1), (60, 40), (-1, 60))]
    change(copy, *swap)

    one = first(verify_database(copy))

    assert (one.index, one.where, one.found, one.expected) == (40, "log_entries.idx of 40", "40", "60")


def test_a_cut_tail_is_found_by_what_points_past_it(copy):
    """S6: rows of runs, or tiles, that say the log was longer; without either, only an anchor tells."""
    change(copy, "DELETE FROM log_entries WHERE idx >= 290")

    one = first(verify_database(copy))

    assert (one.index, one.what, one.found) == (290, "log-cut", "290 entries")


def test_a_tail_cut_with_its_runs_is_found_by_the_tile(copy):
    """S6."""
    change(copy, "DELETE FROM log_entries WHERE idx >= 251", "DELETE FROM runs WHERE end_index >= 251")

    report = verify_database(copy)

    assert (first(report).index, first(report).what) == (251, "log-cut")


def test_an_empty_log_lacks_entry_0(copy):
    """S6."""
    change(copy, "DELETE FROM log_entries")

    assert (first(verify_database(copy)).index, first(verify_database(copy)).what) == (0, "index-missing")


def test_an_index_twice_is_found(copy):
    """S6: possible only where the table has lost its primary key."""
    change(
        copy,
        "ALTER TABLE log_entries RENAME TO old",
        "CREATE TABLE log_entries AS SELECT * FROM old",
        "INSERT INTO log_entries SELECT * FROM old WHERE idx = 33",
        "DROP TABLE old",
    )

    report = verify_database(copy)

    assert (first(report).index, first(report).what) == (33, "index-repeated")
    assert any(one.what == "schema" for one in report.findings)  # and its indexes are gone


def rewrite(path: Path, index: int, old: str, new: str) -> None:
    """Change an entry's bytes and everything in its row that follows from them."""
    content = read(path, f"SELECT entry FROM log_entries WHERE idx = {index}")
    assert old.encode() in content
    content = content.replace(old.encode(), new.encode())
    change(path, ("UPDATE log_entries SET entry = ?, leaf = ? WHERE idx = ?", (content, sha(b"\x00" + content), index)))


def test_an_entry_rewritten_with_its_leaf_is_found_by_its_tile(copy):
    """S6: what its row says agrees again, but the subtree above does not."""
    rewrite(copy, 1, "bubblewrap", "none")

    one = first(verify_database(copy))

    assert (one.index, one.what, one.where) == (255, "tile-differs", "log_tiles.hash of 1/0")


def test_a_run_rewritten_with_its_leaf_is_found_by_its_row(copy, original):
    """S6: past the last tile, the row's receipt still tells."""
    end = len(original.leaves) - 1
    rewrite(copy, end, '"exit_code":3', '"exit_code":0')

    report = verify_database(copy)

    wheres = {(one.index, one.where) for one in report.findings}
    assert wheres == {(end, "runs.exit_code of r-0149"), (end, "runs.end_leaf of r-0149")}


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('"digests":{', '"digests": {', "entry-unreadable"),
        ('"index":1,', '"index":1.0,', "entry-unreadable"),
        ('"actor":"bitong"', '"actor":"a","actor":"bitong"', "entry-unreadable"),
        ('"type":"service.started"', '"type":"service.stopped"', "column-differs"),
        ('"sandbox":', '"sandbax":', "facts-shape"),
        ('{"actor"', '[{"actor"', "entry-unreadable"),
    ],
)
def test_an_entry_that_is_not_as_the_writer_writes_it_is_found(copy, old, new, what):
    """A second reading of the same bytes, or facts of another form, would let two readers see two things."""
    rewrite(copy, 1, old, new)

    assert (first(verify_database(copy)).index, first(verify_database(copy)).what) == (1, what)


def test_a_removed_tile_is_found(copy):
    """S6."""
    change(copy, "DELETE FROM log_tiles")

    one = first(verify_database(copy))

    assert (one.index, one.what, one.found) == (255, "tile-differs", "null")


# Runs.


def test_a_run_with_two_ends_is_found_at_the_second(tmp_path):
    log = example(tmp_path / "bitong.db")
    facts = {"state": "succeeded", "reason": None, "exit_code": 0, "status": None, "duration_ms": 1}
    stream = {"bytes": 0, "sha256": None, "kept": 0, "kept_sha256": None}
    second, _ = log.append("run.finished", "bitong", run="r-ended", **facts, stdout=stream, stderr=stream)
    log.close()

    assert [(one.index, one.what) for one in verify_database(log.path).findings] == [(second, "run-ends-unstarted")]


def test_a_run_that_begins_again_is_found_at_its_second_beginning(tmp_path):
    log = example(tmp_path / "bitong.db")
    again, _ = log.append("run.refused", "token:t1", run="r-ended", tool="text-stats", code="busy", problems_digest="00" * 32)
    log.close()

    findings = verify_database(log.path).findings

    assert (again, "run-begins-twice") in [(one.index, one.what) for one in findings]


def test_a_run_without_an_end_may_not_say_that_it_succeeded(copy):
    change(copy, "UPDATE runs SET state = 'succeeded' WHERE id = 'r-open'")

    one = first(verify_database(copy))

    assert (one.where, one.found, one.expected) == ("runs.state of r-open", "succeeded", "started")


def test_a_run_without_a_row_and_a_row_without_a_run_are_found(copy):
    change(copy, "UPDATE runs SET id = 'r-else' WHERE id = 'r-refused'")

    found = {(one.what, one.where) for one in verify_database(copy).findings}

    assert found == {("row-missing", "runs.id of r-refused"), ("row-unlogged", "runs.id of r-else")}


def test_a_row_that_only_waits_needs_no_entry_but_may_not_claim_one(copy):
    change(copy, "UPDATE runs SET state = 'succeeded' WHERE id = 'r-queued'")

    assert [(one.what, one.where) for one in verify_database(copy).findings] == [("row-unlogged", "runs.id of r-queued")]


def test_a_run_of_other_bytes_than_were_registered_is_found(tmp_path):
    """Which bytes ran is the whole point of the record."""
    log = example(tmp_path / "bitong.db")
    log.versions["text-stats", 2]["sha256"] = "00" * 32
    log.run("r-other")
    log.close()

    assert first(verify_database(log.path)).what == "version-differs"


def test_output_and_parameters_may_be_missing_only_where_an_entry_says_purged(copy):
    """S12: the example holds a purged run, and verifies; this one was never purged."""
    change(copy, "DELETE FROM run_output WHERE run_seq = 1", "DELETE FROM run_parameters WHERE run_seq = 1")

    found = {(one.what, one.where) for one in verify_database(copy).findings}

    assert found == {
        ("row-missing", "run_parameters of r-ended"),
        ("row-missing", "run_output.kept of r-ended stdout"),
        ("row-missing", "run_output.kept of r-ended stderr"),
    }


def test_rows_of_no_run_are_found(copy):
    change(copy, "INSERT INTO run_output VALUES (9000, 'stdout', X'00')", "INSERT INTO run_parameters VALUES (9001, X'00', X'00')")

    assert {one.where for one in verify_database(copy).findings} == {"run_output.run_seq of 9000", "run_parameters.run_seq of 9001"}


# Definitions and rights.


def test_a_scope_more_is_found(copy):
    change(copy, """UPDATE tokens SET scopes = '["read", "exec", "admin"]' WHERE id = 't1'""")

    assert first(verify_database(copy)).where == "tokens.scopes of t1"


def test_a_token_that_nobody_issued_is_found(copy):
    change(copy, "INSERT INTO tokens SELECT 99, 't9', name, X'09', scopes, tools, created_at, created_by, NULL, NULL FROM tokens WHERE id = 't2'")

    assert [(one.what, one.where) for one in verify_database(copy).findings] == [("row-unlogged", "tokens.id of t9")]


def test_a_revoked_token_come_to_life_is_found(copy):
    change(copy, "UPDATE tokens SET revoked_at = NULL WHERE id = 't2'")

    assert first(verify_database(copy)).where == "tokens.revoked_at of t2"


def test_other_bytes_of_a_definition_are_found_even_under_their_own_git_id(copy):
    """The bytes and their id agree; that the log names others is what tells."""
    files = read(copy, "SELECT files FROM folder_trees WHERE folder = CAST('text-stats' AS BLOB) LIMIT 1")
    change(copy, ("UPDATE folder_trees SET files = ? WHERE files = ?", (files.replace("true", "false"), files)))

    one = first(verify_database(copy))

    assert (one.what, one.where.split(" ")[:3]) == ("bytes-differ", ["folder_trees.files", "of", "text-stats"])


def test_an_orphaned_version_may_not_stand_as_active(copy):
    change(copy, "UPDATE tool_versions SET state = 'active' WHERE tool = 'lost-tool'")

    one = first(verify_database(copy))

    assert (one.where, one.expected) == ("tool_versions.state of lost-tool 1", "orphaned")


def test_a_pusher_may_become_known_later(original):
    """The example's entries say null, its rows a name, and it verifies."""
    assert read(original.path, "SELECT pusher FROM tool_versions LIMIT 1") == "zhu"
    assert verify_database(original.path).findings == ()


# The file.


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
    change(copy, "PRAGMA writable_schema = ON", ("UPDATE sqlite_schema SET sql = ? WHERE sql = ?", (sql.replace("state,", "actor,"), sql)))

    assert any(one.what == "storage-damaged" for one in verify_database(copy).findings)


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\x00" + bytes(84)], ids=["empty", "text", "header"])
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

    one = first(verify_database(copy))

    assert "\x1b" not in one.found + one.zh + one.en
    assert len(one.found) < 300


def test_no_more_than_100_findings_are_listed_and_the_rest_counted(copy):
    change(copy, "UPDATE runs SET actor = 'x', tool = 'y'")

    report = verify_database(copy)

    assert len(report.findings) == 100
    assert [one.index for one in report.findings] == sorted(one.index for one in report.findings)
    assert any("308 findings" in en for _, en in report.notes), report.notes


def run_module(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "service.verify", str(path)], capture_output=True, text=True, timeout=60)


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
