"""Who may what: every route by every kind of token, and that what a token may not see does not exist for it.

An expired token (R3) needs a clock that can be moved: the tokens' own tests. Open streams, queued runs and waiting
confirmations (R14) are in test_following.py, test_queue.py and test_confirmations.py.
"""

import re
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.harness.forge import NativeRepo
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, eventually

READ, EXEC, ADMIN = frozenset({"read"}), frozenset({"exec"}), frozenset({"admin"})
TOOLS = READ | EXEC
OPEN = frozenset({"open"})
CONFIRM = frozenset({"exec", "confirm"})

# contract/http-api.md, "Who may what", a row for each route: what one scope alone opens.
RIGHTS: list[tuple[str, str, frozenset[str]]] = [
    ("POST", f"{API}/exec", EXEC),
    ("GET", f"{API}/tools", TOOLS),
    ("GET", f"{API}/tools/{{}}", TOOLS),
    ("GET", f"{API}/tools/{{}}/versions", TOOLS),
    ("GET", f"{API}/tools/{{}}/versions/{{}}", TOOLS),
    ("GET", f"{API}/tools/{{}}/versions/{{}}/source", TOOLS),
    ("GET", f"{API}/tools/{{}}/versions/{{}}/diff", TOOLS),
    ("GET", f"{API}/tools/{{}}/at", TOOLS),
    ("GET", f"{API}/tools/{{}}/intents", ADMIN),
    ("DELETE", f"{API}/tools/{{}}/intents", ADMIN),
    ("GET", f"{API}/events", TOOLS),
    ("GET", f"{API}/runs", TOOLS),
    ("GET", f"{API}/runs/{{}}", TOOLS),
    ("GET", f"{API}/runs/{{}}/stdout", TOOLS),
    ("GET", f"{API}/runs/{{}}/stderr", TOOLS),
    ("GET", f"{API}/runs/{{}}/proof", TOOLS),
    ("GET", f"{API}/runs/{{}}/events", TOOLS),
    ("POST", f"{API}/runs/{{}}/cancel", EXEC | ADMIN),
    ("GET", f"{API}/confirmations", CONFIRM),
    ("GET", f"{API}/confirmations/{{}}", CONFIRM),
    ("POST", f"{API}/confirmations/{{}}", frozenset({"confirm"})),  # and `exec` for that tool
    ("GET", f"{API}/audit", READ),
    ("GET", f"{API}/audit/entries/{{}}", READ),
    ("GET", f"{API}/audit/checkpoint", READ),
    ("GET", f"{API}/audit/proof/{{}}", READ),
    ("GET", f"{API}/audit/consistency", READ),
    ("GET", f"{API}/audit/anchors", READ),
    ("POST", f"{API}/audit/verify", READ),
    ("POST", f"{API}/audit/purge-output", ADMIN),
    ("GET", f"{API}/rejections", READ),
    ("GET", f"{API}/rejections/{{}}/{{}}/source", READ),
    ("GET", f"{API}/deliveries", READ),
    ("GET", f"{API}/stats", READ),
    ("GET", f"{API}/reports/missing-tools", READ),
    ("POST", f"{API}/sync", ADMIN),
    ("GET", f"{API}/tokens", ADMIN),
    ("POST", f"{API}/tokens", ADMIN),
    ("DELETE", f"{API}/tokens", ADMIN),
    ("DELETE", f"{API}/tokens/{{}}", ADMIN),
    ("GET", f"{API}/sessions", ADMIN),
    ("DELETE", f"{API}/sessions", ADMIN),
    ("DELETE", f"{API}/sessions/{{}}", ADMIN),
    ("POST", f"{API}/sign-in-links", ADMIN),
    ("GET", f"{API}/settings", ADMIN),
    ("GET", "/metrics", READ),
    ("GET", "/healthz", OPEN),
    ("GET", "/readyz", OPEN),
]

