"""Runs as rows: two writes a run, each in the transaction of its log entry; and the lists people read."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, bindparam, func, insert, or_, select, update

from service.domain.audit import AuditEntry, Fact
from service.domain.executors import Outcome, Stream
from service.domain.runs import ERROR_CHARACTERS, Commitment, Run, error_of, method_text
from service.domain.tools import ToolVersion
from service.errors import Message
from service.store import tools
from service.store.database import Transaction, compiled
from service.store.tables import run_output, run_parameters, runs, tool_versions

_FINISHED_COLUMNS: Final = (
    *("state", "reason", "ended_at", "duration_ms", "exit_code", "signal", "status", "error", "why", "totals", "notes"),
    *("stdout_bytes", "stdout_sha256", "stdout_kept", "stderr_bytes", "stderr_sha256", "stderr_kept"),
    *("end_index", "end_leaf"),
)
_INSERT_RUN: Final = compiled(insert(runs))
_NO_COLUMNS: Final[Mapping[str, None]] = {column.name: None for column in runs.columns}
_INSERT_PARAMETERS: Final = compiled(insert(run_parameters))
_INSERT_OUTPUT: Final = compiled(insert(run_output))
_FINISH_RUN: Final = compiled(
    update(runs).where(runs.c.seq == bindparam("row")).values({name: bindparam(name) for name in _FINISHED_COLUMNS})
)
_MAX_INTEGER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that is durable as `started`: its row and its entry."""

    seq: int
    id: str
    created_at: str
    entry: AuditEntry


def start(
    transaction: Transaction,
    *,
    run_id: str,
    version: ToolVersion,
    actor: str,
    node: str | None,
    commitment: Commitment,
    match_id: str | None,
) -> Begun:
    """Write a run as started, with its parameters' commitment and its entry."""
    entry = transaction.append(
        Fact(
            "run.started",
            actor,
            {
                "run": run_id,
                "tool": version.tool,
                "version": version.number,
                "commit": version.commit,
                "tree": version.tree,
                "blob": version.blob,
                "sha256": version.sha256,
                "executor": version.definition.executor,
                "node": node,
                "params_digest": commitment.digest.hex(),
                "match": match_id,
                "confirmation": None,
                "key_hash": None,
            },
        )
    )
    row = _new_row(transaction, run_id, version, actor, commitment.digest) | {
        "state": "started",
        "node": node,
        "started_at": transaction.now,
        "match_id": match_id,
        "start_index": entry.index,
    }
    seq = _insert(transaction, row)
    transaction.cursor.execute(
        _INSERT_PARAMETERS, {"run_seq": seq, "salt": commitment.salt, "masked": commitment.masked}
    )
    return Begun(seq, run_id, transaction.now, entry)


def refuse(
    transaction: Transaction,
    *,
    run_id: str,
    version: ToolVersion,
    actor: str,
    digest: bytes,
    code: str,
    problems: Sequence[Mapping[str, Any]],
    match_id: str | None,
) -> tuple[Begun, str]:
    """Write a run that never started: a digest and the problems, nothing of the parameters. Answers with the problems' text."""
    text = json.dumps(list(problems), ensure_ascii=False, separators=(",", ":"))
    entry = transaction.append(
        Fact(
            "run.refused",
            actor,
            {
                "run": run_id,
                "tool": version.tool,
                "code": code,
                "problems_digest": hashlib.sha256(text.encode()).hexdigest(),
            },
        )
    )
    row = _new_row(transaction, run_id, version, actor, digest) | {
        "state": "refused",
        "reason": code,
        "ended_at": transaction.now,
        "problems": text,
        "match_id": match_id,
        "end_index": entry.index,
        "end_leaf": entry.leaf,
    }
    return Begun(_insert(transaction, row), run_id, transaction.now, entry), text


