"""The gatekeeper executor: what it sends, and what each answer means, however strange (executors.md, gatekeeper)."""

import base64
import dataclasses
import hashlib
import json
import socket
import threading
import time

import pytest

from service.domain.definitions import Definition, Parameter
from service.domain.executors import HIDDEN, Call, Cancel, Executor, Outcome
from service.errors import UsageError
from service.execution.executors.gatekeeper import GatekeeperExecutor, Node
from service.execution.executors.gatekeeper_answer import AnswerFields

TOKEN = "t0ken-of-the-node"
EXEC = Definition(
    name="shell-exec",
    display="Shell命令执行",
    intent="在服务器上执行一条shell命令并返回结果",
    method="exec",
    executor="gatekeeper",
    author="ICE-GL-ZY001",
    created="2026-05-31",
    why="所有系统操作的基础工具",
    params_schema={"cmd": Parameter("string", required=True), "cwd": Parameter("string")},
)
GIT = dataclasses.replace(
    EXEC,
    command=("git", "-C", "{dir}", "log"),
    params_schema={"dir": Parameter("string"), "cwd": Parameter("string"), "env": Parameter("object")},
)


def call(parameters, definition=EXEC, *, timeout_ms=5000, keep=65536, cancel=None, on_output=None):
    return Call("run-1", definition, parameters, timeout_ms, keep, "token:1", cancel or Cancel(), tuple, on_output)


def executor(url, **node):
    return GatekeeperExecutor({"BS-SG-001": Node(url, TOKEN, **node)}, "BS-SG-001")


@pytest.fixture
def told(far_side, answering):
    """What becomes of an answer's body."""

    def tell(body, *, keep=65536, status="200 OK", content_type="application/json", **node):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        side = far_side(answering(raw, status, content_type))
        outcome = executor(side.url, **node).run(call({"cmd": "x"}, keep=keep))
        assert len(side.requests) == 1  # never a second time
        assert_storable(outcome)
        return outcome

    return tell


def assert_storable(outcome):
    """What the record needs: texts that are Unicode, numbers that fit, streams that agree with themselves."""
    assert isinstance(outcome, Outcome)
    for message in (outcome.why, *outcome.notes):
        if message is not None:
            assert (message.zh + message.en).encode()
    for stream in (outcome.stdout, outcome.stderr):
        assert len(stream.kept) <= stream.total < 2**63
        assert len(stream.sha256) == 64
        if not stream.truncated:
            assert stream.sha256 == hashlib.sha256(stream.kept).hexdigest()
    assert outcome.exit_code is None or abs(outcome.exit_code) <= 2**32
    assert (outcome.reason is None) == (outcome.state == "succeeded")


# What is sent


def test_the_request_is_what_the_contract_says(far_side, answering):
    """`{method, params}` as the seed gives it, and what a gatekeeper may ignore; the token only as a header."""
    side = far_side(answering(b'{"ok": true}'))

    executor(side.url + "/").run(call({"cmd": "echo 你好", "cwd": "/srv"}, timeout_ms=5000, keep=1234))

    head = side.requests[0].partition(b"\r\n\r\n")[0]
    body = side.bodies()[0]
    assert head.startswith(b"POST /exec HTTP/1.1\r\n")
    assert f"Authorization: Bearer {TOKEN}".encode() in head
    assert 4000 < body.pop("timeout_ms") <= 5000
    assert body == {
        "method": "exec",
        "params": {"cmd": "echo 你好", "cwd": "/srv"},
        "max_output_bytes": 1234,
        "run_id": "run-1",
    }


def test_a_command_goes_as_a_vector_and_quoted_with_what_was_declared(far_side, answering):
    """Nothing else: a parameter of the command is no parameter of the gatekeeper."""
    side = far_side(answering(b'{"ok": true}'))

    executor(side.url).run(call({"dir": "/a b;rm", "env": {"A": "1"}}, GIT))

    body = side.bodies()[0]
    assert body["method"] == "exec"
    assert body["params"] == {
        "argv": ["git", "-C", "/a b;rm", "log"],
        "cmd": "git -C '/a b;rm' log",
        "env": {"A": "1"},
    }


