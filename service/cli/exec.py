"""`bitong exec`: run a tool through a running service, as if it ran here: its output, its errors, its exit."""

import base64
import json as plain
import sys
from typing import Annotated, Any, Final

import typer

from service.cli import calling, showing
from service.cli import settings as given
from service.cli.calling import Service
from service.domain import strict_json
from service.errors import BitongError, Message, NotFound, UsageError

_TEXT: Final = "string"


def register(application: typer.Typer) -> None:
    """The command."""
    application.command("exec")(execute)


def execute(
    name: Annotated[str, typer.Argument(metavar="NAME", help="工具名 / the tool's name")],
    pairs: Annotated[list[str] | None, typer.Argument(metavar="key=value", help="参数 / parameters")] = None,
    params: Annotated[
        str | None, typer.Option("--params", metavar="JSON", help="参数，一个 JSON 对象 / a JSON object")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="输出完整的回答 / print the whole answer")] = False,
    config: given.Config = None,
) -> None:
    """执行一个工具；需要 BITONG_TOKEN。 Run a tool; needs BITONG_TOKEN.

    示例 / example: bitong exec shell-exec cmd='git log --oneline -5' · bitong exec file-read --params '{"path": "a.txt"}'
    """
    given_as_json = _object(params)
    with calling.acting(config) as service:
        values = given_as_json | _typed(service, name, pairs or [], given_as_json)
        answer = service.ask("POST", "/exec", body={"tool": name, "params": values}, within_s=None)
    try:
        shape = answer.json()
    except ValueError:
        shape = None
    if not isinstance(shape, dict) or not isinstance(shape.get("output"), str):
        raise calling.failure_of(answer)
    if json:
        showing.as_json(shape)
    else:
        _print(shape)
    if shape.get("ok") is not True:
        if answer.status_code not in (200, 202):
            raise _refused(calling.failure_of(answer), shape)
        showing.failure(calling.failure_of(answer))
        raise typer.Exit(1)


def _print(shape: dict[str, Any]) -> None:
    run = shape.get("run") or {}
    sys.stdout.buffer.write(_bytes(shape["output"], run.get("output_b64")))
    sys.stdout.buffer.flush()
    if run:
        said = _bytes(shape.get("error") or "", run.get("stderr_b64"))
        sys.stderr.buffer.write(said if not said or said.endswith(b"\n") or shape["ok"] else said + b"\n")
        sys.stderr.buffer.flush()
    for note in run.get("notes", ()):
        showing.say(Message(showing.cell(note["zh"]), showing.cell(note["en"])))


def _bytes(text: str, exact: str | None) -> bytes:
    return text.encode("utf-8", "surrogatepass") if exact is None else base64.b64decode(exact)


def _refused(error: BitongError, shape: dict[str, Any]) -> BitongError:
    """The refusal, with what the seed says of a tool that is not there."""
    suggestion = shape.get("suggestion")
    if isinstance(suggestion, str) and suggestion not in error.message.zh:
        error.message = Message(f"{error.message.zh} {suggestion}", error.message.en)
    return error


def _object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = strict_json.loads(text.encode("utf-8", "surrogateescape"))
    except strict_json.NotJson as error:
        raise UsageError(Message(f"--params 不是 JSON（{error}）。", f"--params is no JSON ({error}).")) from None
    if not isinstance(value, dict):
        raise UsageError(Message("--params 应为 JSON 对象。", "--params takes a JSON object."))
    return value


def _typed(service: Service, tool: str, pairs: list[str], others: dict[str, Any]) -> dict[str, Any]:
    """`key=value` as the tool's definition types it: texts as they are, all else as JSON."""
    texts: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        shown = showing.cell(key)
        if not equals or not key:
            raise UsageError(
                Message(f"参数写作 key=value，不是 {shown}。", f"Write parameters as key=value, not {shown}.")
            )
        if key in texts or key in others:
            raise UsageError(Message(f"参数 {shown} 给了两次。", f"The parameter {shown} is given twice."))
        texts[key] = text
    schema = _schema(service, tool) if texts else {}
    return {key: _value(key, text, schema) for key, text in texts.items()}


def _schema(service: Service, tool: str) -> dict[str, Any]:
    """The tool's parameters; none where the tool is not there, which `/exec` then says better."""
    try:
        found = service.get(f"/tools/{calling.path_part(tool)}").get("params_schema")
    except NotFound:
        return {}
    return found if isinstance(found, dict) else {}


def _value(key: str, text: str, schema: dict[str, Any]) -> Any:
    rule = schema.get(key)
    kind = rule.get("type", _TEXT) if isinstance(rule, dict) else _TEXT
    if kind == _TEXT:
        return text
    try:
        return plain.loads(text)
    except (ValueError, RecursionError):
        shown = showing.cell(key)
        raise UsageError(
            Message(
                f"参数 {shown} 的类型是 {kind}，须写成 JSON。",
                f"The parameter {shown} is of type {kind}: write it as JSON.",
            )
        ) from None
