"""Runs: the list, one run, and its kept bytes (contract/http-api.md, The rest)."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from service.domain.runs import ERROR_CHARACTERS, STATES, Run, error_of, method_text, text_of
from service.errors import Conflict, Forbidden, Message, NotFound, RangeNotSatisfiable
from service.store import runs
from service.store.runs import RunFilter
from service.web.answers import definition_of, receipt_of, run_of
from service.web.exporting import FORMATS, export_runs
from service.web.lists import check_names, page, read_choice, read_commit, read_flag, read_text, read_time
from service.web.parts import Parts
from service.web.routing import Answer, Asked, Paged, Pending

_FILTERS: Final = ("tool", "state", "ok", "actor", "commit", "since", "until", "q", "format")
CANCEL_S: Final = 10.0  # that a canceller waits to see it end
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z", re.ASCII | re.IGNORECASE)


def list_runs(parts: Parts, asked: Asked) -> Answer | Paged:
    """Newest first, as far as the actor may see: with `exec` alone its own; with `format` all of them, as a file."""
    check_names(asked, _FILTERS)
    form = read_choice(asked, "format", FORMATS)
    wanted = RunFilter(
        tool=asked.query.get("tool"),
        state=read_choice(asked, "state", STATES),
        ok=read_flag(asked, "ok"),
        actor=asked.query.get("actor"),
        commit=read_commit(asked),
        since=read_time(asked, "since"),
        until=read_time(asked, "until"),
        q=read_text(asked, "q"),
        own=None if asked.actor.may("read") else asked.actor.name,
        patterns=asked.actor.tools,
    )
    if form is not None:
        return export_runs(parts, asked, wanted, partial(item_of, parts))
    with parts.database.read() as connection:
        shown = page(
            asked,
            lambda before, limit: runs.listed(connection, wanted, before=before, limit=limit),
            lambda row: int(row["seq"]),
            partial(item_of, parts),
        )
    return Answer(shown)


def show_run(parts: Parts, asked: Asked) -> Answer:
    """One run in full: parameters as kept, output, the definition that ran."""
    run = visible(parts, asked)
    with parts.database.read() as connection:
        parameters = runs.masked_parameters(connection, run.seq)
    nothing = ("", True)
    output = nothing if run.outcome is None else text_of(run.outcome.stdout)
    stderr = nothing if run.outcome is None else text_of(run.outcome.stderr)
    return Answer(
        run_of(parts, run, output, stderr)
        | item_of_run(parts, run, stderr[0])
        | {
            "params": parameters,
            "params_digest": run.params_digest,
            "output": output[0],
            "definition": definition_of(run.version),
            "intent": run.version.definition.intent,
            "node": run.node,
            "problems": list(run.problems),
        }
    )


def show_stdout(parts: Parts, asked: Asked) -> Answer:
    """The kept bytes of standard output, exactly."""
    return _bytes(parts, asked, "stdout")


def show_stderr(parts: Parts, asked: Asked) -> Answer:
    """The kept bytes of standard error, exactly."""
    return _bytes(parts, asked, "stderr")


def cancel(parts: Parts, asked: Asked) -> Answer | Pending:
    """Ask a run to end, its whole process tree; answers with the run once that is recorded. 409 when it is over.

    One's own, or with `admin` any of the tools that the actor sees, whether or not it may read runs.
    """
    run = visible(parts, asked, ends_it=True)
    if run.actor != asked.actor.name and not asked.actor.may("admin"):
        raise Forbidden(
            Message("只能取消自己的运行（admin 可取消任何运行）。", "Only one's own runs; admin may cancel any.")
        )
    ongoing = parts.execution.turns.under_way(run.id)
    if not parts.execution.cancel(run.id, asked.actor):
        raise Conflict(Message("运行已经结束。", "The run is over."), code="run-over")
    if ongoing is None:
        return _cancelled(parts, asked)
    told = partial(_cancelled, parts, asked)
    return Pending(ongoing.ended, CANCEL_S, answer=lambda _: told(), late=told)


def _cancelled(parts: Parts, asked: Asked) -> Answer:
    """The list's item; what the tool said only for who may read it."""
    run = visible(parts, asked, ends_it=True)
    stderr = "" if run.outcome is None else text_of(run.outcome.stderr)[0]
    item = item_of_run(parts, run, stderr)
    reads = asked.actor.may("read") or run.actor == asked.actor.name
    error = item["error"] if reads else None
    return Answer(item | {"error": None if error is None else error[:ERROR_CHARACTERS]})


