"""`bitong token`: who may call the API. Through the running service; where none runs, on the data folder itself."""

import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from service.cli import calling, direct, showing
from service.cli import settings as given
from service.domain.actors import OPERATOR
from service.domain.times import parse_time, rfc3339
from service.errors import Message, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.web.auth import Authority

COLUMNS: Final = ("name", "id", "scopes", "tools", "created_at", "expires_at", "revoked_at")
_SPAN: Final = re.compile(r"(\d{1,6})([mhdw])\Z", re.ASCII)
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def application() -> typer.Typer:
    """The group."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="令牌：谁可以做什么。 Tokens: who may do what."
    )
    group.command("create")(create)
    group.command("list")(list_tokens)
    group.command("revoke")(revoke)
    return group


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="名称 / its name")],
    scope: Annotated[list[str], typer.Option("--scope", help="权限，可多次 / read, exec, confirm or admin; repeat it")],
    tools: Annotated[
        list[str] | None, typer.Option("--tools", help="只限这些工具，如 'git-*'，可多次 / only these tools; repeat it")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", help="90d、12h 或时间 / a span such as 90d or 12h, or a time")
    ] = None,
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """新建令牌；标准输出只有令牌本身，仅此一次。 A new token: it alone is printed, this once.

    示例 / example: bitong token create ci --scope exec --scope read --tools 'git-*' --expires 90d
    """
    wish = {"name": name, "scopes": scope, "tools": tools or None, "expires_at": _moment(expires)}
    made = _create(wish, config)
    if json:
        showing.as_json(made)
    else:
        typer.echo(made["token"])


def list_tokens(json: given.Json = False, config: given.Config = None) -> None:
    """列出令牌，从不显示令牌本身。 List tokens, never the tokens themselves.

    示例 / example: bitong token list --json
    """
    items = _list(config)
    if json:
        showing.as_json({"items": items, "next": None})
    else:
        showing.table(COLUMNS, [[item[column] for column in COLUMNS] for item in items])


def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="名称或 id / its name or id")],
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """立即停用一个令牌。 End a token at once.

    示例 / example: bitong token revoke ci
    """
    settings = given.read(config)
    service = calling.running(settings)
    if service is not None:
        with service:
            ended = service.json("DELETE", f"/tokens/{calling.path_part(name)}")
    else:
        with _authority(settings) as authority:
            ended = _item(authority.revoke(name, OPERATOR))
    if json:
        showing.as_json(ended)
    else:
        showing.say(Message(f"已停用 {ended['name']}。", f"{ended['name']} was revoked."))


def _create(wish: dict[str, Any], config: Any) -> dict[str, Any]:
    settings = given.read(config)
    service = calling.running(settings)
    if service is not None:
        with service:
            made: dict[str, Any] = service.json("POST", "/tokens", body=wish)
            return made
    with _authority(settings) as authority:
        token, text = authority.issue(wish["name"], wish["scopes"], wish["tools"], wish["expires_at"], OPERATOR)
        return _item(token) | {"token": text}


def _list(config: Any) -> list[dict[str, Any]]:
    settings = given.read(config)
    service = calling.running(settings)
    if service is not None:
        with service:
            return service.everything("/tokens")
    with _authority(settings) as authority:
        return [_item(token) for token in authority.all_tokens()]


@contextmanager
def _authority(settings: Any) -> "Iterator[Authority]":
    with direct.opened(settings) as bitong:
        yield bitong.authority


def _item(token: Any) -> dict[str, Any]:
    from service.web.tokens import item_of  # noqa: PLC0415 - heavy

    return item_of(token)


def _moment(text: str | None) -> str | None:
    """RFC 3339, from a span from now or a time as people write it."""
    if text is None:
        return None
    if span := _SPAN.match(text):
        try:
            return rfc3339(time.time() + int(span[1]) * _SECONDS[span[2]])
        except (ValueError, OverflowError):
            pass
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        raise UsageError(
            Message(
                "--expires 写作 90d、12h 或 2026-12-31T00:00:00Z。", "--expires takes 90d, 12h or 2026-12-31T00:00:00Z."
            )
        ) from None
