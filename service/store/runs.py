"""Runs as rows are read: one, the lists people see, and what a crash left open (run_steps.py writes them)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, bindparam, func, or_, select

from service.domain.executors import Outcome, Stream
from service.domain.runs import Commitment, Run
from service.domain.tools import ToolVersion
from service.errors import Message
from service.store import tools
from service.store.run_steps import Waiting
from service.store.tables import run_output, run_parameters, runs, tool_versions

_MAX_INTEGER: Final = 2**63 - 1


def unfinished(connection: Connection) -> list[tuple[int, str, str]]:
    """(seq, id, actor) of the runs that started and have no end."""
    where = runs.c.state == "started"
    return [
        (row.seq, row.id, row.actor)
        for row in connection.execute(select(runs.c.seq, runs.c.id, runs.c.actor).where(where))
    ]


def never_started(connection: Connection) -> list[tuple[Waiting, Run]]:
    """The runs that a crash left `queued`: they had not begun."""
    found = connection.execute(select(runs.c.id, runs.c.seq, runs.c.created_at).where(runs.c.state == "queued"))
    waiting = [(row.id, Waiting(row.seq, row.created_at)) for row in found]
    return [(place, _known(connection, run_id)) for run_id, place in waiting]


def _known(connection: Connection, run_id: str) -> Run:
    found = run(connection, run_id)
    assert found is not None
    return found


def commitment(connection: Connection, seq: int) -> Commitment | None:
    """The commitment of a waiting run, as it was made; None once purged."""
    row = connection.execute(
        select(run_parameters.c.salt, run_parameters.c.masked, runs.c.params_digest)
        .join(runs, runs.c.seq == run_parameters.c.run_seq)
        .where(run_parameters.c.run_seq == seq)
    ).first()
    return None if row is None else Commitment(bytes(row.salt), bytes(row.masked), bytes(row.params_digest))


def run(connection: Connection, run_id: str) -> Run | None:
    """One run with its kept output."""
    row = connection.execute(select(runs).where(runs.c.id == run_id)).mappings().first()
    if row is None:
        return None
    version = tools.version_by_id(connection, row["version_id"])
    return run_of(dict(row), version, output(connection, row["seq"]))


def state(connection: Connection, run_id: str) -> str | None:
    """How a run stands; None where there is none."""
    found: str | None = connection.execute(select(runs.c.state).where(runs.c.id == run_id)).scalar()
    return found


def output(connection: Connection, seq: int) -> dict[str, bytes]:
    """The kept bytes by stream; a stream that was purged or empty is not in it."""
    found = connection.execute(select(run_output.c.stream, run_output.c.kept).where(run_output.c.run_seq == seq))
    return {row.stream: bytes(row.kept) for row in found}


def masked_parameters(connection: Connection, seq: int) -> Any:
    """The parameters as kept, secrets masked; None when purged or never kept."""
    masked = connection.execute(select(run_parameters.c.masked).where(run_parameters.c.run_seq == seq)).scalar()
    return None if masked is None else json.loads(masked)


def masked_parameters_of(connection: Connection, run_id: str, *, at_most: int | None = None) -> Any:
    """The same, by the run's id; None too where they are more than `at_most` bytes."""
    found = select(run_parameters.c.masked).join(runs, runs.c.seq == run_parameters.c.run_seq)
    found = found.where(runs.c.id == run_id)
    if at_most is not None:
        found = found.where(func.length(run_parameters.c.masked) <= at_most)
    masked = connection.execute(found).scalar()
    return None if masked is None else json.loads(masked)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What `GET /runs` may ask for; `patterns` are the actor's tools, `own` its name where it sees only its own runs."""

    tool: str | None = None
    state: str | None = None
    ok: bool | None = None
    actor: str | None = None
    commit: str | None = None
    since: str | None = None
    until: str | None = None
    q: str | None = None
    own: str | None = None
    patterns: tuple[str, ...] | None = None


def listed(
    connection: Connection, wanted: RunFilter, *, before: int | None, limit: int, down_to: int | None = None
) -> list[Mapping[str, Any]]:
    """Rows of `runs`, newest first, without output; those from row `down_to` on, where a read has to stay short."""
    conditions = _conditions(connection, wanted)
    if before is not None:
        conditions.append(runs.c.seq < before)
    if down_to is not None:
        conditions.append(runs.c.seq >= down_to)
    statement = select(runs).where(*conditions).order_by(runs.c.seq.desc()).limit(limit)
    return [dict(row) for row in connection.execute(statement).mappings()]


