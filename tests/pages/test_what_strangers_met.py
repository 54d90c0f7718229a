"""What somebody who saw the pages for the first time stumbled over."""

import json
import re
from collections.abc import Iterator
from html import unescape

import pytest

from service.web.pages import words
from service.web.pages.confirmations import first_line
from tests.harness.definitions import shell_exec_text, tool_text
from tests.harness.forge import signed_headers
from tests.pages.conftest import House
from tests.pages.people import Person, signed_in, words_of
from tests.web.desk import Desk, push_body


@pytest.fixture
def going_on(house: House) -> Iterator[str]:
    """A run that has said something and goes on, of a definition that gives it 20 s."""
    call = {"tool": "shell-exec", "params": {"cmd": "echo first; sleep 60"}, "wait": False}
    run = str(house.caller.post("/api/v1/exec", json=call).json()["run"]["id"])
    with house.caller.stream("GET", f"/api/v1/runs/{run}/events") as events:
        next(line for line in events.iter_lines() if "first" in line)
    yield run
    house.caller.post(f"/api/v1/runs/{run}/cancel")


def test_a_run_that_goes_on_shows_how_long_it_has_and_counts_nothing(
    house: House, person: Person, going_on: str
) -> None:
    """Neither `0 ms` nor `0 B`: both would be said of something that is not over."""
    page = person.page(f"/runs/{going_on}")

    assert re.search(r"已运行 00:\d\d / 00:20", words_of(page))
    assert not re.search(r"\b0 (ms|B)\b", page)
    assert "data-since=" in page


@pytest.mark.parametrize("path", ["/", "/runs?state=started"])
def test_a_list_shows_how_long_a_run_goes_on(house: House, person: Person, going_on: str, path: str) -> None:
    row = _row(person.page(path), going_on)

    assert re.search(r"00:\d\d / 00:20", words_of(row))
    assert "0 ms" not in row


def test_a_limit_that_the_caller_lowered_is_the_one_shown(house: House, person: Person) -> None:
    call = {"tool": "shell-exec", "params": {"cmd": "sleep 60"}, "timeout_ms": 9000, "wait": False}
    run = house.caller.post("/api/v1/exec", json=call).json()["run"]["id"]
    with house.caller.stream("GET", f"/api/v1/runs/{run}/events") as events:
        next(line for line in events.iter_lines() if "started" in line)

    said = person.words(f"/runs/{run}")
    house.caller.post(f"/api/v1/runs/{run}/cancel")

    assert re.search(r"00:\d\d / 00:09", said)


@pytest.mark.parametrize(
    ("seconds", "said"), [(-3, "00:00"), (0, "00:00"), (12.9, "00:12"), (300, "05:00"), (3800, "1:03:20")]
)
def test_a_clock_is_read_as_one(seconds: float, said: str) -> None:
    assert words.clock(seconds) == said


def test_a_refused_run_does_not_say_that_something_was_purged(house: House, person: Person) -> None:
    """Nothing was: its parameters were never kept."""
    said = person.words(f"/runs/{house.refused}")

    assert "未执行的运行只保留参数指纹与问题" in said
    assert "清除" not in said


def test_the_fragment_of_notices_leaves_the_tabs_title(person: Person) -> None:
    page = person.page("/runs")

    assert re.search(r'id="notices"[^>]* hx-swap="[^"]*ignoreTitle:true"', page)


def test_a_cancelled_run_says_so_once(house: House, going_on: str) -> None:
    house.caller.post(f"/api/v1/runs/{going_on}/cancel")

    page = signed_in(house.desk, "read", language="en-GB").page(f"/runs/{going_on}")
    said = words_of(page[page.index("<main") : page.index("</main")])

    assert said.count("cancelled") == 1
    assert "<h2>Parameters</h2>" in page


def test_a_plot_has_a_sign_and_a_word_for_each_of_its_colours(house: House, person: Person) -> None:
    """Refused runs too, which uPlot drew in the colour of success."""
    page = person.page("/runs?tool=shell-exec")
    figure = page[page.index("<figure") : page.index("</figure")]

    told = json.loads(unescape(re.findall(r'data-plot="([^"]*)"', figure)[0]))
    shown = {(one["label"], one["colour"]) for one in told["series"]}
    assert {("⊘ 未执行、已取消", "faint"), ("✗ 失败", "cinnabar")} <= shown
    legend = words_of(figure[figure.index('class="legend"') : figure.index("</ul>")])
    assert all(label in legend for label, _ in shown)
    assert set(re.findall(r'<rect class="(\w+)"', figure)) == set(re.findall(r'class="swatch (\w+)"', figure))


