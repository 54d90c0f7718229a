"""The journeys of people, from first to last click, in a real browser."""

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.pages.browser import CHROMIUM, PHONE, Seen, chromium, window
from tests.pages.conftest import ALL, House

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def cookie(house: House) -> str:
    return house.desk.bitong.sessions.open("7", "冰朔", ALL, "forgejo")[1]


@pytest.fixture
def seen(browser: Browser, house: House, cookie: str) -> Iterator[Seen]:
    with window(browser, house.desk, cookie) as seen:
        yield seen
        seen.assert_quiet()


def test_a_failure_appears_on_the_open_overview_at_once_and_leads_to_everything(
    browser: Browser, house: House, cookie: str
) -> None:
    """Journey 1, on a phone: on top within a second of its answer (five times the slack), red, with its first line."""
    with window(browser, house.desk, cookie, size=PHONE) as seen:
        page = seen.page
        page.goto("/")
        page.wait_for_function("document.getElementById('line').hidden")
        page.wait_for_timeout(300)  # the stream of events is open
        run = house.run("shell-exec", cmd="echo disk is full tonight >&2; exit 9")["run"]["id"]

        top = page.locator("section, h2:has-text('最近失败') + table").locator("tbody tr").first
        expect(top).to_contain_text("disk is full tonight", timeout=5000)
        expect(top).to_contain_text("失败")
        top.locator("a.row").click()
        page.wait_for_url(f"**/runs/{run}")
        for fact in ("disk is full tonight", "exit 9", "ICE-GL-ZY001"):
            expect(page.locator("main")).to_contain_text(fact)
        page.get_by_role("link", name="所有同类运行").click()
        page.wait_for_url("**/runs?tool=shell-exec")
        expect(page.locator("figure.plot canvas")).to_be_visible()
        seen.assert_quiet()


def test_an_overview_that_is_answered_late_loses_no_news(seen: Seen, house: House) -> None:
    """What ends while the page is being asked for again is asked for once more."""
    page = seen.page
    page.goto("/")
    page.wait_for_timeout(300)
    page.route("**/", lambda route: (time.sleep(0.6), route.continue_()))
    for number in range(2):
        house.run("shell-exec", cmd=f"sleep 0.3; echo late news {number} >&2; exit 9")

        expect(page.locator("main")).to_contain_text(f"late news {number}", timeout=10_000)


def test_a_rejected_push_leads_to_the_line_and_to_what_still_runs(seen: Seen) -> None:
    """Journey 2."""
    seen.page.goto("/registrations")
    seen.page.get_by_role("link", name="tools/broken/TOOL.hdlp").first.click()

    expect(seen.page.locator("ol.lines li.bad").first).to_be_visible()
    expect(seen.page.locator("main")).to_contain_text("还没有能执行的版本")


def test_a_question_is_read_approved_and_followed_to_its_receipt(seen: Seen, house: House) -> None:
    """Journey 3: the notice comes to a page that is open already; approving takes reading and the name."""
    page = seen.page
    page.goto("/tools")
    page.wait_for_timeout(300)
    house.asks("wipe", path="/srv/site/cache")

    page.locator("#notices a").filter(has_text="等待确认").click(timeout=5000)
    page.locator("tr").filter(has_text="wipe").first.locator("a.row").click()
    expect(page.locator("main")).to_contain_text("/srv/site/cache")
    page.get_by_label("我读过").check()
    page.get_by_label("写下工具名").fill("wipe")
    page.get_by_role("button", name="批准并执行").click()
    page.wait_for_url("**/runs/*")
    expect(page.locator("h1")).to_contain_text("成功")
    expect(page.locator("#stdout")).to_have_text("/srv/site/cache\n")
    expect(page.locator("main")).to_contain_text("第 ")


def test_one_key_approves_nothing(seen: Seen, house: House) -> None:
    """C5: Enter, Space, y and a on the open question, and Enter in its fields."""
    page = seen.page
    question = house.asks("restart")
    page.goto(f"/confirmations/{question}")
    for key in ("Enter", " ", "y", "a", "Y", "o"):
        page.keyboard.press(key)
    page.get_by_label("我读过").check()
    page.get_by_label("我读过").press("Enter")
    expect(page.locator("main")).to_contain_text("要批准，请按下按钮")

    told = house.desk.bitong.execution.confirmations.show(question, house.desk.bitong.authority.standing("person:7"))  # type: ignore[arg-type]
    assert told.state == "waiting"


