"""Whole lists as files: CSV for people's tables, ndjson for programs, streamed (contract/http-api.md, `format=csv|ndjson`).

Each piece is one short read of a window of rows, so an export of a million rows never holds a view of the database, and
who reads slowly holds no thread. What was there when it began is in it to the last row, or the answer breaks off.
"""

import base64
import csv
import io
import json
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Final

from service.domain.times import now
from service.errors import Message, Unauthenticated
from service.store import log, runs
from service.store.log import LogFilter
from service.store.runs import RunFilter
from service.web.lists import unfit
from service.web.parts import Parts
from service.web.routing import Asked, Paged

FORMATS: Final = ("csv", "ndjson")
WINDOW: Final = 20_000  # rows looked at in one read
PAGE: Final = 500  # rows of one piece
_MEDIA: Final = {"csv": "text/csv; charset=utf-8; header=present", "ndjson": "application/x-ndjson"}
# What a spreadsheet takes for the beginning of a formula (OWASP, CSV Injection), also in full width.
_FORMULA: Final = re.compile("[=+\\-@\t\r\n＝＋－＠]")

RUN_COLUMNS: Final = (
    *("id", "state", "reason", "ok", "tool", "method", "version", "commit", "actor", "started_at", "ended_at"),
    *("duration_ms", "exit_code", "error", "output_bytes", "stderr_bytes", "match_id", "confirmation_id"),
    *("receipt_index", "receipt_leaf"),
)
LOG_COLUMNS: Final = ("index", "type", "at", "actor", "leaf", "facts")

Row = Mapping[str, Any]
Pages = Generator[list[Row]]


def export_runs(parts: Parts, asked: Asked, wanted: RunFilter, item: Callable[[Row], dict[str, Any]]) -> Paged:
    """The runs that the list would show, newest first; in ndjson its items, one a line."""
    form = _form(parts, asked)
    pages = _run_pages(parts, asked, wanted)
    if form == "csv":
        return _file(form, "runs", _csv(RUN_COLUMNS, pages, lambda row: _flat(item(row))))
    return _file(form, "runs", _ndjson(pages, item))


def export_log(parts: Parts, asked: Asked, wanted: LogFilter, item: Callable[[Row], dict[str, Any]]) -> Paged:
    """The entries that the list would show, oldest first.

    In ndjson an entry a line: the list's item, and `entry_b64`, the exact bytes of its leaf. Of the whole log the last line
    is `{"checkpoint": note}`, the newest signed note that the entries lead to, where there is one: so the file verifies.
    """
    form = _form(parts, asked)
    note = parts.checkpoint(0) if wanted == LogFilter() else None
    pages = _log_pages(parts, asked, wanted, parts.database.log.size)  # after the note, whose entries are then all here
    if form == "csv":
        return _file(form, "audit", _csv(LOG_COLUMNS, pages, item))
    last = [] if note is None else [{"checkpoint": note}]
    return _file(form, "audit", _ndjson(pages, lambda row: item(row) | _exact(row), last))


def inert(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: text that begins like one gets an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def _form(parts: Parts, asked: Asked) -> str:
    for name in ("limit", "cursor"):
        if name in asked.query:
            raise unfit(name, "导出总是全部，不分页。", "An export is always whole; it has no pages.")
    parts.streams.check()
    return asked.query["format"]


def _file(form: str, name: str, pieces: Generator[bytes]) -> Paged:
    stamp = re.sub(r"[^0-9TZ]", "", now())
    headers = {"Content-Disposition": f'attachment; filename="bitong-{name}-{stamp}.{form}"'}
    return Paged(pieces, _MEDIA[form], headers)


def _run_pages(parts: Parts, asked: Asked, wanted: RunFilter) -> Pages:
    with parts.database.read() as connection:
        before = runs.newest_row(connection) + 1
    while before > 1:
        _check_right(parts, asked)
        down_to = max(1, before - WINDOW)
        with parts.database.read() as connection:
            rows = runs.listed(connection, wanted, before=before, limit=PAGE, down_to=down_to)
        before = int(rows[-1]["seq"]) if len(rows) == PAGE else down_to
        if rows:
            yield rows


def _log_pages(parts: Parts, asked: Asked, wanted: LogFilter, size: int) -> Pages:
    first = 0
    while first < size:
        _check_right(parts, asked)
        until = min(size, first + WINDOW)
        with parts.database.read() as connection:
            rows = log.between(connection, wanted, first=first, until=until, limit=PAGE)
        first = int(rows[-1]["idx"]) + 1 if len(rows) == PAGE else until
        if rows:
            yield rows


def _check_right(parts: Parts, asked: Asked) -> None:
    """A token that has ended gets nothing more: the answer breaks off."""
    if parts.authority.standing(asked.actor.name) is None:
        raise Unauthenticated(Message("令牌已失效。", "The token has ended."))


def _csv(columns: Sequence[str], pages: Pages, item: Callable[[Row], dict[str, Any]]) -> Generator[bytes]:
    yield _csv_lines([columns])
    for rows in pages:
        yield _csv_lines([_cell(shown[name]) for name in columns] for shown in map(item, rows))


def _csv_lines(lines: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(lines)
    return text.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return inert(_json(value) if isinstance(value, dict | list) else value)


def _ndjson(pages: Pages, item: Callable[[Row], dict[str, Any]], last: Sequence[Any] = ()) -> Generator[bytes]:
    for rows in pages:
        yield "".join(f"{_json(item(row))}\n" for row in rows).encode("utf-8", "backslashreplace")
    for line in last:
        yield f"{_json(line)}\n".encode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _exact(row: Row) -> dict[str, str]:
    return {"entry_b64": base64.b64encode(row["entry"]).decode("ascii")}


def _flat(item: dict[str, Any]) -> dict[str, Any]:
    receipt = item["receipt"] or {}
    return item | {"receipt_index": receipt.get("index"), "receipt_leaf": receipt.get("leaf")}
