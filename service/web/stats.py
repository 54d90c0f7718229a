"""What the overview shows: runs by state and time, how long tools take, what waits, the last look (contract/http-api.md)."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from service.domain.times import now, rfc3339
from service.store import stats
from service.store.stats import DAY, HOUR, Span
from service.web.lists import check_names, read_choice, read_time, unfit
from service.web.operations import readyz
from service.web.parts import Parts
from service.web.routing import Answer, Asked

MOST_TOOLS: Final = 100
_WIDTH: Final = {"hour": HOUR, "day": DAY}
_STEP: Final = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
_USUAL: Final = {"hour": timedelta(days=1), "day": timedelta(days=30)}
_LONGEST: Final = {"hour": timedelta(days=8), "day": timedelta(days=3660)}


def show_stats(parts: Parts, asked: Asked) -> Answer:
    """Counts of runs made in [since, until): 24 hours by the hour, or 30 days by the day, unless asked otherwise.

    Where `by` is left out, more than eight days are counted by the day.
    """
    check_names(asked, ("since", "until", "by", "tool"))
    by, span = _span(asked, read_choice(asked, "by", ("hour", "day")))
    with parts.database.read() as connection:
        counted = stats.by_time(connection, span, _WIDTH[by])
        durations = stats.durations(connection, span)
        waiting = stats.open_now(connection, asked.actor.tools)
    return Answer(
        {
            "since": span.since,
            "until": span.until,
            "by": by,
            "states": _sum((state, count) for _, state, count in counted),
            "times": _times(span, by, counted),
            "tools": _tools(durations),
            "waiting": waiting,
            "sync": readyz(parts, asked).content["parts"]["repository"],
        }
    )


def _span(asked: Asked, by: str | None) -> tuple[str, Span]:
    until = read_time(asked, "until") or now()
    since = read_time(asked, "since") or rfc3339((_moment(until) - _USUAL[by or "hour"]).timestamp())
    length = _moment(until) - _moment(since)
    by = by or ("hour" if length <= _LONGEST["hour"] else "day")
    if length > _LONGEST[by]:
        days = _LONGEST[by].days
        raise unfit("since", f"by={by} 最多 {days} 天。", f"by={by} takes {days} days at most.")
    return by, Span(since, until, asked.query.get("tool"), asked.actor.tools)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _sum(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for state, count in pairs:
        counts[state] += count
    return dict(counts)


def _times(span: Span, by: str, counted: Sequence[tuple[str, str, int]]) -> list[dict[str, Any]]:
    """One for each hour or day, those without runs too; `at` is its beginning."""
    width = _WIDTH[by]
    found = {moment: list(rows) for moment, rows in itertools.groupby(counted, key=lambda row: row[0])}
    start = datetime.fromisoformat(span.since).replace(minute=0, second=0, microsecond=0)
    at = start if by == "hour" else start.replace(hour=0)
    shown = []
    while rfc3339(at.timestamp()) < span.until:
        moment = rfc3339(at.timestamp())
        shown.append({"at": moment, "states": _sum((row[1], row[2]) for row in found.get(moment[:width], ()))})
        at += _STEP[by]
    return shown


def _tools(durations: Sequence[tuple[str, bool, int, int]]) -> list[dict[str, Any]]:
    """Those with the most runs first."""
    shown = []
    for tool, group in itertools.groupby(durations, key=lambda row: row[0]):
        rows = [(milliseconds, count, well) for _, well, milliseconds, count in group]
        rows.sort()
        total = sum(count for _, count, _ in rows)
        failed = sum(count for _, count, well in rows if not well)
        shown.append(
            {"tool": tool, "runs": total, "failed": failed, "p50_ms": _at(rows, 0.5), "p95_ms": _at(rows, 0.95)}
        )
    shown.sort(key=lambda item: (-item["runs"], item["tool"]))
    return shown[:MOST_TOOLS]


def _at(rows: Sequence[tuple[int, int, bool]], part: float) -> int:
    """The smallest duration that this part of the runs did not exceed."""
    total = sum(count for _, count, _ in rows)
    seen = 0
    for milliseconds, count, _ in rows:
        seen += count
        if seen >= total * part:
            return milliseconds
    return rows[-1][0]
