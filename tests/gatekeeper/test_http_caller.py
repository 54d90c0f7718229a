"""One HTTP call: sent or not, answered or not, within its time, whatever the far side does (executors.md, Common; R1)."""

import datetime as dt
import gzip
import hashlib
import os
import socket
import ssl
import struct
import threading
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from service.domain.executors import Cancel
from service.execution.executors.http import Answer, HttpCaller, Lost, NotSent, Request, sends_token_in_clear

SLACK_S = 1.5


def call(url, *, within=5.0, keep=1000, cancel=None, **request):
    return HttpCaller().call(
        Request(request.pop("method", "POST"), url, body=request.pop("body", b"{}"), **request),
        deadline=time.monotonic() + within,
        keep=keep,
        cancel=cancel,
    )


def refusing_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def reset(connection):
    """End it with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_an_answer_comes_with_status_headers_and_counted_bytes(far_side, answering):
    """What is kept is the beginning; count and hash are of everything."""
    body = os.urandom(300_000)
    side = far_side(answering(body, "418 Teapot", headers="X-Two: a\r\nX-Two: b\r\n"))

    answer = call(side.url + "/exec", keep=1000)

    assert isinstance(answer, Answer)
    assert (answer.status, answer.headers.get_list("x-two")) == (418, ["a", "b"])
    assert (answer.body.kept, answer.body.total) == (body[:1000], len(body))
    assert answer.body.sha256 == hashlib.sha256(body).hexdigest()


def test_the_request_goes_out_as_it_was_written(far_side, answering):
    """A client that folds `..` makes another operation of a path; proxies and encodings are never asked for."""
    side = far_side(answering(b""))

    call(side.url + "/a/../b%2e%2e/c?d=%2F", token="t0ken", headers=(("X-One", "1"),), body=b"abc")

    head, _, body = side.requests[0].partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert head.startswith(b"POST /a/../b%2e%2e/c?d=%2F HTTP/1.1\r\n")
    assert body == b"abc"
    assert {b"authorization: bearer t0ken", b"accept-encoding: identity", b"connection: close"} <= set(lines)


def test_a_refused_connection_was_not_sent():
    """R1."""
    result = call(f"http://127.0.0.1:{refusing_port()}/exec")

    assert isinstance(result, NotSent)
    assert result.cause == "connection"
    assert "Connection refused" in result.why.en
    assert "Connection refused" in result.why.zh


def test_a_name_that_cannot_be_resolved_was_not_sent():
    """R1."""
    result = call("http://" + "a" * 70 + "/exec")

    assert isinstance(result, NotSent)
    assert result.cause == "name"


def test_a_failed_tls_handshake_was_not_sent():
    """R1: the far side speaks no TLS."""
    listener = socket.create_server(("127.0.0.1", 0))

    def speak_plainly():
        with listener.accept()[0] as connection:
            connection.sendall(b"HTTP/1.1 400 no\r\n\r\n")
            connection.recv(65536)

    thread = threading.Thread(target=speak_plainly)
    thread.start()
    result = call(f"https://127.0.0.1:{listener.getsockname()[1]}/")
    thread.join()
    listener.close()

    assert isinstance(result, NotSent)
    assert result.cause == "tls"


@pytest.fixture
def tls_side(tmp_path):
    """A far side with a certificate of its own making: its URL, and a context that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, key_file = tmp_path / "pem", tmp_path / "key"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key_file)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                with context.wrap_socket(listener.accept()[0], server_side=True) as connection:
                    if b"/silent" in connection.recv(65536):
                        connection.recv(1)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            except ssl.SSLError:
                continue
            except OSError:
                return

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"https://localhost:{listener.getsockname()[1]}", ssl.create_default_context(cafile=pem)
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_tls_is_spoken_with_whom_it_trusts_and_nobody_else(tls_side):
    """R1: a certificate that does not verify means that nothing was sent."""
    url, trusting = tls_side
    request = Request("GET", url)

    trusted = HttpCaller(tls=trusting).call(request, deadline=time.monotonic() + 5, keep=10)
    stranger = HttpCaller().call(request, deadline=time.monotonic() + 5, keep=10)

    assert isinstance(trusted, Answer)
    assert trusted.body.kept == b"ok"
    assert isinstance(stranger, NotSent)
    assert stranger.cause == "tls"
    assert "certificate" in stranger.why.en


