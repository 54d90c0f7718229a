"""Forms of pages: read, and kept from pages that are not ours (cases.md P1, P3)."""

import hmac
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from service.errors import Forbidden, Message
from service.web.pages.view import View
from service.web.parts import Parts
from service.web.routing import Answer, Asked, Handler


def changing(handler: Any) -> Handler:
    """Around every handler of a page's change: only a form of this very session, sent from here (cases.md P1)."""

    def change(parts: Parts, asked: Asked) -> Answer:
        view = View.of(parts, asked)
        check_origin(view)
        form = form_of(asked)
        if view.session is None or not hmac.compare_digest(form.get("token", ""), view.token):
            raise _foreign()
        answer: Answer = handler(view, form)
        return answer

    return change


def check_origin(view: View) -> None:
    """Raise Forbidden unless the browser says that one of our own pages sent this."""
    headers = view.asked.headers
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    ours = urlsplit(view.parts.public_url)
    here = {f"{ours.scheme}://{ours.netloc}", f"{ours.scheme}://{headers.get('host', '')}"}
    if site not in (None, "same-origin") or (origin is not None and origin not in here):
        raise _foreign()
    if site is None and origin is None:
        raise _foreign()


def refuse_get(_parts: Parts, _asked: Asked) -> Answer:
    """A change is asked for by POST alone; a link to it does nothing."""
    raise _foreign()


def _foreign() -> Forbidden:
    return Forbidden(
        Message(
            "这个请求不是从笔筒自己的页面发出的，没有执行。请回到页面，再按一次。",
            "This was not sent from one of Bitong's own pages, and nothing was done. Go back to the page and try again.",
        )
    )


def form_of(asked: Asked) -> dict[str, str]:
    """The fields of a form; of a repeated one the last."""
    return dict(parse_qsl(asked.body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=50))


def safe_next(text: str) -> str:
    """An address to go on to, which is a path of ours. Raises Forbidden for another host's (cases.md P3)."""
    parts = urlsplit(text)
    plain = text.startswith("/") and not text.startswith("//") and "\\" not in text and text.isprintable()
    if not plain or parts.scheme or parts.netloc:
        raise Forbidden(
            Message(
                "登录后只能去笔筒自己的页面；这个链接指向别处。",
                "After signing in one goes to Bitong's own pages; this link leads elsewhere.",
            )
        )
    return text
