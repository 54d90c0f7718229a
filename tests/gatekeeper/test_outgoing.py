"""The `http` method reaches what it may and nothing else, judged by the address it connects to (X36)."""

import base64
import ipaddress
import json
import time

import pytest

from service.domain.executors import Cancel
from service.errors import UsageError
from service.gatekeeper.answers import CannotDo
from service.gatekeeper.outgoing import Outgoing, is_private, is_public


def send(patterns, url, *, method="GET", headers=None, body=None, within=3.0, keep=65536, cancel=None):
    ready = Outgoing(patterns).prepare(method, url, headers or {}, body)
    return ready(time.monotonic() + within, keep, cancel or Cancel())


HERE = (
    *("127.0.0.1", "127.1", "127.255.255.254", "localhost", "LOCALHOST", "0", "0.0.0.0", "0177.0.0.1", "017700000001"),  # noqa: S104
    *("2130706433", "0x7f000001", "0x7f.1", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"),
    *("[0:0:0:0:0:ffff:7f00:1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]"),
)
INSIDE = (
    *("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "169.254.1.1", "224.0.0.1"),
    *("255.255.255.255", "240.0.0.1", "192.0.0.1", "198.18.0.1", "[fe80::1]", "[fd00:ec2::254]", "[fc00::1]"),
    *("[fec0::1]", "[ff02::1]", "[64:ff9b::a00:1]", "[::ffff:169.254.169.254]", "[2001:db8::1]"),
)


@pytest.mark.parametrize("host", HERE + INSIDE)
def test_without_patterns_only_the_open_internet_is_reached(far_side, answering, host):
    """X36: loopback, private, link-local, metadata, in every dress; no connection is made."""
    side = far_side(answering(b"reached"))
    started = time.monotonic()

    try:
        told = send((), f"http://{host}:{side.port}/")
    except ValueError:  # no address at all in the URL's own grammar: 422
        told = {"ok": False, "reason": "did-not-start"}

    assert (told["ok"], told["reason"]) == (False, "did-not-start")
    assert time.monotonic() - started < 2  # refused, not tried
    assert side.connections == 0


def test_a_redirect_is_given_and_not_followed(far_side, answering):
    """X36: a 302 to what it may not reach."""
    inside = far_side(answering(b"reached"))
    side = far_side(answering(b"", "302 Found", headers=f"Location: {inside.url}/\r\n"))

    told = send((f"http://127.0.0.1:{side.port}/*",), side.url + "/")

    assert json.loads(told["stdout"])["status"] == 302
    assert inside.connections == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "http://user:secret@127.0.0.1/"},
        {"url": "http://user@127.0.0.1/"},
        {"url": "http://@127.0.0.1/"},
        {"url": "http://127.0.0.1\\@example.com/"},
        {"url": "http://127.0.0.1/\r\nX: y"},
        {"url": "http://127.0.0.1/a b"},
        {"url": "http://127.0.0.1/a/%2e%2e/b"},
        {"url": "http://127.0.0.1/%252e%252e/b"},
        {"url": "http://127.0.0.1/a/..;x/b"},
        {"url": "http://127.0.0.1/a/%2e.%3bx/b"},
        {"url": "ftp://127.0.0.1/"},
        {"url": "file:///etc/passwd"},
        {"url": "//127.0.0.1/"},
        {"url": "http:///x"},
        {"url": "http://127.0.0.1:99999/"},
        {"url": ""},
        {"method": "CONNECT"},
        {"method": "GET / HTTP/1.1\r\n"},
        {"headers": {"Host": "elsewhere"}},
        {"headers": {"content-length": "5"}},
        {"headers": {"Transfer-Encoding": "chunked"}},
    ],
)
def test_a_request_that_is_two_things_at_once_is_refused(wrong):
    """X36: user names, line ends, encoded dots, what frames a request."""
    asked = {"method": "GET", "url": "http://127.0.0.1/", "headers": {}} | wrong

    with pytest.raises(ValueError, match=r".") as refused:
        Outgoing(("http://127.0.0.1/*",)).prepare(asked["method"], asked["url"], asked["headers"], None)

    assert "secret" not in str(refused.value)