# Routes without a row of scopes: a hook has its signature (test_webhook.py); the contract names no scope for documents; a
# backup is for the operator of the host alone (tests/record/test_backup.py).
APART = {
    ("POST", "/hooks/forgejo"),
    ("GET", f"{API}/schema"),
    ("GET", f"{API}/openapi.json"),
    ("GET", f"{API}/backup"),
}

KINDS = ["nobody", "read", "exec", "exec with patterns", "confirm", "admin"]


@dataclass
class Door:
    """A service with one tool that patterns show and others that they hide, and a token of each kind."""

    service: BitongService
    repo: NativeRepo
    run: str
    routes: set[tuple[str, str]]

    def client(self, kind: str) -> httpx.Client:
        """Who asks."""
        if kind == "nobody":
            return self.service.anonymous
        tools = ("seen*",) if kind == "exec with patterns" else ()
        return self.service.client(self.service.token(kind.split(maxsplit=1)[0], tools=tools))

    def ask(self, kind: str, method: str, route: str) -> httpx.Response:
        """One request for a route of the table, its slots filled with things that are there."""
        filled = route
        for value in ("hidden" if "/tools/" in route else self.run if "/runs/" in route else "0", "1"):
            filled = filled.replace("{}", value, 1)
        body = {"tool": "seen-tool"} if route.endswith("/exec") else {}
        options: dict[str, Any] = {"json": body} if method == "POST" else {}
        if route == f"{API}/events":  # it does not end by itself
            with self.client(kind).stream(method, filled) as answer:
                return answer
        return self.client(kind).request(method, filled, **options)


@pytest.fixture(scope="module")
def door(shared_parts: Parts) -> Door:
    repo = shared_parts.repo("seen-tool", "hidden", "hidden-gone", "hidden-orphaned")
    service = shared_parts.service(repo)
    repo.remove_tool("hidden-gone")
    repo.commit()
    service.push(repo)
    run = service.run("hidden")["run"]["id"]
    paths = service.get("/openapi.json")["paths"]
    routes = {
        (method.upper(), re.sub(r"\{[^}]*\}", "{}", path)) for path, verbs in paths.items() for method in _verbs(verbs)
    }
    assert {("POST", f"{API}/exec"), ("GET", f"{API}/tools"), ("GET", "/healthz")} <= routes
    return Door(service, repo, run, routes)


def _verbs(operations: dict[str, Any]) -> list[str]:
    return [verb for verb in operations if verb in ("get", "post", "put", "patch", "delete")]


def test_every_route_has_a_row_of_rights(door: Door) -> None:
    """R13: a route that nobody thought about is a failure of this test, not an open door."""
    known = {(method, route) for method, route, _ in RIGHTS} | APART

    assert door.routes - known == set()


@pytest.mark.parametrize("kind", KINDS)
def test_each_route_opens_to_exactly_the_tokens_of_its_row(door: Door, kind: str) -> None:
    """R13, R3: nobody is 401, a token without the scope 403, and one with it neither."""
    scope = kind.split(maxsplit=1)[0]
    wrong = []
    for method, route, scopes in RIGHTS:
        if (method, route) not in door.routes:
            continue
        status = door.ask(kind, method, route).status_code
        allowed = scopes == OPEN or scope in scopes
        if allowed and "runs/{}" in route and scope == "exec":
            continue  # another's run: below
        wanted = status not in (401, 403) if allowed else status == (401 if kind == "nobody" else 403)
        if not wanted:
            wrong.append((method, route, status))

    assert wrong == []


@pytest.mark.parametrize("route", ["", "/stdout", "/stderr"])
def test_a_token_that_may_only_run_sees_its_own_runs_alone(door: Door, route: str) -> None:
    """Another's run is not there for it; the answer is the one for a run that never was."""
    if ("GET", f"{API}/runs/{{}}{route}") not in door.routes:
        pytest.skip("no such route yet")
    token = door.service.token("exec")
    own = door.service.run("seen-tool", token=token)["run"]["id"]
    client = door.service.client(token)

    others = client.get(f"{API}/runs/{door.run}{route}")
    never = client.get(f"{API}/runs/{door.run[:-1]}{'0' if door.run[-1] != '0' else '1'}{route}")

    assert client.get(f"{API}/runs/{own}{route}").status_code == 200
    assert others.status_code == never.status_code == 404
    listed = client.get(f"{API}/runs", params={"limit": 1000}).json()["items"]
    assert own in {run["id"] for run in listed}
    assert {run["tool"] for run in listed} == {"seen-tool"}


