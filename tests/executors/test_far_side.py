"""What an answer or none means, whatever the far side does (contract/executors.md, Common; R1)."""

import gzip
import hashlib
import socket
import threading
import time

import pytest

from service.domain.definitions import Definition
from service.domain.executors import Call, Cancel, Outcome
from service.domain.runs import error_of
from service.errors import Message
from service.execution.executors.far_side import Listener, outcome_of, send
from service.execution.executors.http import HttpCaller, NotSent, Request
from tests.harness.far_side import drip, nobody, reset, say

WHO = ("远端", "the far side")
DEFINITION = Definition("t", "试验", "试验", "GET /x", "hlpd-api", "ICE-GL-ZY001", "2026-05-31", "试验")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"


def call(*, timeout_ms=5000, keep=1000, cancel=None, on_output=None):
    return Call("run-1", DEFINITION, {}, timeout_ms, keep, "token:1", cancel or Cancel(), (), on_output)


def outcome(url, **limits):
    return send(HttpCaller(), Request("POST", url, body=b"{}"), call(**limits), WHO)[1]


@pytest.fixture
def told(far_side):
    """What becomes of it when the far side behaves so; asked once, always."""

    def tell(behave, **limits):
        side = far_side(behave)
        result = outcome(side.url, **limits)
        assert side.connections == 1
        assert isinstance(result, Outcome)
        assert (result.reason is None) == (result.state == "succeeded")
        assert len(result.stdout.kept) <= result.stdout.total
        assert result.exit_code is None
        return result

    return tell


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        ("200 OK", "succeeded", None),
        ("201 Made", "succeeded", None),
        ("302 Found", "failed", "far-side-status"),
        ("304 Same", "failed", "far-side-status"),
        ("400 Bad", "failed", "far-side-status"),
        ("401 Who", "failed", "far-side-status"),
        ("404 None", "failed", "far-side-status"),
        ("429 Slow", "failed", "far-side-status"),
        ("500 Oops", "failed", "far-side-status"),
        ("502 Bad Gateway", "unknown", "lost-answer"),
        ("503 Busy", "failed", "far-side-status"),
        ("504 Late", "unknown", "lost-answer"),
        ("599 What", "failed", "far-side-status"),
    ],
)
def test_a_status_says_how_it_ended(told, answering, status, state, reason):
    """R1: 502 and 504 were said by what stands between; the far side may have acted."""
    body = b"" if status.startswith("304") else b'{"message": "so"}'

    result = told(answering(body, status))

    assert (result.state, result.reason, result.status) == (state, reason, int(status[:3]))
    assert (result.stdout.kept, result.totals) == (body, "produced")


def test_a_failures_body_stands_in_the_output_and_with_the_status_in_the_error(told, answering):
    """executors.md, hlpd-api: untouched there, in the far side's own words here."""
    body = '{"error": "没有这个人格",\n "id": 7}\n'

    result = told(answering(body.encode(), "404 Not Found"))

    assert result.stdout.kept == body.encode()
    assert result.stderr.total == 0
    assert "HTTP 404" in error_of(result)
    assert body.strip() in error_of(result)
    assert result.why.zh.startswith("远端回 HTTP 404：{")
    assert result.why.en.startswith("the far side answered HTTP 404: {")


def test_the_error_holds_the_beginning_of_a_long_body_and_says_that_it_is_cut(told, answering):
    """Some kilobytes; the output has what was kept of the rest, and counts and hashes all."""
    body = ("详" * 30_000).encode()

    result = told(answering(body, "500 Oops"), keep=100_000)

    assert "详" * 4096 + " …" in result.why.zh
    assert len(result.why.zh) < 5000
    assert (result.stdout.total, result.stdout.sha256) == (len(body), hashlib.sha256(body).hexdigest())