def test_a_line_end_in_a_header_is_not_sent(far_side, answering):
    """X36."""
    side = far_side(answering(b""))

    told = send((f"{side.url}/*",), side.url + "/", headers={"X-One": "a\r\nX-Two: b"})

    assert told["ok"] is False
    assert side.connections == 0


@pytest.mark.parametrize(
    ("pattern", "url", "reaches"),
    [
        ("http://127.0.0.1:{port}/*", "http://127.0.0.1:{port}/a/b?c=d", True),
        ("http://127.0.0.1:{port}/api/*", "http://127.0.0.1:{port}/api/x", True),
        ("http://localhost:{port}", "http://localhost:{port}/x", True),
        ("http://127.0.0.1:{port}/api/*", "http://127.0.0.1:{port}/admin", False),
        ("http://127.0.0.1:{port}/api/*", "http://127.0.0.1:{port}/api/../admin", False),
        ("http://127.0.0.1:{port}/*", "http://localhost:{port}/", False),
        ("http://127.0.0.1:{port}/*", "http://0177.0.0.1:{port}/", False),
        ("http://127.0.0.1:1/*", "http://127.0.0.1:{port}/", False),
        ("https://127.0.0.1:{port}/*", "http://127.0.0.1:{port}/", False),
        ("http://*:{port}/*", "http://127.0.0.1:{port}/", False),
        ("http://*.0.0.1:{port}/*", "http://127.0.0.1:{port}/", False),
    ],
)
def test_a_pattern_opens_what_it_names(far_side, answering, pattern, url, reaches):
    """Part by part; a wildcard host never opens what is not public."""
    side = far_side(answering(b"reached"))

    try:
        told = send((pattern.format(port=side.port),), url.format(port=side.port))
    except (CannotDo, ValueError):
        told = {"ok": False}

    assert told["ok"] is reaches
    assert side.connections == int(reaches)


@pytest.mark.parametrize(
    "rest",
    [
        *("x%2f..%2f..%2fadmin", "x%2F..%2Fadmin", "..%5c..%5cadmin", "x%252f..%252fadmin", "x%255cadmin", "a%00"),
        *("a%250a", "..;/admin", "..%3b/admin", ".%252e;v=1/admin", "a%2fb", "%2e%2e%2fadmin"),
    ],
)
def test_a_path_that_may_lead_elsewhere_is_none_that_a_narrower_pattern_names(far_side, answering, rest):
    """executors.md, Common: whoever decodes %2F and folds `..` at the far side would serve /admin."""
    side = far_side(answering(b"reached"))

    with pytest.raises((CannotDo, ValueError)):
        send((f"{side.url}/api/*",), f"{side.url}/api/{rest}")

    assert side.connections == 0


@pytest.mark.parametrize("pattern", ["{url}/*", "{url}"])
@pytest.mark.parametrize("rest", ["projects/group%2Fproject", "a%5Cb", "a//b", "a;v=1/b"])
def test_an_encoded_slash_goes_where_the_whole_host_is_open(far_side, answering, pattern, rest):
    """APIs use it (`projects/group%2Fproject`), and there is nothing that it could leave."""
    side = far_side(answering(b"reached"))

    told = send((pattern.format(url=side.url),), f"{side.url}/{rest}")

    assert told["ok"] is True
    assert side.requests[0].startswith(f"GET /{rest} ".encode())


@pytest.mark.parametrize("pattern", ["*", "example.com", "http://", "http://u@x/", "http://x/?q", "ftp://x/"])
def test_a_pattern_of_another_form_is_refused_at_the_start(pattern):
    """It would open nothing, or more than was meant."""
    with pytest.raises(UsageError, match="form"):
        Outgoing((pattern,))