@pytest.mark.parametrize("route", ["", "/versions", "/versions/1", "/versions/1/source", "/versions/1/diff"])
@pytest.mark.parametrize("tool", ["hidden", "hidden-gone"])
def test_a_hidden_tool_answers_byte_for_byte_as_an_unknown_one(door: Door, route: str, tool: str) -> None:
    """R13: whoever guesses names learns nothing, also of what was removed."""
    if ("GET", f"{API}/tools/{{}}{re.sub('1', '{}', route)}") not in door.routes:
        pytest.skip("no such route yet")
    client = door.client("exec with patterns")
    unknown = "x" * len(tool)

    hidden = client.get(f"{API}/tools/{tool}{route}")
    never = client.get(f"{API}/tools/{unknown}{route}")

    assert hidden.status_code == never.status_code == 404
    assert hidden.content.replace(tool.encode(), b"NAME") == never.content.replace(unknown.encode(), b"NAME")
    assert set(hidden.headers) == set(never.headers)


def test_lists_and_searches_hold_only_what_a_tokens_patterns_show(door: Door) -> None:
    """Neither in the list, nor by a search for its texts, nor in another format; the ETag is one's own."""
    client, admin = door.client("exec with patterns"), door.service.admin

    for query in ({}, {"q": "hidden"}, {"state": "removed"}, {"executor": "shell"}, {"limit": "1000"}):
        answer = client.get(f"{API}/tools", params=query)
        assert "hidden" not in answer.text, query
    assert [tool["name"] for tool in client.get(f"{API}/tools").json()["items"]] == ["seen-tool"]
    assert client.get(f"{API}/tools").headers["ETag"] != admin.get(f"{API}/tools").headers["ETag"]


def test_a_reader_with_patterns_sees_no_other_tools_runs(door: Door) -> None:
    """Lists and counts keep to the patterns as well."""
    client = door.service.client(door.service.token("read", tools=("seen*",)))
    door.service.run("seen-tool")

    tools = {run["tool"] for run in client.get(f"{API}/runs", params={"limit": 1000}).json()["items"]}

    assert tools == {"seen-tool"}
    assert client.get(f"{API}/runs", params={"tool": "hidden"}).json()["items"] == []
    assert client.get(f"{API}/runs/{door.run}").status_code == 404


@pytest.mark.parametrize("patterns", [("seen-*", "hid*"), ("*",), ("hidden", "seen-tool")])
def test_several_patterns_show_what_any_of_them_shows(door: Door, patterns: tuple[str, ...]) -> None:
    """Patterns are shell globs on the whole name."""
    client = door.service.client(door.service.token("exec", tools=patterns))

    names = {tool["name"] for tool in client.get(f"{API}/tools").json()["items"]}

    assert {"seen-tool", "hidden"} <= names


@pytest.mark.parametrize("how", ["token", "access_token", "authorization", "bearer"])
def test_a_token_in_the_query_is_not_a_token(door: Door, how: str) -> None:
    """R3: addresses stand in logs and histories."""
    token = door.service.token("read")

    assert door.service.anonymous.get(f"{API}/tools", params={how: token}).status_code == 401
    assert token not in door.service.log_text()


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "Bearer",
        "Bearer {}x",
        "Bearer {:.20}",
        "Basic {}",
        "{}",
        "Bearer {} {}",
        "Bearer \xe4",
        "Bearer *",
    ],
)
def test_what_is_not_exactly_the_token_is_nobody(door: Door, shown: str) -> None:
    """R3: 401 with problem details, never a fault of ours."""
    token = door.service.token("read")
    header = shown.format(token, token).encode("latin-1")

    answer = door.service.anonymous.get(f"{API}/tools", headers=[(b"Authorization", header)])

    assert answer.status_code == 401
    assert answer.headers["Content-Type"].partition(";")[0] == "application/problem+json"
    assert answer.json()["code"] == "unauthenticated"


