"""The hlpd-api executor: what it sends, and what comes of it (contract/executors.md, hlpd-api)."""

import dataclasses
import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.definitions import Definition, Parameter
from service.domain.executors import HIDDEN, Call, Cancel, Executor
from service.domain.parameters import fit
from service.domain.runs import error_of
from service.errors import UsageError
from service.execution.executors.failed_when import FailedWhen
from service.execution.executors.hlpd_api import JUDGED_BYTES, HlpdApiExecutor
from service.intake.definitions.reading import read_definition
from tests.harness.far_side import nobody, reset, say

REPOSITORY = Path(__file__).parents[1] / "data" / "native-repo" / "tools"
MADE_UP = {"string": "某/值?", "integer": 7, "number": 1.5, "boolean": True, "array": ["一", "二"], "object": {"键": 1}}
TOKEN = "t0ken-of-the-persona-database"
READ = Definition(
    name="persona-read",
    display="人格查阅",
    intent="查看一个人格的登记资料",
    method="GET /personas/{personaId}",
    executor="hlpd-api",
    author="ICE-GL-ZY001",
    created="2026-05-31",
    why="铸渊要知道是谁",
    params_schema={
        "personaId": Parameter("string", required=True),
        "fields": Parameter("array", items=Parameter("string")),
        "depth": Parameter("integer"),
        "full": Parameter("boolean"),
        "about": Parameter("object"),
    },
)
WRITE = dataclasses.replace(
    READ,
    method="PATCH /personas/{personaId}/notes",
    params_schema={
        "personaId": Parameter("string", required=True),
        "note": Parameter("string", required=True),
        "tags": Parameter("array"),
        "about": Parameter("object"),
        "key": Parameter("string", secret=True),
    },
)
RPC = dataclasses.replace(READ, method="getPersona", params_schema={"personaId": Parameter("string", required=True)})


def call(parameters, definition=READ, *, timeout_ms=5000, keep=65536, cancel=None, on_output=None):
    return Call("run-1", definition, parameters, timeout_ms, keep, "token:7", cancel or Cancel(), (), on_output)


def executor(url="http://127.0.0.1:9", *, token=TOKEN, rpc_path="/call", failed_when=None):
    return HlpdApiExecutor(url, token, rpc_path, failed_when or FailedWhen())


@pytest.fixture
def sent(far_side, answering):
    """The request line, headers and body that a call makes."""

    def send(parameters, definition=READ, below=""):
        side = far_side(answering(b"{}"))
        runs = executor(side.url + below)
        assert runs.check(definition, parameters) == []
        assert runs.run(call(parameters, definition)).state == "succeeded"
        (request,) = side.requests
        head, _, body = request.partition(b"\r\n\r\n")
        line, *headers = head.decode().split("\r\n")
        return line, dict(header.lower().split(": ", 1) for header in headers), body

    return send


@pytest.fixture
def told(far_side, answering):
    """What becomes of an RPC answer."""

    def tell(body, *, status="200 OK", content_type="application/json", keep=65536, **how):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        side = far_side(answering(raw, status, content_type))
        outcome = executor(side.url, **how).run(call({"personaId": "a"}, RPC, keep=keep))
        assert side.connections == 1
        assert outcome.stdout.kept == raw[:keep]
        return outcome

    return tell


# What is sent


def test_it_is_an_executor():
    """The one Protocol."""
    runs: Executor = executor()

    assert (runs.name, runs.uses_files, runs.target(READ), runs.refusal(READ)) == ("hlpd-api", False, None, None)


def test_the_rest_of_a_read_goes_to_the_query(sent):
    """Slots are filled; arrays repeat the name; nothing is folded, and no body goes along."""
    line, headers, body = sent({"depth": 2, "personaId": "铸渊 001", "fields": ["名字", "a&b"], "full": True})

    assert line == (
        "GET /personas/%E9%93%B8%E6%B8%8A%20001?fields=%E5%90%8D%E5%AD%97&fields=a%26b&depth=2&full=true HTTP/1.1"
    )
    assert (body, "content-length" in headers) == (b"", False)
    assert headers["authorization"] == f"bearer {TOKEN}"
    assert headers["accept-encoding"] == "identity"


def test_without_a_rest_there_is_no_query(sent):
    """Not even a question mark."""
    assert sent({"personaId": "a"})[0] == "GET /personas/a HTTP/1.1"


def test_a_delete_is_asked_for_as_a_read_is(sent):
    """executors.md: the query for GET and DELETE."""
    definition = dataclasses.replace(READ, method="DELETE /personas/{personaId}")

    assert sent({"personaId": "a", "depth": 1}, definition)[0] == "DELETE /personas/a?depth=1 HTTP/1.1"


