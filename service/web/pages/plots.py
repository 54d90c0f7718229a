"""Plots where people would rather look than read: drawn here as SVG, with a table behind; uPlot takes over in the browser."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from service.web.pages.view import View

WIDTH: Final = 600
HEIGHT: Final = 110
WELL: Final = ("succeeded",)
ILL: Final = ("failed", "timed_out", "unknown", "interrupted")


def by_time(view: "View", counted: Mapping[str, Any]) -> dict[str, Any]:
    """Runs by hour or day as bars, failures on top: `{bars, rows, most, first, last, plot}`."""
    rows = [_row(view, time, counted["by"]) for time in counted["times"]]
    most = max([1, *(row["well"] + row["ill"] + row["else"] for row in rows)])
    step = WIDTH / max(1, len(rows))
    return {
        "bars": [bar for place, row in enumerate(rows) for bar in _bar(row, place * step, step, most)],
        "rows": rows,
        "most": most,
        "plot": _plot(view, rows),
    }


def _plot(view: "View", rows: Sequence[Mapping[str, Any]]) -> str:
    """What uPlot draws, as JSON: all runs in red first, then those that did not fail over them, so that failures are on top."""
    failed: dict[str, Any] = {
        "label": view.say("失败", "failed"),
        "colour": "cinnabar",
        "values": [row["all"] for row in rows],
    }
    others: dict[str, Any] = {"label": view.say("其余", "others"), "colour": "malachite"}
    others |= {"values": [row["all"] - row["ill"] for row in rows]}
    shape = {
        "label": view.say("时间", "Time"),
        "times": [row["seconds"] for row in rows],
        "series": [
            failed | {"told": [row["ill"] for row in rows]},
            others | {"told": [row["all"] - row["ill"] for row in rows]},
        ],
    }
    return json.dumps(shape, ensure_ascii=False)


def _row(view: "View", time: Mapping[str, Any], by: str) -> dict[str, Any]:
    states = time["states"]
    at = datetime.fromisoformat(time["at"])
    local = at.astimezone() if by == "hour" else at
    well, ill = (sum(states.get(state, 0) for state in kind) for kind in (WELL, ILL))
    other = sum(states.values()) - well - ill
    form = view.say("%m月%d日 %H:%M", "%b %d, %H:%M") if by == "hour" else view.say("%m月%d日", "%b %d")
    return {
        "label": local.strftime(form),
        "seconds": int(at.timestamp()),
        "well": well,
        "ill": ill,
        "else": other,
        "all": well + ill + other,
    }


def _bar(row: Mapping[str, Any], left: float, step: float, most: int) -> list[dict[str, Any]]:
    """The parts of one bar, from the bottom up; a failure is never too thin to be seen."""
    found, bottom = [], float(HEIGHT)
    for kind, name in (("well", "well"), ("else", "else"), ("ill", "ill")):
        if row[kind]:
            height = max(2.0, row[kind] / most * HEIGHT)
            bottom -= height
            found.append(
                {
                    "kind": name,
                    "x": round(left + step * 0.1, 1),
                    "y": round(bottom, 1),
                    "width": round(step * 0.8, 1),
                    "height": round(height, 1),
                    "label": f"{row['label']}: {row['all']}",
                }
            )
    return found
