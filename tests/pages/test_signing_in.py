"""Sessions of people: how they begin, what they open, and how they end."""

import base64
import re
from typing import Any

import httpx
import pytest

from service.domain.actors import person_of
from service.web.pages.table import PAGES
from service.web.pages.view import SESSION
from service.web.people import MOST, Sessions
from tests.harness.definitions import tool_text
from tests.pages.conftest import ALL, House
from tests.pages.people import Person, signed_in
from tests.web.desk import Desk


def link_of(house: House) -> str:
    made = house.desk.client("admin").post("/api/v1/sign-in-links")
    assert made.status_code == 201
    return str(made.json()["url"]).removeprefix(house.desk.url)


def test_who_is_not_signed_in_is_sent_to_sign_in_and_comes_back(house: House) -> None:
    """A link to a page leads to that page in the end."""
    answer = Person(house.desk).get("/runs?tool=git-ops")

    assert answer.status_code == 303
    assert answer.headers["Location"] == "/sign-in?next=%2Fruns%3Ftool%3Dgit-ops"


def test_looking_at_a_sign_in_link_does_not_spend_it(house: House) -> None:
    """P2: a chat's preview fetches it by HEAD and GET."""
    link, somebody = link_of(house), Person(house.desk)
    looks = [somebody.client.head(link), somebody.get(link), somebody.get(link)]

    entered = somebody.send("/sign-in/link", {"link": link.partition("token=")[2]})

    assert [look.status_code for look in looks] == [200, 200, 200]
    assert entered.status_code == 303
    assert somebody.get("/").status_code == 200


def test_a_sign_in_link_is_spent_once(house: House) -> None:
    """P2: whoever comes second is told so, and gets no session."""
    text = link_of(house).partition("token=")[2]
    first, second = Person(house.desk), Person(house.desk)

    answers = [first.send("/sign-in/link", {"link": text}), second.send("/sign-in/link", {"link": text})]

    assert [answer.status_code for answer in answers] == [303, 409]
    assert SESSION not in second.client.cookies
    assert "bitong login" in answers[1].text


def test_a_sign_in_link_does_not_outlive_ten_minutes(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """P2: made as if it were ten minutes and a second old."""
    monkeypatch.setattr("service.web.people.LINK_S", -1)
    text, _ = house.desk.bitong.sessions.make_link()

    assert Person(house.desk).send("/sign-in/link", {"link": text}).status_code == 409


def test_the_cookie_is_for_our_path_alone_and_no_script_reads_it(house: House) -> None:
    """HttpOnly, SameSite; Secure where people come by https (tests of the sub-path)."""
    text = link_of(house).partition("token=")[2]

    told = Person(house.desk).send("/sign-in/link", {"link": text}).headers.get_list("Set-Cookie")

    ours = next(cookie for cookie in told if cookie.startswith(f"{SESSION}="))
    assert {"Path=/", "HttpOnly", "SameSite=Lax", "Max-Age=43200"} <= set(ours.split("; "))


def test_signing_out_ends_the_session_on_the_server_too(house: House) -> None:
    """A cookie that was copied before opens nothing after."""
    somebody = signed_in(house.desk, "read")
    cookie = somebody.client.cookies[SESSION]

    answer = somebody.press("/sign-out")

    assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in")
    assert Person(house.desk, cookie).get("/").status_code == 303
    assert Person(house.desk, cookie).get("/api/v1/tools").status_code == 401


def test_an_admin_lists_sessions_and_ends_one(house: House) -> None:
    """R14: it opens nothing from that moment on, and the record says who ended it."""
    somebody = signed_in(house.desk, "read", sub="41")
    admin = house.desk.client("admin")
    listed = [one for one in admin.get("/api/v1/sessions").json()["items"] if one["actor"] == "person:41"]

    ended = admin.delete(f"/api/v1/sessions/{listed[0]['id']}")

    assert (ended.status_code, ended.json()["closed_at"] is None) == (200, False)
    assert somebody.get("/").status_code == 303
    assert admin.delete(f"/api/v1/sessions/{listed[0]['id']}").status_code == 404
    newest = house.desk.client("read").get("/api/v1/audit", params={"type": "session.closed"}).json()["items"][0]
    assert newest["facts"]["session"] == listed[0]["id"]
    assert newest["actor"].startswith("token:")


def test_a_session_that_ended_closes_its_open_stream(house: House) -> None:
    """R14: also a connection that is open already (five times a second)."""
    signed_in(house.desk, "read", sub="42")  # another one of theirs, which goes on
    somebody = signed_in(house.desk, "read", sub="42")
    session = next(s for s in house.desk.bitong.sessions.everyone() if s.who == "42")
    with somebody.client.stream("GET", "/api/v1/events", timeout=5) as stream:
        assert stream.status_code == 200
        house.desk.bitong.sessions.close(session.id, person_of(session))

        assert b"".join(stream.iter_raw()) is not None  # it ends, or the test's client gives up
    assert somebody.get("/").status_code == 303
    assert house.desk.bitong.authority.standing("person:42") is not None


def test_a_person_may_what_their_living_sessions_may(house: House) -> None:
    """R14: what queued runs and open streams look at; with the last session it ends."""
    sessions, standing = house.desk.bitong.sessions, house.desk.bitong.authority.standing
    one, _ = sessions.open("43", "somebody", ("read",), "forgejo")
    other, _ = sessions.open("43", "somebody", ("exec",), "forgejo")
    both = person_of(one)

    held = [standing("person:43")]
    for session in (one, other):
        sessions.close(session.id, both)
        held.append(standing("person:43"))

    assert [actor and actor.scopes for actor in held] == [{"read", "exec"}, {"exec"}, None]


def test_the_oldest_of_too_many_sessions_gives_way(house: House) -> None:
    """Every table has a bound; whoever signs in again and again ends what they began first."""
    sessions = house.desk.bitong.sessions
    cookies = [sessions.open("45", "busy", ("read",), "forgejo")[1] for _ in range(MOST + 2)]

    living = [sessions.find(cookie) is not None for cookie in cookies]

    assert living == [False, False, *[True] * MOST]


def test_opening_and_closing_are_in_the_record_without_the_cookie(house: House) -> None:
    """contract/audit.md: session.opened, session.closed."""
    _, cookie = house.desk.bitong.sessions.open("44", "霜砚", ("read",), "forgejo")

    told = house.desk.client("read").get("/api/v1/audit", params={"type": "session.opened"})

    facts = told.json()["items"][0]["facts"]
    assert (facts["who"], facts["name"], facts["scopes"], facts["via"]) == ("44", "霜砚", ["read"], "forgejo")
    assert cookie not in told.text


def test_sessions_outlive_a_restart_and_ended_ones_do_not(tmp_path: Any) -> None:
    """Both are durable before they are answered."""
    desk = Desk(tmp_path)
    desk.commit(only=tool_text("only"))
    desk.start()
    stays, kept = desk.bitong.sessions.open("1", "a", ("read",), "forgejo")
    goes, gone = desk.bitong.sessions.open("2", "b", ("read",), "forgejo")
    desk.bitong.sessions.close(goes.id, person_of(goes))

    again = Sessions(desk.bitong.database, 12)
    desk.close()

    assert again.find(kept) is not None
    assert again.find(kept).id == stays.id  # type: ignore[union-attr]
    assert again.find(gone) is None


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"Origin": "null"}, "a sandboxed frame"),
        ({"Origin": "http://127.0.0.1:1", "Sec_Fetch_Site": "same-site"}, "another application on the same host"),
        ({"Origin": "https://evil.example", "Sec_Fetch_Site": "cross-site"}, "another host"),
        ({"Origin": "", "Sec_Fetch_Site": ""}, "nothing that says where it is from"),
        ({"Sec_Fetch_Site": "none"}, "an address typed in"),
    ],
)
def test_a_change_that_is_not_from_our_own_pages_is_refused(house: House, headers: dict[str, str], why: str) -> None:
    """P1, with the right token even."""
    somebody = signed_in(house.desk, *ALL)

    answer = somebody.press("/sign-out", **headers)

    assert answer.status_code == 403, why
    assert somebody.get("/").status_code == 200


