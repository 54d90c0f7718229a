"""A real Chromium on the pages: what it asked for, what it complained of, and dialogs that nobody should see."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from service.web.pages.view import SESSION
from tests.web.desk import Desk

CHROMIUM = shutil.which("chromium")
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1200, "height": 850}


@contextmanager
def chromium() -> Iterator[Browser]:
    """One browser process."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@dataclass
class Seen:
    """What happened in one window."""

    page: Page
    dialogs: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def assert_quiet(self) -> None:
        """No dialog, no request to another host, nothing refused by the policy, no script that failed."""
        assert (self.dialogs, self.elsewhere, self.complaints) == ([], [], [])


@contextmanager
def window(browser: Browser, desk: Desk, cookie: str | None, *, size: Any = None, **how: Any) -> Iterator[Seen]:
    """One window of somebody who has this session."""
    context = browser.new_context(viewport=size or DESK, base_url=desk.url, **({"locale": "zh-CN"} | how))
    context.set_default_timeout(15_000)
    if cookie is not None:
        context.add_cookies([{"name": SESSION, "value": cookie, "url": desk.url, "httpOnly": True, "sameSite": "Lax"}])
    page = context.new_page()
    seen = Seen(page)

    def asked(request: Any) -> None:
        if not request.url.startswith((desk.url, "data:")):
            seen.elsewhere.append(request.url)

    def dialog(shown: Any) -> None:
        seen.dialogs.append(shown.message)
        shown.dismiss()

    def said(message: Any) -> None:
        harmless = "Failed to load resource" in message.text
        if message.type == "error" and not harmless:
            seen.complaints.append(message.text)

    page.on("request", asked)
    page.on("dialog", dialog)
    page.on("console", said)
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    try:
        yield seen
    finally:
        context.close()
