"""`bitong confirm`: runs that wait for somebody's yes, through a running service."""

import sys
from typing import Annotated, Any, Final

import typer

from service.cli import calling, exec, questions, showing
from service.cli import settings as given
from service.cli.calling import Lost, Service
from service.cli.following import INTERRUPTED
from service.errors import Conflict, Message, UsageError

COLUMNS: Final = ("id", "state", "tool", "version", "actor", "asked_at", "expires_at", "将执行 what will run")
_SCOPES: Final = ("exec", "confirm")
_ID = Annotated[str, typer.Argument(metavar="ID", help="确认的 id / the confirmation's id")]
_REASON = Annotated[str | None, typer.Option("--reason", help="理由 / why")]


def application() -> typer.Typer:
    """The group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="等待确认的运行。 Runs that wait for a yes.")
    group.command("list")(list_waiting)
    group.command("approve")(approve)
    group.command("reject")(reject)
    return group


def list_waiting(
    state: Annotated[
        str, typer.Option("--state", help="状态，或 all / waiting, approved, rejected, expired, dropped, or all")
    ] = "waiting",
    limit: Annotated[int | None, typer.Option(min=1, max=calling.MOST, help="最多几项 / at most so many")] = None,
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """列出等待确认的运行，最新的在前。 List what waits for a yes, newest first.

    示例 / example: bitong confirm list --state all
    """
    with calling.acting(config, scopes=_SCOPES) as service:
        page = service.get("/confirmations", state=None if state == "all" else state, limit=limit)
    if json:
        showing.as_json(page)
        return
    rows = [[*(item[name] for name in COLUMNS[:-1]), questions.preview_text(item["preview"])] for item in page["items"]]
    showing.table(COLUMNS, rows)


def approve(
    confirmation: _ID,
    yes: Annotated[bool, typer.Option("--yes", help="不再询问 / ask nothing more, whatever the tool's effect")] = False,
    reason: _REASON = None,
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """先看将执行什么，确认后执行；输出与退出码同 exec。 See what will run, say yes: it runs; prints and exits as `exec` does.

    没有终端时须加 --yes；effect: destructive 的工具须输入工具名。
    Without a terminal --yes is needed; for a tool with effect: destructive its name has to be typed.

    示例 / example: bitong confirm approve 0190b5a4-0000-7000-8000-000000000000
    """
    if not (yes or (sys.stdin.isatty() and sys.stderr.isatty())):
        raise UsageError(
            Message(
                "没有终端可以询问：看清之后加 --yes。",
                "There is no terminal to ask on: read what it is, then add --yes.",
            )
        )
    with calling.acting(config, scopes=_SCOPES) as service:
        asked = service.get(f"/confirmations/{calling.path_part(confirmation)}")
        if asked["state"] == "waiting":  # else the service says what became of it
            definition = _definition(service, asked)
            questions.show(asked, definition, effect=definition.get("effect"))
            if not yes and not _is_wanted(asked["tool"], definition.get("effect")):
                raise Conflict(Message("没有确认；仍在等待。", "Not approved; it still waits."))
        code = _approve(service, asked, reason, json=json)
    if code:
        raise typer.Exit(code)


def reject(confirmation: _ID, reason: _REASON = None, json: given.Json = False, config: given.Config = None) -> None:
    """拒绝；不会执行。 Say no: it does not run.

    示例 / example: bitong confirm reject 0190b5a4-0000-7000-8000-000000000000 --reason 不是现在
    """
    with calling.acting(config, scopes=_SCOPES) as service:
        rejected = service.json(
            "POST", f"/confirmations/{calling.path_part(confirmation)}", body=_body("reject", reason)
        )
    if json:
        showing.as_json(rejected)
    else:
        showing.say(Message(f"已拒绝 {rejected['id']}，没有执行。", f"{rejected['id']} was rejected; it did not run."))


def _definition(service: Service, asked: dict[str, Any]) -> dict[str, Any]:
    """The definition of the version that was asked about, as registered."""
    shown = service.get(f"/tools/{calling.path_part(asked['tool'])}/versions/{asked['version']}")
    definition: dict[str, Any] = shown["definition"]
    return definition


def _is_wanted(tool: str, effect: str | None) -> bool:
    """A yes by hand; for what destroys, the tool's name (cases.md C5)."""
    if effect == "destructive":
        return _typed(f"输入工具名以确认 / type the tool's name to approve ({tool}): ") == tool
    return _typed("执行？ / run it? [y/N]: ").lower() in ("y", "yes")


def _typed(question: str) -> str:
    """What is answered to a question on standard error: `input` and typer's own prompts write to standard output."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def _approve(service: Service, asked: dict[str, Any], reason: str | None, *, json: bool) -> int:
    """Says yes and waits for the end, as `/exec` does; where that takes too long, follows it."""
    look = f"bitong runs list --tool {asked['tool']}"
    path = f"/confirmations/{calling.path_part(asked['id'])}"
    try:
        answer = service.ask("POST", path, body=_body("approve", reason), within_s=None)
    except Lost as error:
        said = error.message
        raise Lost(Message(f"{said.zh} 可能已经执行：{look}", f"{said.en} It may have run: {look}")) from None
    except KeyboardInterrupt:
        showing.say(Message(f"不再等待；运行仍在进行：{look}", f"No longer waited for; the run goes on: {look}"))
        raise typer.Exit(INTERRUPTED) from None
    return exec.told(service, answer, json=json)


def _body(decision: str, reason: str | None) -> dict[str, str]:
    return {"decision": decision} | ({} if reason is None else {"reason": reason})
