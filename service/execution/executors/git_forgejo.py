"""The `git-forgejo` executor: one operation of Forgejo's own API (contract/executors.md, git-forgejo).

Where requests go is the operator's setting, what they may do the operator's allow-list; the definition names an
operation, and parameters fill only the places that this operation has.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from service.domain.definitions import Definition
from service.domain.executors import Call, Outcome, ParameterProblem
from service.domain.operations import REPOSITORY, Operation, allows
from service.domain.quoting import quoted
from service.errors import Message
from service.execution.executors.far_side import not_started, send
from service.execution.executors.forgejo_request import body_of, problems_of, shown_body, url_of
from service.execution.executors.http import Answer, HttpCaller, Lost, NotSent, Request
from service.execution.operations import Operations

_WHO: Final = ("Forgejo", "Forgejo")
_NO_URL: Final = Message(
    "没有设置 forgejo_url：Forgejo 接口的地址", "the setting forgejo_url, Forgejo's API, is not set"
)
_NO_TOKEN: Final = Message(
    "没有设置 forgejo_tools_token：工具调用 Forgejo 用的令牌",
    "the setting forgejo_tools_token, the token that tools call Forgejo with, is not set",
)


class GitForgejoExecutor:
    """Calls the one Forgejo that settings name, as `token` may.

    `allowed`: globs on whole operationIds, None for the default of contract/executors.md. `repository`: owner and name of
    the registered repository, where they are known.
    """

    name = "git-forgejo"
    uses_files = False

    def __init__(
        self,
        api_url: str | None,
        token: str | None,
        allowed: Sequence[str] | None,
        repository: Callable[[], tuple[str, str] | None],
        operations: Operations,
        caller: HttpCaller | None = None,
    ) -> None:
        self._base = (api_url or "").rstrip("/")
        self._token = token
        self._allowed = allowed
        self._repository = repository
        self._operations = operations
        self._caller = caller or HttpCaller()

    def unavailable(self, definition: Definition) -> Message | None:
        """Names the setting that would make it run, or says that this Forgejo has no such operation."""
        if not self._base:
            return _NO_URL
        if self._token is None:
            return _NO_TOKEN
        shown = quoted(definition.method)
        if self._operations.lacks(definition.method):
            return Message(
                f"这个 Forgejo 没有接口 {shown}（按它自己的 swagger 文档）",
                f"this Forgejo lacks the operation {shown}, by its own swagger document",
            )
        if self._operations.find(definition.method) is None:
            return Message(
                f"这里不认识接口 {shown}，这个 Forgejo 的 swagger 文档还没有取到",
                f"the operation {shown} is not known here, and this Forgejo's swagger document could not be had yet",
            )
        return None

    def refusal(self, definition: Definition) -> Message | None:
        """None where the operator's allow-list has the operation; else names the setting (X30)."""
        operation = self._operations.find(definition.method)
        if operation is not None and allows(operation, self._allowed):
            return None
        return Message(
            f"设置 forgejo_operations 不允许接口 {quoted(definition.method)}",
            f"the setting forgejo_operations does not allow the operation {quoted(definition.method)}",
        )

    def check(self, definition: Definition, parameters: Mapping[str, Any]) -> list[ParameterProblem]:
        """What has no place in the operation or cannot stand in its place, and what it cannot do without."""
        operation = self._operations.find(definition.method)
        if operation is None:
            return []  # `unavailable` says so
        return problems_of(operation, definition, self._values(operation, parameters), self._base)

    def preview(self, definition: Definition, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """`{"verb", "url", "body"?}`; a file by its size and SHA-256."""
        operation = self._operations.find(definition.method)
        if operation is None:
            return {}
        values = self._values(operation, parameters)
        body = shown_body(operation, values)
        shape = {"verb": operation.verb, "url": url_of(operation, values, self._base)}
        return shape if body is None else shape | {"body": body}

    def target(self, definition: Definition) -> str | None:  # noqa: ARG002  there is one
        """None: settings name one Forgejo."""
        return None

    def run(self, call: Call) -> Outcome:
        """One request; an Outcome whatever comes back."""
        definition = call.definition
        # What the instance says of itself may have changed while the call waited.
        operation = self._operations.find(definition.method)
        why = self.unavailable(definition) or self.refusal(definition)
        if operation is None or why is not None:
            return not_started(why or _NO_URL)
        values = self._values(operation, call.parameters)
        if problems := problems_of(operation, definition, values, self._base):
            return not_started(Message(problems[0].zh, problems[0].en))
        result, outcome = send(self._caller, self._request(operation, values), call, _WHO)
        if _knows_no_such_route(result):
            self._operations.doubt()
        return outcome

    def _values(self, operation: Operation, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters, and the registered repository where they name none."""
        values = dict(parameters)
        if operation.is_repository and not all(name in values for name in REPOSITORY):
            values = dict(zip(REPOSITORY, self._repository() or (), strict=False)) | values
        return values

    def _request(self, operation: Operation, values: Mapping[str, Any]) -> Request:
        body = body_of(operation, values)
        headers = [("Accept", ", ".join(operation.produces) or "*/*")]
        if body is not None:
            headers.append(("Content-Type", body.media_type))
        content = None if body is None else body.content
        return Request(operation.verb, url_of(operation, values, self._base), headers, content, self._token)


def _knows_no_such_route(result: NotSent | Lost | Answer) -> bool:
    """A 404 about a thing is JSON, one about a route is plain text (facts/forgejo.md 3.1)."""
    if not isinstance(result, Answer):
        return False
    is_json = "json" in result.headers.get("content-type", "")
    return result.status == 405 or (result.status == 404 and not is_json)
