"""`bitong runs`: what ran, read from a running service."""

import json as plain
import sys
from typing import Annotated, Any, Final

import typer

from service.cli import calling, following, printing, showing
from service.cli import settings as given
from service.cli.calling import Service
from service.domain.runs import OPEN
from service.errors import Message

COLUMNS: Final = ("id", "tool", "version", "state", "reason", "actor", "started_at", "duration_ms", "error")
_ID = Annotated[str, typer.Argument(metavar="ID", help="运行的 id / the run's id")]


def application() -> typer.Typer:
    """The group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="运行记录。 Runs.")
    group.command("list")(list_runs)
    group.command("show")(show)
    group.command("tail")(tail)
    group.command("cancel")(cancel)
    return group


def list_runs(
    tool: Annotated[str | None, typer.Option(help="工具名 / the tool")] = None,
    state: Annotated[str | None, typer.Option(help="状态，如 failed / the state")] = None,
    ok: Annotated[bool | None, typer.Option("--ok/--failed", help="成功的或未成功的 / well or not")] = None,
    actor: Annotated[str | None, typer.Option(help="谁执行的，如 token:<id> / who ran it")] = None,
    commit: Annotated[str | None, typer.Option(help="定义的提交号 / the definition's commit")] = None,
    since: Annotated[str | None, typer.Option(help="从何时起 / from this time on")] = None,
    until: Annotated[str | None, typer.Option(help="到何时止 / up to this time")] = None,
    q: Annotated[str | None, typer.Option("-q", help="查找文字 / search for this text")] = None,
    limit: Annotated[int | None, typer.Option(min=1, max=calling.MOST, help="最多几项 / at most so many")] = None,
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """列出运行，最新的在前。 List runs, newest first.

    示例 / example: bitong runs list --tool shell-exec --failed --since 2026-05-31
    """
    wanted = {"tool": tool, "state": state, "ok": ok, "actor": actor, "commit": commit, "since": since, "until": until}
    with calling.reading(config) as service:
        page = service.get("/runs", **wanted, q=q, limit=limit)
    if json:
        showing.as_json(page)
        return
    showing.table(COLUMNS, [[item[column] for column in COLUMNS] for item in page["items"]])


def show(run: _ID, json: given.Json = False, config: given.Config = None) -> None:
    """一次运行的全部：参数、输出、所用的定义。 One run: its parameters, output and the definition that ran.

    示例 / example: bitong runs show 0190b5a4-0000-7000-8000-000000000000
    """
    with calling.reading(config) as service:
        found = service.get(f"/runs/{calling.path_part(run)}")
    if json:
        showing.as_json(found)
        return
    _show(found)


def tail(run: _ID, json: given.Json = False, config: given.Config = None) -> None:
    """跟随一次运行的输出，到它结束；退出码同 exec。 Follow a run's output to its end; exits as `exec` does.

    --json：每行一个事件。 --json: one event a line.

    示例 / example: bitong runs tail 0190b5a4-0000-7000-8000-000000000000
    """
    with calling.reading(config) as service:
        found = service.get(f"/runs/{calling.path_part(run)}")
        run = found["id"]
        code = _events(service, run) if json else printing.live(service, run, found["tool"], found["version"])
    if code:
        raise typer.Exit(code)


def cancel(run: _ID, json: given.Json = False, config: given.Config = None) -> None:
    """终止一次运行，连同它的所有进程。 End a run and all its processes.

    示例 / example: bitong runs cancel 0190b5a4-0000-7000-8000-000000000000
    """
    with calling.reading(config) as service:
        found = service.json("POST", f"/runs/{calling.path_part(run)}/cancel")
    if json:
        showing.as_json(found)
    elif found["state"] in OPEN:
        showing.say(
            Message(f"已要求终止 {found['id']}，尚未结束。", f"{found['id']} was asked to end, and has not yet.")
        )
    else:
        showing.say(Message(f"{found['id']} 已结束：{found['state']}。", f"{found['id']} ended: {found['state']}."))


def _events(service: Service, run: str) -> int:
    """Each event as a line of JSON; the exit code of the run."""
    code = 0
    try:
        with following.left_alone(run):
            for event in following.events(service, run):
                sys.stdout.write(plain.dumps({"event": event.name, **event.data}, ensure_ascii=False) + "\n")
                sys.stdout.flush()
                if event.name == "end":
                    code = printing.exit_code(event.data["ok"], event.data)
    except following.NoEvents as none:
        raise none.failure from None
    return code


def _show(run: dict[str, Any]) -> None:
    names = ("id", "tool", "method", "version", "commit", "actor", "state", "reason", "exit_code", "signal", "status")
    showing.fields([(name, run[name]) for name in names])
    showing.fields([(name, run[name]) for name in ("started_at", "ended_at", "duration_ms", "intent")])
    showing.fields([("confirmation", run["confirmation_id"])])
    showing.fields([("author", run["definition"]["author"]), ("why", run["definition"]["why"])])
    showing.fields([("params", run["params"]), ("params_digest", run["params_digest"]), ("receipt", run["receipt"])])
    showing.block("output", run["output"])
    showing.block("error", run["error"] or "")
    for note in run["notes"]:
        showing.fields([("注意 note", f"{note['zh']} {note['en']}")])