@pytest.mark.parametrize(
    ("address", "public", "private"),
    [
        ("1.1.1.1", True, True),
        ("2606:4700::1111", True, True),
        ("::ffff:1.1.1.1", True, True),
        ("64:ff9b::101:101", True, True),
        ("10.0.0.1", False, True),
        ("fd00::1", False, True),
        ("::ffff:192.168.0.1", False, True),
        ("127.0.0.1", False, False),
        ("169.254.169.254", False, False),
        ("::1", False, False),
        ("0.0.0.0", False, False),  # noqa: S104  judged
        ("fe80::1%eth0", False, False),
        ("64:ff9b::7f00:1", False, False),
        ("64:ff9b:1::101:101", False, False),
        ("2002:101:101::", False, False),
        ("224.0.0.1", False, False),
    ],
)
def test_addresses_are_judged_by_what_they_stand_for(address, public, private):
    """A literal name may lead to a private network, never to this host or the link."""
    parsed = ipaddress.ip_address(address)

    assert (is_public(parsed), is_private(parsed)) == (public, private)


def test_an_answer_is_json_with_text_or_base64(far_side, answering):
    """`{status, headers, body or body_b64}`; what was sent arrived."""
    text = far_side(answering("你好".encode(), "404 Not Found", headers="X-One: 1\r\n"))
    raw = far_side(answering(b"\xff\x00"))

    told = send((f"{text.url}/*",), text.url + "/x", method="post", headers={"X-Two": "2"}, body=b"sent")
    other = json.loads(send((f"{raw.url}/*",), raw.url)["stdout"])

    document = json.loads(told["stdout"])
    assert told["ok"] is True
    assert (document["status"], document["body"], document["headers"]["x-one"]) == (404, "你好", "1")
    assert text.requests[0].startswith(b"POST /x HTTP/1.1\r\n")
    assert text.requests[0].endswith(b"\r\n\r\nsent")
    assert b"X-Two: 2" in text.requests[0]
    assert base64.b64decode(other["body_b64"]) == b"\xff\x00"


@pytest.mark.parametrize("body", [b"x" * 500_000, "中".encode() * 200_000, b"\0" * 500_000, b"\xff" * 500_000])
def test_a_large_body_is_cut_so_that_the_json_stays_whole(far_side, answering, body):
    """The document fits the caller's cap, and says what was cut."""
    side = far_side(answering(body))

    told = send((f"{side.url}/*",), side.url, keep=10_000)

    document = json.loads(told["stdout"])
    assert told["stdout_bytes"] <= 10_000
    assert (document["body_bytes"], document["truncated"]) == (len(body), True)
    kept = document["body"].encode() if "body" in document else base64.b64decode(document["body_b64"])
    assert body.startswith(kept)
    assert len(kept) > 1000


def test_headers_do_not_pass_the_cap(far_side, answering):
    """U1: nothing is handed on that is larger than was asked for."""
    side = far_side(answering(b"x", headers=f"X-Much: {'y' * 5000}\r\n"))

    told = send((f"{side.url}/*",), side.url + "/", keep=1000)

    assert len(told["stdout"]) == 1000
    assert told["truncated"] is True
    assert told["stdout_bytes"] > 5000


@pytest.mark.parametrize("status", ["502 Bad Gateway", "504 Gateway Timeout"])
def test_an_answer_that_hides_what_happened_is_a_lost_one(far_side, answering, status):
    """executors.md, Common: it may have acted; the answer stands all the same."""
    side = far_side(answering(b"sorry", status))

    told = send((f"{side.url}/*",), side.url)

    assert (told["ok"], told["reason"]) == (False, "lost-answer")
    assert json.loads(told["stdout"])["body"] == "sorry"


def test_a_far_side_that_never_answers_is_left_at_the_deadline(far_side):
    """Sent, so it may have acted."""
    side = far_side(lambda connection, _: connection.recv(1))

    told = send((f"{side.url}/*",), side.url, within=0.2)

    assert (told["ok"], told["reason"]) == (False, "lost-answer")
