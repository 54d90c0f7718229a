"""Behind a reverse proxy at a sub-path that it strips: every link, form and cookie stays below it."""

import re
from collections.abc import Iterator
from html import unescape

import pytest

from service.web.pages.view import SESSION
from tests.harness.definitions import tool_text
from tests.pages.people import Person
from tests.web.desk import Desk

BASE = "/bitong"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    desk = Desk(
        tmp_path_factory.mktemp("below"),
        public_url=f"https://forge.example{BASE}",
        forgejo_public_url="https://forge.example/git",
    )
    desk.commit(
        only=tool_text("only"), wrong="name: wrong\n", asks=tool_text("asks", constraints={"require_confirm": True})
    )
    desk.start()
    yield desk
    desk.close()


@pytest.fixture(scope="module")
def person(desk: Desk) -> Person:
    """As the proxy passes them on: the public Host, the path without the sub-path."""
    _, cookie = desk.bitong.sessions.open("7", "冰朔", ("read", "exec", "confirm", "admin"), "forgejo")
    person = Person(desk)
    person.client.headers.update({"Host": "forge.example", "Cookie": f"{SESSION}={cookie}"})
    person.origin = "https://forge.example"
    return person


def test_every_link_of_every_page_is_below_the_sub_path_and_there(desk: Desk, person: Person) -> None:
    """Walked from the overview, as far as links lead."""
    caller = desk.client("read", "exec")
    caller.post("/api/v1/exec", json={"tool": "only"})
    caller.post("/api/v1/exec", json={"tool": "asks"})
    seen, waiting, wrong = set(), ["/"], []
    while waiting:
        path = waiting.pop()
        answer = person.get(path)
        if answer.status_code not in (200, 303, 503):  # 503: named by the contract, not built yet
            wrong.append((path, answer.status_code))
        if not answer.headers.get("Content-Type", "").startswith("text/html"):
            continue
        for link in re.findall(r'(?:href|src|action|hx-get|data-tail|data-events)="([^"#]*)"', answer.text):
            address = unescape(link)
            if not address.startswith((f"{BASE}/", "https://forge.example/git/")):
                wrong.append((path, address))
            inside = address.removeprefix(BASE)
            if address.startswith(BASE) and inside not in seen and "/events" not in inside and len(seen) < 150:
                seen.add(inside)
                if f'action="{link}" method="post"' not in answer.text:
                    waiting.append(inside)

    assert wrong == []
    assert len(seen) > 40


def test_forms_work_below_it_and_lead_back_below_it(person: Person) -> None:
    """Origin is the public address's."""
    answer = person.press("/language", {"to": "en", "next": "/runs"})

    assert (answer.status_code, answer.headers["Location"]) == (303, f"{BASE}/runs")
    assert person.press("/language", {"to": "en", "next": "/"}, Origin="https://other.example").status_code == 403


def test_cookies_are_secure_and_for_the_sub_path(desk: Desk, person: Person) -> None:
    """Beside other applications of the same host."""
    link, _ = desk.bitong.sessions.make_link()

    answer = person.send("/sign-in/link", {"link": link})

    ours = next(cookie for cookie in answer.headers.get_list("Set-Cookie") if cookie.startswith(f"{SESSION}="))
    assert {f"Path={BASE}/", "Secure", "HttpOnly", "SameSite=Lax"} <= set(ours.split("; "))
    assert answer.headers["Location"] == f"{BASE}/"


def test_a_sign_in_link_is_made_from_the_public_address(desk: Desk) -> None:
    made = desk.client("admin").post("/api/v1/sign-in-links").json()

    assert made["url"].startswith(f"https://forge.example{BASE}/sign-in/link?token=")


def test_who_is_not_signed_in_is_sent_below_it(desk: Desk) -> None:
    somebody = Person(desk)

    assert somebody.get("/runs").headers["Location"] == f"{BASE}/sign-in?next=%2Fruns"