@pytest.mark.parametrize("verb", ["POST", "PUT", "PATCH"])
def test_the_rest_of_a_write_goes_to_a_json_body(sent, verb):
    """As JSON: nothing becomes text that was none."""
    definition = dataclasses.replace(WRITE, method=f"{verb} /personas/{{personaId}}/notes")
    rest = {"note": "第一行\n\t\x1b\0", "tags": ["a", 1, None], "about": {"b": 1.5}, "key": "s3cret"}

    line, headers, body = sent({"personaId": "a", **rest}, definition)

    assert line == f"{verb} /personas/a/notes HTTP/1.1"
    assert json.loads(body) == rest
    assert headers["content-type"] == "application/json"


def test_a_write_without_parameters_has_an_empty_object(sent):
    """It has a body all the same."""
    definition = dataclasses.replace(WRITE, method="POST /refresh", params_schema={})

    assert sent({}, definition)[2] == b"{}"


def test_a_bare_name_is_called_as_that_api_has_it_today(sent):
    """executors.md: tool, input and caller."""
    line, headers, body = sent({"personaId": "../x"}, RPC)

    assert line == "POST /call HTTP/1.1"
    assert json.loads(body) == {"tool": "getPersona", "input": {"personaId": "../x"}, "caller": "token:7"}
    assert headers["authorization"] == f"bearer {TOKEN}"


@pytest.mark.parametrize("below", ["/hlpd/v1", "/hlpd/v1/"])
def test_a_path_of_the_base_url_is_kept(sent, below):
    """A reverse proxy may have put it anywhere."""
    assert sent({"personaId": "a"}, below=below)[0] == "GET /hlpd/v1/personas/a HTTP/1.1"
    assert sent({"personaId": "a"}, RPC, below=below)[0] == "POST /hlpd/v1/call HTTP/1.1"


def test_without_a_token_nothing_is_authorised(far_side, answering):
    """The setting may be left out on loopback."""
    side = far_side(answering(b"{}"))

    executor(side.url, token=None).run(call({"personaId": "a"}))

    assert b"authorization" not in side.requests[0].lower()


def test_what_is_shown_before_is_what_is_sent(sent):
    """http-api.md, Confirmations: verb and URL, secrets hidden; who asked stands beside it."""
    runs = executor("http://127.0.0.1:9/hlpd")
    write = {"personaId": "a", "note": "n", "key": HIDDEN}

    assert runs.preview(READ, {"personaId": "a b", "depth": 1}) == {
        "verb": "GET",
        "url": "http://127.0.0.1:9/hlpd/personas/a%20b?depth=1",
    }
    assert runs.preview(WRITE, write) == {
        "verb": "PATCH",
        "url": "http://127.0.0.1:9/hlpd/personas/a/notes",
        "body": {"note": "n", "key": HIDDEN},
    }
    assert runs.preview(RPC, {"personaId": "a"})["body"] == {"tool": "getPersona", "input": {"personaId": "a"}}


def definitions_of_the_repository() -> list[Definition]:
    files = sorted(REPOSITORY.glob("*/TOOL.hdlp"))
    readings = [read_definition(file.read_bytes(), file.parent.name).definition for file in files]
    return [definition for definition in readings if definition.executor == "hlpd-api"]


def test_every_tool_of_a_year_old_repository_becomes_the_request_it_means(far_side, answering):
    """37 definitions, written by nobody who knew this executor: all parameters arrive, whatever they hold."""
    side, seen = far_side(answering(b"{}")), []

    for definition in definitions_of_the_repository():
        given = {name: MADE_UP[parameter.type] for name, parameter in definition.params_schema.items()}
        if " " in definition.method:
            given["personaId"] = "PER-ZY001"
        assert executor().check(definition, given) == []
        assert executor(side.url).run(call(given, definition)).state == "succeeded"
        head, _, body = side.requests[-1].partition(b"\r\n\r\n")
        verb, target, _ = head.decode().split("\r\n")[0].split(" ")
        seen.append(definition.name)
        if body:
            assert (verb, target) == ("POST", "/call")
            assert json.loads(body) == {"tool": definition.method, "input": given, "caller": "token:7"}
        else:
            assert verb == "GET"
            assert target.startswith("/personas/PER-ZY001")
    assert len(seen) == 37