@pytest.mark.parametrize(("node", "left"), [({"argv": False}, {"cmd"}), ({"cmd": False}, {"argv"})])
def test_a_node_may_leave_out_either_form_of_a_command(far_side, answering, node, left):
    """A gatekeeper in the field may refuse what it does not know."""
    side = far_side(answering(b'{"ok": true}'))

    executor(side.url, **node).run(call({"dir": "/a"}, GIT))

    assert side.bodies()[0]["params"].keys() == left


def test_a_nul_and_a_loading_variable_are_refused_before_anything_is_sent():
    """M2, M14: what becomes an argument, a path or the environment; content is data."""
    runs = executor("http://127.0.0.1:9")
    write = dataclasses.replace(EXEC, method="file.write", params_schema={})

    assert [p.param for p in runs.check(EXEC, {"cmd": "a\0b", "cwd": "/\0"})] == ["cmd", "cwd"]
    assert [p.param for p in runs.check(GIT, {"dir": "/", "env": {"LD_PRELOAD": "x"}})] == ["env"]
    assert [p.param for p in runs.check(write, {"path": "/\0", "content": "a\0b"})] == ["path"]
    assert runs.check(EXEC, {"cmd": "a\n\t\x1bb"}) == []


def test_it_says_which_setting_is_missing():
    """No such node; no default."""
    elsewhere = dataclasses.replace(EXEC, node="BS-XX-999")
    runs = executor("http://127.0.0.1:9")
    alone = GatekeeperExecutor({}, None)

    assert runs.unavailable(EXEC) is None
    assert "gatekeepers" in runs.unavailable(elsewhere).zh
    assert "gatekeeper_default" in alone.unavailable(EXEC).en
    assert (runs.target(EXEC), runs.target(elsewhere)) == ("BS-SG-001", "BS-XX-999")


def test_it_is_an_executor():
    """The one Protocol."""
    runs: Executor = executor("http://127.0.0.1:9")

    assert runs.name == "gatekeeper"


@pytest.mark.parametrize(
    ("node", "fault"),
    [
        (Node("http://10.0.0.1:3911", TOKEN), "insecure"),
        (Node("ftp://10.0.0.1", TOKEN), "url"),
        (Node("http://me:secret@127.0.0.1", TOKEN), "url"),
        (Node("http://127.0.0.1", TOKEN, argv=False, cmd=False), "argv"),
    ],
)
def test_a_node_that_cannot_be_used_safely_is_refused_by_name(node, fault):
    """R16: names the setting and the node, never the token."""
    with pytest.raises(UsageError) as refused:
        GatekeeperExecutor({"BS-GZ-006": node}, None)

    said = refused.value.message.zh + refused.value.message.en
    assert all(word in said for word in ("gatekeepers", "BS-GZ-006", fault))
    assert "t0ken" not in said
    assert "secret" not in said


def test_plain_http_beyond_loopback_must_be_said_in_so_many_words():
    """R16."""
    runs = GatekeeperExecutor({"BS-GZ-006": Node("http://10.0.0.1:3910", TOKEN, insecure=True)}, "BS-GZ-006")

    assert runs.unavailable(EXEC) is None


# What an answer means