def test_an_auditor_filters_follows_the_proof_and_verifies(seen: Seen, house: House) -> None:
    """Journey 4."""
    page = seen.page
    page.goto("/runs")
    page.get_by_label("工具", exact=True).fill("git-ops")
    page.get_by_role("button", name="筛选").click()
    expect(page.locator(".rows tbody tr").first).to_contain_text("git-ops")
    page.locator(".rows a.row").first.click()
    page.get_by_role("link", name=re.compile("^第 .* 条$")).click()
    expect(page.locator("main")).to_contain_text("run.finished")
    expect(page.locator("main")).to_contain_text("SHA-256(0x00")
    page.goto("/audit")
    page.get_by_role("button", name="现在核对全部").click()
    expect(page.locator("[role=status]", has_text="记录完好")).to_be_visible()


def test_a_newcomer_finds_a_tool_and_how_to_call_it(browser: Browser, house: House) -> None:
    """Journey 5, from the one-time link on."""
    link, _ = house.desk.bitong.sessions.make_link()
    with window(browser, house.desk, None) as seen:
        page = seen.page
        page.goto(f"/sign-in/link?token={link}")
        page.locator("button.primary").click()
        page.wait_for_url("**/")
        page.keyboard.press("/")
        page.keyboard.type("查看最近的提交")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="git-ops").first.click()
        expect(page.locator("pre.paste").first).to_contain_text("curl")
        expect(page.locator("main")).to_contain_text("最近的运行")
        seen.assert_quiet()


def test_output_is_followed_as_it_comes(seen: Seen, house: House) -> None:
    """A run that goes on: its lines appear while it runs, and its end by itself."""
    started = house.caller.post(
        "/api/v1/exec",
        json={
            "tool": "shell-exec",
            "params": {"cmd": "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last"},
            "wait": False,
        },
    )
    run = started.json()["run"]["id"]
    page = seen.page
    page.goto(f"/runs/{run}")

    expect(page.locator("#stdout")).to_contain_text("first")
    expect(page.locator("h1")).to_contain_text("运行中")
    page.get_by_role("button", name="取消这次运行").click()
    expect(page.locator("h1")).to_contain_text("已取消")


def test_a_lost_connection_says_so_and_when_it_was_last_fresh(browser: Browser, house: House, cookie: str) -> None:
    """A page that has grown old must not look as if all were well."""
    with window(browser, house.desk, cookie) as seen:
        seen.page.route("**/api/v1/events", lambda route: route.abort())
        seen.page.goto("/")

        expect(seen.page.locator("#line")).to_contain_text("连接已断开")


def test_everything_can_be_read_and_confirmed_without_javascript(browser: Browser, house: House, cookie: str) -> None:
    """Overview, run, question, answer, language, signing out."""
    question = house.asks("restart")
    with window(browser, house.desk, None, java_script_enabled=False) as seen:
        page = seen.page
        link, _ = house.desk.bitong.sessions.make_link()
        page.goto(f"/sign-in/link?token={link}")
        page.locator("button.primary").click()
        expect(page.locator("main")).to_contain_text("最近失败")
        page.goto(f"/runs/{house.failed}")
        expect(page.locator("#stderr")).to_contain_text("not a git repository")
        page.goto("/runs?tool=shell-exec")
        expect(page.locator("figure.plot svg")).to_be_visible()
        page.goto(f"/confirmations/{question}")
        page.locator("#read").check()
        page.get_by_role("button", name="批准并执行").click()
        page.wait_for_url("**/runs/*")
        page.get_by_role("button", name="English").click()
        expect(page.locator("h1")).to_contain_text("restart")
        expect(page.locator("html")).to_have_attribute("lang", "en")
        page.locator("details.account summary").click()
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/sign-in")
        seen.assert_quiet()


def test_keys_lead_through_rows_and_open_them(seen: Seen) -> None:
    """j, k, Enter, ?, and the skip link as the first stop."""
    page = seen.page
    page.goto("/runs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    first = page.locator("tbody tr").first.locator("a.row").get_attribute("href")
    assert page.evaluate("document.activeElement.getAttribute('href')") == first
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{first}")
    page.keyboard.press("?")
    page.wait_for_url("**/keys")


def test_the_keyboard_reaches_everything(seen: Seen, house: House) -> None:
    """Each link, button and field that can be seen is a stop of Tab."""
    page = seen.page
    for path in ("/", f"/confirmations/{house.asks('wipe', path='x')}", "/access"):
        page.goto(path)
        wanted = page.evaluate(
            "[...document.querySelectorAll('a[href], button:not([disabled]), input:not([type=hidden]), select, summary')]"
            ".filter((one) => one.checkVisibility({visibilityProperty: true})).length"
        )
        page.evaluate(
            "window.stops = new Set(); document.addEventListener('focusin', (e) => window.stops.add(e.target))"
        )
        for _ in range(wanted * 2 + 20):
            page.keyboard.press("Tab")
        reached = page.evaluate(
            "[...window.stops].filter((one) => one.matches('a[href], button, input, select, summary')).length"
        )
        assert reached >= wanted, path
