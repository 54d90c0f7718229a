"""What the forge said and what the repository holds: commits, folders, versions, how each name stands."""

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text, UniqueConstraint, text

from service.store.tables.metadata import metadata

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