@pytest.mark.parametrize(
    ("answer", "state", "reason", "code", "out", "err"),
    [
        ({"ok": True, "exit_code": 0, "stdout": "hi\n", "stderr": "w"}, "succeeded", None, 0, b"hi\n", b"w"),
        ({"ok": True, "output": "hi", "error": None}, "succeeded", None, None, b"hi", b""),
        ({"ok": False, "exit_code": 3, "stdout": "", "stderr": "no"}, "failed", "exit-code", 3, b"", b"no"),
        ({"ok": False, "exit_code": None, "error": "words"}, "failed", "far-side-error", None, b"", b"words"),
        ({"ok": True, "exit_code": 3}, "failed", "exit-code", 3, b"", b""),
        ({"exit_code": 0, "stdout": "x"}, "succeeded", None, 0, b"x", b""),
        ({"exit_code": -9, "stdout": "x"}, "failed", "exit-code", -9, b"x", b""),
        ({"output": "x"}, "succeeded", None, None, b"x", b""),
        ({"error": "x"}, "failed", "far-side-error", None, b"", b"x"),
        ({"ok": False, "reason": "deadline", "stdout": "part"}, "timed_out", "deadline", None, b"part", b""),
        ({"ok": False, "reason": "signal", "signal": "SIGSEGV"}, "failed", "signal", None, b"", b""),
        ({"ok": False, "reason": "did-not-start", "why": "no such file"}, "failed", "did-not-start", None, b"", b""),
        ({"ok": False, "reason": "lost-answer"}, "unknown", "lost-answer", None, b"", b""),
        ({"ok": False, "reason": "made-up"}, "failed", "far-side-error", None, b"", b""),
    ],
)
def test_an_answer_in_the_fields_known_means_what_it_says(told, answer, state, reason, code, out, err):
    """A failure that any field admits to is a failure."""
    outcome = told(answer)

    assert (outcome.state, outcome.reason, outcome.exit_code) == (state, reason, code)
    assert (outcome.stdout.kept, outcome.stderr.kept) == (out, err)
    assert outcome.totals == "received"


def test_a_failure_without_words_gets_a_line(told):
    """U7: exit 3 and nothing on either stream."""
    outcome = told({"ok": False, "exit_code": 3})

    assert "3" in outcome.why.zh
    assert "3" in outcome.why.en


def test_the_far_sides_own_words_stand_in_the_line(told):
    """No error is swallowed."""
    outcome = told({"ok": False, "reason": "did-not-start", "why": "Exec format error"})

    assert "Exec format error" in outcome.why.zh
    assert "Exec format error" in outcome.why.en


def test_a_nodes_fields_can_be_mapped(told):
    """Gatekeepers v2.1.0 in the field differ."""
    fields = AnswerFields.read({"ok": "success", "stdout": ["data.text", "data.out"], "exit_code": "data.rc"})

    outcome = told({"success": False, "data": {"out": "x", "rc": 7}}, fields=fields)

    assert (outcome.state, outcome.exit_code, outcome.stdout.kept) == ("failed", 7, b"x")


@pytest.mark.parametrize("mapping", [{"stdot": "x"}, {"stdout": 5}, {"stdout": [None]}, {"stdout": ""}])
def test_a_wrong_mapping_is_named(mapping):
    """A setting that would silently do nothing."""
    with pytest.raises(UsageError) as refused:
        AnswerFields.read(mapping)

    assert next(iter(mapping)) in refused.value.message.zh


def test_bytes_that_are_no_text_come_exactly(told):
    """U3: invalid UTF-8, GBK, NUL."""
    out, err = bytes(range(256)), "中文".encode("gbk")
    answer = {"ok": True, "stdout": "\ufffd", "stdout_b64": base64.b64encode(out).decode()}
    answer |= {"stderr_b64": base64.b64encode(err).decode()}

    outcome = told(answer)

    assert (outcome.stdout.kept, outcome.stderr.kept) == (out, err)


def test_totals_that_are_given_are_of_what_was_produced(told):
    """More was produced than was sent."""
    sha = hashlib.sha256(b"x" * 1000).hexdigest()
    empty = hashlib.sha256(b"").hexdigest()
    answer = {"ok": True, "stdout": "xx", "stdout_bytes": 1000, "stdout_sha256": sha, "truncated": True}
    answer |= {"stderr": "", "stderr_bytes": 0, "stderr_sha256": empty}

    outcome = told(answer)

    assert (outcome.totals, outcome.stdout.total, outcome.stdout.sha256) == ("produced", 1000, sha)
    assert outcome.stdout.truncated


