"""`/confirmations`: what exactly will run if one says yes, and saying it."""

import shlex
from collections.abc import Mapping
from typing import Any, Final

from service.domain.confirmations import Confirmation, may_answer
from service.domain.runs import Run
from service.errors import Conflict
from service.web import confirmations, tools
from service.web.pages.view import View
from service.web.parts import Parts
from service.web.routing import Answer, Asked, need

REASON: Final = 500


def show_list(parts: Parts, asked: Asked) -> Answer:
    """What waits first, then what was answered."""
    view = View.of(parts, asked)
    shown = view.api(confirmations.list_confirmations, cursor=asked.query.get("cursor"))
    waiting = view.api(confirmations.list_confirmations, state="waiting", limit=100)["items"]
    answered = [one for one in shown["items"] if one["state"] != "waiting"]
    return view.render(
        "confirmations.html", here="/confirmations", open=_lined(waiting), answered=_lined(answered), next=shown["next"]
    )


def show(parts: Parts, asked: Asked) -> Answer:
    """One, with all that will run."""
    return _shown(View.of(parts, asked), {})


def approve(view: View, form: Mapping[str, str]) -> Answer:
    """Yes, after a read-through (cases.md C5); the run's page shows what comes."""
    need(view.actor, ["exec"])
    asked = view.parts.execution.confirmations.show(view.asked.path["id"], view.actor)
    wrong = _unread(view, asked, form)
    if wrong:
        return _shown(view, wrong, 422)
    try:
        stand = view.parts.execution.approve(asked.id, view.actor, _reason(form))
    except Conflict as error:  # answered, expired, or what it asked about has changed: told where it was asked
        return _shown(view, {"answer": view.say(error.message)}, 409)
    run = stand.id if isinstance(stand, Run) else asked.run
    return view.go(f"/runs/{run}")


def reject(view: View, form: Mapping[str, str]) -> Answer:
    """No; nothing runs."""
    need(view.actor, ["exec"])
    try:
        view.parts.execution.confirmations.reject(view.asked.path["id"], view.actor, _reason(form))
    except Conflict as error:
        return _shown(view, {"answer": view.say(error.message)}, 409)
    return view.go(f"/confirmations/{view.asked.path['id']}")


def _lined(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one | {"line": first_line(one["preview"])} for one in found]


def first_line(preview: Mapping[str, Any]) -> str:
    """The first line of what will run, of a preview as executors give it; `…` where there is more of it."""
    if "argv" in preview:
        said = shlex.join(str(part) for part in preview["argv"])
    elif "verb" in preview:
        said = f"{preview['verb']} {preview.get('url', '')}"
    else:
        said = str(preview.get("method", ""))
    first, more, _ = said.strip().partition("\n")
    where = f"{preview['node']}: " if preview.get("node") else ""
    return f"{where}{first}{' …' if more else ''}"


def _unread(view: View, asked: Confirmation, form: Mapping[str, str]) -> dict[str, str]:
    if form.get("read") != "yes":
        return {"read": view.say("请先读完将要执行的内容，再勾选。", "Read what will run, then tick this.")}
    if _is_destructive(view, asked) and form.get("name", "").strip() != asked.tool:
        return {"name": view.say(f"请写下工具名 {asked.tool}。", f"Write the tool's name, {asked.tool}.")}
    if form.get("step") != "approve":  # Enter in a field sends the form too, without this button
        return {"step": view.say("要批准，请按下按钮。", "To approve, press the button.")}
    return {}


def _is_destructive(view: View, asked: Confirmation) -> bool:
    version = view.api(tools.show_version, at={"name": asked.tool, "number": str(asked.version)})
    return bool(version["definition"]["effect"] == "destructive")


def _reason(form: Mapping[str, str]) -> str | None:
    return form.get("reason", "").strip()[:REASON] or None


def _shown(view: View, wrong: Mapping[str, str], status: int = 200) -> Answer:
    path = {"id": view.asked.path["id"]}
    asked = view.parts.execution.confirmations.show(path["id"], view.actor)
    shape = view.api(confirmations.show_confirmation, at=path)
    version = view.api(tools.show_version, at={"name": asked.tool, "number": str(asked.version)})
    answers = asked.state == "waiting" and may_answer(view.actor, asked, allow_self=True)
    return view.render(
        "confirmation.html",
        status,
        here="/confirmations",
        asked=shape,
        run=asked.run,
        definition=version["definition"],
        version=version,
        may_answer=answers,
        destructive=version["definition"]["effect"] == "destructive",
        wrong=wrong,
    )