def test_many_wrong_tokens_do_not_lock_a_right_one_out(door: Door) -> None:
    """R4: whoever tries is slowed down or not, whoever has a token works on."""
    statuses = {
        door.service.anonymous.get(f"{API}/tools", headers={"Authorization": f"Bearer wrong-{number}"}).status_code
        for number in range(200)
    }

    assert statuses <= {401, 429}
    assert door.client("read").get(f"{API}/tools").status_code == 200


def test_a_revoked_token_is_nobody_within_a_second(door: Door) -> None:
    """R3: revoking acts at once, also on connections that are open (five times the slack)."""
    client = door.service.client(door.service.token("read", "exec", name="leaving"))
    before = client.get(f"{API}/tools").status_code

    done = door.service.cli("token", "revoke", "leaving")

    assert before == 200
    assert done.returncode == 0
    nobody = (401, 429)  # the second where this source has shown many wrong tokens of late
    eventually(lambda: client.get(f"{API}/tools").status_code in nobody, within_s=5)
    assert client.post(f"{API}/exec", json={"tool": "seen-tool"}).status_code in nobody


def test_a_token_made_again_under_the_same_name_is_another_actor(door: Door) -> None:
    """R14: an actor is never reused; what the first one ran stays the first one's."""
    first = door.service.token("exec", name="again")
    one = door.service.run("seen-tool", token=first)["run"]["id"]
    door.service.cli("token", "revoke", "again")
    second = door.service.token("exec", name="again")
    two = door.service.run("seen-tool", token=second)["run"]["id"]

    actors = [door.service.get(f"/runs/{run}")["actor"] for run in (one, two)]

    assert actors[0] != actors[1]
    assert all(actor.startswith("token:") for actor in actors)
    assert door.service.client(second).get(f"{API}/runs/{one}").status_code == 404


def test_a_token_works_on_after_a_restart_and_a_revoked_one_does_not(parts: Parts) -> None:
    """Both are durable before they are answered."""
    service = parts.service(parts.repo("only"))
    stays, goes = service.token("read", name="stays"), service.token("read", name="goes")
    assert service.cli("token", "revoke", "goes").returncode == 0

    service.kill()
    service.start()

    assert service.client(stays).get(f"{API}/tools").status_code == 200
    assert service.client(goes).get(f"{API}/tools").status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "localhost.evil"])
def test_a_request_for_another_host_is_refused(door: Door, host: str) -> None:
    """P4: a name that an attacker points at loopback would else speak to us from any page."""
    answer = door.client("admin").get(f"{API}/tokens", headers={"Host": host})

    assert answer.status_code == 400


def test_loopback_and_the_public_address_are_its_hosts(parts: Parts) -> None:
    """`allowed_hosts` is by default the public address's host and loopback."""
    service = parts.service(parts.repo("only"), public_url="https://tools.example.org/bitong")

    for name in ("localhost", "127.0.0.1", f"localhost:{service.port}", "tools.example.org"):
        assert service.anonymous.get("/healthz", headers={"Host": name}).status_code == 200
    assert service.anonymous.get("/healthz", headers={"Host": "other.example.org"}).status_code == 400


def test_an_unknown_route_and_a_wrong_verb_are_problem_details(door: Door) -> None:
    """RFC 9457: type, title, status, detail, and our code; no page of a framework's."""
    missing = door.service.admin.get(f"{API}/no-such-thing")
    verb = door.service.admin.put(f"{API}/tools")
    tool = door.service.admin.get(f"{API}/tools/no-such-tool")

    for answer, status in ((missing, 404), (verb, 405), (tool, 404)):
        told = answer.json()
        assert (answer.status_code, told["status"]) == (status, status)
        assert {"type", "title", "status", "detail", "code"} <= set(told)
        assert answer.headers["Content-Type"].partition(";")[0] == "application/problem+json"
        assert answer.headers["X-Request-Id"]
