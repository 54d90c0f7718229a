"""A run's steps as rows: waiting, started, refused, ended; each in the transaction of its log entry.

Waiting (`queued`, `awaiting_confirmation`) makes a row and no entry: nothing has happened yet (contract/audit.md, Entries).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, delete, insert, update

from service.domain.audit import AuditEntry, Fact
from service.domain.executors import Outcome, Stream
from service.domain.runs import ERROR_CHARACTERS, Commitment, error_of, method_text
from service.domain.tools import ToolVersion
from service.errors import Message
from service.store.database import Transaction, compiled
from service.store.tables import run_output, run_parameters, runs

_FINISHED_COLUMNS: Final = (
    *("state", "reason", "ended_at", "duration_ms", "exit_code", "signal", "status", "error", "why", "totals", "notes"),
    *("stdout_bytes", "stdout_sha256", "stdout_kept", "stderr_bytes", "stderr_sha256", "stderr_kept"),
    *("end_index", "end_leaf"),
)
_STARTED_COLUMNS: Final = ("state", "node", "started_at", "start_index")
_REFUSED_COLUMNS: Final = ("state", "reason", "ended_at", "problems", "why", "error", "end_index", "end_leaf")


def _update(columns: Sequence[str]) -> str:
    return compiled(
        update(runs).where(runs.c.seq == bindparam("row")).values({name: bindparam(name) for name in columns})
    )


_INSERT_RUN: Final = compiled(insert(runs))
_NO_COLUMNS: Final[Mapping[str, None]] = {column.name: None for column in runs.columns}
_INSERT_PARAMETERS: Final = compiled(insert(run_parameters))
_DROP_PARAMETERS: Final = compiled(delete(run_parameters).where(run_parameters.c.run_seq == bindparam("row")))
_INSERT_OUTPUT: Final = compiled(insert(run_output))
_FINISH_RUN: Final = _update(_FINISHED_COLUMNS)
_START_RUN: Final = _update(_STARTED_COLUMNS)
_REFUSE_RUN: Final = _update(_REFUSED_COLUMNS)
_MOVE_RUN: Final = _update(("state",))
_MAX_INTEGER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Asked:
    """What is recorded of a call whatever becomes of it. `key_hash`: of its Idempotency-Key."""

    run_id: str
    version: ToolVersion
    actor: str
    commitment: Commitment
    match_id: str | None = None
    confirmation_id: str | None = None
    key_hash: bytes | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that is durable and has not begun: its row."""

    seq: int
    created_at: str


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that is durable as `started` or `refused`: its row and its entry."""

    seq: int
    id: str
    created_at: str
    entry: AuditEntry


def wait(transaction: Transaction, asked: Asked, state: str) -> Waiting:
    """Write a run that waits: `queued` or `awaiting_confirmation`."""
    seq = _insert(transaction, _new_row(transaction, asked) | {"state": state})
    _insert_parameters(transaction, seq, asked.commitment)
    return Waiting(seq, transaction.now)


def move(transaction: Transaction, seq: int, state: str) -> None:
    """A waiting run waits for something else: one that was approved is `queued`."""
    transaction.cursor.execute(_MOVE_RUN, {"row": seq, "state": state})


def start(transaction: Transaction, asked: Asked, node: str | None, waiting: Waiting | None) -> Begun:
    """Write a run as started, with its parameters' commitment and its entry."""
    entry = transaction.append(Fact("run.started", asked.actor, _started_facts(asked, node)))
    row = {"state": "started", "node": node, "started_at": transaction.now, "start_index": entry.index}
    if waiting is not None:
        transaction.cursor.execute(_START_RUN, {"row": waiting.seq, **row})
        return Begun(waiting.seq, asked.run_id, waiting.created_at, entry)
    seq = _insert(transaction, _new_row(transaction, asked) | row)
    _insert_parameters(transaction, seq, asked.commitment)
    return Begun(seq, asked.run_id, transaction.now, entry)


def refuse(
    transaction: Transaction,
    asked: Asked,
    *,
    code: str,
    message: Message,
    problems: Sequence[Mapping[str, Any]],
    waiting: Waiting | None = None,
) -> Begun:
    """Write a run that never started: why, and of its parameters nothing but the digest (contract/http-api.md)."""
    text = json.dumps(list(problems), ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    facts = {"run": asked.run_id, "tool": asked.version.tool, "code": code, "problems_digest": digest}
    entry = transaction.append(Fact("run.refused", asked.actor, facts))
    row = {
        "state": "refused",
        "reason": code,
        "ended_at": transaction.now,
        "problems": text,
        "why": json.dumps(message, ensure_ascii=False),
        "error": f"{message.zh} / {message.en}"[:ERROR_CHARACTERS],
        "end_index": entry.index,
        "end_leaf": entry.leaf,
    }
    if waiting is not None:
        transaction.cursor.execute(_REFUSE_RUN, {"row": waiting.seq, **row})
        transaction.cursor.execute(_DROP_PARAMETERS, {"row": waiting.seq})
        return Begun(waiting.seq, asked.run_id, waiting.created_at, entry)
    return Begun(_insert(transaction, _new_row(transaction, asked) | row), asked.run_id, transaction.now, entry)


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


def _started_facts(asked: Asked, node: str | None) -> dict[str, Any]:
    version = asked.version
    return {
        "run": asked.run_id,
        "tool": version.tool,
        "version": version.number,
        "commit": version.commit,
        "tree": version.tree,
        "blob": version.blob,
        "sha256": version.sha256,
        "executor": version.definition.executor,
        "node": node,
        "params_digest": asked.commitment.digest.hex(),
        "match": asked.match_id,
        "confirmation": asked.confirmation_id,
        "key_hash": None if asked.key_hash is None else asked.key_hash.hex(),
    }


def _new_row(transaction: Transaction, asked: Asked) -> dict[str, Any]:
    version = asked.version
    return {
        "id": asked.run_id,
        "tool": version.tool,
        "method": method_text(version.definition),
        "version_id": version.id,
        "version": version.number,
        "commit_id": bytes.fromhex(version.commit),
        "actor": asked.actor,
        "created_at": transaction.now,
        "match_id": asked.match_id,
        "confirmation_id": asked.confirmation_id,
        "key_hash": asked.key_hash,
        "duration_ms": 0,
        "stdout_bytes": 0,
        "stdout_kept": 0,
        "stderr_bytes": 0,
        "stderr_kept": 0,
        "params_digest": asked.commitment.digest,
    }


def _insert_parameters(transaction: Transaction, seq: int, commitment: Commitment) -> None:
    row = {"run_seq": seq, "salt": commitment.salt, "masked": commitment.masked}
    transaction.cursor.execute(_INSERT_PARAMETERS, row)


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