def newest_row(connection: Connection) -> int:
    """The place of the newest run; 0 without any."""
    return int(connection.execute(select(func.max(runs.c.seq))).scalar() or 0)


def run_of(row: Mapping[str, Any], version: ToolVersion, kept: Mapping[str, bytes]) -> Run:
    """The noun behind a row."""
    outcome = None if row["ended_at"] is None or row["state"] == "refused" else _outcome(row, kept)
    return Run(
        seq=row["seq"],
        id=row["id"],
        state=row["state"],
        reason=row["reason"],
        version=version,
        actor=row["actor"],
        node=row["node"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        outcome=outcome,
        params_digest=row["params_digest"].hex(),
        problems=tuple(json.loads(row["problems"])) if row["problems"] else (),
        match_id=row["match_id"],
        confirmation_id=row["confirmation_id"],
        refusal=Message(*json.loads(row["why"])) if row["state"] == "refused" and row["why"] else None,
        key_hash=row["key_hash"],
        start_index=row["start_index"],
        end_index=row["end_index"],
        end_leaf=row["end_leaf"].hex() if row["end_leaf"] else None,
    )


def _outcome(row: Mapping[str, Any], kept: Mapping[str, bytes]) -> Outcome:
    return Outcome(
        state=row["state"],
        stdout=Stream(kept.get("stdout", b""), row["stdout_bytes"], row["stdout_sha256"].hex()),
        stderr=Stream(kept.get("stderr", b""), row["stderr_bytes"], row["stderr_sha256"].hex()),
        duration_ms=row["duration_ms"],
        reason=row["reason"],
        exit_code=row["exit_code"],
        signal=row["signal"],
        status=row["status"],
        why=Message(*json.loads(row["why"])) if row["why"] else None,
        totals=row["totals"],
        notes=tuple(Message(*note) for note in json.loads(row["notes"])) if row["notes"] else (),
    )


def _conditions(connection: Connection, wanted: RunFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    for column, value in (
        ("tool", wanted.tool),
        ("state", wanted.state),
        ("actor", wanted.actor),
        ("actor", wanted.own),
    ):
        if value is not None:
            found.append(runs.c[column] == value)
    if wanted.ok is not None:
        found.append((runs.c.state == "succeeded") if wanted.ok else (runs.c.state != "succeeded"))
    if wanted.commit is not None:
        found.append(_commit_starts(wanted.commit))
    found += _between(connection, wanted)
    if wanted.q is not None:
        found.append(_says(wanted.q))
    if wanted.patterns is not None:
        found.append(or_(*(runs.c.tool.op("GLOB")(pattern) for pattern in wanted.patterns)))
    return found


def _commit_starts(prefix: str) -> ColumnElement[bool]:
    low = bytes.fromhex(prefix.ljust(40, "0"))
    high = bytes.fromhex(prefix.ljust(40, "f"))
    return runs.c.commit_id.between(low, high)


def _between(connection: Connection, wanted: RunFilter) -> list[ColumnElement[bool]]:
    """Times as bounds of the row number too, so that the newest-first order needs no sort (facts/performance.md, 3)."""
    found: list[ColumnElement[bool]] = []
    if wanted.since is not None:
        first = select(runs.c.seq).where(runs.c.created_at >= wanted.since).order_by(runs.c.created_at, runs.c.seq)
        bound = connection.execute(first.limit(1)).scalar()
        found += [runs.c.created_at >= wanted.since, runs.c.seq >= (bound if bound is not None else _MAX_INTEGER)]
    if wanted.until is not None:
        last = select(runs.c.seq).where(runs.c.created_at < wanted.until)
        bound = connection.execute(last.order_by(runs.c.created_at.desc(), runs.c.seq.desc()).limit(1)).scalar()
        found += [runs.c.created_at < wanted.until, runs.c.seq <= (bound if bound is not None else -1)]
    return found


def _says(text: str) -> ColumnElement[bool]:
    like = "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    by_intent = select(tool_versions.c.id).where(
        func.json_extract(tool_versions.c.definition, "$.intent").like(bindparam("said"), escape="\\")
    )
    return or_(
        runs.c.tool.like(like, escape="\\"),
        runs.c.error.like(like, escape="\\"),
        runs.c.version_id.in_(by_intent.params(said=like)),
    )
