"""A run as its caller is told of it, made from what was just written instead of read again."""

from collections.abc import Mapping, Sequence
from typing import Any

from service.domain.actors import Actor
from service.domain.audit import AuditEntry
from service.domain.executors import Outcome
from service.domain.runs import PROBLEMS_BYTES, Commitment, Run
from service.domain.tools import ToolVersion
from service.store import runs


def within_bytes(problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many problems as 4 KiB hold (contract/http-api.md, refused runs)."""
    kept, size = [], 2
    for problem in problems:
        size += len(str(problem).encode("utf-8", "replace")) + 1
        if size > PROBLEMS_BYTES:
            break
        kept.append({name: _clean(value) for name, value in problem.items()})
    return kept


def _clean(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def ended_run(
    begun: runs.Begun,
    version: ToolVersion,
    actor: Actor,
    node: str | None,
    commitment: Commitment,
    outcome: Outcome,
    entry: AuditEntry,
    match_id: str | None,
) -> Run:
    """A run that ended, with the entry that ended it."""
    return Run(
        seq=begun.seq,
        id=begun.id,
        state=outcome.state,
        reason=outcome.reason,
        version=version,
        actor=actor.name,
        node=node,
        created_at=begun.created_at,
        started_at=begun.created_at,
        ended_at=entry.at,
        outcome=outcome,
        params_digest=commitment.digest.hex(),
        match_id=match_id,
        start_index=begun.entry.index,
        end_index=entry.index,
        end_leaf=entry.leaf.hex(),
    )


def refused_run(
    begun: runs.Begun,
    version: ToolVersion,
    actor: Actor,
    commitment: Commitment,
    code: str,
    problems: Sequence[Mapping[str, Any]],
    match_id: str | None,
) -> Run:
    """A run that never started."""
    return Run(
        seq=begun.seq,
        id=begun.id,
        state="refused",
        reason=code,
        version=version,
        actor=actor.name,
        node=None,
        created_at=begun.created_at,
        started_at=None,
        ended_at=begun.created_at,
        outcome=None,
        params_digest=commitment.digest.hex(),
        problems=tuple(problems),
        match_id=match_id,
        end_index=begun.entry.index,
        end_leaf=begun.entry.leaf.hex(),
    )
