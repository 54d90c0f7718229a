"""Matches and what they taught, as rows: what was asked and answered, and the intents learned for each tool."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, exists, func, insert, select, text, update

from service.domain.audit import SYSTEM, Fact
from service.domain.search.learned import LearnedIntent, kept
from service.domain.times import later
from service.store.database import Transaction, compiled
from service.store.tables import learned_intents, log_entries, matches, runs

KEEP_DAYS: Final = 30  # of matches; a `match_id` older than this is unknown
KEEP_ROWS: Final = 100_000
_PRUNE_EVERY: Final = 256
AGAIN_S: Final = 86_400.0  # the same wording accepted again within a day is no news, and no entry of the log
RECENT_RUNS: Final = 5_000  # among which a start looks for lessons that a crash kept from being written

_INSERT_MATCH: Final = compiled(insert(matches))
_FIND_MATCH: Final = compiled(select(matches.c.actor).where(matches.c.id == bindparam("id")))
_ENDS: Final = ("definition.removed", "definition.orphaned")


@dataclass(frozen=True, slots=True)
class Asked:
    """An answered intent. `intent`: what of its text may be kept; `tools`: the candidates, or the nearest."""

    id: str
    actor: str
    intent: str
    found: bool
    tools: tuple[str, ...]
    at: str = ""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A run that ended well and the match that it followed; `ground`: what the tool was then."""

    match: str
    run: str
    tool: str
    actor: str
    ground: str
    start_index: int


@dataclass(frozen=True, slots=True)
class Learned:
    """A learned intent as kept."""

    id: int
    tool: str
    run: str
    index: int
    intent: LearnedIntent


# Matches.


def record(transaction: Transaction, asked: Asked) -> None:
    """Write an answered intent; now and then what is too old or too much leaves."""
    row = {
        "seq": None,
        "id": asked.id,
        "actor": asked.actor,
        "at": transaction.now,
        "intent": asked.intent,
        "found": asked.found,
        "candidates": json.dumps(asked.tools),
        "taken": None,
    }
    transaction.cursor.execute(_INSERT_MATCH, row)
    if (seq := int(transaction.cursor.lastrowid or 0)) % _PRUNE_EVERY == 0:
        oldest = later(transaction.now, -86_400.0 * KEEP_DAYS)
        transaction.connection.execute(delete(matches).where(matches.c.seq <= seq - KEEP_ROWS))
        transaction.connection.execute(delete(matches).where(matches.c.at < oldest, matches.c.seq < seq))


def actor_of(rows: Sequence[Any]) -> str | None:
    """Whose match it was, from what `FIND` found; None where there is none."""
    return str(rows[0][0]) if rows else None


FIND: Final = _FIND_MATCH  # whose match: for what each exact call with a `match_id` asks (Database.fetch)


def missed(connection: Connection, *, actor: str | None, most: int) -> list[Asked]:
    """The newest intents that found nothing, newest first; of one actor where it is given."""
    where = [matches.c.found.is_(False), matches.c.intent != ""]
    if actor is not None:
        where.append(matches.c.actor == actor)
    statement = select(matches).where(*where).order_by(matches.c.seq.desc()).limit(most)
    return [_asked(row) for row in connection.execute(statement)]


def _asked(row: Row[Any]) -> Asked:
    return Asked(row.id, row.actor, row.intent, row.found, tuple(json.loads(row.candidates)), row.at)


# Lessons.


def teach(transaction: Transaction, lesson: Lesson) -> bool:
    """Learn from a run that followed a match; whether anything changed.

    Nothing is learned where the match is gone or another's, or where the tool was removed since the run began.
    """
    connection = transaction.connection
    found = connection.execute(select(matches).where(matches.c.id == lesson.match)).first()
    if found is None or found.actor != lesson.actor:
        return False
    connection.execute(update(matches).where(matches.c.id == lesson.match).values(taken=lesson.tool))
    ended_since = _ended_since(connection, lesson.tool, lesson.start_index)
    if found.intent == "" or ended_since or _came_back(connection, lesson.tool, lesson.run):
        return False
    if _is_no_news(connection, lesson, found.intent, transaction.now):
        return False
    digest = sha256(found.intent.encode()).hexdigest()
    facts = {"tool": lesson.tool, "run": lesson.run, "match": lesson.match, "digest": digest}
    entry = transaction.append(Fact("intent.learned", lesson.actor, facts))
    connection.execute(delete(learned_intents).where(*_same(lesson, found.intent)))
    connection.execute(
        insert(learned_intents).values(
            tool=lesson.tool,
            meaning=bytes.fromhex(lesson.ground),
            intent=found.intent,
            actor=lesson.actor,
            run=lesson.run,
            learned_at=transaction.now,
            learn_index=entry.index,
        )
    )
    everything = of_tool(connection, lesson.tool)
    keep = kept(one.intent for one in everything)
    forget(transaction, [one for one in everything if one.intent not in keep], "replaced", SYSTEM)
    return True


def _same(lesson: Lesson, intent: str) -> tuple[Any, ...]:
    columns = learned_intents.c
    return columns.tool == lesson.tool, columns.intent == intent, columns.actor == lesson.actor


