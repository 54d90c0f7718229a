"""`bitong report`: what the record says in sum, asked of a running service."""

from typing import Final

import typer

from service.cli import calling, showing
from service.cli import settings as given

COLUMNS: Final = (
    *("次数 count", "人数 actors", "意图 intent", "其他说法 other wordings"),
    *("最近一次 last", "现在可用 found now"),
)


def application() -> typer.Typer:
    """The group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="汇总。 Reports.")
    group.callback()(_group)
    group.command("missing-tools")(missing_tools)
    return group


def _group() -> None:
    """With a callback a group of one command keeps the command's name."""


def missing_tools(
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """没有找到工具的意图，说法相近的归在一起。 Intents that found nothing, those alike together.

    示例 / example: bitong report missing-tools
    """
    with calling.reading(config) as service:
        items = service.everything("/reports/missing-tools")
    if json:
        showing.as_json({"items": items, "next": None})
        return
    showing.table(
        COLUMNS,
        [
            [one["count"], one["actors"], one["intent"], one["examples"], one["last_at"], one["found_now"]]
            for one in items
        ],
    )
