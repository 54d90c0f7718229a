"""Signing in and out: through the forge, or by a one-time link; and the language that pages speak."""

from dataclasses import replace
from typing import Final

from service.domain.actors import person_of
from service.errors import Forbidden, Message
from service.web.oauth import Attempt, Forge
from service.web.pages.forms import check_origin, form_of, safe_next
from service.web.pages.view import LANGUAGE, SESSION, YEAR_S, View, cookies_of
from service.web.parts import Parts
from service.web.routing import Answer, Asked

ATTEMPT: Final = "bitong_sign_in"
ATTEMPT_S: Final = 600
_ELSEWHERE: Final = Message(
    "这次登录不是从这个浏览器开始的，或者已经用过；请重新登录。",
    "This sign-in was not begun in this browser, or has been used; sign in again.",
)
_NO_FORGE: Final = Message("这里没有设置用 Forgejo 登录。", "Signing in through Forgejo is not set up here.")


def show(parts: Parts, asked: Asked) -> Answer:
    """How to sign in here."""
    view = View.of(parts, asked)
    wanted = safe_next(asked.query.get("next", "/"))
    if view.session is not None:
        return view.go(wanted)
    return view.render("sign_in.html", forge=parts.people.forge is not None, next=wanted)


def show_link(parts: Parts, asked: Asked) -> Answer:
    """What a one-time link opens: a button. Looking at it, as a chat's preview does, spends nothing (cases.md P2)."""
    return View.of(parts, asked).render("sign_in_link.html", link=asked.query.get("token", ""))


def spend_link(parts: Parts, asked: Asked) -> Answer:
    """The button: the link is used up, a session begins."""
    view = View.of(parts, asked)
    check_origin(view)
    _, cookie = parts.people.sessions.spend_link(form_of(asked).get("link", ""))
    return _enter(view, cookie, "/")


def begin(parts: Parts, asked: Asked) -> Answer:
    """To the forge, with what its answer will be held against kept in this browser."""
    view = View.of(parts, asked)
    attempt, address = _forge(parts).begin(safe_next(asked.query.get("next", "/")))
    answer = view.go("/", view.cookie(ATTEMPT, attempt.as_text(), ATTEMPT_S))
    return replace(answer, headers={**answer.headers, "Location": address})


def come_back(parts: Parts, asked: Asked) -> Answer:
    """From the forge, with a code: the browser must be the one that began (cases.md P3)."""
    view = View.of(parts, asked)
    forge = _forge(parts)
    attempt = Attempt.read(cookies_of(asked).get(ATTEMPT, ""))
    if attempt is None or not attempt.state or attempt.state != asked.query.get("state") or "code" not in asked.query:
        raise Forbidden(_ELSEWHERE)
    person = forge.finish(attempt, asked.query["code"])
    scopes = forge.scopes_of(person)
    if not scopes:
        raise Forbidden(
            Message(
                f"Forgejo 用户 {person.login} 在这里没有任何权限；请管理员在设置 oauth_scopes 中加入。",
                f"The Forgejo user {person.login} has no rights here; an administrator adds them in the setting oauth_scopes.",
            )
        )
    _, cookie = parts.people.sessions.open(person.sub, person.login, scopes, "forgejo")
    return _enter(view, cookie, safe_next(attempt.next))


def sign_out(view: View, _form: dict[str, str]) -> Answer:
    """The session ends, on the server too."""
    assert view.session is not None
    view.parts.people.sessions.close(view.session.id, view.actor)
    return view.go("/sign-in", view.cookie(SESSION, "", 0))


def speak(parts: Parts, asked: Asked) -> Answer:
    """Change the language of pages; it needs no session, and is remembered in the browser."""
    view = View.of(parts, asked)
    check_origin(view)
    form = form_of(asked)
    language = form.get("to") if form.get("to") in ("zh", "en") else view.language
    return view.go(safe_next(form.get("next", "/")), view.cookie(LANGUAGE, str(language), YEAR_S))


def _enter(view: View, cookie: str, to: str) -> Answer:
    if view.session is not None:  # of whoever sat here before; the new one takes its place
        view.parts.people.sessions.close(view.session.id, person_of(view.session))
    return view.go(to, view.cookie(SESSION, cookie, view.parts.people.sessions.seconds), view.cookie(ATTEMPT, "", 0))


def _forge(parts: Parts) -> Forge:
    if parts.people.forge is None:
        raise Forbidden(_NO_FORGE)
    return parts.people.forge
