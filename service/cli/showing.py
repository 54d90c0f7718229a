"""What people see: tables, fields and failures. What others wrote cannot move a cursor or turn a line's direction."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from service.domain.quoting import escaped
from service.errors import BitongError, Message

_UNLIMITED: Final = 100_000  # columns of a table that goes to a file or another program
_PROSE: Final = 24  # columns that prose gets at least
_GAP: Final = 1  # between two columns
_CELL: Final = 120  # characters of one cell


def say(message: Message) -> None:
    """One sentence for people on standard error, in both languages."""
    sys.stderr.write(f"bitong: {message.zh}\nbitong: {message.en}\n")


def failure(error: BitongError) -> None:
    """A failure, and each problem where several things are wrong, on standard error."""
    say(Message(escaped(error.message.zh), escaped(error.message.en)))
    problems = error.facts.get("problems")
    for problem in problems if isinstance(problems, list) else ():
        if isinstance(problem, Mapping):
            sys.stderr.write(
                f"  {cell(problem.get('param', ''))}: {cell(problem.get('zh'))} {cell(problem.get('en'))}\n"
            )


def as_json(value: Any) -> None:
    """Data for programs."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def cell(value: Any) -> str:
    """One value as text in one line; empty for what is not set."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = ", ".join(value)
    return escaped(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Rows under headings; colours and the terminal's width on a terminal only.

    What is one word (an id, a time, a number) is never broken, or nobody could copy it: only prose is folded.
    """
    from rich.console import Console  # noqa: PLC0415 - only tables need rich
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    terminal = sys.stdout.isatty()
    texts = [[Text(_short(cell(value))) for value in row] for row in rows]
    prose = [any(" " in row[place].plain for row in texts) for place in range(len(columns))]
    console = Console(file=sys.stdout, width=None if terminal else _UNLIMITED, no_color=not terminal, highlight=False)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    needed = 0
    for place, column in enumerate(columns):
        shown.add_column(column, overflow="fold", no_wrap=not prose[place])
        widest = max((row[place].cell_len for row in texts), default=0)
        needed += _GAP + (_PROSE if prose[place] else max(widest, Text(column).cell_len))
    console.width = max(console.width, needed)
    for row in texts:
        shown.add_row(*row)
    console.print(shown, soft_wrap=False, crop=False)


def _short(text: str) -> str:
    """A cell of a table; the whole of it is in `show` and `--json`."""
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def fields(pairs: Iterable[tuple[str, Any]], *, aside: bool = False) -> None:
    """`name: value` lines; those that are not set are left out. `aside`: on standard error, as they are no data."""
    stream = sys.stderr if aside else sys.stdout
    for name, value in pairs:
        if value is not None:
            stream.write(f"{name}: {cell(value)}\n")


def block(title: str, text: str) -> None:
    """Text of several lines, indented, under a title; nothing where there is none."""
    if text:
        lines = "".join(f"    {escaped(line)}\n" for line in text.split("\n"))
        sys.stdout.write(f"{title}:\n{lines}")
