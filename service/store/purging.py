"""Purging: what of runs may go while every proof stays whole (contract/audit.md, Parameters).

Of a run go its salt and parameters, its kept output, what its row and its confirmation quote of either, and the intent it
was matched by. What stays is what the log speaks of. Each run that is purged has its `output.purged` entry.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, case, delete, func, literal, null, or_, select, update

from service.domain.audit import Fact
from service.domain.runs import OPEN
from service.errors import Message
from service.store.database import Database, Transaction
from service.store.tables import confirmations, log_entries, matches, run_output, run_parameters, runs

STEP: Final = 200  # runs of one transaction: other writers wait for no longer than that takes
WINDOW: Final = 20_000  # rows looked at in one read
MARK: Final = Message("输出与参数已清除。", "The output and the parameters were purged.")
_MAX_INTEGER: Final = 2**63 - 1
_MARK_JSON: Final = json.dumps(MARK, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs to purge, all of what is given. `ended_before`: a time; `larger_than`: bytes kept of both streams.

    `patterns`: the asker's tools; runs of others do not exist for it.
    """

    ended_before: str | None = None
    larger_than: int | None = None
    tool: str | None = None
    run: str | None = None
    patterns: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did: runs purged, or with `dry` counted; bytes of them; where the next goes on, None at the end."""

    runs: int
    bytes: int
    next: int | None


@dataclass(frozen=True, slots=True)
class _Found:
    """A run that can be purged, and the bytes of it that would go."""

    seq: int
    id: str
    bytes: int


def step(database: Database, wanted: Wanted, *, actor: str, why: str, after: int = 0, dry: bool = False) -> Step:
    """Purge up to 200 runs beyond row `after`; with `dry` only count them. `why`: the setting or the command that asks.

    Raises CannotRecord. Allowed while the disk is full: an entry takes less than what goes.
    """
    with database.read() as connection:
        found, following = _look(connection, wanted, after)
    if found and not dry:
        found = database.write(lambda transaction: _purge(transaction, found, actor, why), urgent=True)
    return Step(len(found), sum(one.bytes for one in found), following)


def oldest(connection: Connection) -> int:
    """The row before the oldest run of which anything is kept; of refused ones apart."""
    firsts = [connection.execute(select(func.min(table.c.run_seq))).scalar() for table in (run_output, run_parameters)]
    return min((first - 1 for first in firsts if first is not None), default=_last(connection))


def kept_bytes(connection: Connection, after: int, window: int = WINDOW) -> tuple[int, int | None]:
    """(bytes of parameters and output kept of the runs in a window of rows beyond `after`, where the next one begins)."""
    until = after + window
    total = 0
    for table, column in ((run_output, run_output.c.kept), (run_parameters, run_parameters.c.masked)):
        here = (table.c.run_seq > after, table.c.run_seq <= until)
        total += connection.execute(select(func.coalesce(func.sum(func.length(column)), 0)).where(*here)).scalar_one()
    return total, until if until < _last(connection) else None


def _look(connection: Connection, wanted: Wanted, after: int) -> tuple[list[_Found], int | None]:
    """Runs of one window that can be purged, and where to go on."""
    until, last = after + WINDOW, _last(connection, wanted.ended_before)
    if wanted.run is not None:
        after, until, last = 0, _MAX_INTEGER, 0
    statement = (
        select(runs.c.seq, runs.c.id, _size())
        .where(runs.c.seq > after, runs.c.seq <= until, runs.c.state.not_in(OPEN))
        .where(_something(), ~_purged(), *_conditions(wanted))
        .order_by(runs.c.seq)
        .limit(STEP + 1)
    )
    rows: Sequence[Any] = connection.execute(statement).all()
    found = [_Found(row[0], row[1], row[2]) for row in rows[:STEP]]
    if len(rows) > STEP:
        return found, found[-1].seq
    return found, until if until < last else None


def _last(connection: Connection, ended_before: str | None = None) -> int:
    """The last row that can be wanted: none that was made later has ended before."""
    if ended_before is not None:
        young = select(runs.c.seq).where(runs.c.created_at >= ended_before).order_by(runs.c.created_at, runs.c.seq)
        if (first := connection.execute(young.limit(1)).scalar()) is not None:
            return int(first) - 1
    return int(connection.execute(select(func.max(runs.c.seq))).scalar() or 0)


def _conditions(wanted: Wanted) -> list[Any]:
    found: list[Any] = []
    if wanted.ended_before is not None:
        found.append(runs.c.ended_at < wanted.ended_before)
    if wanted.larger_than is not None:
        found.append(runs.c.stdout_kept + runs.c.stderr_kept > wanted.larger_than)
    if wanted.tool is not None:
        found.append(runs.c.tool == wanted.tool)
    if wanted.run is not None:
        found.append(runs.c.id == wanted.run)
    if wanted.patterns is not None:
        found.append(or_(*(runs.c.tool.op("GLOB")(pattern) for pattern in wanted.patterns)))
    return found


def _something() -> Any:
    """Whether there is anything of a run that could go; of one that was refused, what its problems quote."""
    return or_(
        runs.c.problems != "[]",
        select(confirmations.c.seq).where(confirmations.c.run == runs.c.id, confirmations.c.preview != "{}").exists(),
        select(run_parameters.c.run_seq).where(run_parameters.c.run_seq == runs.c.seq).exists(),
        select(run_output.c.run_seq).where(run_output.c.run_seq == runs.c.seq).exists(),
    )


def _purged() -> Any:
    return (
        select(log_entries.c.idx).where(log_entries.c.run == runs.c.id, log_entries.c.type == "output.purged").exists()
    )


def _size() -> Any:
    output = select(func.coalesce(func.sum(func.length(run_output.c.kept)), 0)).where(
        run_output.c.run_seq == runs.c.seq
    )
    masked = select(func.coalesce(func.sum(func.length(run_parameters.c.masked)), 0)).where(
        run_parameters.c.run_seq == runs.c.seq
    )
    return output.scalar_subquery() + masked.scalar_subquery()


def _purge(transaction: Transaction, found: Sequence[_Found], actor: str, why: str) -> list[_Found]:
    """Purge those that nobody purged meanwhile."""
    connection = transaction.connection
    wanted = [one.seq for one in found]
    left = set(connection.execute(select(runs.c.seq).where(runs.c.seq.in_(wanted), ~_purged())).scalars())
    here = [one for one in found if one.seq in left]
    rows, ids = [one.seq for one in here], [one.id for one in here]
    connection.execute(delete(run_output).where(run_output.c.run_seq.in_(rows)))
    connection.execute(delete(run_parameters).where(run_parameters.c.run_seq.in_(rows)))
    _blank(connection, rows, ids)
    facts = [Fact("output.purged", actor, {"run": one.id, "bytes": one.bytes, "why": why}) for one in here]
    transaction.append_all(facts)
    return here


def _blank(connection: Connection, rows: Sequence[int], ids: Sequence[str]) -> None:
    """What other columns quote of parameters and output."""
    said = f"{MARK.zh} / {MARK.en}"
    connection.execute(
        update(runs)
        .where(runs.c.seq.in_(rows))
        .values(
            error=case((runs.c.error.is_(None), null()), else_=literal(said)),
            why=case((runs.c.why.is_(None) & (runs.c.stderr_kept == 0), null()), else_=literal(_MARK_JSON)),
            notes=f"[{_MARK_JSON}]",
            problems=case((runs.c.problems == "[]", runs.c.problems), else_=null()),
        )
    )
    connection.execute(update(confirmations).where(confirmations.c.run.in_(ids)).values(preview="{}"))
    of_runs = select(runs.c.match_id).where(runs.c.seq.in_(rows), runs.c.match_id.is_not(None))
    connection.execute(update(matches).where(matches.c.id.in_(of_runs)).values(intent=""))
