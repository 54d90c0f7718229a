"""`/access`: who may call, and from when."""

from collections.abc import Mapping
from typing import Any

from service.domain.actors import SCOPES
from service.domain.times import now
from service.errors import Conflict, Invalid
from service.web import sessions, tokens
from service.web.pages.view import View
from service.web.parts import Parts
from service.web.routing import Answer, Asked


def show(parts: Parts, asked: Asked) -> Answer:
    """Tokens and people's sessions."""
    return _shown(View.of(parts, asked))


def issue(view: View, form: Mapping[str, str]) -> Answer:
    """A new token: it is on this one page and nowhere else."""
    scopes = [scope for scope in SCOPES if form.get(f"scope-{scope}") == "yes"]
    tools = form.get("tools", "").split() or None
    try:
        token, text = view.parts.authority.issue(
            form.get("name", "").strip(), scopes, tools, form.get("expires_at", "").strip() or None, view.actor
        )
    except (Invalid, Conflict) as error:
        told = {problem["param"]: view.told(problem) for problem in error.facts.get("problems", ())}
        return _shown(view, wrong=told or {"name": view.say(error.message)}, form=form, status=422)
    return _shown(view, made={"name": token.name, "token": text})


def revoke(view: View, _form: Mapping[str, str]) -> Answer:
    """End a token."""
    view.parts.authority.revoke(view.asked.path["id"], view.actor)
    return view.go("/access")


def end(view: View, _form: Mapping[str, str]) -> Answer:
    """End somebody's session."""
    view.parts.people.sessions.close(view.asked.path["id"], view.actor)
    return view.go("/access")


def _shown(
    view: View,
    *,
    made: Mapping[str, str] | None = None,
    wrong: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    status: int = 200,
) -> Answer:
    moment = now()
    kept: list[dict[str, Any]] = view.api(tokens.list_tokens, limit=1000)["items"]
    people: list[dict[str, Any]] = view.api(sessions.list_sessions, limit=200)["items"]

    def live(item: Mapping[str, Any], ended: str) -> bool:
        return item[ended] is None and (item["expires_at"] is None or moment < item["expires_at"])

    return view.render(
        "access.html",
        status,
        here="/access",
        tokens=[token | {"live": live(token, "revoked_at")} for token in kept],
        people=[session | {"live": live(session, "closed_at")} for session in people],
        made=made,
        wrong=wrong or {},
        form=form or {},
        scopes=SCOPES,
    )
