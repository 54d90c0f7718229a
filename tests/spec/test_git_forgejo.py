"""git-forgejo tools from the outside: what the operator allows is called, all else is refused and recorded (X30)."""

import json
from collections.abc import Iterator

import pytest

from tests.harness.far_side import FarSide
from tests.harness.forgejo_document import document_of, facts_of
from tests.harness.parts import Parts
from tests.harness.service import BitongService

SERVICE, TOOLS = "t0ken-of-the-service", "t0ken-of-the-tools"
TEXT = {"type": "string", "required": True}
TOOLS_BY_NAME = {
    "read-file": {"method": "repoGetContents", "params_schema": {"filepath": TEXT, "ref": {"type": "string"}}},
    "list-hooks": {"method": "repoListHooks", "params_schema": {}},
    "runner-token": {"method": "repoGetRunnerRegistrationToken", "params_schema": {}},
    "open-issue": {"method": "issueCreateIssue", "params_schema": {"title": TEXT, "labels": {"type": "array"}}},
}


def forge(connection, request: bytes) -> None:
    """An instance that describes itself falsely, and answers what it is asked."""
    if b"/swagger.v1.json" in request.split(b"\r\n", 1)[0]:
        facts = facts_of("7.0.10")
        facts["repoGetContents"] = facts["repoGetContents"] | {"verb": "DELETE", "path": "/user/repos"}
        body = document_of(facts)
    elif b" /api/v1/repos/zhuyuan/native-repo " in request:
        body = b'{"id": 7}'
    else:
        body = b'{"name": "README.md"}'
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


@pytest.fixture(scope="module")
def side() -> Iterator[FarSide]:
    """Forgejo, as far as these tests ask it."""
    side = FarSide(forge)
    yield side
    side.close()


@pytest.fixture(scope="module")
def service(shared_parts: Parts, side: FarSide) -> BitongService:
    """It tracks a repository that the forge calls zhuyuan/native-repo, and has a token for tools apart from its own."""
    repo = shared_parts.repo()
    for name, fields in TOOLS_BY_NAME.items():
        repo.write_tool(name, executor="git-forgejo", without=("command",), **fields)
    repo.commit()
    repo.push()
    settings = {"forgejo_url": f"{side.url}/api/v1", "forgejo_token": SERVICE, "forgejo_tools_token": TOOLS}
    return shared_parts.service(repo, **settings)


def calls(side: FarSide) -> list[bytes]:
    """What tools asked of the forge, with their own token."""
    return [request for request in side.requests if TOOLS.encode() in request]


def test_our_own_facts_say_where_a_call_goes(service: BitongService, side: FarSide) -> None:
    """X30: a document that gives repoGetContents the verb DELETE is not believed; slashes of a path stay."""
    told = service.run("read-file", {"filepath": "tools/a b/TOOL.hdlp", "ref": "main"})

    line = calls(side)[-1].split(b"\r\n", 1)[0].decode()
    assert told["ok"], told["error"]
    assert told["output"] == '{"name": "README.md"}'
    assert line.startswith("GET /api/v1/repos/")
    assert line.endswith("/contents/tools/a%20b/TOOL.hdlp?ref=main HTTP/1.1")
    assert f"Authorization: Bearer {TOOLS}".encode() in calls(side)[-1]


@pytest.mark.parametrize("tool", ["list-hooks", "runner-token", "open-issue"])
def test_what_the_operator_did_not_allow_is_refused_with_the_settings_name(
    service: BitongService, side: FarSide, tool: str
) -> None:
    """X30: by default reading repositories and issues, without tokens, keys, hooks, runners; nothing is sent."""
    before = len(calls(side))

    answer = service.exec(tool, {"title": "x"} if tool == "open-issue" else {})

    told = answer.json()
    assert (answer.status_code, told["code"]) == (409, "not-allowed")
    assert "forgejo_operations" in told["message"]["zh"]
    assert "forgejo_operations" in told["message"]["en"]
    assert told["run"]["state"] == "refused"
    assert service.get(f"/runs/{told['run']['id']}")["reason"] == "not-allowed"
    assert len(calls(side)) == before


def test_an_operation_that_will_be_refused_is_shown_as_a_warning(service: BitongService) -> None:
    """registration.md: registered, shown, refused at exec."""
    warnings = service.tools()["list-hooks"]["warnings"]

    assert [warning["code"] for warning in warnings] == ["not-allowed"]
    assert service.tools()["read-file"]["warnings"] == []


def test_globs_of_the_operator_allow_more(parts: Parts, side: FarSide) -> None:
    """And only what they name."""
    repo = parts.repo()
    for name in ("open-issue", "read-file"):
        repo.write_tool(name, executor="git-forgejo", without=("command",), **TOOLS_BY_NAME[name])
    repo.commit()
    repo.push()
    url = f"{side.url}/api/v1"
    service = parts.service(
        repo, forgejo_url=url, forgejo_tools_token=TOOLS, forgejo_operations=["issueCreate*"], repository_id=7
    )

    opened = service.run("open-issue", {"title": "灯灭了", "labels": [1]})
    refused = service.exec("read-file", {"filepath": "README.md"})

    assert opened["ok"], opened["error"]
    assert json.loads(calls(side)[-1].split(b"\r\n\r\n", 1)[1]) == {"title": "灯灭了", "labels": [1]}
    assert refused.json()["code"] == "not-allowed"
