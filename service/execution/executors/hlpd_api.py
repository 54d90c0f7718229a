"""The `hlpd-api` executor: the persona database's HTTP API (contract/executors.md, hlpd-api).

`method` is a route (`GET /personas/{personaId}`) or the bare name of an RPC method. Where it goes is the operator's: no
parameter can change the origin, nor lead out of the path that the definition gives.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.domain.definitions import Definition
from service.domain.executors import Call, Outcome, ParameterProblem
from service.domain.methods import QUERY_VERBS, is_route, path_slots, route_of
from service.errors import Message, UsageError
from service.execution.executors.failed_when import FailedWhen
from service.execution.executors.far_side import TooIntricate, not_started, parse_json, send, with_words
from service.execution.executors.http import Answer, HttpCaller, Request, split_url
from service.execution.executors.paths import fill, query_string, scalar_text, slot_problems, within

# An RPC answer is read whole to see whether it says that it failed. One that is longer is not judged.
JUDGED_BYTES: Final = 8 * 1024 * 1024
_WHO: Final = ("人格库接口", "the persona database's API")
_ELSEWHERE: Final = Message("地址会离开定义给出的路径", "the address would leave the path that the definition gives")
_UNJUDGED: Final = Message(
    "回应不是 JSON 对象，看不出它自己说成功还是失败；按 HTTP 状态算成功",
    "the answer is no JSON object, so that it cannot say itself whether it failed; its HTTP status counts as success",
)
_TOO_LARGE: Final = Message(
    "回应太大，没有看它自己说成功还是失败；按 HTTP 状态算成功",
    "the answer is too large to see whether it says itself that it failed; its HTTP status counts as success",
)


class HlpdApiExecutor:
    """Calls the one API that settings name. Raises UsageError for an address that no request can go to.

    `rpc_path`: below `base_url`, which may hold a path itself. `failed_when`: of 2xx answers to the RPC form only.
    """

    name = "hlpd-api"
    uses_files = False

    def __init__(
        self,
        base_url: str | None,
        token: str | None,
        rpc_path: str,
        failed_when: FailedWhen,
        caller: HttpCaller | None = None,
    ) -> None:
        self._base = (base_url or "").rstrip("/")
        self._token = token
        self._rpc_path = rpc_path
        self._failed_when = failed_when
        self._caller = caller or HttpCaller()
        if base_url is not None:
            _check_address("hlpd_api_url", self._base)
            _check_address("hlpd_api_rpc_path", self._base + rpc_path)
            if not rpc_path.startswith("/") or not within(self._base + rpc_path, self._base, rpc_path):
                raise _unusable("hlpd_api_rpc_path", "it is no plain path that begins with /")

    def unavailable(self, definition: Definition) -> Message | None:  # noqa: ARG002  the same for every definition
        """Names the setting that would make it run."""
        if self._base:
            return None
        return Message(
            "没有设置 hlpd_api_url：人格库接口的地址",
            "the setting hlpd_api_url, the persona database's API, is not set",
        )

    def refusal(self, definition: Definition) -> Message | None:  # noqa: ARG002  what it calls is up to the definition
        """None: the operator's leave is not asked for by definition."""
        return None

    def check(self, definition: Definition, parameters: Mapping[str, Any]) -> list[ParameterProblem]:
        """What cannot fill a slot or stand in a query, and an address that would lead elsewhere."""
        if not is_route(definition.method):
            return []
        verb, path = route_of(definition.method)
        problems = slot_problems(path, parameters)
        if verb in QUERY_VERBS:
            problems += [
                _not_in_query(name) for name, value in _rest(definition, parameters).items() if not _is_flat(value)
            ]
        if not problems and not self._stays(self._request(definition, parameters)[1], definition):
            problems = [ParameterProblem("", "elsewhere", _ELSEWHERE.zh, _ELSEWHERE.en)]
        return problems

    def preview(self, definition: Definition, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """`{"verb", "url", "body"?}`; the RPC form's `caller`, whoever asked, is not known here and left out."""
        verb, url, body = self._request(definition, parameters)
        return {"verb": verb, "url": url} | ({} if body is None else {"body": body})

    def target(self, definition: Definition) -> str | None:  # noqa: ARG002  there is one
        """None: settings name one API."""
        return None

    def run(self, call: Call) -> Outcome:
        """One request; an Outcome whatever comes back."""
        verb, url, body = self._request(call.definition, call.parameters)
        if not self._stays(url, call.definition):
            return not_started(_ELSEWHERE)
        if is_route(call.definition.method):
            return send(self._caller, self._written(verb, url, body), call, _WHO)[1]
        request = self._written(verb, url, {**(body or {}), "caller": call.actor})
        result, outcome = send(self._caller, request, call, _WHO, keep=max(JUDGED_BYTES, call.max_output_bytes))
        return self._judged(result, outcome) if isinstance(result, Answer) and outcome.state == "succeeded" else outcome

    def _request(self, definition: Definition, parameters: Mapping[str, Any]) -> tuple[str, str, dict[str, Any] | None]:
        """Verb, URL and JSON body; None where there is no body."""
        if not is_route(definition.method):
            return "POST", self._base + self._rpc_path, {"tool": definition.method, "input": dict(parameters)}
        verb, path = route_of(definition.method)
        url, rest = self._base + fill(path, parameters), _rest(definition, parameters)
        if verb not in QUERY_VERBS:
            return verb, url, rest
        query = query_string(rest.items())
        return verb, f"{url}?{query}" if query else url, None

    def _stays(self, url: str, definition: Definition) -> bool:
        path = route_of(definition.method)[1] if is_route(definition.method) else self._rpc_path
        return within(url, self._base, path)

    def _written(self, verb: str, url: str, body: dict[str, Any] | None) -> Request:
        headers = (("Accept", "application/json, */*;q=0.5"),)
        if body is None:
            return Request(verb, url, headers, token=self._token)
        content = json.dumps(body, allow_nan=False).encode("ascii")
        return Request(verb, url, (*headers, ("Content-Type", "application/json")), content, self._token)

    def _judged(self, answer: Answer, outcome: Outcome) -> Outcome:
        """What a 2xx answer to the RPC form says of itself."""
        if answer.body.truncated:
            return replace(outcome, notes=(_TOO_LARGE,))
        try:
            document = parse_json(answer.body.kept)
        except TooIntricate:
            return replace(outcome, notes=(_TOO_LARGE,))
        except (ValueError, RecursionError):
            if "json" in answer.headers.get("content-type", "").lower() and answer.status != 204:
                why = Message(
                    "人格库接口的回应自称 JSON，却不是", "the persona database's answer says JSON and is none"
                )
                return replace(outcome, state="unknown", reason="bad-answer", why=why)
            return replace(outcome, notes=(_UNJUDGED,))
        if not isinstance(document, Mapping):
            return replace(outcome, notes=(_UNJUDGED,))
        said = self._failed_when.said_by(document)
        if not said:
            return outcome
        zh, en = "、".join(message.zh for message in said), ", ".join(message.en for message in said)
        line = Message(
            f"{_WHO[0]}回 HTTP {answer.status}，但说失败了（{zh}）",
            f"{_WHO[1]} answered HTTP {answer.status} and says that it failed ({en})",
        )
        return replace(outcome, state="failed", reason="far-side-error", why=with_words(line, answer.body))


def _rest(definition: Definition, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that fill no slot, in the definition's order."""
    slots = path_slots(route_of(definition.method)[1])
    return {name: parameters[name] for name in definition.params_schema if name in parameters and name not in slots}


def _is_flat(value: Any) -> bool:
    try:
        for item in value if isinstance(value, list) else (value,):
            scalar_text(item)
    except ValueError:
        return False
    return True


def _not_in_query(name: str) -> ParameterProblem:
    return ParameterProblem(
        name,
        "wrong-type",
        f"{name}会进查询字符串，那里只能放文本、数字、真假值和由它们组成的数组",
        f"{name} goes into the query, which takes text, numbers, true, false and arrays of these",
    )


def _check_address(setting: str, url: str) -> None:
    try:
        parts = split_url(url)
    except ValueError as error:
        raise _unusable(setting, str(error)) from None
    if parts.query or parts.fragment or "{" in url:
        raise _unusable(setting, "it holds no query, fragment or brace")


def _unusable(setting: str, en: str) -> UsageError:
    return UsageError(Message(f"设置 {setting} 不能用：{en}", f"the setting {setting} cannot be used: {en}"))
