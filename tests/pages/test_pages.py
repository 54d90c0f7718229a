"""What pages say, to whom, in which language, and what may come with them."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from service.domain.actors import SCOPES
from service.web.pages.static import FILES
from service.web.pages.table import PAGES
from service.web.routing import OPEN, Route
from tests.pages.conftest import ALL, House
from tests.pages.people import Person, signed_in, words_of

FIRST_VIEW_BYTES = 100_000
LOOKS = [route for route in PAGES if route.method == "GET" and route.access != (OPEN,)]
CHANGES = [route for route in PAGES if route.method == "POST" and route.access != (OPEN,)]


@pytest.fixture(scope="module")
def filled(house: House) -> dict[str, str]:
    """The address of each page, of things that are there."""
    question = house.asks("restart")
    commit = house.desk.bitong.mirror and house.caller.get("/api/v1/rejections").json()["items"][0]
    assert commit
    return {
        "/runs/{id}": f"/runs/{house.failed}",
        "/tools/{name}": "/tools/git-ops",
        "/tools/{name}/versions": "/tools/git-ops/versions",
        "/tools/{name}/versions/{number}": "/tools/git-ops/versions/2",
        "/registrations/{commit}/{name}": f"/registrations/{commit['commit']}/{quote(commit['tool'], safe='')}",
        "/confirmations/{id}": f"/confirmations/{question}",
        "/audit/{index}": "/audit/1",
        "/search": "/search?q=%E6%8F%90%E4%BA%A4",
    }


def address(route: Route, filled: dict[str, str]) -> str:
    found = filled.get(route.path, route.path)
    assert "{" not in found, f"{route.path} has no example: a page nobody thought about"
    return found


@pytest.mark.parametrize("route", LOOKS, ids=lambda route: route.path)
def test_each_page_opens_to_exactly_the_scopes_of_its_row(house: House, filled: dict[str, str], route: Route) -> None:
    """R13: nobody is sent to sign in, who lacks the scope is told so, who has it sees the page."""
    where = address(route, filled)

    assert Person(house.desk).get(where).status_code == 303
    for scope in SCOPES:
        status = signed_in(house.desk, scope, sub=f"only-{scope}").get(where).status_code
        if scope not in route.access:
            assert status == 403, scope
        elif "{id}" in route.path:
            assert status in (200, 404), scope  # another's run or question is not there for whoever may only run
        else:
            assert status == 200, scope


@pytest.mark.parametrize("route", CHANGES, ids=lambda route: route.path)
def test_each_change_is_closed_to_whoever_lacks_its_scope(house: House, route: Route) -> None:
    """R13: with the right token of their session, too."""
    where = route.path.replace("{id}", "0")

    for scope in sorted(set(SCOPES) - set(route.access)):
        somebody = signed_in(house.desk, scope, "read", sub=f"no-{scope}")
        if "read" not in route.access:
            assert somebody.press(where).status_code == 403, scope


@pytest.mark.parametrize("route", LOOKS, ids=lambda route: route.path)
@pytest.mark.parametrize("language", ["zh-CN", "en-GB"])
def test_each_page_speaks_the_readers_language(
    house: House, filled: dict[str, str], route: Route, language: str
) -> None:
    """From Accept-Language; titles, navigation and buttons, and `lang` on the page."""
    page = signed_in(house.desk, *ALL, language=language).page(address(route, filled))
    said = words_of(page)

    assert f'<html lang="{"zh-CN" if language == "zh-CN" else "en"}">' in page
    assert ("审计" in said) == (language == "zh-CN")
    assert ("Audit" in said) == (language == "en-GB")


@pytest.mark.parametrize("route", LOOKS, ids=lambda route: route.path)
def test_no_page_has_a_script_or_style_written_into_it(house: House, filled: dict[str, str], route: Route) -> None:
    """The policy forbids them, so that they would not even work; nothing is loaded from elsewhere."""
    answer = signed_in(house.desk, *ALL).get(address(route, filled))
    page = answer.text

    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert not re.search(r"<style|\sstyle=|<script(?! src=)|\son\w+=|javascript:", page)
    assert all(
        source.startswith("/static/") for source in re.findall(r'<(?:script|img|link)[^>]*(?:src|href)="([^"]*)"', page)
    )


def test_the_language_is_switched_and_remembered(house: House) -> None:
    """Without a session too, and against Accept-Language from then on."""
    somebody = Person(house.desk)
    assert "登录笔筒" in somebody.words("/sign-in")

    answer = somebody.send("/language", {"to": "en", "next": "/sign-in"})

    assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in")
    assert "Sign in to Bitong" in somebody.words("/sign-in")


def test_the_setting_names_the_language_when_the_readers_is_unknown(house: House) -> None:
    """`language`, zh unless set."""
    assert "登录笔筒" in signed_out(house, "fr-FR, de;q=0.5").words("/sign-in")
    assert "Sign in" in signed_out(house, "fr-FR, en;q=0.5, zh;q=0.2").words("/sign-in")


def signed_out(house: House, language: str) -> Person:
    return Person(house.desk, language=language)


def test_the_first_view_is_small(house: House, person: Person) -> None:
    """All that the overview loads, uncompressed; the plots' library comes only where a plot is looked at."""
    page = person.page("/")
    loaded = {match.group(1) for match in re.finditer(r'(?:src|href)="/static/([^"?]*)\?', page)}

    assert "bitong.css" in loaded
    assert len(page.encode()) + sum(len(FILES[name]) for name in loaded) <= FIRST_VIEW_BYTES