def test_a_change_without_the_sessions_token_is_refused(house: House) -> None:
    """P1: none, another session's."""
    somebody, other = signed_in(house.desk, *ALL), signed_in(house.desk, *ALL, sub="8")
    foreign = re.search(r'name="token" value="([0-9a-f]+)"', other.page("/"))
    assert foreign

    answers = [somebody.send("/sign-out", {}), somebody.send("/sign-out", {"token": foreign.group(1)})]

    assert [answer.status_code for answer in answers] == [403, 403]
    assert somebody.get("/").status_code == 200


def test_a_change_by_get_is_refused(house: House, person: Person) -> None:
    """P1: every path that changes something, by every verb but POST."""
    changes = {route.path for route in PAGES if route.method == "POST"} - {"/sign-in/link"}
    asked = {path: path.replace("{id}", "x") for path in changes}

    statuses = {path: person.get(address).status_code for path, address in asked.items()}

    assert statuses
    assert set(statuses.values()) == {403}


def test_a_cookie_changes_nothing_through_the_api(house: House, person: Person) -> None:
    """It comes along by itself, so that it only opens what reads."""
    answers = [
        person.send("/api/v1/exec", {}),
        person.client.post("/api/v1/sync", headers={"Origin": house.desk.url}),
        person.client.delete("/api/v1/tokens/x", headers={"Origin": house.desk.url}),
    ]

    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert person.get("/api/v1/tools").status_code == 200


def test_a_session_opens_only_what_its_scopes_open(house: House) -> None:
    """Pages and the API alike."""
    reader = signed_in(house.desk, "read")

    assert reader.get("/access").status_code == 403
    assert reader.get("/api/v1/tokens").status_code == 403
    assert reader.press("/access/tokens", {"name": "mine", "scope-admin": "yes"}).status_code == 403
    assert not any(token.name == "mine" for token in house.desk.bitong.authority.all_tokens())


@pytest.mark.parametrize("wanted", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)"])
def test_signing_in_leads_to_no_other_host(house: House, wanted: str) -> None:
    """P3: refused, with a page that says why."""
    answer = Person(house.desk).get("/sign-in", params={"next": wanted})

    assert answer.status_code == 403
    assert "别处" in answer.text
    assert answer.headers["Content-Type"].startswith("text/html")


def test_a_foreign_host_is_refused_for_pages_too(house: House) -> None:
    """P4."""
    assert Person(house.desk).get("/sign-in", headers={"Host": "evil.example"}).status_code == 400


def test_a_forged_forwarded_address_opens_nothing(house: House) -> None:
    """P4: whatever a caller writes there."""
    answer = httpx.get(f"{house.desk.url}/access", headers={"X-Forwarded-For": "127.0.0.1"}, trust_env=False)

    assert answer.status_code == 303


def test_a_cookie_that_is_none_is_nobody(house: House) -> None:
    """Never a fault of ours."""
    for cookie in ("", "x", base64.b64encode(b"\0" * 40).decode(), "é", ";;;=", "a" * 5000):
        answer = httpx.get(
            f"{house.desk.url}/",
            headers=[(b"Cookie", f"{SESSION}={cookie}".encode("latin-1"))],
            trust_env=False,
            follow_redirects=False,
        )
        assert answer.status_code == 303, cookie
