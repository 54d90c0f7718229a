"""What the service really answers is what its OpenAPI document says, field by field."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from service.domain.times import now, uuid7
from service.store import anchors
from service.store.anchors import Anchor
from service.web.server import API
from tests.harness.definitions import tool_text
from tests.harness.forge import signed_headers
from tests.harness.service import eventually
from tests.web.desk import Desk, push_body
from tests.web.openapi import Described

HEX = "0" * 40


@pytest.fixture(scope="module")
def happened(desk: Desk, everything: httpx.Client, call: Callable[..., httpx.Response]) -> dict[str, str]:
    """Runs of three endings, a webhook, tokens: so that every list has items. What to put in which slot."""
    run = call("shell-exec", {"cmd": "echo hello; echo warning >&2"}).json()["run"]["id"]
    call("shell-exec", {"cmd": "exit 1"})
    call("shell-exec", {"cmd": "printf '\\377'; exit 1"})
    refused = call("shell-exec").json()["run"]["id"]
    commit = desk.commit(fresh=tool_text("fresh"))
    body = push_body(commit)
    assert everything.post("/hooks/forgejo", content=body, headers=signed_headers(body)).status_code == 202
    looked = everything.post(f"{API}/sync", params={"wait": "true"})
    assert looked.status_code == 200
    anchor = Anchor(3, "", "/srv/records.git", "bitong-audit", commit)
    desk.bitong.database.write(lambda transaction: anchors.add(transaction, anchor, bytes(32)))
    asked = call("asks").json()["confirmation"]["id"]
    teach(everything)
    return {
        "name": "greet",
        "number": "2",
        "id": run,
        "index": "1",
        "refused": refused,
        "commit": commit,
        "asked": asked,
        "rejected": everything.get(f"{API}/rejections", params={"tool": "greet"}).json()["items"][0]["commit"],
    }


def teach(everything: httpx.Client) -> None:
    """An intent that nothing serves, and one that taught the tool that was run for it."""
    everything.post(f"{API}/exec", json={"intent": "红烧肉要炖多久"})
    match = everything.post(f"{API}/exec", json={"intent": "打个招呼"}).json()["match_id"]
    assert everything.post(f"{API}/exec", json={"tool": "greet", "match_id": match}).json()["ok"]
    eventually(lambda: everything.get(f"{API}/tools/greet/intents").json()["items"])


def reads(api: Described) -> list[tuple[str, dict[str, Any]]]:
    """Every GET that ends, with what is said of it; a backup is the operator's alone."""
    found = api.operations().items()
    apart = (f"{API}/events", f"{API}/backup")
    return [(path, said) for (verb, path), said in found if verb == "GET" and path not in apart]


def slots(path: str, happened: dict[str, str]) -> dict[str, str]:
    """What is there to put in a path's slots."""
    other = {"id": happened["asked"]} if "/confirmations/" in path else {}
    return happened | ({"commit": happened["rejected"]} if "/rejections/" in path else other)


def test_every_get_answers_as_described(everything: httpx.Client, api: Described, happened: dict[str, str]) -> None:
    """Each list and each detail, of things that are there."""
    wrong = {}
    for path, _ in reads(api):
        query = {"time": now()} if path.endswith("/at") else {}
        answer = everything.get(path.format(**slots(path, happened)), params=query)
        assert answer.status_code == 200, (path, answer.text)
        wrong[path] = api.wrong("GET", path, answer)

    assert {path: said for path, said in wrong.items() if said} == {}


def test_every_list_with_items_was_held_against_the_document(
    everything: httpx.Client, api: Described, happened: dict[str, str]
) -> None:
    """An empty list fits anything: each of them has items here, page by page."""
    for path, said in reads(api):
        if not any(one["name"] == "cursor" for one in said.get("parameters", [])):
            continue
        page = everything.get(path.format(**happened), params={"limit": 1}).json()
        assert len(page["items"]) == 1, path
        if page["next"] is not None:
            following = everything.get(path.format(**happened), params={"limit": 1000, "cursor": page["next"]})
            assert api.wrong("GET", path, following) == []


def test_every_entry_of_the_log_is_as_described(
    everything: httpx.Client, api: Described, happened: dict[str, str]
) -> None:
    """One by one, each with its bytes; those of all types that this service writes."""
    path = f"{API}/audit/entries/{{index}}"
    entries = everything.get(f"{API}/audit", params={"limit": 1000}).json()["items"]
    for entry in entries:
        assert api.wrong("GET", path, everything.get(path.format(index=entry["index"]))) == []

    assert {entry["type"] for entry in entries} >= {
        "log.opened",
        "service.started",
        "definition.registered",
        "definition.rejected",
        "definition.removed",
        "run.started",
        "run.finished",
        "run.refused",
        "intent.learned",
        "checkpoint.anchored",
        "token.issued",
    }


