"""`/registrations`: why a tool that was pushed is not there."""

from collections import defaultdict
from typing import Any, Final

from service.errors import NotFound
from service.web import registrations, tools
from service.web.pages.view import View
from service.web.parts import Parts
from service.web.routing import Answer, Asked

MOST: Final = 100


def show(parts: Parts, asked: Asked) -> Answer:
    """What is rejected now, what was once, and what each push led to."""
    view = View.of(parts, asked)
    current = view.api(registrations.list_rejections, current="true", limit=MOST)
    deliveries = view.api(registrations.list_deliveries, cursor=asked.query.get("cursor"))
    return view.render(
        "registrations.html",
        here="/registrations",
        rejections=current["items"],
        past=view.api(registrations.list_rejections, current="false", limit=20)["items"],
        deliveries=deliveries["items"],
        next=deliveries["next"],
    )


def show_rejected(parts: Parts, asked: Asked) -> Answer:
    """The file with its lines, each problem at its line, and the version that still runs."""
    view = View.of(parts, asked)
    name, commit = asked.path["name"], asked.path["commit"]
    source = view.api(registrations.show_rejected, at=asked.path)
    found = view.api(registrations.list_rejections, tool=name, limit=1000)["items"]
    rejection = next((one for one in found if one["commit"] == commit), None)
    at: dict[int, list[Any]] = defaultdict(list)
    for problem in rejection["problems"] if rejection else ():
        at[problem["line"] or 0].append(problem)
    return view.render(
        "rejected.html",
        here="/registrations",
        rejection=rejection,
        path=rejection["path"] if rejection else name,
        commit=commit,
        lines=source.decode("utf-8", "replace").splitlines(),
        at=at,
        tool=_standing(view, name),
    )


def sync(view: View, _form: dict[str, str]) -> Answer:
    """Look at the repository now."""
    registrations.sync(view.parts, view.asked)
    return view.go("/registrations")


def _standing(view: View, name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = view.api(tools.show_tool, at={"name": name})
    except NotFound:
        return None
    return found
