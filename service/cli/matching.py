"""`bitong match`: which tools fit an intent, asked of a running service."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from service.cli import calling, showing
from service.cli import settings as given
from service.errors import Message

COLUMNS: Final = (
    "工具 tool",
    "把握 confidence",
    "分数 score",
    "作者 author",
    "意图 intent",
    "缘由 why",
)
BRIEF_CHARACTERS: Final = 40
NEAREST: Final = ("最接近的，并不推荐 nearest, not recommended", "显示 display", "分数 score")
_NOTHING: Final = Message("没有合适的工具。", "No tool fits.")


def register(application: typer.Typer) -> None:
    """The command."""
    application.command("match")(match)


def match(
    intent: Annotated[str, typer.Argument(metavar="INTENT", help="想做什么 / what is wanted")],
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """按意图找工具；没有合适的则退出码为 1。 Find tools by what is wanted; exit 1 where none fits.

    示例 / example: bitong match "查看最近的提交记录"
    """
    with calling.acting(config, scopes=("exec", "read")) as service:
        answer = service.json("POST", "/exec", body={"intent": intent})
    if json:
        showing.as_json(answer)
    elif answer["found"]:
        showing.table(COLUMNS, map(_row, answer["candidates"]))
        showing.fields([("match_id", answer["match_id"])], aside=True)
    else:
        showing.say(Message(f"{_NOTHING.zh}{answer['suggestion']}", _NOTHING.en))
        if answer["nearest"]:
            showing.table(NEAREST, [(one["tool"], one["display"], one["score"]) for one in answer["nearest"]])
    if not answer["found"]:
        raise typer.Exit(1)


def _row(one: Mapping[str, Any]) -> tuple[Any, ...]:
    whose = one["definition"]
    named = f"{one['tool']}（弃用 deprecated）" if one["deprecated"] is not None else one["tool"]
    return named, one["confidence"], one["score"], whose["author"], _brief(one["intent"]), _brief(whose["why"])


def _brief(text: str) -> str:
    """As much of a text as a table has room for; --json has it whole."""
    line = " ".join(text.split())
    return line if len(line) <= BRIEF_CHARACTERS else line[:BRIEF_CHARACTERS] + "…"
