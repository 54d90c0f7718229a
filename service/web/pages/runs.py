"""`/runs` and `/runs/{id}`: what was run, and what exactly happened in one run."""

from collections.abc import Mapping
from typing import Any, Final

from service.domain.runs import OPEN, STATES
from service.errors import Invalid
from service.web import runs, stats
from service.web.pages.plots import by_time
from service.web.pages.view import View
from service.web.parts import Parts
from service.web.routing import Answer, Asked

INLINE: Final = 65_536  # characters of a stream that a page holds; the rest is a link away
_FILTERS: Final = ("tool", "state", "ok", "actor", "commit", "since", "until", "q", "cursor")


def show_list(parts: Parts, asked: Asked) -> Answer:
    """Newest first, filtered; of one tool with the plot of its last thirty days."""
    view = View.of(parts, asked)
    filters: dict[str, Any] = {
        name: asked.query[name].strip() for name in _FILTERS if asked.query.get(name, "").strip()
    }
    wanted = filters | view.actor_named(filters.get("actor"))
    shown: dict[str, Any] = {"items": [], "next": None}
    wrong: dict[str, str] = {}
    try:
        shown = view.api(runs.list_runs, **wanted)
    except Invalid as error:
        wrong = {problem["param"]: view.told(problem) for problem in error.facts["problems"]}
    tool = filters.get("tool")
    plotted = tool is not None and view.actor.may("read") and "cursor" not in filters
    plot = by_time(view, view.api(stats.show_stats, by="day", tool=tool)) if plotted else None
    exports = {name: view.link("/api/v1/runs", **_without_cursor(wanted), format=name) for name in ("csv", "ndjson")}
    return view.render(
        "runs.html",
        here="/runs",
        tool=tool,
        plot=plot,
        exports=exports,
        runs=shown["items"],
        next=shown["next"],
        filters=filters,
        wrong=wrong,
        states=STATES,
    )


def show(parts: Parts, asked: Asked) -> Answer:
    """One run: what came back, what was asked, which definition ran, and what proves it."""
    view = View.of(parts, asked)
    run = view.api(runs.show_run, at=asked.path)
    goes_on = run["state"] in OPEN
    mine = run["actor"] == view.actor.name or view.actor.may("admin")
    return view.render(
        "run.html",
        here="/runs",
        run=run,
        streams=[_stream(run, "stdout"), _stream(run, "stderr")],
        goes_on=goes_on,
        follows=run["state"] in ("queued", "started"),
        may_cancel=goes_on and mine,
    )


def cancel(view: View, _form: Mapping[str, str]) -> Answer:
    """Ask it to end; its page tells how that went."""
    runs.cancel(view.parts, view.asked)  # an answer still to come is not waited for
    return view.go(f"/runs/{view.asked.path['id']}")


def _stream(run: Mapping[str, Any], name: str) -> dict[str, Any]:
    text = run["output"] if name == "stdout" else run["stderr"]
    prefix = "output" if name == "stdout" else "stderr"
    total = run[f"{prefix}_bytes"]
    shown = text[:INLINE]
    return {
        "name": name,
        "text": shown,
        "bytes": total,
        "sha256": run[f"{prefix}_sha256"],
        "shown": len(shown.encode("utf-8", "replace")),
        "is_whole": len(text) <= INLINE and not run["truncated"],
        "exact": f"{prefix}_b64" not in run,
    }


def _without_cursor(filters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in filters.items() if name != "cursor"}
