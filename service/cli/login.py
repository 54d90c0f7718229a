"""`bitong login`: a one-time sign-in link. Through the running service; where none runs, on the data folder itself."""

from typing import Any

import typer

from service.cli import calling, direct, showing
from service.cli import settings as given


def register(application: typer.Typer) -> None:
    """The command."""
    application.command("login")(login)


def login(json: given.Json = False, config: given.Config = None) -> None:
    """登录网页用的链接，只能用一次，十分钟内有效。 A link to sign in to the pages with, once, within ten minutes.

    示例 / example: bitong login
    """
    made = _made(config)
    if json:
        showing.as_json(made)
    else:
        typer.echo(made["url"])


def _made(config: Any) -> dict[str, Any]:
    settings = given.read(config)
    service = calling.running(settings)
    if service is not None:
        with service:
            made: dict[str, Any] = service.json("POST", "/sign-in-links")
            return made
    with direct.opened(settings) as bitong:
        text, expires_at = bitong.sessions.make_link()
        return {"url": f"{settings.public_url}/sign-in/link?token={text}", "expires_at": expires_at}
