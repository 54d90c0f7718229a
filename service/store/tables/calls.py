"""Calls: runs, what of them may be purged, the questions they wait for, the keys that stand for them."""

from sqlalchemy import Column, ForeignKey, Index, Integer, LargeBinary, Table, Text, text

from service.store.tables.metadata import metadata

runs = Table(
    "runs",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("tool", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("version_id", Integer, ForeignKey("tool_versions.id"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("commit_id", LargeBinary, nullable=False),
    Column("actor", Text, nullable=False),
    Column("node", Text),
    Column("created_at", Text, nullable=False),
    Column("started_at", Text),
    Column("ended_at", Text),
    Column("duration_ms", Integer, nullable=False),
    Column("exit_code", Integer),
    Column("signal", Text),
    Column("status", Integer),
    Column("error", Text),
    Column("why", Text),
    Column("totals", Text),
    Column("notes", Text),
    Column("problems", Text),
    Column("stdout_bytes", Integer, nullable=False),
    Column("stdout_sha256", LargeBinary),
    Column("stdout_kept", Integer, nullable=False),
    Column("stderr_bytes", Integer, nullable=False),
    Column("stderr_sha256", LargeBinary),
    Column("stderr_kept", Integer, nullable=False),
    Column("match_id", Text),
    Column("confirmation_id", Text),
    Column("key_hash", LargeBinary),
    Column("params_digest", LargeBinary, nullable=False),
    Column("start_index", Integer),
    Column("end_index", Integer),
    Column("end_leaf", LargeBinary),
)
Index("ix_runs_tool", runs.c.tool, runs.c.seq)
Index("ix_runs_state", runs.c.state, runs.c.seq)
Index("ix_runs_actor", runs.c.actor, runs.c.tool, runs.c.seq)
Index("ix_runs_commit_id", runs.c.commit_id, runs.c.seq)
Index("ix_runs_created_at", runs.c.created_at, runs.c.seq)

# What may be purged while every proof stays whole: salts, parameters with secrets masked, kept output.
run_parameters = Table(
    "run_parameters",
    metadata,
    Column("run_seq", Integer, primary_key=True, autoincrement=False),
    Column("salt", LargeBinary, nullable=False),
    Column("masked", LargeBinary, nullable=False),
)

run_output = Table(
    "run_output",
    metadata,
    Column("run_seq", Integer, primary_key=True, autoincrement=False),
    Column("stream", Text, primary_key=True),  # stdout, stderr
    Column("kept", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# A question that a person or 铸渊 answers once. `params` are the exact parameters while it waits, NULL where they hold a
# secret (those stay in memory) and once it is answered; `preview` is what will run, secrets as dots.
confirmations = Table(
    "confirmations",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("state", Text, nullable=False),  # waiting, approved, rejected, expired, dropped
    Column("run", Text, nullable=False, unique=True),
    Column("tool", Text, nullable=False),
    Column("version_id", Integer, ForeignKey("tool_versions.id"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("commit_id", LargeBinary, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
    Column("params_digest", LargeBinary, nullable=False),
    Column("params", LargeBinary),
    Column("preview", Text, nullable=False),
    Column("timeout_ms", Integer),
    Column("actor", Text, nullable=False),
    Column("asked_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("answered_by", Text),
    Column("answered_at", Text),
    Column("reason", Text),
    Column("ask_index", Integer, nullable=False),
    Column("answer_index", Integer),
)
Index("ix_confirmations_waiting", confirmations.c.seq, sqlite_where=text("state = 'waiting'"))
Index("ix_confirmations_actor", confirmations.c.actor, confirmations.c.seq)

# What an Idempotency-Key of an actor stands for, until it ends: which call, and the run that came of it.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("actor", Text, primary_key=True),
    Column("key_hash", LargeBinary, primary_key=True),
    Column("call_digest", LargeBinary, nullable=False),
    Column("run", Text, nullable=False),
    Column("ends_at", Text, nullable=False),
    sqlite_with_rowid=False,
)
Index("ix_idempotency_keys_ends_at", idempotency_keys.c.ends_at)
