"""The file: opened read-only, plain tables only, sound, and indexed; so reading it runs nothing, and ends in time."""

import os
import re
from operator import methodcaller
from pathlib import Path
from typing import Final

import pysqlite3.dbapi2 as sqlite

from service.verify.findings import Findings, VerifyError, shown

TABLES: Final = {  # what is read; each must be a plain table, each column a plain one
    "log_entries": "idx type at actor run tool leaf entry",
    "log_tiles": "level idx hash",
    "runs": "seq id state reason tool method version version_id commit_id actor node params_digest match_id confirmation_id"
    " key_hash exit_code status duration_ms stdout_bytes stdout_sha256 stdout_kept stderr_bytes stderr_sha256"
    " stderr_kept start_index end_index end_leaf started_at ended_at problems",
    "run_parameters": "run_seq salt masked",
    "run_output": "run_seq stream kept",
    "tool_versions": "tool number state id commit_id tree blob sha256 definition registered_at pusher",
    "tools": "name state version_id",
    "folder_trees": "folder tree files blob sha256",
    "blobs": "id content",
    "tokens": "id name scopes tools created_at created_by expires_at revoked_at hash",
    "confirmations": "id state run tool version_id version commit_id sha256 params_digest params actor asked_at answered_by"
    " answered_at ask_index answer_index",
    "idempotency_keys": "actor key_hash run",
    "checkpoints": "size root at note",
    "rejections": "id kind tool commit_id pusher problems",
}
RUN: Final = TABLES["runs"].split()[2:]

# Asked again and again, so each must be answered from an index.
FIND_RUN: Final = f"""SELECT p.salt, p.masked, o.kept, e.kept, {", ".join(f"r.{name}" for name in RUN)} FROM runs r
 LEFT JOIN run_parameters p ON p.run_seq = r.seq
 LEFT JOIN run_output o ON o.run_seq = r.seq AND o.stream = 'stdout'
 LEFT JOIN run_output e ON e.run_seq = r.seq AND e.stream = 'stderr' WHERE r.id = ?"""  # noqa: S608 - names of our own
FIND_PURGE: Final = "SELECT 1 FROM log_entries WHERE run = ? AND type = 'output.purged'"
FIND_NUMBER: Final = "SELECT tool, number, commit_id FROM tool_versions WHERE id = ?"
FIND_VERSION: Final = """SELECT id, commit_id, tree, blob, sha256, definition, registered_at, pusher FROM tool_versions
 WHERE tool = ? AND number = ?"""
FIND_BLOB: Final = "SELECT content FROM blobs WHERE id = ?"
FIND_TILE: Final = "SELECT hash FROM log_tiles WHERE level = ? AND idx = ?"


def open_database(path: str | os.PathLike[str]) -> sqlite.Connection:
    """Read-only, and closed to what a hostile schema may try (SQLite's "Defense Against The Dark Arts")."""
    if not Path(path).is_file():
        raise VerifyError(f"没有这个文件：{shown(path)}。", f"There is no such file: {shown(path)}.")
    db = sqlite.connect(f"{Path(path).absolute().as_uri()}?mode=ro&immutable=0", uri=True, isolation_level=None)
    db.text_factory = methodcaller("decode", "utf-8", "surrogateescape")  # text that is no UTF-8 must differ, not fail
    for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0", "automatic_index=OFF"):
        db.execute(f"PRAGMA {pragma}")
    db.execute("BEGIN")  # one consistent view, also of a database in use
    return db


def schema(db: sqlite.Connection, findings: Findings) -> bool:
    """Whether every table that is read is a plain one; nothing is read through any other."""
    sql = "SELECT lower(name), lower(tbl_name), type, rootpage, sql FROM sqlite_schema"
    objects = db.execute(sql).fetchall()
    names = {name for name, *_ in objects}
    if "log_entries" not in names:
        raise VerifyError("文件里没有笔筒的日志（log_entries）。", "The file holds no log of Bitong's (log_entries).")
    tables = {name for name, _, *kind in objects if _is_plain(*kind)}
    for name, columns in TABLES.items():
        if name not in tables:
            findings.find(None, "schema", name, "something else" if name in names else None, "a plain table")
            continue
        plain = {row[1] for row in db.execute(f"PRAGMA table_xinfo({name})") if row[6] == 0}
        for column in sorted(set(columns.split()) - plain):
            findings.find(None, "schema", f"{name}.{column}", "none, or computed", "a plain column")
    for name, table, kind, *_ in objects:
        if kind == "trigger" and table in TABLES:
            findings.find(None, "schema", table, f"trigger {name}", "no trigger")
    return not findings.total


def storage(db: sqlite.Connection, findings: Findings) -> None:
    """SQLite's own check of pages and indexes; then, whether our questions are answered from indexes."""
    for (message,) in db.execute("PRAGMA integrity_check(10)"):
        if message != "ok":
            findings.find(None, "storage-damaged", "integrity_check", message, "ok")
    for sql in (FIND_RUN, FIND_PURGE, FIND_NUMBER, FIND_VERSION, FIND_BLOB, FIND_TILE):
        for *_, plan in db.execute("EXPLAIN QUERY PLAN " + sql, (None,) * sql.count("?")):
            if not plan.startswith("SEARCH"):
                findings.find(None, "schema", "index", plan, "SEARCH")


def _is_plain(kind: object, rootpage: object, sql: object) -> bool:
    stored = kind == "table" and isinstance(rootpage, int) and rootpage > 0
    return stored and re.match(r"CREATE TABLE\b", str(sql), re.IGNORECASE) is not None
