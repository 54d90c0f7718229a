"""Every table, in SQLAlchemy Core. `migrations/` makes them; a test compares the two.

Git ids and hashes are bytes (20 and 32); times are RFC 3339 UTC text with milliseconds; JSON is UTF-8 text.
"""

from typing import Final

from service.store.tables.calls import confirmations, idempotency_keys, run_output, run_parameters, runs
from service.store.tables.log import anchors, checkpoints, log_entries, log_tiles
from service.store.tables.matching import learned_intents, matches
from service.store.tables.metadata import metadata
from service.store.tables.people import sessions, sign_in_links, tokens
from service.store.tables.registry import (
    blobs,
    commits,
    deliveries,
    folder_changes,
    folder_trees,
    registry,
    rejections,
    tip_folders,
    tool_versions,
    tools,
)

SCHEMA_REVISION: Final = "0003"

__all__ = [
    "SCHEMA_REVISION",
    "anchors",
    "blobs",
    "checkpoints",
    "commits",
    "confirmations",
    "deliveries",
    "folder_changes",
    "folder_trees",
    "idempotency_keys",
    "learned_intents",
    "log_entries",
    "log_tiles",
    "matches",
    "metadata",
    "registry",
    "rejections",
    "run_output",
    "run_parameters",
    "runs",
    "sessions",
    "sign_in_links",
    "tip_folders",
    "tokens",
    "tool_versions",
    "tools",
]