def test_static_files_are_kept_by_browsers_and_have_no_siblings(house: House, person: Person) -> None:
    """The address changes with the content; no path leads out of the folder."""
    answer = person.get("/static/bitong.css")

    assert "immutable" in answer.headers["Cache-Control"]
    assert answer.headers["Content-Type"] == "text/css; charset=utf-8"
    for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd", "/static/vendor"):
        assert person.get(path).status_code == 404


def test_the_overview_has_failures_above_successes(house: House, person: Person) -> None:
    """Seed: an error is not swallowed; people see it first."""
    said = person.words("/")

    assert said.index("fatal: not a git repository") < said.index("最近成功")
    assert "git-ops" in said
    assert said.index("最近失败") < said.index("最近成功")


def test_a_run_says_all_that_is_known_of_it(house: House, person: Person) -> None:
    """What was called with which parameters, what came back, whose definition, what proves it."""
    page = person.page(f"/runs/{house.failed}")
    said = words_of(page)
    told = house.desk.client("read").get(f"/api/v1/runs/{house.failed}").json()

    for fact in ("exit 128", "fatal: not a git repository", "退出码 128", told["definition"]["author"], "✗ 失败"):
        assert fact in said
    assert told["definition"]["commit"] in page
    assert told["receipt"]["leaf"] in page
    assert f"/audit/{told['receipt']['index']}" in page


def test_a_long_output_is_cut_and_says_so(house: House, person: Person) -> None:
    """The first 64 kB inline, the rest by a link; bytes and hash in words."""
    run = house.run("shell-exec", cmd="seq 1 30000")["run"]

    said = person.words(f"/runs/{run['id']}")

    assert f"{run['output_bytes']:,} 字节中的前 65,536 字节" in said
    assert run["output_sha256"] in said
    assert person.get(f"/api/v1/runs/{run['id']}/stdout").text.endswith("30000\n")


def test_a_wrong_filter_is_told_beside_its_field(house: House, person: Person) -> None:
    """Not as a page of errors."""
    page = person.page("/runs?commit=xyz")

    assert 'id="w-commit"' in page
    assert "十六进制" in page


def test_runs_are_filtered_by_the_name_of_who_asked(house: House, person: Person) -> None:
    """People know tokens by name, not by number."""
    name = house.desk.bitong.authority.called(
        house.desk.client("read").get(f"/api/v1/runs/{house.failed}").json()["actor"]
    )

    assert f"/runs/{house.failed}" in person.page(f"/runs?actor={name}")
    assert f"/runs/{house.failed}" not in person.page("/runs?actor=nobody-of-this-name")


def test_a_rejected_push_is_shown_at_its_line(house: House, person: Person, filled: dict[str, str]) -> None:
    """Journey 2: the file, the problem at its line, what to write instead."""
    page = person.page(filled["/registrations/{commit}/{name}"])
    said = words_of(page)

    assert "method: nope" in said
    assert 'class="bad" id="L' in page
    assert "还没有能执行的版本" in said