def test_deadline_and_cancel_hold_inside_tls_too(tls_side):
    """The socket underneath is cut."""
    url, trusting = tls_side
    caller, request = HttpCaller(tls=trusting), Request("GET", url + "/silent")
    cancel = Cancel()
    threading.Timer(0.1, cancel.ask).start()
    started = time.monotonic()

    late = caller.call(request, deadline=time.monotonic() + 0.2, keep=10)
    cancelled = caller.call(request, deadline=time.monotonic() + 5, keep=10, cancel=cancel)

    assert time.monotonic() - started < SLACK_S
    assert isinstance(late, Lost)
    assert late.cause == "deadline"
    assert cancelled.cause == "cancelled"


def test_a_connection_lost_after_the_request_may_have_acted_and_is_not_tried_again(far_side):
    """R1."""
    side = far_side(lambda connection, _: reset(connection))

    result = call(side.url)

    assert isinstance(result, Lost)
    assert result.cause == "lost"
    assert (side.connections, len(side.requests)) == (1, 1)


def test_a_connection_closed_without_a_word_is_lost(far_side):
    """R1: an orderly end is no answer either."""
    side = far_side(lambda connection, _: None)

    result = call(side.url)

    assert isinstance(result, Lost)
    assert result.cause == "lost"
    assert side.connections == 1


def test_a_reset_before_the_request_was_read_is_one_attempt(far_side):
    """R1: whether a byte left depends on the moment; that there is no second attempt does not."""
    listener = socket.create_server(("127.0.0.1", 0))
    accepted = []

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            accepted.append(1)
            reset(connection)
            connection.close()

    thread = threading.Thread(target=accept)
    thread.start()
    result = call(f"http://127.0.0.1:{listener.getsockname()[1]}/")
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()

    assert isinstance(result, NotSent | Lost)
    assert len(accepted) == 1


def drip(head, drop):
    def behave(connection, _):
        connection.sendall(head)
        for _ in range(100):
            connection.sendall(drop)
            time.sleep(0.02)

    return behave


@pytest.mark.parametrize(
    ("head", "drop", "status"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-Drip: 1\r\n", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x", 200),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 200),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", None),
        (b"", b"", None),
    ],
)
def test_the_deadline_is_for_all_of_it(far_side, head, drop, status):
    """Each read is quick; the whole would take 2 s and more. facts/platform.md, httpx."""
    side = far_side(drip(head, drop))
    started = time.monotonic()

    result = call(side.url, within=0.3)

    assert time.monotonic() - started < SLACK_S
    assert isinstance(result, Lost)
    assert (result.cause, result.status) == ("deadline", status)
    if status:
        assert 0 < result.body.total < 100


def test_a_far_side_that_does_not_read_holds_nobody(far_side):
    """A body larger than the socket's buffers waits in the write, which has the same deadline."""
    listener = socket.create_server(("127.0.0.1", 0))
    started = time.monotonic()

    with listener:
        result = call(f"http://127.0.0.1:{listener.getsockname()[1]}/", body=b"x" * 20_000_000, within=0.3)

    assert time.monotonic() - started < SLACK_S
    assert isinstance(result, Lost)
    assert result.cause == "deadline"


def test_a_compressed_body_is_not_unpacked(far_side, answering):
    """200 kB of gzip can be 200 MB: bytes are counted as they came."""
    packed = gzip.compress(b"\0" * 20_000_000)
    side = far_side(answering(packed, headers="Content-Encoding: gzip\r\n"))

    answer = call(side.url, keep=10_000_000)

    assert isinstance(answer, Answer)
    assert answer.body.kept == packed


def test_a_redirect_is_an_answer_and_is_not_followed(far_side, answering):
    """A token must not reach where a far side points."""
    other = far_side(answering(b"elsewhere"))
    side = far_side(answering(b"", "302 Found", headers=f"Location: {other.url}/\r\n"))

    answer = call(side.url, token="t0ken")

    assert isinstance(answer, Answer)
    assert answer.status == 302
    assert other.connections == 0


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"\0" * 1000,
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    ],
)
def test_what_is_no_http_becomes_a_result(far_side, said):
    """Garbage, a header block of 200 kB, contradicting lengths: nothing raises."""
    side = far_side(lambda connection, _: connection.sendall(said))

    result = call(side.url)

    assert isinstance(result, Lost)
    assert result.cause == "garbled"
    assert result.why.zh
    assert result.why.en


