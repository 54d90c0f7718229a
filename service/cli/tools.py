"""`bitong tools`: what is registered, read from a running service."""

from typing import Annotated, Any, Final

import typer

from service.cli import calling, showing
from service.cli import settings as given

COLUMNS: Final = ("名称 name", "显示 display", "执行 method", "版本 version", "作者 author", "意图 intent")


def application() -> typer.Typer:
    """The group."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="已登记的工具。 The tools that are registered."
    )
    group.command("list")(list_tools)
    group.command("show")(show)
    group.command("at")(at)
    return group


def list_tools(
    q: Annotated[str | None, typer.Option("-q", help="在名称、显示名、意图、缘由中查找 / search for this text")] = None,
    executor: Annotated[str | None, typer.Option(help="执行器 / the executor")] = None,
    author: Annotated[str | None, typer.Option(help="作者 / the author")] = None,
    state: Annotated[str | None, typer.Option(help="active、removed、orphaned / the state")] = None,
    limit: Annotated[int | None, typer.Option(min=1, max=calling.MOST, help="最多几项 / at most so many")] = None,
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """列出工具。 List the tools.

    示例 / example: bitong tools list --executor shell -q 提交
    """
    with calling.reading(config) as service:
        page = service.get("/tools", q=q, executor=executor, author=author, state=state, limit=limit)
    if json:
        showing.as_json(page)
        return
    showing.table(COLUMNS, [_row(item) for item in page["items"]])


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="工具名 / the tool's name")],
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """一个工具的定义与来历。 One tool: its definition, who wrote it and why.

    示例 / example: bitong tools show shell-exec
    """
    with calling.reading(config) as service:
        tool = service.get(f"/tools/{calling.path_part(name)}")
    if json:
        showing.as_json(tool)
        return
    _show(tool)


def at(
    name: Annotated[str, typer.Argument(metavar="NAME", help="工具名 / the tool's name")],
    time: Annotated[str, typer.Argument(metavar="TIME", help="时间 / 2026-05-31T08:00:00Z")],
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """某一时刻会执行哪个版本，以及为什么。 Which version would have run then, and why that one.

    示例 / example: bitong tools at shell-exec 2026-05-31T08:00:00Z
    """
    with calling.reading(config) as service:
        then = service.get(f"/tools/{calling.path_part(name)}/at", time=time)
    if json:
        showing.as_json(then)
        return
    version = then["version"] or {}
    showing.fields([("工具 tool", then["tool"]), ("时间 time", then["time"]), ("状态 state", then["state"])])
    showing.fields([(name, version.get(name)) for name in ("version", "commit", "sha256", "author", "why", "pusher")])
    showing.fields([("为什么 why", f"{then['why']['zh']} {then['why']['en']}")])
    if then["following"] is not None:
        showing.fields([("之后 next", f"{then['following']['at']} {then['following']['type']}")])


def _row(item: dict[str, Any]) -> list[Any]:
    version = item["definition"]["version"]
    return [item["name"], item["display"], _method(item), version, item["author"], item["intent"]]


def _method(item: dict[str, Any]) -> str:
    return f"{item['executor']}:{item['method']}"


def _show(tool: dict[str, Any]) -> None:
    showing.fields([("名称 name", tool["name"]), ("状态 state", tool["state"])])
    definition = tool.get("definition")
    if definition is not None:
        names = (("显示 display", "display"), ("意图 intent", "intent"), ("作者 author", "author"), ("缘由 why", "why"))
        showing.fields([(shown, tool[name]) for shown, name in names])
        showing.fields(
            [("执行 method", _method(tool)), ("影响 effect", tool["effect"]), ("弃用 deprecated", tool["deprecated"])]
        )
        showing.fields([("约束 constraints", tool["constraints"])])
        origin = ("version", "commit", "git_author", "pusher", "created", "registered_at", "sha256")
        showing.fields([(name, definition[name]) for name in origin])
        showing.table(
            ("参数 param", "类型 type", "必填 required", "说明 description"), _parameters(tool["params_schema"])
        )
    showing.fields([("移除 removed", tool["removed"]), ("落后 behind", tool.get("behind") or None)])
    rejection = tool.get("rejection")
    if rejection is not None:
        showing.fields([("未登记 not registered", f"{rejection['path']} @ {rejection['commit']}")])
        for problem in rejection["problems"]:
            place = "" if problem["line"] is None else f"{problem['line']}: "
            showing.fields([("问题 problem", f"{place}{problem['zh']} {problem['en']}")])
    for warning in tool.get("warnings", ()):
        showing.fields([("注意 warning", f"{warning['zh']} {warning['en']}")])


def _parameters(schema: dict[str, Any]) -> list[list[Any]]:
    shown = {name: rule for name, rule in schema.items() if isinstance(rule, dict)}
    return [
        [name, rule.get("type"), rule.get("required", False), rule.get("description")] for name, rule in shown.items()
    ]