def test_a_tool_says_how_to_call_it_without_a_token(house: House, person: Person) -> None:
    """Journey 5: ready to paste."""
    said = person.words("/tools/shell-exec")

    assert "$BITONG_TOKEN" in said
    assert "bitong exec shell-exec cmd='…'" in said
    assert "urllib.request" in said


def test_search_goes_straight_to_a_tool_of_this_name(house: House, person: Person) -> None:
    """Names first."""
    answer = person.get("/search?q=git-ops")

    assert (answer.status_code, answer.headers["Location"]) == (303, "/tools/git-ops")


def test_search_finds_by_words_and_says_when_there_is_nothing(house: House, person: Person) -> None:
    """What is not there, 铸渊 makes."""
    assert "git-ops" in person.words("/search?q=查看最近的提交")
    assert "此工具尚不在仓库中" in person.words("/search?q=zzqqxx")


def test_an_unknown_thing_is_a_page_with_the_requests_id(house: House, person: Person) -> None:
    """A sentence, and what to tell the operator."""
    for path in ("/runs/never", "/tools/never", "/tools/git-ops/versions/99", "/audit/999999", "/confirmations/never"):
        answer = person.get(path)
        assert answer.status_code == 404, path
        assert answer.headers["X-Request-Id"] in answer.text


def test_an_address_that_is_not_there_is_a_page_for_browsers_and_json_for_programs(
    house: House, person: Person
) -> None:
    browser, program = person.get("/nowhere", headers={"Accept": "text/html"}), person.get("/nowhere")
    api = person.get("/api/v1/nowhere", headers={"Accept": "text/html"})

    assert [answer.status_code for answer in (browser, program, api)] == [404, 404, 404]
    assert "没有这个地址" in browser.text
    assert browser.headers["Content-Type"].startswith("text/html")
    for answer in (program, api):
        assert answer.json()["code"] == "not-found"


def test_an_admin_issues_a_token_that_is_shown_once(house: House, person: Person) -> None:
    """And ends it."""
    answer = person.press("/access/tokens", {"name": "from-a-page", "scope-read": "yes", "tools": "git-*"})
    found = re.search(r"bitong_[\w-]{43}", answer.text)
    assert found
    token = found.group()

    listed = next(one for one in house.desk.bitong.authority.all_tokens() if one.name == "from-a-page")
    assert (listed.scopes, listed.tools) == (("read",), ("git-*",))
    assert token not in person.page("/access")
    assert person.press(f"/access/tokens/{listed.id}/revoke").status_code == 303
    assert next(one for one in house.desk.bitong.authority.all_tokens() if one.name == "from-a-page").revoked_at


@pytest.mark.parametrize(
    ("fields", "said"), [({"name": "a b", "scope-read": "yes"}, "w-name"), ({"name": "ok"}, "权限为其中之一")]
)
def test_a_wrong_form_says_what_is_wrong_beside_the_field(person: Person, fields: dict[str, str], said: str) -> None:
    """422, with what was written still in it."""
    answer = person.press("/access/tokens", fields)

    assert answer.status_code == 422
    assert said in answer.text
    assert f'value="{fields["name"]}"' in answer.text


def test_the_record_is_verified_from_the_page(house: House, person: Person) -> None:
    """Journey 4."""
    answer = person.press("/audit/verify")

    assert answer.status_code == 200
    assert "记录完好" in answer.text


def test_a_run_is_cancelled_from_its_page(house: House, person: Person) -> None:
    """Also by an admin, whose run it is not; the overview has it while it runs."""
    started = house.caller.post(
        "/api/v1/exec", json={"tool": "shell-exec", "params": {"cmd": "sleep 30"}, "wait": False}
    )
    run = started.json()["run"]["id"]
    assert f'action="/runs/{run}/cancel"' in person.page("/")

    answer = person.press(f"/runs/{run}/cancel")

    assert (answer.status_code, answer.headers["Location"]) == (303, f"/runs/{run}")
    assert _ended(house, run)["state"] == "cancelled"


def _ended(house: House, run: str) -> dict[str, Any]:
    for told in _asked_again(house, run):
        if told["ended_at"]:
            return told
    raise AssertionError("it goes on")


def _asked_again(house: House, run: str) -> Iterator[dict[str, Any]]:
    with house.caller.stream("GET", f"/api/v1/runs/{run}/events") as stream:
        stream.read()  # until it ended
    yield house.caller.get(f"/api/v1/runs/{run}").json()
