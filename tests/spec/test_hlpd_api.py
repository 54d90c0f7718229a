"""Tools of the persona database's API, from outside: what a caller sees of it (contract/executors.md, hlpd-api)."""

import hashlib
import json
from collections.abc import Callable, Iterator

import pytest

from tests.harness.far_side import FarSide
from tests.harness.parts import Parts

TOKEN = "t0ken-of-the-persona-database"
TEXT = {"type": "string", "required": True}
READ = {"executor": "hlpd-api", "method": "GET /personas/{personaId}"}
READ |= {"params_schema": {"personaId": TEXT, "about": {"type": "object"}}}
NOTE = {"executor": "hlpd-api", "method": "POST /personas/{personaId}/notes"}
NOTE |= {"params_schema": {"personaId": TEXT, "key": {"type": "string", "secret": True}}}
RPC = {"executor": "hlpd-api", "method": "getPersona", "params_schema": {"personaId": TEXT}}


def persona_database(connection, request: bytes) -> None:
    """Knows one persona."""
    if b"PER-ZY001" in request:
        status, body = "200 OK", '{"ok": true, "name": "铸渊"}'.encode()
    elif request.startswith(b"POST /hlpd/call"):
        status, body = "200 OK", '{"ok": false, "error": "没有这个人格"}'.encode()
    else:
        status, body = "404 Not Found", '{"message": "没有这个人格"}\n'.encode()
    connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


@pytest.fixture(scope="module")
def side() -> Iterator[FarSide]:
    side = FarSide(persona_database)
    yield side
    side.close()


@pytest.fixture(scope="module")
def service(shared_parts: Parts, side: FarSide):
    repo = shared_parts.repo()
    for name, fields in (("read", READ), ("note", NOTE), ("rpc", RPC)):
        repo.write_tool(name, **fields)
    repo.commit()
    repo.push()
    return shared_parts.service(repo, hlpd_api_url=f"{side.url}/hlpd/", hlpd_api_token=TOKEN)


@pytest.fixture
def sent(side: FarSide) -> Callable[[], list[bytes]]:
    """What the test made the service send."""
    before = len(side.requests)
    return lambda: side.requests[before:]


def test_a_persona_is_read_and_its_bytes_come_back(service, sent):
    """Untouched, counted, hashed; the token goes along as a header."""
    told = service.run("read", {"personaId": "PER-ZY001"})

    body = '{"ok": true, "name": "铸渊"}'
    (request,) = sent()
    assert request.startswith(b"GET /hlpd/personas/PER-ZY001 HTTP/1.1\r\n")
    assert f"Authorization: Bearer {TOKEN}".encode() in request
    assert (told["ok"], told["method"], told["output"], told["error"]) == (
        True,
        "hlpd-api:GET /personas/{personaId}",
        body,
        None,
    )
    assert (told["run"]["status"], told["run"]["totals"]) == (200, "produced")
    assert told["run"]["output_sha256"] == hashlib.sha256(body.encode()).hexdigest()


def test_a_failures_body_is_in_output_and_with_its_status_in_error(service, sent):
    """No error is swallowed."""
    told = service.run("read", {"personaId": "nobody"})

    assert len(sent()) == 1
    assert (told["ok"], told["code"], told["run"]["reason"]) == (False, "failed", "far-side-status")
    assert told["output"] == '{"message": "没有这个人格"}\n'
    assert "404" in told["error"]
    assert '{"message": "没有这个人格"}' in told["error"]


def test_a_2xx_that_says_itself_that_it_failed_is_a_failure(service, sent):
    """The RPC form, with who called."""
    told = service.run("rpc", {"personaId": "nobody"})

    asked = json.loads(sent()[0].partition(b"\r\n\r\n")[2])
    assert asked == {"tool": "getPersona", "input": {"personaId": "nobody"}, "caller": asked["caller"]}
    assert asked["caller"].startswith("token:")
    assert (told["ok"], told["run"]["state"], told["run"]["status"]) == (False, "failed", 200)
    assert "没有这个人格" in told["error"]


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"personaId": "../../user/tokens"}, "personaId"),
        ({"personaId": "%252e%252e"}, "personaId"),
        ({"personaId": ""}, "personaId"),
        ({"personaId": "a", "about": {}}, "about"),
    ],
)
def test_what_would_leave_its_place_is_refused_and_nothing_is_sent(service, sent, params, param):
    """M6: 422, and a refused run."""
    answer = service.exec("read", params)

    assert (answer.status_code, answer.json()["code"]) == (422, "bad-parameters")
    assert [problem["param"] for problem in answer.json()["problems"]] == [param]
    assert answer.json()["run"]["state"] == "refused"
    assert sent() == []


def test_a_secret_reaches_the_far_side_and_nobody_else(service, sent):
    """M7: a keyed hash stands for it in the record."""
    told = service.run("note", {"personaId": "PER-ZY001", "key": "s3cr3t-value"})

    assert b"s3cr3t-value" in sent()[0]
    shown = json.dumps([told, service.get(f"/runs/{told['run']['id']}")])
    assert "s3cr3t-value" not in shown
    assert TOKEN not in shown + service.log_text()
    assert "s3cr3t-value" not in service.log_text()


def test_without_an_address_the_tool_is_registered_and_says_which_setting_is_missing(parts: Parts):
    """503, never a run by another way."""
    repo = parts.repo()
    repo.write_tool("read", **READ)
    repo.commit()
    repo.push()
    service = parts.service(repo)

    answer = service.exec("read", {"personaId": "a"})

    assert (answer.status_code, answer.json()["code"]) == (503, "not-available")
    assert "hlpd_api_url" in answer.json()["message"]["en"]
    (warning,) = service.tools()["read"]["warnings"]
    assert "hlpd_api_url" in warning["zh"]


def test_a_token_over_plain_http_is_refused_at_the_start(parts: Parts):
    """R16."""
    service = parts.service(start=False, hlpd_api_url="http://hlpd.example", hlpd_api_token=TOKEN)

    told = service.cli("serve")

    assert told.returncode == 2
    assert "hlpd_api_url" in told.stderr
    assert TOKEN not in told.stderr + told.stdout