def _is_no_news(connection: Connection, lesson: Lesson, intent: str, now: str) -> bool:
    columns = learned_intents.c
    young = (columns.meaning == bytes.fromhex(lesson.ground), columns.learned_at > later(now, -AGAIN_S))
    return bool(connection.execute(select(exists().where(*_same(lesson, intent), *young))).scalar())


def _ended_since(connection: Connection, tool: str, index: int) -> bool:
    """Whether the tool was removed or orphaned after this entry, whatever came back under its name (cases.md I1)."""
    entries = log_entries.c
    where = (entries.tool == tool, entries.idx > index, entries.type.in_(_ENDS))
    return bool(connection.execute(select(exists().where(*where))).scalar())


def everything_learned(connection: Connection) -> list[Learned]:
    """All learned intents, oldest first: at most 30 a tool."""
    return [_learned(row) for row in connection.execute(select(learned_intents).order_by(learned_intents.c.seq))]


def of_tool(connection: Connection, tool: str) -> list[Learned]:
    """What one tool has learned, newest first."""
    where = learned_intents.c.tool == tool
    statement = select(learned_intents).where(where).order_by(learned_intents.c.seq.desc())
    return [_learned(row) for row in connection.execute(statement)]


def _learned(row: Row[Any]) -> Learned:
    moment = datetime.fromisoformat(row.learned_at)
    intent = LearnedIntent(row.intent, row.actor, moment, bytes(row.meaning).hex())
    return Learned(row.seq, row.tool, row.run, row.learn_index, intent)


def forget(transaction: Transaction, gone: Iterable[Learned], why: str, actor: str) -> None:
    """Delete learned intents, with an entry for each tool. `why`: removed, changed, replaced, or asked by an admin."""
    by_tool: dict[str, list[Learned]] = {}
    for one in gone:
        by_tool.setdefault(one.tool, []).append(one)
    for tool, found in by_tool.items():
        digests = [sha256(one.intent.text.encode()).hexdigest() for one in found]
        transaction.append(Fact("intent.forgotten", actor, {"tool": tool, "digests": digests, "reason": why}))
        seqs = [one.id for one in found]
        transaction.connection.execute(delete(learned_intents).where(learned_intents.c.seq.in_(seqs)))


# Whether the folder was gone at a commit between the version that a run ran and the one that is active: a name that was
# removed and came back in one look leaves no other trace. Commits are kept parents first.
_CAME_BACK: Final = text("""
    SELECT EXISTS (
        SELECT 1 FROM runs
        JOIN tool_versions AS ran ON ran.id = runs.version_id JOIN commits AS before ON before.id = ran.commit_id
        JOIN tools ON tools.name = runs.tool
        JOIN tool_versions AS active ON active.id = tools.version_id JOIN commits AS after ON after.id = active.commit_id
        JOIN commits AS between_them ON between_them.seq > before.seq AND between_them.seq < after.seq
        JOIN folder_changes AS changes ON changes.commit_id = between_them.id AND changes.folder = :folder
        WHERE runs.id = :run AND active.id <> ran.id AND changes.tree IS NULL
    )
""")


def _came_back(connection: Connection, tool: str, run: str) -> bool:
    return bool(connection.execute(_CAME_BACK, {"folder": tool.encode(), "run": run}).scalar())


def ended(
    connection: Connection, grounds: Mapping[str, str], fresh: Collection[str] | None
) -> dict[str, list[Learned]]:
    """What no longer holds, by why: `removed`, or `changed`.

    `grounds`: what each active tool does now, by name. `fresh`: tools that changed since this was asked last; None: any may
    have.
    """
    entries = log_entries.c
    since = (entries.tool == learned_intents.c.tool, entries.idx > learned_intents.c.learn_index)
    gone = exists().where(*since, entries.type.in_(_ENDS)).label("gone")
    found: dict[str, list[Learned]] = {"removed": [], "changed": []}
    for row in connection.execute(select(learned_intents, gone)).all():
        one = _learned(row)
        if row.gone or one.tool not in grounds:
            found["removed"].append(one)
        elif one.intent.ground != grounds[one.tool]:
            found["changed"].append(one)
        elif (fresh is None or one.tool in fresh) and _came_back(connection, one.tool, one.run):
            found["removed"].append(one)
    return found


def forget_ended(transaction: Transaction, grounds: Mapping[str, str], fresh: Collection[str] | None) -> None:
    """Forget what no longer holds; parameters as `ended` has them."""
    for why, found in ended(transaction.connection, grounds, fresh).items():
        forget(transaction, found, why, SYSTEM)


def left_untaught(connection: Connection) -> list[tuple[str, str, str, str, int, int]]:
    """Runs that named their match and ended well, and whose lesson a crash kept from being written.

    (match, run, tool, actor, version's id, index of its start), of the newest runs, oldest first.
    """
    newest = connection.execute(select(func.max(runs.c.seq))).scalar() or 0
    statement = (
        select(runs.c.match_id, runs.c.id, runs.c.tool, runs.c.actor, runs.c.version_id, runs.c.start_index)
        .join(matches, matches.c.id == runs.c.match_id)
        .where(runs.c.seq > newest - RECENT_RUNS, runs.c.state == "succeeded", matches.c.taken.is_(None))
        .order_by(runs.c.seq)
    )
    return [tuple(row) for row in connection.execute(statement)]