def test_tools_and_versions_of_every_standing_are_as_described(
    everything: httpx.Client, api: Described, happened: dict[str, str]
) -> None:
    """Active, behind, removed, never valid; with warnings and without."""
    path = f"{API}/tools/{{name}}"
    for name in ("shell-exec", "greet", "far", "asks", "gone", "wrong", "fresh"):
        answer = everything.get(path.format(name=name))
        assert answer.status_code in {200, 404}
        assert api.wrong("GET", path, answer) == [], name
    version = f"{API}/tools/{{name}}/versions/{{number}}"
    for number in (1, 2):
        assert api.wrong("GET", version, everything.get(version.format(name="greet", number=number))) == []
    assert everything.get(path.format(name="greet")).json()["behind"] is True
    assert everything.get(path.format(name="far")).json()["warnings"]
    assert everything.get(path.format(name="gone")).json()["removed"]["commit"]


def test_a_refused_run_is_as_described(everything: httpx.Client, api: Described, happened: dict[str, str]) -> None:
    """It never started: no times, no hashes, its problems."""
    answer = everything.get(f"{API}/runs/{happened['refused']}")

    assert answer.json()["problems"]
    assert api.wrong("GET", f"{API}/runs/{{id}}", answer) == []


def test_what_is_not_there_is_told_as_described(
    everything: httpx.Client, api: Described, happened: dict[str, str]
) -> None:
    """404 for every slot of a path."""
    nothing = {"name": "nothing", "number": "77", "id": uuid7(), "index": "999999", "commit": "0" * 40}
    for verb, path in api.operations():
        if "{" not in path:
            continue
        for name in ("nothing", "greet") if "{number}" in path else ("nothing",):
            answer = everything.request(verb, path.format(**{**nothing, "name": name}))

            assert answer.status_code == 404, path
            assert api.wrong(verb, path, answer) == []


def test_kept_bytes_are_as_described(everything: httpx.Client, api: Described, happened: dict[str, str]) -> None:
    """Whole, a range, and a range that is not there."""
    for stream in ("stdout", "stderr"):
        path = f"{API}/runs/{{id}}/{stream}"
        for wanted, status in ((None, 200), ("bytes=0-1", 206), ("bytes=900-", 416)):
            headers = {} if wanted is None else {"Range": wanted}
            answer = everything.get(path.format(**happened), headers=headers)

            assert answer.status_code == status
            assert api.wrong("GET", path, answer) == []


def test_the_filters_are_those_that_the_lists_take(
    everything: httpx.Client, api: Described, happened: dict[str, str]
) -> None:
    """A filter that is not described, or described and not there, is a mistake: the service itself names those it has."""
    for path, said in reads(api):
        answer = everything.get(path.format(**slots(path, happened)), params={"nonsense": "1"})
        described = {one["name"] for one in said.get("parameters", []) if one["in"] == "query"} - {"limit", "cursor"}
        assert api.wrong("GET", path, answer) == []
        if answer.status_code == 200:
            assert described == set(), path
            continue
        there = re.search(r"there are: (.*)\.$", answer.json()["problems"][0]["en"])
        assert there
        assert {name for name in there[1].split(", ") if name} == described, path


def test_each_value_that_a_filter_may_have_is_taken(
    everything: httpx.Client, api: Described, happened: dict[str, str]
) -> None:
    """Every word of every enum, both flags; one that is not there is 422."""
    for path, said in reads(api):
        for one in said.get("parameters", []):
            if one["in"] != "query" or one["name"] == "cursor":
                continue
            for value in values_of(one["schema"]):
                answer = everything.get(path.format(**happened), params={"limit": "3", one["name"]: value})
                assert answer.status_code == 200 or one["name"] == "format", (path, one["name"], value)
                assert api.wrong("GET", path, answer) == []
            if one["name"] != "format" and ("enum" in one["schema"] or one["schema"]["type"] != "string"):
                answer = everything.get(path.format(**happened), params={one["name"]: "nonsense"})
                assert answer.status_code == 422, (path, one["name"])