def finish(transaction: Transaction, begun_seq: int, run_id: str, actor: str, outcome: Outcome) -> AuditEntry:
    """Write how a run ended: its receipt and its entry."""
    entry = transaction.append(
        Fact(
            "run.finished",
            actor,
            {
                "run": run_id,
                "state": outcome.state,
                "reason": outcome.reason,
                "exit_code": _number(outcome.exit_code),
                "status": _number(outcome.status),
                "duration_ms": outcome.duration_ms,
                "stdout": _stream_facts(outcome.stdout),
                "stderr": _stream_facts(outcome.stderr),
            },
        )
    )
    error = error_of(outcome)
    transaction.cursor.execute(
        _FINISH_RUN,
        {
            "row": begun_seq,
            "state": outcome.state,
            "reason": outcome.reason,
            "ended_at": transaction.now,
            "duration_ms": outcome.duration_ms,
            "exit_code": outcome.exit_code,
            "signal": outcome.signal,
            "status": outcome.status,
            "error": None if error is None else error[:ERROR_CHARACTERS],
            "why": None if outcome.why is None else json.dumps(outcome.why, ensure_ascii=False),
            "totals": outcome.totals,
            "notes": json.dumps(outcome.notes, ensure_ascii=False) if outcome.notes else None,
            "stdout_bytes": outcome.stdout.total,
            "stdout_sha256": bytes.fromhex(outcome.stdout.sha256),
            "stdout_kept": len(outcome.stdout.kept),
            "stderr_bytes": outcome.stderr.total,
            "stderr_sha256": bytes.fromhex(outcome.stderr.sha256),
            "stderr_kept": len(outcome.stderr.kept),
            "end_index": entry.index,
            "end_leaf": entry.leaf,
        },
    )
    streams = (("stdout", outcome.stdout), ("stderr", outcome.stderr))
    kept = [{"run_seq": begun_seq, "stream": name, "kept": stream.kept} for name, stream in streams if stream.kept]
    if kept:
        transaction.cursor.executemany(_INSERT_OUTPUT, kept)
    return entry


def unfinished(connection: Connection) -> list[tuple[int, str, str]]:
    """(seq, id, actor) of the runs that started and have no end."""
    where = runs.c.state == "started"
    return [
        (row.seq, row.id, row.actor)
        for row in connection.execute(select(runs.c.seq, runs.c.id, runs.c.actor).where(where))
    ]


def run(connection: Connection, run_id: str) -> Run | None:
    """One run with its kept output."""
    row = connection.execute(select(runs).where(runs.c.id == run_id)).mappings().first()
    if row is None:
        return None
    version = tools.version_by_id(connection, row["version_id"])
    return run_of(dict(row), version, output(connection, row["seq"]))


def output(connection: Connection, seq: int) -> dict[str, bytes]:
    """The kept bytes by stream; a stream that was purged or empty is not in it."""
    found = connection.execute(select(run_output.c.stream, run_output.c.kept).where(run_output.c.run_seq == seq))
    return {row.stream: bytes(row.kept) for row in found}


def masked_parameters(connection: Connection, seq: int) -> Any:
    """The parameters as kept, secrets masked; None when purged or never kept."""
    masked = connection.execute(select(run_parameters.c.masked).where(run_parameters.c.run_seq == seq)).scalar()
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


def listed(connection: Connection, wanted: RunFilter, *, before: int | None, limit: int) -> list[Mapping[str, Any]]:
    """Rows of `runs`, newest first, without output."""
    conditions = _conditions(connection, wanted)
    if before is not None:
        conditions.append(runs.c.seq < before)
    statement = select(runs).where(*conditions).order_by(runs.c.seq.desc()).limit(limit)
    return [dict(row) for row in connection.execute(statement).mappings()]


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


def _new_row(transaction: Transaction, run_id: str, version: ToolVersion, actor: str, digest: bytes) -> dict[str, Any]:
    return {
        "id": run_id,
        "tool": version.tool,
        "method": method_text(version.definition),
        "version_id": version.id,
        "version": version.number,
        "commit_id": bytes.fromhex(version.commit),
        "actor": actor,
        "created_at": transaction.now,
        "duration_ms": 0,
        "stdout_bytes": 0,
        "stdout_kept": 0,
        "stderr_bytes": 0,
        "stderr_kept": 0,
        "params_digest": digest,
    }


def _insert(transaction: Transaction, row: Mapping[str, Any]) -> int:
    transaction.cursor.execute(_INSERT_RUN, {**_NO_COLUMNS, **row})
    return int(transaction.cursor.lastrowid or 0)


def _stream_facts(stream: Stream) -> dict[str, Any]:
    return {
        "bytes": stream.total,
        "sha256": stream.sha256,
        "kept": len(stream.kept),
        "kept_sha256": stream.sha256 if not stream.truncated else hashlib.sha256(stream.kept).hexdigest(),
    }


def _number(value: int | None) -> int | str | None:
    return value if value is None or -_MAX_INTEGER <= value <= _MAX_INTEGER else str(value)


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