def test_defaults_are_sent_and_what_has_no_value_is_left_out(sent):
    """tool-hdlp.md: defaults are filled in before anything is run."""
    (definition,) = [one for one in definitions_of_the_repository() if one.name == "timeline-read"]
    parameters, _ = fit(definition.params_schema, {"personaId": "a"})

    assert sent(parameters, definition)[0] == "GET /personas/a/timeline?limit=30 HTTP/1.1"
    assert sent({"personaId": "a"}, definition)[0] == "GET /personas/a/timeline HTTP/1.1"


# What is refused


@pytest.mark.parametrize(
    ("parameters", "param", "code"),
    [
        ({"depth": 1}, "personaId", "missing"),
        ({"personaId": ""}, "personaId", "empty"),
        ({"personaId": ".."}, "personaId", "bad-segment"),
        ({"personaId": "../../user/tokens"}, "personaId", "bad-segment"),
        ({"personaId": "%252e%252e"}, "personaId", "bad-segment"),
        ({"personaId": "a\0"}, "personaId", "control-character"),
        ({"personaId": "a", "about": {}}, "about", "wrong-type"),
        ({"personaId": "a", "fields": [["x"]]}, "fields", "wrong-type"),
        ({"personaId": "a", "fields": [{}]}, "fields", "wrong-type"),
        ({"personaId": "a", "fields": [None]}, "fields", "wrong-type"),
    ],
)
def test_what_cannot_be_sent_as_the_definition_says_is_refused(parameters, param, code):
    """M1, M2, M6: 422, before anything is sent."""
    (problem,) = executor().check(READ, parameters)

    assert (problem.param, problem.code) == (param, code)
    assert problem.zh
    assert problem.en


def test_all_problems_are_told_together():
    """M1."""
    problems = executor().check(READ, {"personaId": "..", "about": {}, "fields": [[]]})

    assert [problem.param for problem in problems] == ["personaId", "fields", "about"]


@given(st.one_of(st.text(), st.text(alphabet="./%2eE5cCfF\\0?#@:[]{}")))
def test_no_parameter_changes_where_it_goes(persona):
    """M10: the destination comes from settings; a definition's path is left by no value."""
    runs, parameters = executor("http://127.0.0.1:9/hlpd"), {"personaId": persona, "fields": [persona]}
    if runs.check(READ, parameters):
        return

    path, _, query = runs.preview(READ, parameters)["url"].partition("?")

    assert path.startswith("http://127.0.0.1:9/hlpd/personas/")
    assert path.count("/") == 5
    assert query.startswith("fields=")


@pytest.mark.parametrize(
    "method", ["GET https://evil.example/x", "GET //evil.example/x", "GET /../../x", "GET /a?b", "GET /a#b"]
)
def test_a_route_that_registration_would_refuse_still_goes_nowhere(far_side, answering, method):
    """M10: what is stored is looked at again before anything is sent."""
    side = far_side(answering(b"{}"))
    definition = dataclasses.replace(READ, method=method, params_schema={})
    runs = executor(side.url + "/hlpd")

    (problem,) = runs.check(definition, {})
    outcome = runs.run(call({}, definition))

    assert problem.code == "elsewhere"
    assert (outcome.state, outcome.reason) == ("failed", "did-not-start")
    assert side.connections == 0


def test_it_says_which_setting_is_missing():
    """A tool that cannot run here says what the operator can do."""
    message = HlpdApiExecutor(None, None, "/call", FailedWhen()).unavailable(READ)

    assert "hlpd_api_url" in message.zh
    assert "hlpd_api_url" in message.en
    assert executor().unavailable(READ) is None


@pytest.mark.parametrize(
    ("url", "rpc_path", "setting"),
    [
        ("ftp://127.0.0.1", "/call", "hlpd_api_url"),
        ("http://me:s3cret@127.0.0.1", "/call", "hlpd_api_url"),
        ("http://127.0.0.1/?a=b", "/call", "hlpd_api_url"),
        ("http://127.0.0.1", "call", "hlpd_api_rpc_path"),
        ("http://127.0.0.1", ".evil.example/call", "hlpd_api_rpc_path"),
        ("http://127.0.0.1", "/call?x", "hlpd_api_rpc_path"),
        ("http://127.0.0.1", "/{tool}", "hlpd_api_rpc_path"),
        ("http://127.0.0.1", "/../call", "hlpd_api_rpc_path"),
    ],
)
def test_an_address_that_no_request_can_go_to_is_refused_by_its_settings_name(url, rpc_path, setting):
    """At the start, not at the first call; a password in it is not quoted."""
    with pytest.raises(UsageError) as refused:
        executor(url, rpc_path=rpc_path)

    assert setting in refused.value.message.zh
    assert setting in refused.value.message.en
    assert "s3cret" not in str(refused.value.message)


