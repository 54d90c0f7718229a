"""How pages are made: nothing serious for axe, nothing too wide; in both languages, light and dark, phone and desk."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from tests.pages.browser import CHROMIUM, DESK, PHONE, chromium, window
from tests.pages.conftest import ALL, House

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")]

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text("utf-8")
# What axe calls serious or critical, by its rules for WCAG 2.2 A and AA and its own best practices.
FIND = """async () => (await axe.run(document, {runOnly:
    ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}))
  .violations.filter((one) => ['serious', 'critical'].includes(one.impact))
  .map((one) => one.id + ': ' + one.nodes.slice(0, 3).map((node) => node.target + ' ' + node.html.slice(0, 120)).join(' | '))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def addresses(house: House) -> list[str]:
    question = house.asks("wipe", path="x" * 300)
    house.run("shell-exec", cmd="echo " + "wide" * 400)
    rejected = house.caller.get("/api/v1/rejections").json()["items"][0]
    return [
        *(
            "/",
            "/runs",
            "/runs?tool=shell-exec",
            f"/runs/{house.failed}",
            f"/runs/{house.well}",
            f"/runs/{house.refused}",
        ),
        *(
            "/tools",
            "/tools/git-ops",
            "/tools/wipe",
            "/tools/gone",
            "/tools/git-ops/versions",
            "/tools/git-ops/versions/2",
        ),
        *("/registrations", f"/registrations/{rejected['commit']}/{quote(rejected['tool'], safe='')}"),
        *("/confirmations", f"/confirmations/{question}", "/audit", "/audit/1", "/access", "/keys", "/search?q=git"),
        *("/runs?commit=xyz", "/tools/never"),
    ]


@pytest.fixture(scope="module")
def cookie(house: House) -> str:
    return house.desk.bitong.sessions.open("7", "冰朔", ALL, "forgejo")[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("size", "language"), [(PHONE, "zh-CN"), (DESK, "en-GB"), (PHONE, "en-GB"), (DESK, "zh-CN")])
def test_axe_finds_nothing_serious_and_nothing_is_too_wide(
    browser: Browser, house: House, addresses: list[str], cookie: str, size: dict[str, int], language: str, scheme: str
) -> None:
    """Contrast, names, roles, order, labels; and no scrolling sideways but inside code."""
    found = {}
    with window(browser, house.desk, cookie, size=size, locale=language, color_scheme=scheme, bypass_csp=True) as seen:
        for address in addresses:
            seen.page.goto(address)
            seen.page.evaluate(AXE)
            wide = seen.page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
            problems = seen.page.evaluate(FIND) + (["wider than the screen"] if wide else [])
            if problems:
                found[address] = problems
        seen.assert_quiet()

    assert found == {}


def test_the_door_is_well_made_too(browser: Browser, house: House) -> None:
    """What one sees before signing in."""
    with window(browser, house.desk, None, bypass_csp=True) as seen:
        for address in ("/sign-in", "/sign-in/link?token=x", "/sign-in?next=//evil"):
            seen.page.goto(address)
            seen.page.evaluate(AXE)
            assert seen.page.evaluate(FIND) == [], address
        seen.assert_quiet()


def test_nothing_moves_for_whoever_asked_for_rest(browser: Browser, house: House, cookie: str) -> None:
    """prefers-reduced-motion."""
    with window(browser, house.desk, cookie, reduced_motion="reduce") as seen:
        seen.page.goto("/")
        moving = seen.page.evaluate("document.getAnimations().length")

    assert moving == 0
