"""`bitong match`: which tools fit an intent, asked of a running service."""

from typing import Annotated

import typer

from service.cli import calling, showing
from service.cli import settings as given


def register(application: typer.Typer) -> None:
    """The command."""
    application.command("match")(match)


def match(
    intent: Annotated[str, typer.Argument(metavar="INTENT", help="想做什么 / what is wanted")],
    config: given.Config = None,
    json: given.Json = False,  # noqa: ARG001 - it is JSON anyway
) -> None:
    """按意图找工具。 Find tools by what is wanted.

    示例 / example: bitong match "查看最近的提交记录"
    """
    with calling.acting(config) as service:
        showing.as_json(service.json("POST", "/exec", body={"intent": intent}))
