"""The `gatekeeper` executor: a command on a server, through its gatekeeper (contract/executors.md; seed §2, §5).

One POST for one run, never a second. What came back decides: an answer, no answer after it was sent (`unknown`), or not
sent at all (`failed`).
"""

import json
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx

from service.domain.definitions import Definition
from service.domain.executors import Call, Outcome, ParameterProblem
from service.errors import Message, UsageError
from service.execution.executors.commands import EXTRAS, command_argv, command_preview, command_problems
from service.execution.executors.far_side import cancelled_outcome, outcome_of, parse_json
from service.execution.executors.gatekeeper_answer import AnswerFields, read_answer, read_ending
from service.execution.executors.gatekeeper_events import RunEvents
from service.execution.executors.http import (
    Answer,
    HttpCaller,
    Lost,
    NotSent,
    Request,
    Tally,
    sends_token_in_clear,
    split_url,
)

# A gatekeeper ends a run at its limit by itself; this long we wait for it to say so.
GRACE_S: Final = 2.0
CANCEL_S: Final = 3.0
# An answer holds both streams, in base64 or escaped, and some fields. One that knows nothing of our cap is read whole
# all the same, since it says how the run ended: up to 32 MiB, in memory while it is read.
ANSWER_FACTOR: Final = 4
ANSWER_EXTRA_BYTES: Final = 1024 * 1024
UNCAPPED_BYTES: Final = 32 * 1024 * 1024
_WHO: Final = ("网关", "the gatekeeper")
# Parameters that become an argument, a path or a header on the node; `content`, `stdin` and `body` are data.
_BOUND: Final = ("cmd", "cwd", "argv", "env", "path", "url", "method", "headers")


@dataclass(frozen=True, slots=True)
class Node:
    """One gatekeeper. `argv`, `cmd`: whether it is given either form of a `command:`; `stream`: whether it is asked to stream.

    A gatekeeper that cannot stream ignores being asked.
    """

    url: str
    token: str | None = field(repr=False)
    fields: AnswerFields = field(default_factory=AnswerFields)
    insecure: bool = False
    argv: bool = True
    cmd: bool = True
    stream: bool = True