@pytest.mark.parametrize(
    "given",
    [
        {"stdout_bytes": 1, "stdout_sha256": "0" * 64},
        {"stdout_bytes": 2, "stdout_sha256": "0" * 64},
        {"stdout_bytes": 10**30, "stdout_sha256": "0" * 64},
        {"stdout_bytes": "2", "stdout_sha256": "0" * 64},
        {"stdout_bytes": 5, "stdout_sha256": "Z" * 64},
        {"stdout_bytes": True, "stdout_sha256": None},
    ],
)
def test_totals_that_cannot_be_true_are_not_believed(told, given):
    """Fewer bytes than arrived, another hash, no number."""
    outcome = told({"ok": True, "stdout": "xx", **given})

    assert (outcome.totals, outcome.stdout.total) == ("received", 2)
    assert outcome.stdout.sha256 == hashlib.sha256(b"xx").hexdigest()


def test_our_own_cap_holds_when_a_gatekeeper_ignores_it(told):
    """U1, U11: the first bytes, and the count of all."""
    outcome = told({"ok": True, "stdout": "x" * 5000}, keep=100)

    assert (outcome.stdout.kept, outcome.stdout.total) == (b"x" * 100, 5000)


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (b'{"ok": "true", "stdout": "x"}', "unknown"),
        (b'{"ok": true, "exit_code": "0", "stdout": "x"}', "succeeded"),
        (b'{"ok": true, "exit_code": NaN, "stdout": "x"}', "succeeded"),
        (b'{"ok": false, "exit_code": Infinity}', "failed"),
        (b'{"ok": true, "exit_code": 1e30}', "succeeded"),
        (b'{"exit_code": ' + b"9" * 5000 + b"}", "unknown"),
        (b'{"ok": true, "stdout": {"a": ' + b"9" * 5000 + b"}}", "succeeded"),
        (b'{"ok": true, "stdout": ["a", "b"]}', "succeeded"),
        (b'{"ok": true, "stdout": 5, "stderr": 6}', "succeeded"),
        (b'{"ok": true, "stdout": "x", "stdout_b64": "***"}', "succeeded"),
        (b'{"ok": true, "stdout_b64": 7}', "succeeded"),
        (b'{"ok": false, "reason": ["deadline"], "signal": {}, "why": [1]}', "failed"),
        (b'{"ok": false, "reason": "signal", "signal": "\\ud800"}', "failed"),
        (b'{"ok": false, "why": "\\ud800\\u0000"}', "failed"),
        (b'{"ok": null, "exit_code": null, "stdout": null}', "succeeded"),
        (b"[" * 100_000 + b"]" * 100_000, "unknown"),
        (b'{"ok": false, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "unknown"),
        (b'{"ok": false', "unknown"),
        (b"\xff\xfe{\x00}\x00", "unknown"),
        (b"null", "succeeded"),
        (b'"text"', "succeeded"),
        (b"[1, 2]", "succeeded"),
        (b"{}", "succeeded"),
        (b"", "unknown"),
    ],
)
def test_a_strange_answer_is_a_result_with_its_bytes(told, body, state):
    """design.md, Storage: it becomes bytes in a receipt. What cannot be understood is never called a success."""
    outcome = told(body)

    assert outcome.state == state


@pytest.mark.parametrize(
    "body", [b'{"ok": true, "stdout": {"a": 1}}', b'{"ok": true, "output": [NaN]}', b"[[1]]", b"null"]
)
def test_output_that_is_no_text_is_the_answer_as_it_came(told, body):
    """Untouched: written again as JSON it would be ours."""
    assert told(body).stdout.kept == body


def test_a_lone_surrogate_is_kept_as_bytes(told):
    """U5: as text it could not be stored."""
    outcome = told(b'{"ok": true, "stdout": "a\\ud800b"}')

    assert outcome.stdout.kept == b"a\xed\xa0\x80b"


