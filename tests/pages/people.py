"""Somebody at a browser, without one: a session's cookie, the forms of a page, and what a browser sends along."""

import itertools
import re
from html import unescape
from typing import Any

import httpx

from service.web.pages.view import SESSION
from tests.web.desk import Desk

_NUMBERS = itertools.count()
TOKEN = re.compile(r'name="token" value="([0-9a-f]{32})"')


class Person:
    """One browser that is signed in, or not."""

    def __init__(self, desk: Desk, cookie: str | None = None, language: str = "zh-CN", url: str | None = None) -> None:
        self.origin = url or desk.url
        headers = {"Accept-Language": language}
        self.client = httpx.Client(base_url=self.origin, headers=headers, trust_env=False, timeout=30)
        desk.keep(self.client)
        if cookie is not None:
            self.client.cookies.set(SESSION, cookie, domain="127.0.0.1")

    def get(self, path: str, **how: Any) -> httpx.Response:
        """Look at a page; redirects are not followed."""
        return self.client.get(path, **how)

    def page(self, path: str) -> str:
        """What a page says; it has to be there."""
        answer = self.get(path)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[-600:]}"
        return answer.text

    def words(self, path: str) -> str:
        """A page's text, without its markup."""
        return words_of(self.page(path))

    def press(self, path: str, fields: dict[str, str] | None = None, **headers: str) -> httpx.Response:
        """Send a form as a browser does from one of our own pages, with this session's token."""
        token = TOKEN.search(self.page("/notices"))
        sent = {"token": token.group(1) if token else "", **(fields or {})}
        return self.send(path, sent, **headers)

    def send(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        """Send a form with exactly these fields."""
        told = {"Origin": self.origin, "Sec-Fetch-Site": "same-origin"}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        kept = {name: value for name, value in (told | given).items() if value}
        return self.client.post(path, data=fields, headers=kept)


def words_of(page: str) -> str:
    """A page's text, without its markup."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())


def signed_in(desk: Desk, *scopes: str, language: str = "zh-CN", sub: str | None = None) -> Person:
    """Somebody whom the forge let in with these scopes; another person each time unless it is said who."""
    _, cookie = desk.bitong.sessions.open(sub or f"p-{next(_NUMBERS)}", "冰朔", scopes, "forgejo")
    return Person(desk, cookie, language)
