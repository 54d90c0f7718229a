"""One bit in every column that follows from the log (cases.md S5). Each finding is to name the row."""

import pytest

from service.verify import verify_database
from tests.verify.builder import change, flipped, read

ENDED, REFUSED, OPEN = "id = 'r-ended'", "id = 'r-refused'", "id = 'r-open'"
RUN_TEXT = ("state", "reason", "tool", "actor", "node", "match_id", "confirmation_id", "started_at", "ended_at")
RUN_NUMBER = ("version", "version_id", "exit_code", "status", "duration_ms", "stdout_bytes", "stdout_kept")
RUN_BLOB = ("commit_id", "params_digest", "key_hash", "stdout_sha256", "stderr_sha256", "end_leaf")
VERSION_2 = "tool = 'text-stats' AND number = 2"
FOLDER_2 = f"tree = (SELECT tree FROM tool_versions WHERE {VERSION_2})"  # noqa: S608 - SQL of our own
FLIPS = [
    *(
        ("log_entries", name, "idx = 10", f"log_entries.{name} of 10")
        for name in ("type", "at", "actor", "run", "tool", "leaf")
    ),
    ("log_entries", "entry", "idx = 10", "log_entries.leaf of 10"),
    ("log_entries", "idx", "idx = 10", "log_entries.idx"),
    ("log_tiles", "level", "level = 1", "log_tiles.hash of 1/0"),
    ("log_tiles", "idx", "level = 1", "log_tiles.hash of 1/0"),
    ("log_tiles", "hash", "level = 1", "log_tiles.hash of 1/0"),
    ("runs", "id", ENDED, "runs.id of r-ended"),
    ("runs", "seq", ENDED, "run_parameters of r-ended"),
    *(("runs", name, ENDED, f"runs.{name} of r-ended") for name in (*RUN_TEXT, *RUN_NUMBER, *RUN_BLOB)),
    *(
        ("runs", name, ENDED, f"runs.{name} of r-ended")
        for name in ("stderr_bytes", "stderr_kept", "start_index", "end_index")
    ),
    *(
        ("runs", name, REFUSED, f"runs.{name} of r-refused")
        for name in ("state", "reason", "tool", "actor", "problems")
    ),
    *(
        ("runs", name, REFUSED, f"runs.{name} of r-refused")
        for name in ("ended_at", "stdout_bytes", "end_index", "end_leaf")
    ),
    *(
        ("runs", name, OPEN, f"runs.{name} of r-open")
        for name in ("state", "tool", "version", "actor", "start_index", "started_at")
    ),
    ("run_parameters", "salt", "run_seq = 1", "run_parameters of r-ended"),
    ("run_parameters", "masked", "run_seq = 1", "run_parameters of r-ended"),
    ("run_parameters", "run_seq", "run_seq = 1", "run_parameters of r-ended"),
    ("run_output", "kept", "run_seq = 1 AND stream = 'stdout'", "run_output.kept of r-ended stdout"),
    ("run_output", "stream", "run_seq = 1 AND stream = 'stderr'", "run_output.kept of r-ended stderr"),
    ("run_output", "run_seq", "run_seq = 1 AND stream = 'stdout'", "run_output.kept of r-ended stdout"),
    *(("tool_versions", name, VERSION_2, "tool_versions of text-stats 2") for name in ("tool", "number")),
    *(
        ("tool_versions", name, VERSION_2, f"tool_versions.{name} of text-stats 2")
        for name in ("state", "commit_id", "tree", "blob")
    ),
    *(
        ("tool_versions", name, VERSION_2, f"tool_versions.{name} of text-stats 2")
        for name in ("sha256", "definition", "registered_at")
    ),
    ("tool_versions", "id", VERSION_2, "runs.version_id of r-ended"),
    *(("folder_trees", name, FOLDER_2, "folder_trees of text-stats") for name in ("folder", "tree")),
    *(("folder_trees", name, FOLDER_2, f"folder_trees.{name} of text-stats") for name in ("files", "blob", "sha256")),
    ("blobs", "id", "instr(content, CAST('count' AS BLOB))", "blobs of text-stats"),
    ("blobs", "content", "instr(content, CAST('count' AS BLOB))", "blobs.content of "),
    ("blobs", "content", "instr(content, CAST('name: ' AS BLOB))", "blobs.content of text-stats 2"),
    ("tokens", "id", "id = 't1'", "tokens.id of "),
    *(
        ("tokens", name, "id = 't1'", f"tokens.{name} of t1")
        for name in ("name", "scopes", "tools", "created_at", "created_by", "expires_at")
    ),
    ("tokens", "revoked_at", "id = 't2'", "tokens.revoked_at of t2"),
    *(("rejections", name, "id = 1", "rejections of 1") for name in ("tool", "commit_id")),
    *(("rejections", name, "id = 1", f"rejections.{name} of 1") for name in ("pusher", "problems")),
]


@pytest.mark.parametrize(
    ("table", "column", "where", "named"), FLIPS, ids=lambda value: value if "=" not in value else ""
)
def test_one_bit_flipped_in_a_column_is_found_and_its_row_named(copy, table, column, where, named):
    """S5: every column that pages, answers or rights are made from follows from the leaves."""
    value = read(copy, f"SELECT {column} FROM {table} WHERE {where}")  # noqa: S608 - SQL of our own
    assert value is not None
    change(
        copy,
        "DROP INDEX IF EXISTS ix_tool_versions_state",
        (f"UPDATE {table} SET {column} = ? WHERE {where}", (flipped(value),)),  # noqa: S608 - SQL of our own
    )

    report = verify_database(copy)

    assert any(one.where.startswith(named) for one in report.findings), report.findings


def test_text_that_is_no_utf_8_is_a_difference_and_no_end(copy):
    """S5: the highest bit of a letter, after which the column is no text any more."""
    change(copy, "UPDATE runs SET state = CAST(X'F3756363' AS TEXT) WHERE id = 'r-ended'")

    assert verify_database(copy).findings[0].where == "runs.state of r-ended"


def test_a_value_where_the_log_has_none_is_found(copy):
    change(
        copy,
        "UPDATE runs SET end_index = 5 WHERE id = 'r-open'",
        "UPDATE tokens SET revoked_at = created_at WHERE id = 't1'",
    )

    wheres = [one.where for one in verify_database(copy).findings]

    assert wheres == ["tokens.revoked_at of t1", "runs.end_index of r-open"]