def test_raw_bytes_inside_json_come_back_exactly(told):
    """A gatekeeper that writes a program's GBK into its JSON without asking."""
    outcome = told(b'{"ok": true, "stdout": "' + "中文".encode("gbk") + b'"}')

    assert outcome.stdout.kept == "中文".encode("gbk")


def test_a_2xx_that_is_not_json_is_the_output_as_it_is(told):
    """executors.md, gatekeeper."""
    outcome = told(b"plain \xff text", content_type="text/plain")

    assert (outcome.state, outcome.status, outcome.stdout.kept) == ("succeeded", 200, b"plain \xff text")


def test_a_gatekeeper_that_knows_no_cap_is_still_understood(told):
    """U1: `max_output_bytes` is an addition that it may ignore; what it says of the end stands."""
    outcome = told({"ok": True, "exit_code": 0, "stdout": "x" * 5_000_000, "stderr": "y" * 3_000_000}, keep=1000)

    assert (outcome.state, outcome.exit_code) == ("succeeded", 0)
    assert (outcome.stdout.kept, outcome.stdout.total) == (b"x" * 1000, 5_000_000)
    assert (outcome.stderr.kept, outcome.stderr.total) == (b"y" * 1000, 3_000_000)


def test_an_answer_that_is_too_large_is_counted_and_not_understood(told):
    """Bounded memory: 32 MiB, or 4 × max_output_bytes + 1 MiB where that is more."""
    body = json.dumps({"ok": True, "stdout": "x" * 33 * 1024 * 1024}).encode()

    outcome = told(body, keep=1000)

    assert (outcome.state, outcome.reason) == ("unknown", "bad-answer")
    assert (outcome.stdout.kept, outcome.stdout.total) == (body[:1000], len(body))
    assert outcome.stdout.sha256 == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        ("502 Bad Gateway", "unknown", "lost-answer"),
        ("504 Gateway Timeout", "unknown", "lost-answer"),
        ("500 Oops", "failed", "far-side-status"),
        ("503 Busy", "failed", "far-side-status"),
        ("401 Who", "failed", "far-side-status"),
        ("409 Again", "failed", "far-side-status"),
        ("302 Found", "failed", "far-side-status"),
        ("201 Made", "succeeded", None),
    ],
)
def test_a_status_that_is_no_success_stands_with_its_body(told, status, state, reason):
    """R1: 502 and 504 may hide a run; the rest says it did not work."""
    outcome = told(b"the <b>body</b>", status=status, content_type="text/html")

    assert (outcome.state, outcome.reason, outcome.status) == (state, reason, int(status[:3]))
    assert outcome.stdout.kept == b"the <b>body</b>"


# No answer


def test_a_refused_connection_did_not_start():
    """R1."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    outcome = executor(url).run(call({"cmd": "x"}))

    assert (outcome.state, outcome.reason) == ("failed", "did-not-start")
    assert "did not start" in outcome.why.en
    assert_storable(outcome)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "lost-answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart", "lost-answer"),
        (b"garbage\r\n\r\n", "bad-answer"),
    ],
)
def test_an_answer_lost_after_the_request_is_unknown_and_asked_for_once(far_side, said, reason):
    """R1: it may have run; nobody tries again, and what came is kept."""
    side = far_side(lambda connection, _: connection.sendall(said))

    outcome = executor(side.url).run(call({"cmd": "x"}))

    assert (outcome.state, outcome.reason) == ("unknown", reason)
    assert outcome.stdout.kept == (b"part" if b"part" in said else b"")
    assert side.connections == 1
    assert_storable(outcome)


def hanging(cancel_answer):
    """Never answers `exec`; answers `cancel` as told."""

    def behave(connection, request):
        if b'"cancel"' in request:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(cancel_answer), cancel_answer))
        else:
            connection.recv(1)  # until the other end is gone

    return behave


@pytest.mark.parametrize(
    ("cancelled", "state", "reason"),
    [
        (b"[[[", "unknown", "lost-answer"),
        (b'{"ok": true, "ending": {"ok": false, "reason": "cancelled", "stdout": "part"}}', "timed_out", "deadline"),
        (b'{"ok": false, "ending": {"ok": true, "exit_code": 0, "stdout": "done"}}', "succeeded", None),
        (b'{"ok": false, "state": "running", "ending": {"state": "running"}}', "unknown", "lost-answer"),
    ],
)
def test_our_own_deadline_asks_once_for_a_cancel(far_side, cancelled, state, reason):
    """X1: the tool's limit and 2 s; only a confirmed cancel says that nothing runs any more."""
    side = far_side(hanging(cancelled))
    started = time.monotonic()

    outcome = executor(side.url).run(call({"cmd": "x"}, timeout_ms=50))

    assert 2 < time.monotonic() - started < 4
    assert (outcome.state, outcome.reason) == (state, reason)
    assert [body["method"] for body in side.bodies()] == ["exec", "cancel"]
    assert side.bodies()[1]["params"] == {"run_id": "run-1"}
    assert_storable(outcome)