def test_a_header_block_of_100_kb_is_taken(far_side, answering):
    """More than any server sends, and still bounded."""
    side = far_side(answering(b"ok", headers="X-Long: " + "x" * 100_000 + "\r\n"))

    answer = call(side.url)

    assert isinstance(answer, Answer)
    assert len(answer.headers["x-long"]) == 100_000


def test_a_body_shorter_than_it_said_is_lost_and_keeps_what_came(far_side):
    """R1."""
    side = far_side(lambda connection, _: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart"))

    result = call(side.url)

    assert isinstance(result, Lost)
    assert (result.cause, result.status, result.body.kept) == ("lost", 200, b"part")


def test_a_cancel_ends_the_wait(far_side):
    """The socket is cut; the thread that waits on it wakes up."""
    side = far_side(lambda _, __: side.ended.wait(10))
    cancel = Cancel()
    threading.Timer(0.1, cancel.ask).start()
    started = time.monotonic()

    result = call(side.url, cancel=cancel)

    assert time.monotonic() - started < SLACK_S
    assert isinstance(result, Lost)
    assert result.cause == "cancelled"


def test_a_call_cancelled_before_it_began_sends_nothing(far_side, answering):
    """The far side never hears of it."""
    side = far_side(answering(b""))
    cancel = Cancel()
    cancel.ask()

    result = call(side.url, cancel=cancel)

    assert isinstance(result, NotSent)
    assert result.cause == "cancelled"
    assert side.requests == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"token": "t0ken\r\nX-Evil: 1"},
        {"token": "t0ken中"},
        {"headers": (("X-One", "a\nb"),)},
        {"headers": (("X One", "a"),)},
        {"method": "GET /x HTTP/1.1\r\nX:"},
    ],
)
def test_what_cannot_be_a_request_is_not_sent_and_not_quoted(far_side, answering, wrong):
    """A header's value may be a secret; the message names the header only."""
    side = far_side(answering(b""))

    result = call(side.url, **wrong)

    assert isinstance(result, NotSent)
    assert result.cause == "request"
    assert "t0ken" not in result.why.en + result.why.zh
    assert side.connections == 0


@pytest.mark.parametrize(
    "url", ["http://", "ftp://x/", "/x", "http://u:secret@127.0.0.1/", "http://127.0.0.1/ x", "http://例/"]
)
def test_what_is_no_url_is_not_sent(url):
    """A password in a URL is not quoted."""
    result = call(url)

    assert isinstance(result, NotSent)
    assert result.cause == "request"
    assert "secret" not in result.why.en


def test_the_environment_names_no_proxy(far_side, answering, monkeypatch):
    """A proxy would receive our tokens."""
    proxy, side = far_side(answering(b"proxy")), far_side(answering(b"direct"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)

    answer = call(side.url)

    assert isinstance(answer, Answer)
    assert answer.body.kept == b"direct"
    assert proxy.connections == 0


def test_many_threads_share_one_caller(far_side):
    """Each gets its own answer."""

    def behave(connection, request):
        body = request.partition(b"\r\n\r\n")[2]
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    side = far_side(behave)
    caller = HttpCaller()
    wrong = []

    def ask(number):
        for turn in range(10):
            body = b"%d-%d" % (number, turn)
            result = caller.call(Request("POST", side.url, body=body), deadline=time.monotonic() + 10, keep=100)
            if not isinstance(result, Answer) or result.body.kept != body:
                wrong.append(result)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


@pytest.mark.parametrize(
    ("url", "clear"),
    [
        ("http://127.0.0.1:1", False),
        ("http://[::1]:1", False),
        ("http://localhost", False),
        ("https://10.0.0.1", False),
        ("http://10.0.0.1", True),
        ("http://127.0.0.1.example.com", True),
    ],
)
def test_plain_http_beyond_loopback_is_known(url, clear):
    """R16."""
    assert sends_token_in_clear(url) is clear
