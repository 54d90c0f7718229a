"""`/search`: is there a tool for …? Names first, then what the text means, as `/exec` matches it."""

import json
from dataclasses import replace
from typing import Any

from service.errors import BitongError
from service.web import exec, tools
from service.web.pages.view import View
from service.web.parts import Parts
from service.web.routing import Answer, Asked


def show(parts: Parts, asked: Asked) -> Answer:
    """A tool of exactly this name at once; else those that have the text, and those that it may mean."""
    view = View.of(parts, asked)
    said = asked.query.get("q", "").strip()[:200]
    if said and parts.index.find(said, view.actor) is not None:
        return view.go(f"/tools/{said}")
    named = view.api(tools.list_tools, q=said, limit=50)["items"] if said else []
    return view.render("search.html", here="search", said=said, tools=named, matched=_matched(view, said))


def _matched(view: View, said: str) -> dict[str, Any] | None:
    """What `/exec` answers to the intent; None where the reader may not ask it, or matching is not there."""
    if not said or not (view.actor.may("exec") and view.actor.may("read")):
        return None
    body = json.dumps({"intent": said}).encode()
    try:
        answer = exec.execute(view.parts, replace(view.asked, body=body, query={}, headers={}))
    except BitongError:
        return None
    return dict(answer.content) if isinstance(answer, Answer) else None