@pytest.mark.parametrize(
    ("asked", "cancelled", "state", "reason"),
    [
        ("cancelled", b'{"ok": true}', "cancelled", "cancelled"),
        ("cancelled", b'{"ok": "yes"}', "unknown", "lost-answer"),
        ("cancelled", b'{"ok": false}', "unknown", "lost-answer"),
        ("shutdown", b'{"ok": true}', "interrupted", "shutdown"),
    ],
)
def test_a_persons_cancel_reaches_the_node(far_side, asked, cancelled, state, reason):
    """One `cancel`; what it did is what the node says."""
    side = far_side(hanging(cancelled))
    cancel = Cancel()
    threading.Timer(0.1, cancel.ask, (asked,)).start()

    outcome = executor(side.url).run(call({"cmd": "x"}, cancel=cancel))

    assert (outcome.state, outcome.reason) == (state, reason)
    assert [body["method"] for body in side.bodies()] == ["exec", "cancel"]
    assert outcome.duration_ms < 2000


@pytest.mark.parametrize(
    ("cancelled", "state", "reason"),
    [
        (b'{"ok": false, "ending": {"reason": "interrupted"}}', "interrupted", "interrupted"),
        (b'{"ok": false, "ending": {"exit_code": 3}}', "failed", "exit-code"),
        (b'{"ok": true, "ending": {}}', "cancelled", "cancelled"),
        (b'{"ok": false, "ending": {}}', "unknown", "lost-answer"),
        (b'{"ok": false, "state": "running", "ending": {"ok": true}}', "unknown", "lost-answer"),
        (b'{"ok": true, "state": "running"}', "unknown", "lost-answer"),
        (b'{"ok": false, "ending": {"stdout": "so far"}}', "unknown", "lost-answer"),
        (b'{"ok": false, "ending": {"ok": "true", "exit_code": "0"}}', "unknown", "lost-answer"),
        (b'{"ok": false, "ending": {"reason": "well"}}', "unknown", "lost-answer"),
    ],
)
def test_an_ending_that_does_not_say_how_it_ended_is_none(far_side, cancelled, state, reason):
    """What may still run is never called a success."""
    side = far_side(hanging(cancelled))
    cancel = Cancel()
    threading.Timer(0.1, cancel.ask, ("cancelled",)).start()

    outcome = executor(side.url).run(call({"cmd": "x"}, cancel=cancel))

    assert (outcome.state, outcome.reason) == (state, reason)
    assert outcome.notes == ()
    assert_storable(outcome)


def events(*pairs):
    return b"".join(b"event: %s\ndata: %s\n\n" % (kind, json.dumps(data).encode()) for kind, data in pairs)


def output(name, data):
    return (b"output", {"stream": name, "b64": base64.b64encode(data).decode()})


