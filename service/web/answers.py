"""How a call stands, as `/exec` answers it: the seed's six fields first, then what was run and what proves it.

Shapes as contract/http-api.md, `POST /exec`.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

from service.domain.confirmations import Confirmation
from service.domain.executors import Outcome
from service.domain.runs import CODES, ENDED, Run, error_of, method_text, text_of
from service.domain.tools import ToolVersion
from service.errors import Message
from service.execution.execute import Stand
from service.execution.ongoing import Ongoing
from service.store import tools
from service.web.parts import Parts
from service.web.routing import Answer, Pending

MESSAGES: Final[Mapping[str, Message]] = {
    "failed": Message("工具运行失败，原因见 error。", "The tool failed; error says why."),
    "timed-out": Message("超过时限，已终止。", "It ran past its time limit and was ended."),
    "cancelled": Message("已取消。", "It was cancelled."),
    "interrupted": Message(
        "服务在运行期间中断，结果未知。", "The service ended while it ran; what came of it is not known."
    ),
    "unknown": Message(
        "远端可能已经执行，但没有收到可理解的回答；不会重试。",
        "The far side may have acted, and no answer that can be understood came; it is not tried again.",
    ),
}


# What a refused run's caller is told; 409 for all others.
_REFUSED_STATUS: Final[Mapping[str, int]] = {
    "bad-parameters": 422,
    "busy": 429,
    "internal": 500,
    "cannot-record": 503,
    "not-available": 503,
    "shutdown": 503,
    "crash": 503,
}
_TOLD: Final = {"shutdown": "not-available", "crash": "not-available"}  # why it never ran, in the table's words
_ACCEPTED: Final = Message("已接受，仍在进行。", "Accepted; it goes on.")
_NEEDS: Final = Message(
    "这个工具需要确认后才执行。", "The tool runs once it is confirmed: POST /api/v1/confirmations/{id}."
)


def answer_of(parts: Parts, stand: Stand, *, wait: bool) -> Answer | Pending:
    """How a call stands, told at once, or once it ended where the caller waits."""
    if isinstance(stand, Confirmation):
        return _asks(parts, stand)
    if isinstance(stand, Run):
        return told(parts, stand)
    if not wait:
        return _accepted(stand)
    return Pending(stand.ended, parts.max_wait_s, answer=lambda run: told(parts, run), late=lambda: _accepted(stand))


def told(parts: Parts, run: Run) -> Answer:
    """A run as recorded: ended, refused, or going on where nobody here knows more."""
    if run.state == "refused":
        return _refused(parts, run)
    if run.state in ENDED:
        return Answer(ended(parts, run))
    return Answer(_going_on(run.version, run.id, run.state), 202)


def _accepted(ongoing: Ongoing) -> Answer:
    return Answer(_going_on(ongoing.version, ongoing.run_id, ongoing.state), 202)


def _going_on(version: ToolVersion, run_id: str, state: str) -> dict[str, Any]:
    shape = six(version.tool, version, None) | {"found": True, "definition": definition_of(version)}
    shape["run"] = {"id": run_id, "state": state, "reason": None, **NO_OUTCOME}
    return shape | {"receipt": None, "code": "accepted", "message": _ACCEPTED.as_json()}


def _asks(parts: Parts, asked: Confirmation) -> Answer:
    """Waiting for a yes, or how that ended."""
    with parts.database.read() as connection:
        version = tools.version_by_id(connection, asked.version_id)
    shape = six(asked.tool, version, None) | {"found": True, "definition": definition_of(version)}
    shape["run"] = {"id": asked.run, "state": "awaiting_confirmation", "reason": None, **NO_OUTCOME}
    shape |= {"receipt": None, "code": "needs-confirmation", "message": _NEEDS.as_json()}
    shape["confirmation"] = {
        "id": asked.id,
        "expires_at": asked.expires_at,
        "tool": asked.tool,
        "version": asked.version,
        "commit": asked.commit,
        "sha256": asked.sha256,
        "params_digest": asked.params_digest,
        "display": version.definition.display,
        "why": version.definition.why,
        "preview": asked.preview,
    }
    return Answer(shape, 202)


def _refused(parts: Parts, run: Run) -> Answer:
    code, message = run.reason or "refused", run.refusal or _REFUSED
    status = _REFUSED_STATUS.get(code, 409)
    shape = six(run.version.tool, run.version, message) | {"found": True, "definition": definition_of(run.version)}
    shape["run"] = {"id": run.id, "state": run.state, "reason": run.reason, **NO_OUTCOME}
    shape["receipt"] = receipt_of(parts, run)
    shape |= {"code": _TOLD.get(code, code), "message": message.as_json()}
    if run.problems:
        shape["problems"] = list(run.problems)
    headers = {"Retry-After": "1"} if status == 429 else {}
    return Answer(shape, status, headers)


_REFUSED: Final = Message("没有执行。", "It did not run.")


def ended(parts: Parts, run: Run) -> dict[str, Any]:
    """The answer of a run that ended."""
    outcome = run.outcome
    assert outcome is not None
    output, stderr = text_of(outcome.stdout), text_of(outcome.stderr)
    shape = {
        "ok": run.ok,
        "tool": run.version.tool,
        "method": method_text(run.version.definition),
        "output": output[0],
        "error": error_of(outcome, stderr[0]),
        "duration_ms": outcome.duration_ms,
        "found": True,
        "definition": definition_of(run.version),
        "run": run_of(parts, run, output, stderr),
        "receipt": receipt_of(parts, run),
    }
    if not run.ok:
        code = CODES[run.state]
        shape |= {"code": code, "message": MESSAGES[code].as_json()}
    return shape


def definition_of(version: ToolVersion) -> dict[str, Any]:
    """Which definition ran: who wrote it, why, and the commit that holds it."""
    return {
        "version": version.number,
        "commit": version.commit,
        "tree": version.tree,
        "blob": version.blob,
        "sha256": version.sha256,
        "author": version.definition.author,
        "why": version.definition.why,
        "created": version.definition.created,
        "git_author": version.git_author,
        "pusher": version.pusher,
    }


def run_of(parts: Parts, run: Run, output: tuple[str, bool], stderr: tuple[str, bool]) -> dict[str, Any]:
    """`run` of an answer (contract/http-api.md); both streams as `text_of` gives them."""
    shape: dict[str, Any] = {"id": run.id, "state": run.state, "reason": run.reason}
    if run.outcome is None:
        return shape | dict(NO_OUTCOME)
    urls = {f"{name}_url": parts.link(f"/api/v1/runs/{run.id}/{stream}") for name, stream in _STREAMS}
    return shape | _of_outcome(run.outcome, output, stderr) | urls


_STREAMS: Final = (("output", "stdout"), ("stderr", "stderr"))


def unrecorded(run_id: str, outcome: Outcome) -> dict[str, Any]:
    """`run` of one that ran and could not be recorded: this answer may be all that there will ever be of it."""
    shape = {"id": run_id, "state": outcome.state, "reason": outcome.reason}
    told = _of_outcome(outcome, text_of(outcome.stdout), text_of(outcome.stderr))
    return shape | told | {"output_url": None, "stderr_url": None}


def _of_outcome(outcome: Outcome, output: tuple[str, bool], stderr: tuple[str, bool]) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "status": outcome.status,
        "stderr": stderr[0],
        "output_bytes": outcome.stdout.total,
        "output_sha256": outcome.stdout.sha256,
        "stderr_bytes": outcome.stderr.total,
        "stderr_sha256": outcome.stderr.sha256,
        "truncated": outcome.stdout.truncated or outcome.stderr.truncated,
        "totals": outcome.totals,
        "notes": [note.as_json() for note in (*_cut_notes(outcome), *outcome.notes)],
    }
    if not output[1]:
        shape["output_b64"] = base64.b64encode(outcome.stdout.kept).decode("ascii")
    if not stderr[1]:
        shape["stderr_b64"] = base64.b64encode(outcome.stderr.kept).decode("ascii")
    return shape


NO_OUTCOME: Final[Mapping[str, Any]] = {
    "exit_code": None,
    "signal": None,
    "status": None,
    "stderr": "",
    "output_bytes": 0,
    "output_sha256": None,
    "stderr_bytes": 0,
    "stderr_sha256": None,
    "truncated": False,
    "totals": None,
    "output_url": None,
    "stderr_url": None,
    "notes": [],
}


def receipt_of(parts: Parts, run: Run) -> dict[str, Any] | None:
    """The entry that ended the run, and the newest signed note that covers it; null until there is one."""
    if run.end_index is None:
        return None
    return {"index": run.end_index, "leaf": run.end_leaf, "checkpoint": parts.checkpoint(run.end_index)}


def _cut_notes(outcome: Outcome) -> list[Message]:
    notes = []
    for zh, en, stream in (
        ("标准输出", "standard output", outcome.stdout),
        ("标准错误", "standard error", outcome.stderr),
    ):
        if stream.truncated:
            notes.append(
                Message(
                    f"{zh}共 {stream.total} 字节，只保留前 {len(stream.kept)} 字节。",
                    f"{en}: {stream.total} bytes in all, of which the first {len(stream.kept)} are kept.",
                )
            )
    return notes


def six(name: str, version: ToolVersion | None, message: Message | None) -> dict[str, Any]:
    """The seed's six fields of a call that did not run (yet)."""
    return {
        "ok": False,
        "tool": name,
        "method": method_text(version.definition) if version is not None else "",
        "output": "",
        "error": None if message is None else f"{message.zh} / {message.en}",
        "duration_ms": 0,
    }