# What an answer means


def test_an_answer_is_the_output_as_it_came(far_side, answering):
    """U3: bytes, whatever they are; of a route no field is looked at."""
    body = b'{"ok": false, "error": "\xff\x00"}'
    side = far_side(answering(body))
    heard = []

    outcome = executor(side.url).run(call({"personaId": "a"}, on_output=lambda *output: heard.append(output)))

    assert (outcome.state, outcome.status, outcome.stdout.kept) == ("succeeded", 200, body)
    assert outcome.totals == "produced"
    assert heard == [("stdout", body)]


@pytest.mark.parametrize("definition", [READ, RPC])
def test_a_failures_body_and_status_stand_in_the_error(far_side, answering, definition):
    """executors.md, hlpd-api."""
    side = far_side(answering('{"message": "没有这个人格"}'.encode(), "404 Not Found"))

    outcome = executor(side.url).run(call({"personaId": "a"}, definition))

    assert (outcome.state, outcome.reason, outcome.status) == ("failed", "far-side-status", 404)
    assert "404" in error_of(outcome)
    assert "没有这个人格" in error_of(outcome)


@pytest.mark.parametrize("definition", [READ, RPC])
@pytest.mark.parametrize(("behave", "reason"), [(reset, "lost-answer"), (say(b"nonsense\r\n\r\n"), "bad-answer")])
def test_a_lost_answer_is_unknown_and_asked_for_once(far_side, definition, behave, reason):
    """R1: no silent retry of what may have acted."""
    side = far_side(behave)

    outcome = executor(side.url).run(call({"personaId": "a"}, definition))

    assert (outcome.state, outcome.reason, side.connections) == ("unknown", reason, 1)


@pytest.mark.parametrize("definition", [READ, RPC])
def test_a_refused_connection_did_not_start(definition):
    """R1."""
    outcome = executor(nobody()).run(call({"personaId": "a"}, definition))

    assert (outcome.state, outcome.reason) == ("failed", "did-not-start")


@pytest.mark.parametrize("definition", [READ, RPC])
def test_our_own_deadline_after_it_was_sent_is_unknown(far_side, definition):
    """X1: the limit of all of it."""
    side = far_side(lambda connection, _: connection.recv(1))

    outcome = executor(side.url).run(call({"personaId": "a"}, definition, timeout_ms=100))

    assert (outcome.state, outcome.reason) == ("unknown", "lost-answer")
    assert 100 <= outcome.duration_ms < 500


def test_the_token_is_nowhere_but_in_its_header(far_side, answering, caplog):
    """R3, M7: not in an outcome, a preview, a log or the executor's own text."""
    caplog.set_level(logging.DEBUG)
    side = far_side(answering(b"no", "401 Unauthorized"))
    runs = executor(side.url)

    outcome = runs.run(call({"personaId": "a"}))

    assert side.requests[0].count(TOKEN.encode()) == 1
    assert TOKEN not in repr(outcome) + repr(runs) + str(runs.preview(READ, {"personaId": "a"})) + caplog.text


# An RPC answer that says itself that it failed


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ({"ok": True, "data": 1}, "succeeded"),
        ({"ok": False}, "failed"),
        ({"ok": True, "error": None}, "succeeded"),
        ({"ok": True, "error": "x"}, "failed"),
        ({"error": {"code": 7}}, "failed"),
        ({"error": ""}, "failed"),
        ({"error": False}, "failed"),
        ({"ok": 0}, "succeeded"),
        ({"ok": "false"}, "succeeded"),
        ({"ok": None, "error": None}, "succeeded"),
        ({"result": {"ok": False, "error": "deeper"}}, "succeeded"),
        ({}, "succeeded"),
    ],
)
def test_an_rpc_answer_fails_that_says_so_itself(told, answer, state):
    """executors.md: by default where `ok` is false or `error` is not null."""
    outcome = told(answer)

    assert (outcome.state, outcome.status, outcome.notes) == (state, 200, ())
    assert outcome.reason == ("far-side-error" if state == "failed" else None)


def test_what_it_said_stands_in_the_error(told):
    """No error is swallowed: which field said so, and the answer's words."""
    outcome = told(b'{"ok": false, "error": "no such persona"}')

    assert "ok 是 false、error 不是 null" in outcome.why.zh
    assert "ok is false, error is not null" in outcome.why.en
    assert '"no such persona"' in error_of(outcome)


