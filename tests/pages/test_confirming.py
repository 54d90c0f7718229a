"""Answering a question on a page: only after reading, never by accident, and nothing runs that was not asked about."""

import pytest

from tests.harness.definitions import tool_text
from tests.pages.conftest import House, furnish
from tests.pages.people import Person, signed_in, words_of
from tests.web.desk import Desk


def test_what_will_run_is_shown_in_full(house: House, person: Person) -> None:
    """Journey 3: tool, version, every parameter, the command as it is sent, who asks, until when."""
    question = house.asks("wipe", path="/srv/site/cache --all")

    said = person.words(f"/confirmations/{question}")

    for fact in ("wipe v1", "/srv/site/cache --all", '"argv": [', "会破坏", "到期", "read-exec-0"):
        assert fact in said, fact


def test_approving_runs_it_and_leads_to_its_run(house: House, person: Person) -> None:
    """The asker's call, under the asker's name; the record names both."""
    question = house.asks("restart")

    answer = person.press(f"/confirmations/{question}/approve", {"step": "approve", "read": "yes"})

    assert answer.status_code == 303
    run = answer.headers["Location"].removeprefix("/runs/")
    with house.caller.stream("GET", f"/api/v1/runs/{run}/events") as stream:
        stream.read()
    told = house.caller.get(f"/api/v1/runs/{run}").json()
    assert (told["state"], told["output"]) == ("succeeded", "restart\n")
    shown = person.client.get(f"/api/v1/confirmations/{question}").json()
    assert (shown["answered_by"], shown["self"]) == ("person:7", False)


def test_it_is_not_approved_without_the_read_through(house: House, person: Person) -> None:
    """C5: the button alone does nothing; the page says what is missing."""
    question = house.asks("restart")

    answers = [
        person.press(f"/confirmations/{question}/approve", fields)
        for fields in ({}, {"step": "approve"}, {"read": "yes"}, {"step": "again", "read": "yes"})
    ]

    assert [answer.status_code for answer in answers] == [422] * 4
    assert "先读完" in answers[1].text
    assert "按下按钮" in answers[3].text
    assert _state(person, question) == "waiting"


@pytest.mark.parametrize("name", ["", "wip", "restart", "WIPE"])
def test_what_destroys_asks_for_the_tools_name(house: House, person: Person, name: str) -> None:
    """C5."""
    question = house.asks("wipe", path="x")

    answer = person.press(f"/confirmations/{question}/approve", {"step": "approve", "read": "yes", "name": name})

    assert answer.status_code == 422
    assert _state(person, question) == "waiting"
    assert (
        person.press(
            f"/confirmations/{question}/approve", {"step": "approve", "read": "yes", "name": "wipe"}
        ).status_code
        == 303
    )


def test_approve_is_never_what_enter_presses(house: House, person: Person) -> None:
    """C5: rejecting stands first; in the form that approves, the default button is one that does nothing."""
    page = person.page(f"/confirmations/{house.asks('wipe', path='x')}")
    approve = page[page.index("/approve") :]

    assert page.index("/reject") < page.index("/approve")
    assert approve.index('<button name="step" value="again" hidden') < approve.index('value="approve">批准并执行')
    assert "autofocus" not in page
    assert "accesskey" not in page


def test_rejecting_runs_nothing_and_keeps_the_reason(house: House, person: Person) -> None:
    question = house.asks("restart")

    answer = person.press(f"/confirmations/{question}/reject", {"reason": "现在不行 <b>"})

    assert answer.status_code == 303
    said = person.words(f"/confirmations/{question}")
    assert "已拒绝" in said
    assert "现在不行 <b>" in said


def test_an_answered_question_cannot_be_answered_again(house: House, person: Person) -> None:
    """409, told where it was asked."""
    question = house.asks("restart")
    person.press(f"/confirmations/{question}/reject")

    answer = person.press(f"/confirmations/{question}/approve", {"step": "approve", "read": "yes"})

    assert answer.status_code == 409
    assert "没有执行" in words_of(answer.text)


def test_a_definition_that_changed_meanwhile_is_not_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Journey 3, last line: the page says so, and nothing runs."""
    desk = Desk(tmp_path_factory.mktemp("changes"))
    furnish(desk)
    desk.start()
    house = House(desk, desk.client("read", "exec"), "", "", "")
    person = signed_in(desk, "read", "exec", "confirm")
    question = house.asks("restart")
    desk.commit(
        restart=tool_text("restart", constraints={"require_confirm": True}, why="换了", command=["echo", "other"])
    )
    desk.client("admin").post("/api/v1/sync", params={"wait": "true"})

    answer = person.press(f"/confirmations/{question}/approve", {"step": "approve", "read": "yes"})
    said = person.words(f"/confirmations/{question}")
    ran = desk.client("read").get("/api/v1/runs", params={"state": "succeeded"}).json()["items"]
    desk.close()

    assert answer.status_code == 409
    assert "没有执行" in words_of(answer.text)
    assert "已作废" in said
    assert ran == []


def test_who_may_not_answer_sees_no_buttons(house: House) -> None:
    """Their own question, without the scope `confirm`."""
    asker = signed_in(house.desk, "read", "exec", sub="71")
    question = house.asks("restart")

    assert asker.get(f"/confirmations/{question}").status_code == 404
    assert asker.press(f"/confirmations/{question}/approve", {"step": "approve", "read": "yes"}).status_code == 403


def test_a_notice_stands_on_every_page_while_something_waits(house: House, person: Person) -> None:
    house.asks("restart")

    for path in ("/", "/runs", "/tools/git-ops", "/registrations", "/audit/1"):
        assert "等待确认" in person.words(path), path


def _state(person: Person, question: str) -> str:
    return str(person.client.get(f"/api/v1/confirmations/{question}").json()["state"])