class GatekeeperExecutor:
    """Runs tools on the nodes that settings name. Raises UsageError for a node that cannot be used safely (R16)."""

    name = "gatekeeper"
    uses_files = False

    def __init__(self, nodes: Mapping[str, Node], default: str | None, caller: HttpCaller | None = None) -> None:
        for name, node in nodes.items():
            _check_node(name, node)
        if default is not None and default not in nodes:
            raise UsageError(
                Message(
                    f"设置 gatekeeper_default 指的节点 {default!r} 不在 gatekeepers 里",
                    f"setting gatekeeper_default names {default!r}, which gatekeepers does not have",
                )
            )
        self._nodes = dict(nodes)
        self._default = default
        self._caller = caller or HttpCaller()

    def unavailable(self, definition: Definition) -> Message | None:
        """Names the setting that would make it run."""
        if definition.node is None and self._default is None:
            return Message(
                "定义没有写 node，设置 gatekeeper_default 也没有给出默认节点",
                "the definition names no node, and the setting gatekeeper_default gives none",
            )
        if (name := self.target(definition)) not in self._nodes:
            return Message(f"设置 gatekeepers 里没有节点 {name}", f"the setting gatekeepers has no node {name}")
        return None

    def refusal(self, definition: Definition) -> Message | None:  # noqa: ARG002  what it runs is up to the definition
        """None: the operator's leave is not asked for by definition."""
        return None

    def check(self, definition: Definition, parameters: Mapping[str, Any]) -> list[ParameterProblem]:
        """A command's own rules; else no NUL in what becomes an argument, a path or a header (M2)."""
        if definition.command is not None:
            return command_problems(definition, parameters)
        problems = command_problems(definition, parameters) if definition.method == "exec" else []
        known = {problem.param for problem in problems}
        return problems + [
            ParameterProblem(
                name, "nul", "含有 NUL 字符，不能放进参数或路径", "holds a NUL, which no argument or path can"
            )
            for name in _BOUND
            if name in parameters and name not in known and _holds_nul(parameters[name])
        ]

    def preview(self, definition: Definition, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The node, its method, and the command or the parameters that it gets."""
        shape: dict[str, Any] = {"node": self.target(definition), "method": _method_of(definition)}
        if definition.command is not None or definition.method == "exec":
            return shape | command_preview(definition, parameters)
        return shape | {"params": dict(parameters)}

    def target(self, definition: Definition) -> str | None:
        """The definition's node, or the default."""
        return definition.node or self._default

    def run(self, call: Call) -> Outcome:
        """One POST to the node; an Outcome whatever comes back."""
        return _Run(self._nodes[self.target(call.definition) or ""], self._caller, call).outcome()


class _Run:
    """One call on its node."""

    def __init__(self, node: Node, caller: HttpCaller, call: Call) -> None:
        self._node = node
        self._caller = caller
        self._call = call
        self._keep = max(ANSWER_FACTOR * call.max_output_bytes + ANSWER_EXTRA_BYTES, UNCAPPED_BYTES)
        self._started = time.monotonic()
        self._events = RunEvents(call, self._keep)

    def outcome(self) -> Outcome:
        result = self._post()
        return replace(self._read(result), duration_ms=int((time.monotonic() - self._started) * 1000))

    def _post(self) -> NotSent | Lost | Answer:
        call = self._call
        try:
            body = json.dumps(
                {
                    "method": _method_of(call.definition),
                    "params": _params(self._node, call),
                    "timeout_ms": max(1, call.timeout_ms - int((time.monotonic() - self._started) * 1000)),
                    "max_output_bytes": call.max_output_bytes,
                    "run_id": call.run_id,
                },
                allow_nan=False,
            )
        except (TypeError, ValueError, RecursionError):
            return NotSent("request", Message("参数写不成 JSON", "the parameters cannot be written as JSON"))
        streams = self._node.stream and call.on_output is not None
        return self._caller.call(
            _request(self._node, body, accept="text/event-stream, application/json" if streams else "application/json"),
            deadline=self._started + call.timeout_ms / 1000 + GRACE_S,
            keep=self._keep,
            cancel=call.cancel,
            on_body=self._events.take if streams else None,
        )

    def _read(self, result: NotSent | Lost | Answer) -> Outcome:
        if isinstance(result, NotSent):
            return self._plain(result)
        if isinstance(result, Lost):
            return self._lost(result)
        if not 200 <= result.status < 300:
            return replace(self._plain(result), totals="received")
        if self._events.began:
            return self._streamed(result)
        outcome = read_answer(result, self._node.fields, self._call.max_output_bytes)
        return outcome if outcome.exit_code is not None else replace(outcome, status=result.status)

    def _plain(self, result: NotSent | Lost | Answer) -> Outcome:
        """What HTTP alone says of it."""
        return outcome_of(result, cancel=self._call.cancel, keep=self._call.max_output_bytes, who=_WHO)

    def _streamed(self, result: Answer) -> Outcome:
        """A stream that ended: its last event is the answer."""
        if self._events.answer is None:
            why = Message("网关的输出流没有以结果收尾", "the gatekeeper's stream ended without an answer")
            return Outcome(
                "unknown",
                *self._events.streams(),
                0,
                reason="lost-answer",
                status=result.status,
                why=why,
                totals="received",
            )
        tally = Tally(self._keep)
        tally.take(self._events.answer)
        headers = httpx.Headers({"content-type": "application/json"})
        outcome = read_answer(
            Answer(result.status, headers, tally.stream()), self._node.fields, self._call.max_output_bytes
        )
        stdout, stderr = self._events.streams()
        if stdout.total <= outcome.stdout.total and stderr.total <= outcome.stderr.total:
            return outcome
        # More came than the answer knows of: what those who followed it have seen stands in the receipt.
        longest = [
            max(pair, key=lambda one: one.total) for pair in ((outcome.stdout, stdout), (outcome.stderr, stderr))
        ]
        return replace(outcome, stdout=longest[0], stderr=longest[1], totals="received")

    def _lost(self, lost: Lost) -> Outcome:
        """Sent, and no answer. Where we ended it ourselves, ask the node once to end it too."""
        unknown = self._plain(lost)
        if self._events.began:
            stdout, stderr = self._events.streams()
            unknown = replace(unknown, stdout=stdout, stderr=stderr)
        if lost.cause not in ("deadline", "cancelled"):
            return unknown
        confirmed, ending = self._cancel()
        if ending is not None and ending.reason != "cancelled":
            return ending
        if ending is not None:
            unknown = replace(unknown, stdout=ending.stdout, stderr=ending.stderr)
        if not confirmed:
            return unknown
        totals = ending.totals if ending is not None else "received"
        streams = (unknown.stdout, unknown.stderr)
        if lost.cause == "cancelled":
            return replace(cancelled_outcome(self._call.cancel, *streams), totals=totals)
        why = Message("超过时限，已让网关取消", "over its time limit; the gatekeeper confirmed that it was cancelled")
        return Outcome("timed_out", *streams, 0, reason="deadline", why=why, totals=totals)

    def _cancel(self) -> tuple[bool, Outcome | None]:
        """One `cancel`: whether the node confirms it, and, where it says so, how the run ended."""
        body = json.dumps({"method": "cancel", "params": {"run_id": self._call.run_id}, "timeout_ms": 2000})
        deadline = time.monotonic() + CANCEL_S
        result = self._caller.call(_request(self._node, body), deadline=deadline, keep=self._keep)
        if not isinstance(result, Answer) or not 200 <= result.status < 300 or result.body.truncated:
            return False, None
        try:
            document = parse_json(result.body.kept)
        except (ValueError, RecursionError):
            return False, None
        if not isinstance(document, dict) or document.get("state") == "running":
            return False, None
        keep, ending = self._call.max_output_bytes, document.get("ending")
        raw = replace(result.body, kept=result.body.kept[:keep])
        outcome = read_ending(ending, self._node.fields, keep, raw) if isinstance(ending, dict) else None
        return document.get("ok") is True, outcome


def _method_of(definition: Definition) -> str:
    """A gatekeeper knows `exec`; `run` with a command is our name for the same."""
    return "exec" if definition.command is not None else definition.method


def _check_node(name: str, node: Node) -> None:
    try:
        split_url(node.url)
    except ValueError as error:
        raise UsageError(
            Message(f"设置 gatekeepers 里 {name} 的 url 不能用", f"setting gatekeepers, {name}, url: {error}")
        ) from None
    if node.token is not None and sends_token_in_clear(node.url) and not node.insecure:
        raise UsageError(
            Message(
                f"设置 gatekeepers 里 {name} 的 url 是明文 http 又不在本机：改用 https，或写明 insecure = true",
                f"setting gatekeepers, {name}: plain http beyond loopback; use https or say insecure = true",
            )
        )
    if not node.argv and not node.cmd:
        raise UsageError(
            Message(
                f"设置 gatekeepers 里 {name} 不能同时关掉 argv 和 cmd",
                f"setting gatekeepers, {name}: argv or cmd, one must stay",
            )
        )


def _request(node: Node, body: str, accept: str = "application/json") -> Request:
    return Request(
        "POST",
        node.url.rstrip("/") + "/exec",
        headers=(("Content-Type", "application/json"), ("Accept", accept)),
        body=body.encode("ascii"),
        token=node.token,
    )


def _params(node: Node, call: Call) -> dict[str, Any]:
    """The parameters as they are; with `command:` the vector, the same quoted for `sh`, and what else was declared."""
    if call.definition.command is None:
        return dict(call.parameters)
    argv = list(command_argv(call.definition, call.parameters))
    params: dict[str, Any] = {}
    if node.argv:
        params["argv"] = argv
    if node.cmd:
        params["cmd"] = shlex.join(argv)
    declared = call.definition.params_schema
    return params | {name: call.parameters[name] for name in EXTRAS if name in declared and name in call.parameters}


def _holds_nul(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_nul(item) for pair in value.items() for item in pair)
    if isinstance(value, list | tuple):
        return any(_holds_nul(item) for item in value)
    return isinstance(value, str) and "\0" in value
