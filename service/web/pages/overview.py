"""`/`: is all well, what runs, what failed, what waits for the reader."""

from typing import Any, Final

from service.web import audit, confirmations, registrations, runs, stats, tools
from service.web.pages.plots import by_time
from service.web.pages.view import View
from service.web.parts import Parts
from service.web.routing import Answer, Asked

FAILING: Final = ("failed", "timed_out", "unknown", "interrupted")
SHOWN: Final = 8
NEWEST: Final = 5


def show(parts: Parts, asked: Asked) -> Answer:
    """The overview, as far as the reader may read."""
    view = View.of(parts, asked)
    queued = _runs(view, "queued")  # first, so that one which starts meanwhile is in one of both
    going_on = {run["id"]: run for run in (*queued, *_runs(view, "started"))}
    facts: dict[str, Any] = {
        "running": sorted(going_on.values(), key=lambda run: str(run["id"])),
        "failed": _newest([run for state in FAILING for run in _runs(view, state)]),
        "tools": len(parts.index),
        "succeeded": _runs(view, "succeeded")[:NEWEST],
        "stats": None,
        "confirmations": [],
    }
    if view.actor.may("exec"):
        facts["confirmations"] = view.api(confirmations.list_confirmations, state="waiting", limit=SHOWN)["items"]
    if view.actor.may("read"):
        facts["stats"] = counted = view.api(stats.show_stats, by="hour")
        facts["failures"] = sum(counted["states"].get(state, 0) for state in FAILING)
        facts["plot"] = by_time(view, counted)
        facts["slowest"] = sorted(counted["tools"], key=lambda tool: -tool["p95_ms"])[:NEWEST]
        facts["rejections"] = len(view.api(registrations.list_rejections, current="true", limit=100)["items"])
        facts["registered"] = [_registered(view, entry) for entry in _entries(view)]
    return view.render("overview.html", here="/", **facts)


def show_notices(parts: Parts, asked: Asked) -> Answer:
    """What stands at the top of every page, for pages that are open already; `here`: which of them asks."""
    return View.of(parts, asked).render("notices.html", here=asked.query.get("here", ""))


def show_keys(parts: Parts, asked: Asked) -> Answer:
    """The keys that pages know."""
    return View.of(parts, asked).render("keys.html")


def _runs(view: View, state: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = view.api(runs.list_runs, state=state, limit=SHOWN)["items"]
    return found


def _newest(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda run: str(run["id"]), reverse=True)[:SHOWN]  # ids are in the order of time


def _entries(view: View) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = view.api(audit.list_entries, type="definition.registered", limit=NEWEST)["items"]
    return found


def _registered(view: View, entry: dict[str, Any]) -> dict[str, Any]:
    facts = entry["facts"]
    version = view.api(tools.show_version, at={"name": facts["tool"], "number": str(facts["version"])})
    return {"tool": facts["tool"], "at": entry["at"], **version}
