"""The table of pages: like that of the API's routes, and part of it (a person's scopes open a page as a token's open a route)."""

from collections.abc import Callable, Sequence
from typing import Final

from service.web.pages import overview, runs, signing, static
from service.web.pages.view import changing, failed, refuse_get
from service.web.routing import OPEN, Handler, Route

_OPEN, _READ, _SEE, _EXEC, _ADMIN = (OPEN,), ("read",), ("read", "exec"), ("exec",), ("admin",)


def _page(path: str, access: tuple[str, ...], handler: Handler, pool: str = "reads") -> Route:
    return Route("GET", path, access, handler, pool, page=failed)


def _change(path: str, access: tuple[str, ...], handler: Callable[..., object], pool: str = "reads") -> list[Route]:
    """A change has a path of its own; every other verb is refused there."""
    return [
        Route("POST", path, access, changing(handler), pool, takes_body=True, page=failed),
        Route("*", path, (OPEN,), refuse_get, page=failed),
    ]


PAGES: Final[Sequence[Route]] = (
    _page("/static/{name:path}", _OPEN, static.show),
    _page("/", _SEE, overview.show),
    _page("/notices", _SEE, overview.show_notices),
    _page("/keys", _SEE, overview.show_keys),
    _page("/runs", _SEE, runs.show_list),
    _page("/runs/{id}", _SEE, runs.show),
    *_change("/runs/{id}/cancel", ("exec", "admin"), runs.cancel),
    _page("/sign-in", _OPEN, signing.show),
    _page("/sign-in/link", _OPEN, signing.show_link),
    Route("POST", "/sign-in/link", _OPEN, signing.spend_link, takes_body=True, page=failed),
    _page("/sign-in/forgejo", _OPEN, signing.begin),
    _page("/sign-in/callback", _OPEN, signing.come_back, "sync"),
    Route("POST", "/language", _OPEN, signing.speak, takes_body=True, page=failed),
    Route("*", "/language", _OPEN, refuse_get, page=failed),
    *_change("/sign-out", (*_SEE, "confirm", "admin"), signing.sign_out),
)
