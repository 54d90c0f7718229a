"""Plots where people would rather look than read: drawn here as SVG, with a table behind; uPlot takes over in the browser."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from service.domain.runs import OPEN
from service.errors import Message

if TYPE_CHECKING:
    from service.web.pages.view import View

WIDTH: Final = 600
HEIGHT: Final = 110
# What a bar is made of, from the bottom up: states, colour in the style sheet, sign, word. Failures are on top.
KINDS: Final[Mapping[str, tuple[tuple[str, ...], str, str, Message]]] = {
    "well": (("succeeded",), "malachite", "✓", Message("成功", "succeeded")),
    "open": (OPEN, "azurite", "●", Message("未结束", "not over yet")),
    "else": (("refused", "cancelled"), "faint", "⊘", Message("未执行、已取消", "refused, cancelled")),
    "ill": (("failed", "timed_out", "unknown", "interrupted"), "cinnabar", "✗", Message("失败", "failed")),
}


def by_time(view: "View", counted: Mapping[str, Any]) -> dict[str, Any]:
    """Runs by hour or day as bars, failures on top: `{bars, rows, most, kinds, plot}`; `kinds`: those that occur."""
    rows = [_row(view, time, counted["by"]) for time in counted["times"]]
    most = max([1, *(row["all"] for row in rows)])
    kinds = [kind for kind in KINDS if any(row[kind] for row in rows)]
    step = WIDTH / max(1, len(rows))
    return {
        "bars": [bar for place, row in enumerate(rows) for bar in _bar(row, place * step, step, most)],
        "rows": rows,
        "most": most,
        "kinds": [{"kind": kind, "sign": KINDS[kind][2], "word": view.say(KINDS[kind][3])} for kind in kinds],
        "plot": _plot(view, rows, kinds),
    }


def _plot(view: "View", rows: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> str:
    """What uPlot draws, as JSON: the topmost kind first, as high as the whole bar, and each one below drawn over it."""
    shape = {
        "label": view.say("时间", "Time"),
        "times": [row["seconds"] for row in rows],
        "series": [
            {
                "label": f"{KINDS[kind][2]} {view.say(KINDS[kind][3])}",
                "colour": KINDS[kind][1],
                "values": [sum(row[below] for below in kinds[: place + 1]) for row in rows],
                "told": [row[kind] for row in rows],
            }
            for place, kind in reversed(list(enumerate(kinds)))
        ],
    }
    return json.dumps(shape, ensure_ascii=False)


def _row(view: "View", time: Mapping[str, Any], by: str) -> dict[str, Any]:
    states = time["states"]
    at = datetime.fromisoformat(time["at"])
    local = at.astimezone() if by == "hour" else at
    counts = {kind: sum(states.get(state, 0) for state in of) for kind, (of, *_) in KINDS.items()}
    form = view.say("%m月%d日 %H:%M", "%b %d, %H:%M") if by == "hour" else view.say("%m月%d日", "%b %d")
    return {
        "label": local.strftime(form),
        "seconds": int(at.timestamp()),
        "all": sum(counts.values()),
        **counts,
    }


def _bar(row: Mapping[str, Any], left: float, step: float, most: int) -> list[dict[str, Any]]:
    """The parts of one bar, from the bottom up; a failure is never too thin to be seen."""
    found, bottom = [], float(HEIGHT)
    for kind in KINDS:
        if row[kind]:
            height = max(2.0, row[kind] / most * HEIGHT)
            bottom -= height
            found.append(
                {
                    "kind": kind,
                    "x": round(left + step * 0.1, 1),
                    "y": round(bottom, 1),
                    "width": round(step * 0.8, 1),
                    "height": round(height, 1),
                    "label": f"{row['label']}: {row['all']}",
                }
            )
    return found
