"""`POST /exec`: a call by name or by intent, read strictly (contract/http-api.md)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.domain import strict_json
from service.domain.calls import ExecRequest
from service.domain.executors import Outcome, ParameterProblem
from service.domain.runs import error_of, text_of
from service.errors import BitongError, Invalid, Malformed, Message
from service.web.answers import NO_OUTCOME, answer_of, definition_of, six, unrecorded
from service.web.errors import status_of
from service.web.matching import answer_intent
from service.web.parts import Parts
from service.web.routing import Answer, Asked, Pending

_FIELDS: Final = ("tool", "params", "version", "commit", "sha256", "timeout_ms", "wait", "match_id")
_INTENT_FIELDS: Final = ("intent", "context")
_KEY_CHARACTERS: Final = 200


def execute(parts: Parts, asked: Asked) -> Answer | Pending:
    """Run a tool by name, or find one by intent, and answer as the contract's table says."""
    body = _object(asked.body)
    if "intent" in body or "context" in body:
        _check_intent(body)
        return answer_intent(parts, asked, body["intent"], body.get("context"))
    if "tool" not in body:
        raise _neither()
    request = _request(body, _key(asked), len(asked.body))
    if request.match_id is not None and not parts.matching.knows(request.match_id, asked.actor):
        request = replace(request, match_id=None, problems=(*request.problems, _NO_MATCH))
    return answer_of(parts, parts.execution.execute(request, asked.actor), wait=request.wait)


def failed(error: BitongError, asked: Asked | None) -> Answer:
    """Every answer has the six fields, also when nothing ran."""
    status = status_of(error)
    version = error.facts.get("version")
    shape = six(_asked_name(asked), version, error.message)
    outcome = error.facts.get("outcome")
    if isinstance(outcome, Outcome):
        said = error_of(outcome)
        shape |= {"output": text_of(outcome.stdout)[0], "duration_ms": outcome.duration_ms}
        shape["error"] = shape["error"] if said is None else said.rstrip("\n") + "\n" + shape["error"]
        shape["run"] = unrecorded(error.facts["run"], outcome)
        shape["receipt"] = None
    elif "run" in error.facts:
        shape["run"] = {**NO_OUTCOME, "id": error.facts["run"], "state": "queued", "reason": None}
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
    if not strict_json.is_text(body["intent"]):
        raise _malformed("intent 应为文本", "intent takes a text")
    unknown = [name for name in body if name not in _INTENT_FIELDS]
    if unknown:
        raise Invalid(_UNFIT, facts={"problems": [_unknown(name).as_json() for name in unknown]})


_UNFIT: Final = Message("请求中有不合适之处，见 problems。", "The call does not fit; see problems.")


_NO_MATCH: Final = ParameterProblem(
    "match_id", "unknown-match", "没有这次匹配。", "There is no such match of this actor."
)


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


def _request(body: Mapping[str, Any], key: str | None, size: int) -> ExecRequest:
    for name, kinds in _SHAPES.items():
        value = body.get(name)
        if name in body and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            raise _malformed(f"{name} 的类型不对", f"{name} is of the wrong type")
    problems = [_unknown(name) for name in body if name not in _FIELDS]
    return ExecRequest(
        tool=body["tool"],
        params=body.get("params", {}),
        version=body.get("version"),
        commit=body.get("commit"),
        sha256=body.get("sha256"),
        timeout_ms=body.get("timeout_ms"),
        match_id=body.get("match_id"),
        wait=body.get("wait", True),
        key=key,
        size=size,
        problems=tuple(problems),
    )


def _key(asked: Asked) -> str | None:
    """The Idempotency-Key: printable text of at most 200 characters, given once."""
    given = [value for name, value in asked.raw_headers if name == b"idempotency-key"]
    if not given:
        return None
    key = given[0].decode("latin-1")
    if len(given) > 1 or not 0 < len(key) <= _KEY_CHARACTERS or not key.isprintable():
        raise _malformed(
            f"Idempotency-Key 为 1 至 {_KEY_CHARACTERS} 个可见字符，只给一次",
            f"an Idempotency-Key is 1 to {_KEY_CHARACTERS} printable characters, given once",
        )
    return key


def _unknown(name: str) -> ParameterProblem:
    shown = name[:64].encode("utf-8", "replace").decode()
    return ParameterProblem(shown, "unknown-field", f"没有 {shown} 这个字段。", f"There is no field {shown}.")


def _malformed(zh: str, en: str) -> Malformed:
    return Malformed(Message(f"请求的形式不对：{zh}。", f"The request has the wrong shape: {en}."))
