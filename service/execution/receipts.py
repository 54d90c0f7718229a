"""A run as its caller is told of it, made from what was just written instead of read again."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from service.domain.audit import AuditEntry
from service.domain.executors import Outcome, ParameterProblem
from service.domain.runs import PROBLEMS_BYTES, Run
from service.errors import Message
from service.store.run_steps import Asked, Begun


def within_bytes(problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many problems as 4 KiB hold (contract/http-api.md, refused runs)."""
    kept, size = [], 2
    for problem in problems:
        size += len(str(problem).encode("utf-8", "replace")) + 1
        if size > PROBLEMS_BYTES - len(str(_MORE).encode()):
            kept.append(_MORE)
            break
        kept.append({name: _clean(value) for name, value in problem.items()})
    return kept


_MORE: Final = ParameterProblem(
    "", "too-many-problems", "还有更多问题，没有保存。", "There were more problems, which are not kept."
).as_json()


def _clean(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def ended_run(begun: Begun, asked: Asked, node: str | None, outcome: Outcome, entry: AuditEntry) -> Run:
    """A run that ended, with the entry that ended it."""
    return Run(
        seq=begun.seq,
        id=begun.id,
        state=outcome.state,
        reason=outcome.reason,
        version=asked.version,
        actor=asked.actor,
        node=node,
        created_at=begun.created_at,
        started_at=begun.entry.at,
        ended_at=entry.at,
        outcome=outcome,
        params_digest=asked.commitment.digest.hex(),
        match_id=asked.match_id,
        confirmation_id=asked.confirmation_id,
        start_index=begun.entry.index,
        end_index=entry.index,
        end_leaf=entry.leaf.hex(),
    )


def open_run(
    seq: int, asked: Asked, state: str, created_at: str, begun: AuditEntry | None = None, node: str | None = None
) -> Run:
    """A run that waits, or has begun with this entry."""
    return Run(
        seq=seq,
        id=asked.run_id,
        state=state,
        reason=None,
        version=asked.version,
        actor=asked.actor,
        node=node,
        created_at=created_at,
        started_at=None if begun is None else begun.at,
        ended_at=None,
        outcome=None,
        params_digest=asked.commitment.digest.hex(),
        match_id=asked.match_id,
        confirmation_id=asked.confirmation_id,
        start_index=None if begun is None else begun.index,
    )


def refused_run(begun: Begun, asked: Asked, code: str, message: Message, problems: Sequence[Mapping[str, Any]]) -> Run:
    """A run that never started."""
    return Run(
        seq=begun.seq,
        id=begun.id,
        state="refused",
        reason=code,
        version=asked.version,
        actor=asked.actor,
        node=None,
        created_at=begun.created_at,
        started_at=None,
        ended_at=begun.entry.at,
        outcome=None,
        params_digest=asked.commitment.digest.hex(),
        problems=tuple(problems),
        match_id=asked.match_id,
        confirmation_id=asked.confirmation_id,
        refusal=message,
        end_index=begun.entry.index,
        end_leaf=begun.entry.leaf.hex(),
    )
