"""`bitong confirm`: runs that wait for somebody's yes, through a running service."""

from typing import Annotated

import typer

from service.cli import calling, showing
from service.cli import settings as given

_ID = Annotated[str, typer.Argument(metavar="ID", help="确认的 id / the confirmation's id")]
_REASON = Annotated[str | None, typer.Option("--reason", help="理由 / why")]


def application() -> typer.Typer:
    """The group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="等待确认的运行。 Runs that wait for a yes.")
    group.command("list")(list_waiting)
    group.command("approve")(approve)
    group.command("reject")(reject)
    return group


def list_waiting(json: given.Json = False, config: given.Config = None) -> None:  # noqa: ARG001 - it is JSON anyway
    """列出等待确认的运行。 List what waits.

    示例 / example: bitong confirm list
    """
    with calling.reading(config) as service:
        showing.as_json(service.get("/confirmations"))


def approve(confirmation: _ID, reason: _REASON = None, config: given.Config = None) -> None:
    """确认并执行。 Say yes: it runs.

    示例 / example: bitong confirm approve 0190b5a4-0000-7000-8000-000000000000
    """
    _answer(confirmation, "approve", reason, config)


def reject(confirmation: _ID, reason: _REASON = None, config: given.Config = None) -> None:
    """拒绝。 Say no.

    示例 / example: bitong confirm reject 0190b5a4-0000-7000-8000-000000000000 --reason 不是现在
    """
    _answer(confirmation, "reject", reason, config)


def _answer(confirmation: str, decision: str, reason: str | None, config: given.Config) -> None:
    body = {"decision": decision} | ({} if reason is None else {"reason": reason})
    with calling.acting(config) as service:
        showing.as_json(service.json("POST", f"/confirmations/{calling.path_part(confirmation)}", body=body))
