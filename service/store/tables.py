"""Every table, in SQLAlchemy Core. `migrations/` makes them; a test compares the two.

Git ids and hashes are bytes (20 and 32); times are RFC 3339 UTC text with milliseconds; JSON is UTF-8 text.
"""

from typing import Final

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

SCHEMA_REVISION: Final = "0003"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

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

# What the forge sent (contract/registration.md, Who). `signed_by`: which secret verified it, `current` or `previous`.
deliveries = Table(
    "deliveries",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("received_at", Text, nullable=False),
    Column("last_at", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("ref", Text),
    Column("repository_id", Integer),
    Column("repository", Text),
    Column("pusher", Text),
    Column("before", Text),
    Column("after", Text),
    Column("body_sha256", LargeBinary, nullable=False, unique=True),
    Column("signed_by", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("outcome", Text),
    Column("reason", Text),
    Column("registered", Text, nullable=False),
    Column("removed", Text, nullable=False),
    Column("rejected", Text, nullable=False),
)
Index("ix_deliveries_outcome", deliveries.c.seq, sqlite_where=text("outcome IS NULL OR outcome = 'failed'"))

# The commits looked at. `published`: their versions are registered; facts of others are staged and may be sent again.
commits = Table(
    "commits",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("id", LargeBinary, nullable=False, unique=True),
    Column("parents", LargeBinary, nullable=False),
    Column("author", Text, nullable=False),
    Column("authored_at", Text),
    Column("committer", Text, nullable=False),
    Column("committed_at", Text),
    Column("message", Text, nullable=False),
    Column("problems", Text),
    Column("published", Boolean, nullable=False),
)
Index("ix_commits_published", commits.c.seq, sqlite_where=text("published = 0"))

# How each folder differs from that of the commit's first parent; `source` as domain/history.FolderChange.
folder_changes = Table(
    "folder_changes",
    metadata,
    Column("commit_id", LargeBinary, primary_key=True),
    Column("folder", LargeBinary, primary_key=True),
    Column("tree", LargeBinary),
    Column("source", Integer),
    sqlite_with_rowid=False,
)

# What one folder tree holds: its reading, its files. Files' bytes stand in `blobs`, so a run needs no repository.
folder_trees = Table(
    "folder_trees",
    metadata,
    Column("folder", LargeBinary, primary_key=True),
    Column("tree", LargeBinary, primary_key=True),
    Column("reading", Text),
    Column("problems", Text, nullable=False),
    Column("files", Text, nullable=False),
    Column("blob", LargeBinary),
    Column("sha256", LargeBinary),
    sqlite_with_rowid=False,
)
blobs = Table(
    "blobs",
    metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

tool_versions = Table(
    "tool_versions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("tool", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("commit_id", LargeBinary, nullable=False),
    Column("tree", LargeBinary, nullable=False),
    Column("blob", LargeBinary, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
    Column("definition", Text, nullable=False),
    Column("warnings", Text, nullable=False),
    Column("same_meaning", Boolean, nullable=False),
    Column("git_author", Text, nullable=False),
    Column("git_committer", Text, nullable=False),
    Column("git_committed_at", Text),
    Column("pusher", Text),
    Column("registered_at", Text, nullable=False),
    UniqueConstraint("tool", "number"),
    UniqueConstraint("tool", "commit_id"),
)
Index("ix_tool_versions_state", tool_versions.c.state, sqlite_where=text("state = 'orphaned'"))
Index("ix_tool_versions_commit_id", tool_versions.c.commit_id)

# One row for each tool name that ever had a version, or a problem that keeps it from having one.
tools = Table(
    "tools",
    metadata,
    Column("name", Text, primary_key=True),
    Column("state", Text, nullable=False),  # active, removed, orphaned, unregistered
    Column("version_id", Integer, ForeignKey("tool_versions.id")),
    Column("behind", Boolean, nullable=False),
    Column("removed_commit", LargeBinary),
    Column("removed_at", Text),
    Column("removed_by", Text),
)

# Where each folder that ever was stands at the tip: its tree (NULL: gone) and the commit that made it so.
tip_folders = Table(
    "tip_folders",
    metadata,
    Column("folder", LargeBinary, primary_key=True),
    Column("tree", LargeBinary),
    Column("made_by", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

rejections = Table(
    "rejections",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("folder", LargeBinary, nullable=False),
    Column("commit_id", LargeBinary, nullable=False),
    Column("kind", Text, nullable=False),  # definition, name-collision, context
    Column("path", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("pusher", Text),
    Column("at", Text, nullable=False),
    Column("problems", Text, nullable=False),
    Column("current", Boolean, nullable=False),
    UniqueConstraint("folder", "commit_id", "kind"),
)
Index("ix_rejections_current", rejections.c.id, sqlite_where=text("current = 1"))

# One row: what the last look saw.
registry = Table(
    "registry",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("tip", LargeBinary),
    Column("revision", Integer, nullable=False),
    Column("looked_at", Text),
    Column("outcome", Text),
    Column("trouble", Text),
    Column("trouble_since", Text),
)

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

# Bearer tokens: only the SHA-256 of what was handed out (contract/http-api.md, Who may what).
tokens = Table(
    "tokens",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("scopes", Text, nullable=False),
    Column("tools", Text),
    Column("created_at", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", Text),
    Column("revoked_at", Text),
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

# People who signed in: only the SHA-256 of what their cookie holds. `who` is the actor's name without `person:`.
sessions = Table(
    "sessions",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("who", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("via", Text, nullable=False),  # link, forgejo
    Column("opened_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("closed_at", Text),
)

# One-time sign-in links (`bitong login`): spent by POST, once.
sign_in_links = Table(
    "sign_in_links",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("made_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("used_at", Text),
)

# Answers to intents: what an exact call may name as `match_id`, and what the report of missing tools is made from.
matches = Table(
    "matches",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("actor", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("intent", Text, nullable=False),
    Column("found", Boolean, nullable=False),
    Column("candidates", Text, nullable=False),
    Column("taken", Text),  # the tool that was run for it, once one succeeded
)
Index("ix_matches_actor", matches.c.actor, matches.c.seq)
Index("ix_matches_found", matches.c.found, matches.c.seq)

# What accepted matches taught: words of an intent, for a tool as long as what it does stays the same (`meaning`).
learned_intents = Table(
    "learned_intents",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("tool", Text, nullable=False),
    Column("meaning", LargeBinary, nullable=False),
    Column("intent", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("learned_at", Text, nullable=False),
    Column("learn_index", Integer, nullable=False),
    UniqueConstraint("tool", "intent", "actor"),
)