@pytest.mark.parametrize("body", [b"", b"  \n", bytes(range(256)), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"])
def test_a_body_that_is_no_text_is_not_words(told, answering, body):
    """It is in the output, exactly (U3)."""
    result = told(answering(body, "500 Oops"))

    assert result.why == Message("远端回 HTTP 500", "the far side answered HTTP 500")
    assert result.stdout.kept == body


def test_some_bytes_that_are_no_utf8_do_not_take_the_words_away(told, answering):
    """U5: what reaches the record is text."""
    result = told(answering("没有权限。".encode() + b"\xff", "403 No"))

    assert "没有权限。" in result.why.zh
    assert result.why.zh.encode()


def test_of_a_large_body_the_first_bytes_are_kept_and_all_are_counted(told, answering):
    """U1: `max_output_bytes`."""
    body = b"x" * 3_000_000

    result = told(answering(body), keep=1000)

    assert (result.stdout.kept, result.stdout.total) == (body[:1000], len(body))
    assert result.stdout.sha256 == hashlib.sha256(body).hexdigest()
    assert result.stdout.truncated


def test_a_gzip_bomb_is_bytes(told, answering):
    """R1: counted as they came, though they were asked for plain."""
    packed = gzip.compress(b"\0" * 20_000_000)

    result = told(answering(packed, headers="Content-Encoding: gzip\r\n"), keep=10_000_000)

    assert (result.state, result.stdout.kept) == ("succeeded", packed)


def test_a_redirect_is_a_failure_and_goes_nowhere(far_side, told, answering):
    """R1: the token stays here."""
    other = far_side(answering(b"elsewhere"))

    result = told(answering(b"", "307 Go", headers=f"Location: {other.url}/\r\n"))

    assert (result.state, result.reason, result.status) == ("failed", "far-side-status", 307)
    assert other.connections == 0


def test_a_header_of_100_kb_is_taken(told, answering):
    """R1."""
    assert told(answering(b"ok", headers="X-Long: " + "x" * 100_000 + "\r\n")).state == "succeeded"


@pytest.mark.parametrize(
    "place", ["http://" + "a" * 70 + ".invalid", "http://127.0.0.1/\ud800", "http://127.0.0.1:0", ""]
)
def test_what_was_not_sent_did_not_start(place):
    """R1: nobody listens (where no other place is given), no such name, no URL."""
    result = outcome(place or nobody())

    assert (result.state, result.reason, result.status) == ("failed", "did-not-start", None)
    assert (result.stdout.total, result.totals) == (0, "produced")
    assert result.why.zh.startswith("没有启动：")
    assert result.why.en.startswith("did not start: ")


@pytest.mark.parametrize(
    ("behave", "reason", "kept"),
    [
        (reset, "lost-answer", b""),
        (say(b""), "lost-answer", b""),
        (say(HEAD + b"part"), "lost-answer", b"part"),
        (say(b"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\npart"), "lost-answer", b"part"),
        (say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\nzz\r\n"), "bad-answer", b"part"),
        (say(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "bad-answer", b""),
        (say(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000 + b"\r\n\r\n"), "bad-answer", b""),
        (say(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"), "bad-answer", b""),
    ],
)
def test_no_whole_answer_after_the_request_is_unknown_and_asked_for_once(told, behave, reason, kept):
    """R1: it may have acted; what came of an answer is kept, and `totals` says that it is what was received."""
    result = told(behave)

    assert (result.state, result.reason, result.totals) == ("unknown", reason, "received")
    assert result.stdout.kept == kept


@pytest.mark.parametrize(
    ("head", "drop", "status"), [(HEAD.replace(b"9", b"9999"), b"x", 200), (b"HTTP/1.1 200 OK\r\n", b"X: 1\r\n", None)]
)
def test_a_drip_ends_at_the_deadline_of_all_of_it(told, head, drop, status):
    """X1 and facts/platform.md, httpx: the limit is not for each read."""
    started = time.monotonic()

    result = told(drip(head, drop), timeout_ms=200)

    assert time.monotonic() - started < 1
    assert (result.state, result.reason, result.status) == ("unknown", "lost-answer", status)
    assert 200 <= result.duration_ms < 1000


@pytest.mark.parametrize("asked", ["cancelled", "shutdown"])
def test_a_cancel_after_it_was_sent_leaves_it_unknown(far_side, asked):
    """Nobody can ask such a far side whether it goes on; the wait ends at once."""
    cancel = Cancel()

    def ask(connection: socket.socket, _: bytes) -> None:
        cancel.ask(asked)
        connection.recv(1)

    result = outcome(far_side(ask).url, cancel=cancel)

    assert (result.state, result.reason) == ("unknown", "lost-answer")
    assert result.duration_ms < 2500


@pytest.mark.parametrize(
    ("asked", "state", "reason"), [("cancelled", "cancelled", "cancelled"), ("shutdown", "interrupted", "shutdown")]
)
def test_a_cancel_before_anything_was_sent_is_just_that(far_side, answering, asked, state, reason):
    """The far side never hears of it."""
    side, cancel = far_side(answering(b"")), Cancel()
    cancel.ask(asked)

    result = outcome(side.url, cancel=cancel)

    assert (result.state, result.reason) == (state, reason)
    assert side.requests == []


def test_output_is_handed_on_as_it_comes_and_past_what_is_kept(far_side):
    """Whoever follows the run sees it before it ends."""
    heard, first = [], threading.Event()

    def behave(connection: socket.socket, _: bytes) -> None:
        connection.sendall(HEAD + b"one")
        assert first.wait(5)
        connection.sendall(b"second")

    def hear(stream, data):
        heard.append((stream, data))
        first.set()

    result = outcome(far_side(behave).url, keep=2, on_output=hear)

    assert heard == [("stdout", b"one"), ("stdout", b"second")]
    assert (result.stdout.kept, result.stdout.total) == (b"on", 9)


def test_a_listener_that_fails_hears_no_more_and_is_not_the_runs_fault(told, answering, caplog):
    """Somebody's page went away."""
    heard = []

    def fail(_, data):
        heard.append(data)
        raise ConnectionError("away")

    result = told(answering(b"x" * 300_000), on_output=fail)

    assert result.state == "succeeded"
    assert len(heard) == 1
    assert "hears no more" in caplog.text


def test_nobody_listening_is_no_fault():
    """A call without `on_output`."""
    Listener(None).hear("stdout", b"x")


@pytest.mark.parametrize("cause", ["connection", "name", "tls", "address", "request", "deadline"])
def test_whatever_kept_it_from_being_sent_is_told_in_its_words(cause):
    """R1: a failed TLS handshake, an address that is not allowed: the far side did not act."""
    result = outcome_of(NotSent(cause, Message("不行", "no")), cancel=Cancel(), keep=10, who=WHO)

    assert (result.state, result.reason) == ("failed", "did-not-start")
    assert result.why == Message("没有启动：不行", "did not start: no")