def visible(parts: Parts, asked: Asked, *, ends_it: bool = False) -> Run:
    """The run that the path names, if this actor may see it (`ends_it`: or end it); else it does not exist."""
    with parts.database.read() as connection:
        run = runs.run(connection, asked.path["id"])
    actor = asked.actor
    may = actor.may("read") or (ends_it and actor.may("admin"))
    if run is None or not actor.sees(run.version.tool) or not (may or run.actor == actor.name):
        raise NotFound(Message("没有这次运行。", "There is no such run."), code="unknown-run")
    return run


def item_of(parts: Parts, row: Mapping[str, Any]) -> dict[str, Any]:
    """An item of the list of runs, from its row."""
    leaf = row["end_leaf"]
    index = row["end_index"]
    receipt = None if leaf is None else {"index": index, "leaf": leaf.hex(), "checkpoint": parts.checkpoint(index)}
    return {
        "id": row["id"],
        "state": row["state"],
        "reason": row["reason"],
        "ok": row["state"] == "succeeded",
        "tool": row["tool"],
        "method": row["method"],
        "version": row["version"],
        "commit": row["commit_id"].hex(),
        "actor": row["actor"],
        "started_at": row["started_at"],
        "ended_at": row["ended_at"],
        "duration_ms": row["duration_ms"],
        "exit_code": row["exit_code"],
        "error": row["error"],
        "output_bytes": row["stdout_bytes"],
        "stderr_bytes": row["stderr_bytes"],
        "match_id": row["match_id"],
        "confirmation_id": row["confirmation_id"],
        "receipt": receipt,
    }


def item_of_run(parts: Parts, run: Run, stderr: str) -> dict[str, Any]:
    """The same item, from the noun; `error` whole."""
    outcome = run.outcome
    return {
        "id": run.id,
        "state": run.state,
        "reason": run.reason,
        "ok": run.ok,
        "tool": run.version.tool,
        "method": method_text(run.version.definition),
        "version": run.version.number,
        "commit": run.version.commit,
        "actor": run.actor,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "duration_ms": outcome.duration_ms if outcome else 0,
        "exit_code": outcome.exit_code if outcome else None,
        "error": error_of(outcome, stderr) if outcome else _refusal(run),
        "output_bytes": outcome.stdout.total if outcome else 0,
        "stderr_bytes": outcome.stderr.total if outcome else 0,
        "match_id": run.match_id,
        "confirmation_id": run.confirmation_id,
        "receipt": receipt_of(parts, run),
    }


def _refusal(run: Run) -> str | None:
    return None if run.refusal is None else f"{run.refusal.zh} / {run.refusal.en}"


def _bytes(parts: Parts, asked: Asked, stream: str) -> Answer:
    run = visible(parts, asked)
    kept = b""
    if run.outcome is not None:
        kept = (run.outcome.stdout if stream == "stdout" else run.outcome.stderr).kept
    headers = {"Accept-Ranges": "bytes", "Content-Disposition": f'attachment; filename="{run.id}.{stream}"'}
    wanted = asked.headers.get("range")
    if wanted is None or not wanted.strip().lower().startswith("bytes"):  # RFC 9110 §14.2: unknown units are ignored
        return Answer(kept, headers=headers, media_type="application/octet-stream")
    first, last = _range(wanted, len(kept))
    headers["Content-Range"] = f"bytes {first}-{last}/{len(kept)}"
    return Answer(kept[first : last + 1], 206, headers, "application/octet-stream")


def _range(wanted: str, size: int) -> tuple[int, int]:
    """One range of RFC 9110 §14.1.2. Raises `range` errors for several, or for one that lies outside."""
    match = _RANGE.match(wanted.strip())
    if match is None or match.groups() == ("", ""):
        raise _unsatisfiable(size)
    start, end = match.groups()
    if start == "":
        first, last = max(0, size - int(end)), size - 1
    else:
        first, last = int(start), min(int(end) if end else size - 1, size - 1)
    if first > last or first >= size:
        raise _unsatisfiable(size)
    return first, last


def _unsatisfiable(size: int) -> RangeNotSatisfiable:
    return RangeNotSatisfiable(
        Message("所要的字节范围不存在。", "There is no such range of bytes."), facts={"size": size}
    )