def test_output_comes_as_it_is_produced_from_a_node_that_streams(far_side, answering):
    """Server-sent events; the last one is the answer."""
    final = (b"answer", {"ok": True, "exit_code": 0, "stdout": "ab", "stderr": "c"})
    stream = events(output("stdout", b"a"), output("stderr", b"c"), (b"odd", 1), output("nowhere", b"z"), final)
    side = far_side(answering(stream, content_type="text/event-stream"))
    heard = []

    outcome = executor(side.url, stream=True).run(
        call({"cmd": "x"}, on_output=lambda name, data: heard.append((name, data)))
    )

    assert b"accept: text/event-stream" in side.requests[0].lower()
    assert heard == [("stdout", b"a"), ("stderr", b"c")]
    assert (outcome.state, outcome.stdout.kept, outcome.stderr.kept) == ("succeeded", b"ab", b"c")


def test_what_was_streamed_and_is_not_in_the_answer_stands_in_the_receipt(far_side, answering):
    """U1: those who followed it have seen it."""
    stream = events(
        output("stdout", b"real output\n"), output("stderr", b"e"), (b"answer", {"ok": True, "stderr": "e"})
    )
    side = far_side(answering(stream, content_type="text/event-stream"))

    outcome = executor(side.url).run(call({"cmd": "x"}, on_output=lambda *_: None))

    assert (outcome.state, outcome.stdout.kept, outcome.stderr.kept) == ("succeeded", b"real output\n", b"e")
    assert_storable(outcome)


@pytest.mark.parametrize("form", [(b"\n", b"\r\n"), (b": ", b":")])
def test_events_may_be_written_in_each_way_that_their_standard_allows(far_side, form):
    """Line ends of two characters, which may come apart; no space after the colon."""
    stream = events(output("stdout", b"a"), (b"answer", {"ok": True, "stdout": "a"})).replace(*form)

    def behave(connection, _):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for place in range(len(stream)):
            connection.sendall(stream[place : place + 1])

    heard = []
    outcome = executor(far_side(behave).url).run(call({"cmd": "x"}, on_output=lambda *data: heard.append(data)))

    assert heard == [("stdout", b"a")]
    assert (outcome.state, outcome.stdout.kept) == ("succeeded", b"a")


def test_an_answer_made_to_be_costly_is_not_understood(told):
    """R19: whoever reads such JSON holds all other threads for seconds."""
    outcome = told(b'{"ok": true, "a": [' + b"[]," * 1_000_000 + b"[]]}", keep=100)

    assert (outcome.state, outcome.reason) == ("unknown", "bad-answer")


def test_a_preview_shows_that_a_vector_is_secret():
    """What asks for a confirmation never fails for want of what it hides."""
    tool = dataclasses.replace(EXEC, params_schema={"argv": Parameter("array", items=Parameter("string"), secret=True)})

    assert executor("http://127.0.0.1:9").preview(tool, {"argv": HIDDEN})["argv"] == [HIDDEN]


def test_a_stream_that_breaks_off_keeps_what_came(far_side, answering):
    """R1: unknown, with the output so far."""
    side = far_side(answering(events(output("stdout", b"so far")), content_type="text/event-stream"))

    outcome = executor(side.url, stream=True).run(call({"cmd": "x"}, on_output=lambda *_: None))

    assert (outcome.state, outcome.reason, outcome.stdout.kept) == ("unknown", "lost-answer", b"so far")
    assert_storable(outcome)


def test_a_listener_that_fails_is_not_the_runs_fault(far_side, answering):
    """Somebody's page went away."""

    def fail(*_):
        raise ConnectionError

    stream = events(output("stdout", b"a"), output("stdout", b"b"), (b"answer", {"ok": True, "stdout": "ab"}))
    side = far_side(answering(stream, content_type="text/event-stream"))

    outcome = executor(side.url, stream=True).run(call({"cmd": "x"}, on_output=fail))

    assert (outcome.state, outcome.stdout.kept) == ("succeeded", b"ab")
