"""Counts over runs: by state and time, and how long each tool takes. One pass over the asked-for time, by index."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, case, func, or_, select

from service.domain.runs import OPEN
from service.store.tables import runs

HOUR: Final = 13
DAY: Final = 10  # characters of an RFC 3339 time that name its day; its hour has 13
MOST: Final = 100_000
_STEPS: Final = tuple(10**digits for digits in range(1, 9))


@dataclass(frozen=True, slots=True)
class Span:
    """Which runs are counted: made in [since, until), of one tool or of those that the patterns show."""

    since: str
    until: str
    tool: str | None = None
    patterns: Sequence[str] | None = None


def by_time(connection: Connection, span: Span, width: int) -> list[tuple[str, str, int]]:
    """(hour or day, state, how many), oldest first."""
    moment = func.substr(runs.c.created_at, 1, width)
    statement = select(moment, runs.c.state, func.count()).group_by(moment, runs.c.state).order_by(moment)
    return [(row[0], row[1], row[2]) for row in connection.execute(_within(statement, span))]


def durations(connection: Connection, span: Span) -> list[tuple[str, bool, int, int]]:
    """(tool, whether well, milliseconds, how many) of runs that ended, by tool and duration; of the newest MOST runs.

    Durations from a second on are rounded down to three digits, so that many runs make few rows: off by 1 % at most.
    """
    # `not_in`: an index over states would lead away from the one over time.
    ended = select(runs.c.tool, runs.c.state, runs.c.duration_ms).where(runs.c.state.not_in(("refused", *OPEN)))
    newest = _within(ended, span).order_by(runs.c.created_at.desc()).limit(MOST).subquery()
    well, rounded = newest.c.state == "succeeded", _three_digits(newest.c.duration_ms)
    statement = (
        select(newest.c.tool, well, rounded, func.count())
        .group_by(newest.c.tool, well, rounded)
        .order_by(newest.c.tool, rounded)
    )
    return [(row[0], bool(row[1]), int(row[2]), row[3]) for row in connection.execute(statement)]


def open_now(connection: Connection, patterns: Sequence[str] | None) -> dict[str, int]:
    """How many runs are queued, started or wait for a yes at this moment."""
    statement = select(runs.c.state, func.count()).where(runs.c.state.in_(OPEN))
    if patterns is not None:
        statement = statement.where(or_(*(runs.c.tool.op("GLOB")(pattern) for pattern in patterns)))
    return {row[0]: row[1] for row in connection.execute(statement.group_by(runs.c.state))}


def _within(statement: Select[Any], span: Span) -> Select[Any]:
    statement = statement.where(runs.c.created_at >= span.since, runs.c.created_at < span.until)
    if span.tool is not None:
        statement = statement.where(runs.c.tool == span.tool)
    if span.patterns is not None:
        statement = statement.where(or_(*(runs.c.tool.op("GLOB")(pattern) for pattern in span.patterns)))
    return statement


def _three_digits(milliseconds: ColumnElement[int]) -> ColumnElement[int]:
    steps = [(milliseconds < 1000 * step, milliseconds // step * step) for step in _STEPS]
    return case((milliseconds < 1000, milliseconds), *steps, else_=milliseconds)
