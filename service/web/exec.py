"""`POST /exec`: the seed's six fields first, then what was run and what proves it (contract/http-api.md)."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from service.domain import strict_json
from service.domain.calls import ExecRequest
from service.domain.executors import Outcome, ParameterProblem
from service.domain.runs import CODES, Run, error_of, method_text, text_of
from service.domain.tools import ToolVersion
from service.errors import BitongError, Invalid, Malformed, Message, Unavailable
from service.execution.execute import Refused
from service.web.errors import status_of
from service.web.parts import Parts
from service.web.routing import Answer, Asked, need

_FIELDS: Final = ("tool", "params", "version", "commit", "sha256", "timeout_ms", "wait", "match_id")
_INTENT_FIELDS: Final = ("intent", "context")
_LATER: Final = Message("这一功能尚未提供。", "This part is not available yet.")

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


def execute(parts: Parts, asked: Asked) -> Answer:
    """Run a tool by name and answer as the contract's table says."""
    body = _object(asked.body)
    if "intent" in body or "context" in body:
        _check_intent(body)
        need(asked.actor, ["read"])
        raise Unavailable(_LATER)
    if "tool" not in body:
        raise _neither()
    request = _request(body)
    if "idempotency-key" in asked.headers or body.get("wait", True) is not True:
        raise Unavailable(_LATER)
    try:
        run = parts.execution.execute(request, asked.actor)
    except Refused as refused:
        parts.metrics.runs.labels("refused").inc()
        return _refused(refused, request.tool)
    parts.metrics.runs.labels(run.state).inc()
    if run.outcome is not None:
        parts.metrics.seconds.labels(run.version.definition.executor).observe(run.outcome.duration_ms / 1000)
    return Answer(ended(parts, run))


def failed(error: BitongError, asked: Asked | None) -> Answer:
    """Every answer has the six fields, also when nothing ran."""
    status = status_of(error)
    version = error.facts.get("version")
    shape = _six(_asked_name(asked), version, error.message)
    outcome = error.facts.get("outcome")
    if isinstance(outcome, Outcome):
        shape |= {"output": text_of(outcome.stdout)[0], "duration_ms": outcome.duration_ms}
        shape["run"] = {**_NO_OUTCOME, "id": error.facts["run"], "state": outcome.state, "reason": outcome.reason}
        shape["receipt"] = None
    for name in ("found", "suggestion", "removed"):
        if name in error.facts:
            shape[name] = error.facts[name]
    if version is not None:
        shape |= {"found": True, "definition": definition_of(version)}
    shape |= {"code": error.code, "message": error.message.as_json()}
    if "problems" in error.facts:
        shape["problems"] = error.facts["problems"]
    return Answer(shape, status)


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
        "receipt": receipt_of(run),
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
    outcome = run.outcome
    if outcome is None:
        return shape | dict(_NO_OUTCOME)
    shape |= {
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
        "output_url": parts.link(f"/api/v1/runs/{run.id}/stdout"),
        "stderr_url": parts.link(f"/api/v1/runs/{run.id}/stderr"),
        "notes": [note.as_json() for note in (*_cut_notes(outcome), *outcome.notes)],
    }
    if not output[1]:
        shape["output_b64"] = base64.b64encode(outcome.stdout.kept).decode("ascii")
    if not stderr[1]:
        shape["stderr_b64"] = base64.b64encode(outcome.stderr.kept).decode("ascii")
    return shape


_NO_OUTCOME: Final[Mapping[str, Any]] = {
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


def receipt_of(run: Run) -> dict[str, Any] | None:
    """The entry that ended the run; `checkpoint` is null until checkpoints are signed."""
    if run.end_index is None:
        return None
    return {"index": run.end_index, "leaf": run.end_leaf, "checkpoint": None}


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


def _refused(refused: Refused, name: str) -> Answer:
    cause, version, run = refused.cause, refused.version, refused.run
    shape = _six(name, version, cause.message) | {"found": True, "definition": definition_of(version)}
    if run is not None:
        shape["run"] = {"id": run.id, "state": run.state, "reason": run.reason, **_NO_OUTCOME}
        shape["receipt"] = receipt_of(run)
    shape |= {"code": cause.code, "message": cause.message.as_json()}
    if "problems" in cause.facts:
        shape["problems"] = cause.facts["problems"]
    return Answer(shape, status_of(cause))


def _six(name: str, version: ToolVersion | None, message: Message) -> dict[str, Any]:
    return {
        "ok": False,
        "tool": name,
        "method": method_text(version.definition) if version is not None else "",
        "output": "",
        "error": f"{message.zh} / {message.en}",
        "duration_ms": 0,
    }


def _asked_name(asked: Asked | None) -> str:
    if asked is None:
        return ""
    try:
        name = strict_json.loads(asked.body)["tool"]
    except (strict_json.NotJson, KeyError, TypeError):
        return ""
    return name if isinstance(name, str) else ""


def _object(content: bytes) -> dict[str, Any]:
    try:
        body = strict_json.loads(content)
    except strict_json.NotJson as error:
        raise _malformed(f"请求体不是 JSON（{error}）", f"the body is no JSON ({error})") from None
    if not isinstance(body, dict):
        raise _malformed("请求体不是 JSON 对象", "the body is no JSON object")
    return body


def _check_intent(body: Mapping[str, Any]) -> None:
    if "tool" in body or "intent" not in body:
        raise _neither()
    if not isinstance(body["intent"], str):
        raise _malformed("intent 应为文本", "intent takes a text")
    unknown = [name for name in body if name not in _INTENT_FIELDS]
    if unknown:
        raise Invalid(_UNFIT, facts={"problems": [_unknown(name).as_json() for name in unknown]})


_UNFIT: Final = Message("请求中有不合适之处，见 problems。", "The call does not fit; see problems.")


def _neither() -> Invalid:
    message = Message("tool 与 intent 须且只能给出一个。", "Give either tool or intent, and not both.")
    problem = ParameterProblem("tool", "tool-or-intent", message.zh, message.en)
    return Invalid(message, facts={"problems": [problem.as_json()]})


_SHAPES: Final[Mapping[str, tuple[type, ...]]] = {
    "tool": (str,),
    "params": (dict,),
    "version": (int, type(None)),
    "commit": (str, type(None)),
    "sha256": (str, type(None)),
    "timeout_ms": (int, type(None)),
    "wait": (bool,),
    "match_id": (str, type(None)),
}


def _request(body: Mapping[str, Any]) -> ExecRequest:
    for name, kinds in _SHAPES.items():
        value = body.get(name)
        if name in body and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            raise _malformed(f"{name} 的类型不对", f"{name} is of the wrong type")
    problems = [_unknown(name) for name in body if name not in _FIELDS]
    if body.get("match_id") is not None:
        problems.append(
            ParameterProblem("match_id", "unknown-match", "没有这次匹配。", "There is no such match of this actor.")
        )
    return ExecRequest(
        tool=body["tool"],
        params=body.get("params", {}),
        version=body.get("version"),
        commit=body.get("commit"),
        sha256=body.get("sha256"),
        timeout_ms=body.get("timeout_ms"),
        problems=tuple(problems),
    )


def _unknown(name: str) -> ParameterProblem:
    shown = name[:64].encode("utf-8", "replace").decode()
    return ParameterProblem(shown, "unknown-field", f"没有 {shown} 这个字段。", f"There is no field {shown}.")


def _malformed(zh: str, en: str) -> Malformed:
    return Malformed(Message(f"请求的形式不对：{zh}。", f"The request has the wrong shape: {en}."))
