"""The log, its subtrees, its signed heads and where those went."""

from sqlalchemy import Column, Index, Integer, LargeBinary, Table, Text, text

from service.store.tables.metadata import metadata

# The log (contract/audit.md). `entry` holds the exact bytes that were hashed; the other columns are derived from them.
log_entries = Table(
    "log_entries",
    metadata,
    Column("idx", Integer, primary_key=True, autoincrement=False),
    Column("type", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("run", Text),
    Column("tool", Text),
    Column("leaf", LargeBinary, nullable=False),
    Column("entry", LargeBinary, nullable=False),
)
Index("ix_log_entries_type", log_entries.c.type, log_entries.c.idx)
Index("ix_log_entries_run", log_entries.c.run, sqlite_where=text("run IS NOT NULL"))
Index("ix_log_entries_tool", log_entries.c.tool, log_entries.c.idx, sqlite_where=text("tool IS NOT NULL"))

# Roots of whole subtrees of 256^level leaves (level ≥ 1), so that a head or a proof needs few rows.
log_tiles = Table(
    "log_tiles",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("idx", Integer, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
)

# Signed tree heads (C2SP tlog-checkpoint): `note` holds the exact signed text.
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("size", Integer, primary_key=True, autoincrement=False),
    Column("root", LargeBinary, nullable=False),
    Column("at", Text, nullable=False),
    Column("note", LargeBinary, nullable=False),
)

# Where a checkpoint was committed outside (contract/audit.md, Anchors).
anchors = Table(
    "anchors",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("size", Integer, nullable=False),
    Column("at", Text, nullable=False),
    Column("repository", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("commit_id", LargeBinary, nullable=False),
)
