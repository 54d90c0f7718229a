"""The log's entries and their exact bytes (contract/audit.md, Entries and Leaves)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from service.domain.merkle import leaf_hash

TYPES: Final = (
    "log.opened",
    "log.restored",
    "service.started",
    "definition.registered",
    "definition.rejected",
    "definition.removed",
    "definition.orphaned",
    "definition.restored",
    "run.refused",
    "run.started",
    "run.finished",
    "confirmation.requested",
    "confirmation.approved",
    "confirmation.rejected",
    "confirmation.expired",
    "confirmation.dropped",
    "token.issued",
    "token.revoked",
    "session.opened",
    "session.closed",
    "key.created",
    "key.rotated",
    "output.purged",
    "intent.learned",
    "intent.forgotten",
    "checkpoint.anchored",
)
SYSTEM: Final = "bitong"  # the actor of what the service does by itself


@dataclass(frozen=True, slots=True)
class Fact:
    """Something to be appended: what happened, by whom, and its facts (names as contract/audit.md lists them)."""

    type: str
    actor: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One appended entry: `content` are the exact bytes that were hashed, `leaf` their RFC 6962 leaf hash."""

    index: int
    type: str
    at: str
    actor: str
    content: bytes
    leaf: bytes


def seal(fact: Fact, index: int, at: str) -> AuditEntry:
    """Give a fact its place: UTF-8 JSON, keys sorted, no floats, no spaces.

    Text that is no Unicode (a lone surrogate from a far side) is written with `?`, never refused: only storage may fail.
    """
    shape = {"index": index, "type": fact.type, "at": at, "actor": fact.actor, "facts": dict(fact.facts)}
    text = json.dumps(shape, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    content = text.encode("utf-8", "replace")
    return AuditEntry(index, fact.type, at, fact.actor, content, leaf_hash(content))
