"""The verifier against databases built by hand, whole and tampered with."""

from pathlib import Path

import pytest

from service.verify import Report, verify_database
from tests.verify.builder import Builder, change, example, mth, read, sha


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
    swap = [f"UPDATE log_entries SET idx = {new} WHERE idx = {old}" for old, new in ((40, -1), (60, 40), (-1, 60))]  # noqa: S608 - SQL of our own
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
    content = read(path, f"SELECT entry FROM log_entries WHERE idx = {index}")  # noqa: S608 - SQL of our own
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
    again, _ = log.append(
        "run.refused", "token:t1", run="r-ended", tool="text-stats", code="busy", problems_digest="00" * 32
    )
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

    assert [(one.what, one.where) for one in verify_database(copy).findings] == [
        ("row-unlogged", "runs.id of r-queued")
    ]


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
    change(
        copy,
        "INSERT INTO run_output VALUES (9000, 'stdout', X'00')",
        "INSERT INTO run_parameters VALUES (9001, X'00', X'00')",
    )

    assert {one.where for one in verify_database(copy).findings} == {
        "run_output.run_seq of 9000",
        "run_parameters.run_seq of 9001",
    }


# Definitions and rights.


def test_a_scope_more_is_found(copy):
    change(copy, """UPDATE tokens SET scopes = '["read", "exec", "admin"]' WHERE id = 't1'""")

    assert first(verify_database(copy)).where == "tokens.scopes of t1"


def test_a_token_that_nobody_issued_is_found(copy):
    change(
        copy,
        """INSERT INTO tokens SELECT 99, 't9', name, X'09', scopes, tools, created_at, created_by, NULL, NULL
           FROM tokens WHERE id = 't2'""",
    )

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


# A long log, by two processes.


def test_two_processes_find_what_one_finds(record):
    """Each has a view of its own, of log and rows together."""
    change(record, "DELETE FROM log_entries WHERE idx = 120", "UPDATE runs SET actor = 'x' WHERE id = 'r-open'")

    one, two = verify_database(record), verify_database(record, long=1)

    assert [(a.index, a.what, a.where) for a in two.findings] == [(a.index, a.what, a.where) for a in one.findings]
    assert (two.size, two.root, two.open_runs, two.entries) == (one.size, one.root, one.open_runs, one.entries)
    assert two.notes == one.notes


def test_two_processes_find_a_whole_record_well(whole_record):
    assert verify_database(whole_record[0].path, long=1).findings == ()