@pytest.mark.parametrize(
    ("mapping", "answer", "state"),
    [
        ({"code": "not 0"}, {"code": 0}, "succeeded"),
        ({"code": "not 0"}, {"code": 0.0}, "succeeded"),
        ({"code": "not 0"}, {"code": 40001}, "failed"),
        ({"code": "not 0"}, {"code": "0"}, "failed"),
        ({"code": "not 0"}, {"code": False}, "failed"),
        ({"code": "not 0"}, {}, "succeeded"),
        ({"result.status": "failed"}, {"result": {"status": "failed"}}, "failed"),
        ({"result.status": "failed"}, {"result": "failed"}, "succeeded"),
        ({"status": 'not "done"'}, {"status": "done"}, "succeeded"),
        ({"status": 'not "done"'}, {"status": "half"}, "failed"),
        ({"data": None}, {"data": None}, "failed"),
        ({}, {"ok": False, "error": "x"}, "succeeded"),
    ],
)
def test_what_means_failure_is_the_operators_to_say(told, mapping, answer, state):
    """`hlpd_api_failed_when`: a field that is not there says nothing."""
    assert told(answer, failed_when=FailedWhen.read(mapping)).state == state


@pytest.mark.parametrize(
    "mapping",
    [
        {"ok": []},
        {"ok": {}},
        {"ok": "not so"},
        {"ok": "not [1]"},
        {"": False},
        {"a..ok": False},
        {"ok": "not " + "[" * 99999},
    ],
)
def test_a_mapping_that_means_nothing_is_refused_by_its_key(mapping):
    """A setting that would silently do nothing."""
    (key,) = mapping
    with pytest.raises(ValueError, match=f"'{key}'"):
        FailedWhen.read(mapping)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b"plain text", "text/plain"), (b"[1, 2]", "application/json"), (b'"ok"', "application/json"), (b"", "text/html")],
)
def test_an_answer_that_cannot_say_so_succeeds_with_a_note(told, body, content_type):
    """Its status said that it did; the output is the answer as it is."""
    outcome = told(body, content_type=content_type)

    assert (outcome.state, outcome.reason) == ("succeeded", None)
    (note,) = outcome.notes
    assert "HTTP" in note.zh
    assert "HTTP" in note.en


def test_no_content_is_no_broken_json(told):
    """204 has no body, whatever its header says."""
    assert told(b"", status="204 No Content").state == "succeeded"


@pytest.mark.parametrize("body", [b'{"ok": tr', b"", b"<html>", b"[" * 100_000, b"\xff\xfe{\0}\0"])
def test_an_answer_that_says_json_and_is_none_is_not_called_a_success(told, body):
    """R1: it was sent and acted on, and what came of it cannot be read."""
    outcome = told(body, keep=1_000_000)

    assert (outcome.state, outcome.reason, outcome.status) == ("unknown", "bad-answer", 200)
    assert outcome.why.zh


@pytest.mark.parametrize(
    "body", [b'{"ok": NaN}', b'{"ok": ' + b"9" * 5000 + b"}", b'{"error": "\\ud800\\u0000"}', b'{"ok": 1, "ok": false}']
)
def test_strange_json_is_a_result(told, body):
    """facts/platform.md, "Text that becomes something else": nothing raises, and what is recorded is text."""
    outcome = told(body)

    assert outcome.state in {"succeeded", "failed"}
    assert (error_of(outcome) or "").encode() is not None


def test_an_answer_is_judged_past_what_is_kept_of_it(told):
    """`max_output_bytes` is for the output; whether it failed may stand after it."""
    outcome = told({"data": "x" * 5000, "ok": False}, keep=100)

    assert outcome.state == "failed"
    assert (len(outcome.stdout.kept), outcome.stdout.truncated) == (100, True)


@pytest.mark.parametrize(
    "body",
    [
        b'{"ok": true, "a": [' + b"[]," * 1_000_000 + b"[]]}",
        b'{"ok": true, "a": [' + b'"",' * 1_000_000 + b'""]}',
        b'{"ok": true, "a": "' + b'\\"' * 1_000_000 + b'", "b": [' + b"[]," * 1_000_000,
    ],
    ids=["lists", "texts", "unended"],
)
def test_an_answer_made_to_be_costly_is_not_judged(told, body):
    """R19: whoever reads such JSON holds all other threads for seconds."""
    outcome = told(body, keep=100)

    assert outcome.state == "succeeded"
    assert "too large" in outcome.notes[0].en


def test_an_answer_too_large_to_be_judged_succeeds_with_a_note(told):
    """Memory is bounded; everything is still counted and hashed."""
    outcome = told(b'{"data": "' + b"x" * JUDGED_BYTES + b'", "ok": false}', keep=100)

    assert outcome.state == "succeeded"
    assert "too large" in outcome.notes[0].en
