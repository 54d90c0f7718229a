"""One request for a page: who asks, in which language, under which path; and how an answer is made of a template."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import jinja2
import structlog
from markupsafe import Markup

from service.domain.actors import Actor, Session
from service.domain.times import rfc3339
from service.errors import BitongError, Message, Unauthenticated
from service.web.errors import headers_of, status_of
from service.web.pages import notices, static, words
from service.web.pages.signs import one_line, shown
from service.web.parts import Parts
from service.web.routing import Answer, Asked, Handler

HTML: Final = "text/html; charset=utf-8"
SESSION: Final = "bitong_session"
LANGUAGE: Final = "bitong_language"
YEAR_S: Final = 365 * 86_400
# Nothing from elsewhere, nothing written into the page, no frame around it. `same-origin` for the referrer: with
# `no-referrer` browsers send `Origin: null` with our own forms.
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Vary": "Cookie, Accept-Language",
}
_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent.parent / "templates"),
    autoescape=True,
    finalize=shown,  # whatever a template prints: no control or direction character reaches the page as one
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
    auto_reload=False,
)
_TEMPLATES.globals |= {"span": words.span, "size": words.size, "exact": words.exact, "asset": static.versioned}
_TEMPLATES.filters |= {"one_line": one_line}


@dataclass(frozen=True, slots=True)
class View:
    """A request for a page. `base`: the path of public_url, which every link begins with; `session`: None for nobody."""

    parts: Parts
    asked: Asked
    session: Session | None
    language: str
    base: str

    @classmethod
    def of(cls, parts: Parts, asked: Asked) -> "View":
        """How this request is to be answered."""
        cookies = cookies_of(asked)
        session = parts.people.sessions.find(cookies[SESSION]) if SESSION in cookies else None
        chosen = cookies.get(LANGUAGE, "")
        language = chosen if chosen in ("zh", "en") else _spoken(asked.headers.get("accept-language", ""))
        return cls(parts, asked, session, language or parts.people.language, urlsplit(parts.public_url).path)

    @property
    def actor(self) -> Actor:
        """Who asks."""
        return self.asked.actor

    def say(self, zh: str | Message, en: str = "") -> str:
        """The reader's half of a text in two languages."""
        message = zh if isinstance(zh, Message) else Message(zh, en)
        return message.zh if self.language == "zh" else message.en

    def told(self, shape: Mapping[str, Any]) -> str:
        """The same of a shape with `zh` and `en`."""
        return str(shape[self.language])

    def link(self, path: str, /, **query: Any) -> str:
        """An address here; a query that is None or empty is left out."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return self.base + path + (f"?{urlencode(given)}" if given else "")

    def api(self, handler: Handler, *, at: Mapping[str, str] | None = None, **query: Any) -> Any:
        """What the API's handler answers this reader: the content alone."""
        given = {name: str(value) for name, value in query.items() if value not in (None, "")}
        answer = handler(self.parts, replace(self.asked, path=at or {}, query=given, headers={}))
        assert isinstance(answer, Answer)
        return answer.content

    @property
    def token(self) -> str:
        """What a form of this session carries, so that no other page can send it (cases.md P1)."""
        cookie = cookies_of(self.asked).get(SESSION, "")
        return hashlib.sha256(f"form {cookie}".encode()).hexdigest()[:32]

    def render(self, template: str, status: int = 200, **facts: Any) -> Answer:
        """A page. A failure's has no notices: it is made without asking anything of the store."""
        facts = {"here": "", "notices": [], "waiting": 0, **facts}
        if self.session is not None and status < 400:
            facts["waiting"] = notices.waiting(self)
            asks = facts["here"] != "/confirmations"  # there the questions themselves are on the page
            facts["notices"] = notices.of(self, facts["waiting"] if asks else 0)
        content = _TEMPLATES.get_template(template).render(view=self, t=self.say, words=words, **facts)
        return Answer(content.encode("utf-8", "replace"), status, HEADERS, HTML)

    def go(self, path: str, *cookies: str) -> Answer:
        """See other (RFC 9110 §15.4.4): to an address here."""
        return Answer(b"", 303, {**HEADERS, "Location": self.base + path}, HTML, cookies)

    def cookie(self, name: str, value: str, seconds: int) -> str:
        """A Set-Cookie for our own path alone; Secure where people come by https. 0 seconds: forget it."""
        secure = "; Secure" if self.parts.public_url.startswith("https:") else ""
        return f"{name}={value}; Path={self.base}/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"

    # What templates ask for

    def tongue(self, value: Any) -> str | None:
        """The language of a text, where it is not the page's: readers aloud change their voice for it."""
        return "zh-CN" if self.language == "en" and self.tongue_of(value) else None

    @staticmethod
    def tongue_of(value: Any) -> bool:
        """Whether a text has Chinese in it."""
        return isinstance(value, str) and any("\u4e00" <= character <= "\u9fff" for character in value)

    def half(self, text: str) -> str:
        """The reader's half of a line that the API gives in both languages, `zh / en`; any other as it is."""
        zh, slash, en = text.partition(" / ")
        both = bool(slash) and self.tongue_of(zh) and not self.tongue_of(en)
        return text if not both else zh if self.language == "zh" else en

    def json(self, value: Any) -> str:
        """A value as people read JSON."""
        return json.dumps(value, ensure_ascii=False, indent=2)

    def following(self, cursor: str) -> str:
        """The address of the list's next page."""
        path, _, _ = self.asked.address.partition("?")
        return self.link(path, **{**self.asked.query, "cursor": cursor})

    def when(self, moment: str | None) -> Markup | str:
        """A time, relative, with the exact one."""
        if moment is None:
            return "–"
        relative = self.say(words.ago(moment))
        exact = words.exact(moment)
        return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(moment, exact, relative)

    def took(self, run: Mapping[str, Any]) -> Markup | str:
        """How long a run took; of one that goes on, how long it has, out of how long it may where that is known."""
        if run["started_at"] is None:
            return "–"
        if run["state"] != "started":
            return Markup('<span title="{} ms">{}</span>').format(run["duration_ms"], words.span(run["duration_ms"]))
        return words.running(run["started_at"], self._limit_ms(run["id"]))

    def _limit_ms(self, run: str) -> int | None:
        """A caller may have lowered the definition's limit: only the run itself knows, while this process has it."""
        ongoing = self.parts.execution.turns.under_way(run)
        return None if ongoing is None else ongoing.timeout_ms

    @staticmethod
    def made(run: Mapping[str, Any]) -> str:
        """When a run was asked for: its start, or what its id says (UUIDv7, RFC 9562 §5.7)."""
        return run["started_at"] or rfc3339(int(run["id"][:8] + run["id"][9:13], 16) / 1000)

    def state(self, name: str | None) -> Markup:
        """A state: sign, word and colour."""
        sign, colour, word = words.STATES.get(name or "pending", ("·", "quiet", Message(str(name), str(name))))
        drawn = words.DRAWN.get(sign, sign)
        return Markup('<span class="state {}"><span aria-hidden="true">{}</span> {}</span>').format(
            colour, drawn, self.say(word)
        )

    def who(self, actor: str | None) -> str:
        """An actor as people call it."""
        if actor is None:
            return "–"
        own = {"operator": Message("本机操作者", "operator"), "bitong": Message("笔筒自己", "Bitong itself")}
        if actor in own:
            return self.say(own[actor])
        return self.parts.authority.called(actor) or actor

    def actor_named(self, said: str | None) -> dict[str, str]:
        """The filter `actor` for what a person wrote: an actor's own name, or how people call it."""
        if said is None:
            return {}
        named = [token for token in self.parts.authority.all_tokens() if token.name == said]
        return {"actor": f"token:{named[0].id}" if named else said}

    def commit(self, commit: str) -> Markup:
        """A commit: eight digits, on the forge where it is known."""
        address = self.parts.people.commits
        code = Markup('<code class="id" title="{}">{}</code>').format(commit, commit[:8])
        if address is None:
            return code
        return Markup('<a class="commit" href="{}" rel="noopener">{} ↗</a>').format(address + commit, code)


def failed(parts: Parts, error: BitongError, asked: Asked) -> Answer:
    """A failure as a page; nobody is sent to sign in, and comes back to where they were going."""
    view = View.of(parts, asked)
    if isinstance(error, Unauthenticated) and view.session is None:
        return view.go(f"/sign-in?{urlencode({'next': asked.address})}" if asked.address != "/" else "/sign-in")
    status = status_of(error)
    this = structlog.contextvars.get_contextvars().get("request")
    answer = view.render("error.html", status, error=error, code=status, request=this)
    return replace(answer, headers={**answer.headers, **headers_of(error)})


def cookies_of(asked: Asked) -> dict[str, str]:
    """The cookies that the browser sent; a header that cannot be read holds none."""
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(asked.headers.get("cookie", "")).items()}
    except CookieError:
        return {}


def _spoken(accepted: str) -> str | None:
    """The first language of Accept-Language that pages speak; its order, which is by weight in every browser."""
    for item in accepted.split(","):
        tag = item.partition(";")[0].strip().lower()
        if tag.startswith(("zh", "en")):
            return tag[:2]
    return None
