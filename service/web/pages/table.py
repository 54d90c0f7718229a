"""The table of pages: like that of the API's routes, and part of it (a person's scopes open a page as a token's open a route)."""

from collections.abc import Callable, Sequence
from typing import Final

from service.web.pages import (
    access,
    audit,
    confirmations,
    overview,
    registrations,
    runs,
    search,
    signing,
    static,
    tools,
)
from service.web.pages.forms import changing, refuse_get
from service.web.pages.view import failed
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
    _page("/tools", _SEE, tools.show_list),
    _page("/tools/{name}", _SEE, tools.show),
    _page("/tools/{name}/versions", _SEE, tools.show_versions),
    _page("/tools/{name}/versions/{number}", _SEE, tools.show_version),
    _page("/registrations", _READ, registrations.show),
    _page("/registrations/{commit}/{name}", _READ, registrations.show_rejected),
    *_change("/registrations/sync", _ADMIN, registrations.sync),
    _page("/confirmations", _EXEC, confirmations.show_list),
    _page("/confirmations/{id}", _EXEC, confirmations.show),
    *_change("/confirmations/{id}/approve", ("confirm",), confirmations.approve, "exec"),
    *_change("/confirmations/{id}/reject", ("confirm",), confirmations.reject, "exec"),
    _page("/audit", _READ, audit.show_list),
    *_change("/audit/verify", _READ, audit.verify, "sync"),
    _page("/audit/{index}", _READ, audit.show_entry),
    _page("/access", _ADMIN, access.show),
    *_change("/access/tokens", _ADMIN, access.issue),
    *_change("/access/tokens/{id}/revoke", _ADMIN, access.revoke),
    *_change("/access/sessions/{id}/end", _ADMIN, access.end),
    _page("/search", _SEE, search.show),
    _page("/sign-in", _OPEN, signing.show),
    _page("/sign-in/link", _OPEN, signing.show_link),
    Route("POST", "/sign-in/link", _OPEN, signing.spend_link, takes_body=True, page=failed),
    _page("/sign-in/forgejo", _OPEN, signing.begin),
    _page("/sign-in/callback", _OPEN, signing.come_back, "sync"),
    Route("POST", "/language", _OPEN, signing.speak, takes_body=True, page=failed),
    Route("*", "/language", _OPEN, refuse_get, page=failed),
    *_change("/sign-out", (*_SEE, "confirm", "admin"), signing.sign_out),
)
