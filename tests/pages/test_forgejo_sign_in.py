"""Signing in through the forge: an OAuth2 provider across a wire, as running Forgejo servers answer."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from service.web.pages.view import SESSION
from tests.harness.definitions import tool_text
from tests.pages.forge import CLIENT_ID, CLIENT_SECRET, Forge
from tests.pages.people import Person
from tests.web.desk import Desk

SCOPES = {"bingshuo": ["read", "confirm"], "guanghu:owners": ["admin"], "guanghu": ["read", "exec"]}


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    forge = Forge()
    yield forge
    forge.close()


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, forge: Forge) -> Iterator[Desk]:
    desk = Desk(
        tmp_path_factory.mktemp("forgejo"),
        forgejo_url=f"{forge.url}/api/v1",
        oauth_client_id=CLIENT_ID,
        oauth_client_secret=CLIENT_SECRET,
        oauth_scopes=json.dumps(SCOPES),
        repository_id="1",
    )
    desk.commit(only=tool_text("only"))
    desk.start()
    yield desk
    desk.close()


@pytest.fixture(autouse=True)
def as_she_was(forge: Forge) -> Iterator[None]:
    before = dict(forge.person)
    yield
    forge.person, forge.nonce = before, None


def begin(person: Person, next_page: str = "/runs") -> tuple[str, dict[str, str]]:
    """Press the button: the address on the forge, and what it is asked."""
    answer = person.get("/sign-in/forgejo", params={"next": next_page})
    assert answer.status_code == 303
    address = answer.headers["Location"]
    return address, {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def agree(address: str) -> str:
    """The forge's consent; the path of ours that it sends the browser back to."""
    back = httpx.get(address, trust_env=False).headers["Location"]
    parts = urlsplit(back)
    return f"{parts.path}?{parts.query}"


def test_who_agrees_at_the_forge_is_signed_in_and_comes_to_the_page(desk: Desk) -> None:
    """Actor and name are the forge's; scopes are what the settings give the user."""
    person = Person(desk)
    address, _ = begin(person)

    back = person.get(agree(address))

    assert (back.status_code, back.headers["Location"]) == (303, "/runs")
    assert "bingshuo" in person.words("/")
    session = desk.bitong.sessions.everyone()[0]
    assert (session.who, session.name, session.scopes, session.via) == ("2", "bingshuo", ("read", "confirm"), "forgejo")


def test_the_forge_is_asked_with_everything_that_binds_the_answer(desk: Desk, forge: Forge) -> None:
    """facts/forgejo.md 3.7: S256, state, nonce, the fixed scope, the exact address to come back to."""
    first, second = begin(Person(desk))[1], begin(Person(desk))[1]

    assert first["code_challenge_method"] == "S256"
    assert first["response_type"] == "code"
    assert first["scope"] == "openid profile email groups"
    assert first["redirect_uri"] == f"{desk.url}/sign-in/callback"
    assert all(first[name] != second[name] for name in ("state", "nonce", "code_challenge"))
    assert CLIENT_SECRET not in json.dumps(first)


def test_groups_and_teams_give_scopes_too(desk: Desk, forge: Forge) -> None:
    """All of them together."""
    forge.person |= {"sub": "9", "preferred_username": "Somebody", "groups": ["guanghu", "guanghu:owners", "other"]}
    person = Person(desk)

    person.get(agree(begin(person)[0]))

    assert desk.bitong.sessions.everyone()[0].scopes == ("read", "exec", "admin")


def test_who_maps_to_no_scope_gets_no_session(desk: Desk, forge: Forge) -> None:
    """P3: a page says why, and who can change it."""
    forge.person |= {"sub": "10", "preferred_username": "stranger", "groups": ["strangers"]}
    person = Person(desk)

    answer = person.get(agree(begin(person)[0]))

    assert answer.status_code == 403
    assert "stranger" in answer.text
    assert "oauth_scopes" in answer.text
    assert SESSION not in person.client.cookies


def test_another_browsers_answer_is_refused(desk: Desk) -> None:
    """P3: somebody who lures another to their own sign-in does not sign them in."""
    theirs = agree(begin(Person(desk))[0])
    never, other = Person(desk), Person(desk)
    begin(other)

    answers = [never.get(theirs), other.get(theirs)]

    assert [answer.status_code for answer in answers] == [403, 403]
    assert all("这个浏览器" in answer.text for answer in answers)


def test_a_code_serves_once(desk: Desk) -> None:
    """P3: the same address again, in the same browser."""
    person = Person(desk)
    back = agree(begin(person)[0])

    first, again = person.get(back), person.get(back)

    assert (first.status_code, again.status_code) == (303, 403)


def test_a_code_that_the_forge_refuses_is_a_page_that_says_so(desk: Desk) -> None:
    """P3."""
    person = Person(desk)
    _, asked = begin(person)

    answer = person.get("/sign-in/callback", params={"code": "made-up", "state": asked["state"]})

    assert answer.status_code == 403
    assert "重新登录" in answer.text


def test_an_id_token_for_another_sign_in_is_refused(desk: Desk, forge: Forge) -> None:
    """The nonce binds it to this one."""
    forge.nonce = "another"
    person = Person(desk)

    assert person.get(agree(begin(person)[0])).status_code == 403


@pytest.mark.parametrize("told", [{"sub": ""}, {"sub": 2}, {"preferred_username": None}])
def test_a_forge_that_says_nothing_useful_signs_nobody_in(desk: Desk, forge: Forge, told: dict[str, Any]) -> None:
    """503 with a sentence, never a fault of ours."""
    forge.person |= told
    person = Person(desk)

    assert person.get(agree(begin(person)[0])).status_code == 503
    assert SESSION not in person.client.cookies


def test_a_renamed_user_stays_the_same_person(desk: Desk, forge: Forge) -> None:
    """Keyed on `sub`: the login may change."""
    forge.person |= {"sub": "2", "preferred_username": "renamed", "groups": ["guanghu"]}
    person = Person(desk)

    person.get(agree(begin(person)[0]))

    assert {session.who for session in desk.bitong.sessions.everyone()[:1]} == {"2"}


@pytest.mark.parametrize("wanted", ["//evil.example", "/\\evil.example", "https://evil.example/"])
def test_signing_in_through_the_forge_leads_to_no_other_host(desk: Desk, wanted: str) -> None:
    """P3."""
    assert Person(desk).get("/sign-in/forgejo", params={"next": wanted}).status_code == 403


def test_the_forges_token_is_kept_nowhere(desk: Desk, forge: Forge) -> None:
    """It could do anything the user can; after one question it is dropped."""
    person = Person(desk)

    person.get(agree(begin(person)[0]))

    files = [file for file in desk.bitong.folder.path.rglob("*") if file.is_file()]
    content = b"".join(file.read_bytes() for file in files)
    assert files
    assert not any(token.encode() in content for token in forge.tokens)


def test_a_forge_that_is_away_is_said_on_a_page(tmp_path: Any) -> None:
    """Nobody is signed in, and one may try again."""
    desk = Desk(
        tmp_path,
        forgejo_url="http://127.0.0.1:9/api/v1",
        oauth_client_id=CLIENT_ID,
        oauth_client_secret=CLIENT_SECRET,
        oauth_scopes=json.dumps(SCOPES),
        repository_id="1",
    )
    desk.commit(only=tool_text("only"))
    desk.start()
    person = Person(desk)
    _, asked = begin(person)

    answer = person.get("/sign-in/callback", params={"code": "x", "state": asked["state"]})
    desk.close()

    assert answer.status_code == 503
    assert "Forgejo" in answer.text