def test_uplots_bars_lie_over_each_other_and_tell_their_own_count(house: House, person: Person) -> None:
    """The first is the whole bar; each next one is lower by what the one before tells."""
    told = json.loads(unescape(re.findall(r'data-plot="([^"]*)"', person.page("/runs?tool=shell-exec"))[0]))

    above = told["series"][0]["values"]
    for one in told["series"]:
        assert one["values"] == above
        above = [value - count for value, count in zip(above, one["told"], strict=True)]
    assert set(above) == {0}


def test_the_list_of_questions_says_what_would_run(house: House, person: Person) -> None:
    """By the tool's name to the question."""
    question = house.asks("wipe", path="/srv/a b")

    row = _row(person.page("/confirmations"), question, kind="confirmations")

    assert "echo '/srv/a b'" in words_of(row)
    assert re.search(rf'<a class="row" href="/confirmations/{question}"><code>wipe</code></a>', row)


@pytest.mark.parametrize(
    ("preview", "line"),
    [
        ({"argv": ["/bin/sh", "-c", "one\ntwo"]}, "/bin/sh -c 'one …"),
        ({"verb": "POST", "url": "https://x/y", "body": {"a": 1}}, "POST https://x/y"),
        ({"node": "BS-SG-001", "method": "exec", "argv": ["uptime"]}, "BS-SG-001: uptime"),
        ({"node": "BS-SG-001", "method": "status", "params": {}}, "BS-SG-001: status"),
        ({}, ""),
    ],
)
def test_the_first_line_is_of_every_kind_of_preview(preview: dict[str, object], line: str) -> None:
    assert first_line(preview) == line


def test_the_pages_of_questions_have_no_banner_that_leads_to_them(house: House, person: Person) -> None:
    """Nor does the one that comes while they are open; other pages keep it."""
    question = house.asks("restart")

    for path in ("/confirmations", f"/confirmations/{question}", "/notices?here=%2Fconfirmations"):
        assert "个操作等待确认" not in person.words(path), path
    assert 'hx-get="/notices?here=%2Fconfirmations"' in person.page("/confirmations")
    assert "个操作等待确认" in person.words("/notices?here=%2Fruns")


def test_a_delivery_of_which_something_was_rejected_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Alone: no green sign. Beside something registered: both."""
    desk = Desk(tmp_path_factory.mktemp("delivered"))
    desk.commit(shell_exec=shell_exec_text())
    desk.start()
    try:
        alone = _delivered(desk, desk.commit(broken="name: broken\nmethod: nope\n"))
        both = _delivered(desk, desk.commit(good=tool_text("good"), worse="name: worse\nmethod: nope\n"))
    finally:
        desk.close()

    assert "1 个被拒绝" in alone
    assert "已登记" not in alone
    assert "已登记" in both
    assert "1 个被拒绝" in both


def test_the_title_of_a_page_that_is_not_there_is_its_heading(person: Person) -> None:
    page = person.get("/tools/never").text

    assert "<title>没有找到 · 笔筒</title>" in page
    assert "<h1>没有找到</h1>" in page


def _row(page: str, thing: str, kind: str = "runs") -> str:
    """The row of a table that leads to this thing."""
    return next(row for row in re.findall(r"<tr>.*?</tr>", page, re.DOTALL) if f"/{kind}/{thing}" in row)


def _delivered(desk: Desk, commit: str) -> str:
    """What the newest row of the pushes says once the look that a push led to is over."""
    body = push_body(commit)
    assert desk.client().post("/hooks/forgejo", content=body, headers=signed_headers(body)).status_code == 202
    desk.client("admin").post("/api/v1/sync", params={"wait": "true"})
    page = signed_in(desk, "read").page("/registrations")
    return words_of(re.findall(r"<tr>.*?</tr>", page[page.index("<tbody>") :], re.DOTALL)[0])