def values_of(schema: dict[str, Any]) -> list[str]:
    if schema["type"] == "boolean":
        return ["true", "false"]
    if schema["type"] == "integer":
        return [
            str(schema[name]) for name in ("minimum", "maximum") if "maximum" in schema
        ]  # else the log's size bounds it
    return schema.get("enum") or schema.get("examples") or ["abcdef"]


def test_an_unchanged_index_is_answered_as_described(
    everything: httpx.Client, api: Described, happened: dict[str, str]
) -> None:
    """304 with the same ETag and no body."""
    first = everything.get(f"{API}/tools")
    again = everything.get(f"{API}/tools", headers={"If-None-Match": first.headers["etag"]})

    assert again.status_code == 304
    assert api.wrong("GET", f"{API}/tools", again) == []


def test_tokens_are_as_described(everything: httpx.Client, api: Described) -> None:
    """Issued, taken already, of the wrong shape, unfit, ended, gone."""
    path, one = f"{API}/tokens", f"{API}/tokens/{{id}}"
    asked = {"name": "agent", "scopes": ["read"], "tools": ["git-*"], "expires_at": "2036-05-31"}
    bodies = [(asked, 201), (asked, 409), ({"name": 5}, 400), ({"name": "a b", "scopes": ["all"]}, 422)]
    issued = [everything.post(path, json=body) for body, _ in bodies]
    ended = [everything.delete(one.format(id="agent")) for _ in range(2)]

    assert [answer.status_code for answer in issued] == [status for _, status in bodies]
    assert [api.wrong("POST", path, answer) for answer in issued] == [[]] * len(bodies)
    assert [answer.status_code for answer in ended] == [200, 404]
    assert [api.wrong("DELETE", one, answer) for answer in ended] == [[], []]


def test_looks_are_as_described(everything: httpx.Client, api: Described) -> None:
    """At once, waited for, and with a misspelt flag."""
    for query, status in (({}, 202), ({"wait": "true", "full": "true"}, 200), ({"wait": "maybe"}, 422)):
        answer = everything.post(f"{API}/sync", params=query)

        assert answer.status_code == status
        assert api.wrong("POST", f"{API}/sync", answer) == []


def test_the_webhook_is_as_described(desk: Desk, api: Described) -> None:
    """Taken, ignored, unsigned, a form, no JSON inside."""
    client = desk.client()
    push, other = push_body(HEX), push_body(HEX, "refs/heads/other")
    form = [("Content-Type", "application/x-www-form-urlencoded")]
    asked = [
        (push, signed_headers(push), 202),
        (other, signed_headers(other), 204),
        (push, [("Content-Type", "application/json")], 401),
        (b"payload=1", form, 415),
        (b"[]", signed_headers(b"[]"), 400),
    ]
    for body, headers, status in asked:
        answer = client.post("/hooks/forgejo", content=body, headers=headers)

        assert answer.status_code == status
        assert api.wrong("POST", "/hooks/forgejo", answer) == []
    desk.bitong.worker.ask().result(20)


def test_other_methods_of_the_webhook_are_as_described(desk: Desk, api: Described) -> None:
    """405 with the cause of the empty GET."""
    others = api.document["paths"]["/hooks/forgejo"]["x-other-methods"]
    said = api.follow(others["responses"]["405"])
    answer = desk.client().get("/hooks/forgejo")

    assert answer.status_code == 405
    assert api.unfit(said["content"]["application/problem+json"]["schema"], answer.json()) == []
    assert answer.headers["allow"] == "POST"


def test_nobody_and_the_wrong_scope_are_told_as_described(desk: Desk, api: Described, happened: dict[str, str]) -> None:
    """401 and 403 of every route that asks for a token."""
    nobody, confirms = desk.client(), desk.client("confirm")
    for (verb, path), said in api.operations().items():
        if not said["security"] or path == "/hooks/forgejo":
            continue
        for client, status in ((nobody, 401), (confirms, 403)):
            answer = client.request(verb, path.format(**happened))
            if status == 403 and "confirm" in said["x-access"]:
                continue
            assert answer.status_code == status, path
            assert api.wrong(verb, path, answer) == [], path


def test_an_unknown_host_is_told_as_described(desk: Desk, api: Described) -> None:
    """The one error that comes before any route."""
    answer = desk.client().get("/healthz", headers={"Host": "evil.example"})
    said = api.response("GET", "/healthz", "default")  # type: ignore[arg-type]

    assert answer.status_code == 400
    assert api.unfit(said["content"]["application/problem+json"]["schema"], answer.json()) == []
