"""`POST /hooks/forgejo`: what is believed, what is refused, and that nothing a request says registers anything.

W18 and W20 are not rows of the specification; W5, W11 and W23 neither. Memory while a body of 200 MB comes (W6) is
measured by the benchmarks; here the cap itself is tested, with a smaller one.
"""

import hashlib
import hmac
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlencode

import httpx
import pytest

from tests.git_http import Faults, GitHttpServer
from tests.harness.forge import ZEROS, NativeRepo, Push, push_payload, signature, signed_headers
from tests.harness.parts import Parts
from tests.harness.service import BitongService

CAP = 200_000
PREVIOUS = "the-secret-before"
SIGNATURES = ["X-Forgejo-Signature", "X-Gitea-Signature", "X-Gogs-Signature", "X-Hub-Signature-256"]


@dataclass
class Hook:
    """A service with one tool, and the push that brought it."""

    service: BitongService
    repo: NativeRepo
    first: Push

    def harmless(self, **changes: object) -> bytes:
        """A body of its own for each call: a test delivery, which moves nothing."""
        tip = self.repo.tip()
        return push_payload(self.repo, Push(tip, tip), nonce=time.monotonic_ns(), **changes)

    def send(self, body: bytes, *headers: tuple[str, str | bytes]) -> httpx.Response:
        """A JSON body with exactly these headers beside its type."""
        told = [("Content-Type", "application/json"), ("X-Forgejo-Event", "push"), *headers]
        return self.service.anonymous.post("/hooks/forgejo", content=body, headers=told)


@pytest.fixture(scope="module")
def hook(shared_parts: Parts) -> Hook:
    repo = shared_parts.repo()
    service = shared_parts.service(repo, max_hook_bytes=CAP, webhook_secret_previous=PREVIOUS, repository_id=1)
    repo.write_tool("first")
    repo.commit()
    push = repo.push()
    service.deliver(repo, push)
    return Hook(service, repo, push)


def test_a_signed_push_is_accepted_with_an_empty_answer_that_closes(hook: Hook) -> None:
    """Forgejo stores whole answers and keeps connections: an empty one, and a new connection each time."""
    answer = hook.service.hook(hook.harmless())

    assert answer.status_code in (202, 204)
    assert answer.content == b""
    assert answer.headers["Connection"].lower() == "close"
    assert answer.headers["X-Request-Id"]


@pytest.mark.parametrize("name", SIGNATURES)
def test_any_one_signature_that_verifies_is_enough(hook: Hook, name: str) -> None:
    """Hooks of type gitea and old Forgejo versions send fewer headers (W4's other side)."""
    body = hook.harmless()
    prefix = "sha256=" if name == "X-Hub-Signature-256" else ""

    assert hook.send(body, (name, prefix + signature(body))).status_code in (202, 204)


@pytest.mark.parametrize("kind", ["none", "empty", "sha256=", "empty-secret", "short", "prefix-alone"])
def test_without_a_signature_nothing_is_believed(hook: Hook, kind: str) -> None:
    """W1: a hook without a secret sends its headers all the same, empty; no content of it is kept."""
    body = hook.harmless()
    headers = {
        "none": [],
        "empty": [(name, "") for name in SIGNATURES],
        "sha256=": [("X-Hub-Signature-256", "sha256=")],
        "empty-secret": [("X-Forgejo-Signature", signature(body, ""))],
        "short": [("X-Forgejo-Signature", signature(body)[:32])],
        "prefix-alone": [("X-Forgejo-Signature", "sha256=")],
    }[kind]

    answer = hook.send(body, *headers)

    assert answer.status_code == 401
    assert hook.service.delivery(body) is None


def test_a_body_changed_by_one_byte_is_refused(hook: Hook) -> None:
    """W2: the signature is over the bytes, not over what they mean."""
    body = hook.harmless()
    headers = signed_headers(body)

    assert hook.service.hook(body + b" ", headers).status_code == 401
    assert hook.service.hook(body.replace(b"zhuyuan", b"zhuyuaN", 1), headers).status_code == 401


def test_a_signature_that_is_not_ascii_is_refused(hook: Hook) -> None:
    """W3: a comparison of text would raise; this is 401 and not 500."""
    body = hook.harmless()

    answer = hook.send(body, ("X-Forgejo-Signature", "签".encode() * 21 + b"x"))

    assert answer.status_code == 401


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_same_signature_header_twice_is_refused(hook: Hook, name: str) -> None:
    """W4: which of two counts is what proxies and servers disagree about."""
    body = hook.harmless()
    right = ("sha256=" if name == "X-Hub-Signature-256" else "") + signature(body)

    assert hook.send(body, (name, right), (name, right)).status_code == 401


@pytest.mark.parametrize("wrong", SIGNATURES)
def test_every_signature_that_is_there_must_verify(hook: Hook, wrong: str) -> None:
    """W4: one wrong among right ones means that somebody changed something."""
    body = hook.harmless()
    headers = [(name, value) for name, value in signed_headers(body) if name != wrong]
    prefix = "sha256=" if wrong == "X-Hub-Signature-256" else ""

    assert hook.service.hook(body, [*headers, (wrong, prefix + signature(body + b" "))]).status_code == 401


def test_sha1_is_not_looked_at(hook: Hook) -> None:
    """A right SHA-1 alone is nobody's signature, a wrong one beside a right SHA-256 does not matter."""
    body = hook.harmless()
    sha1 = "sha1=" + hmac.new(hook.service.settings["webhook_secret"].encode(), body, hashlib.sha1).hexdigest()

    alone = hook.send(body, ("X-Hub-Signature", sha1))
    beside = hook.send(body, ("X-Hub-Signature", "sha1=" + "0" * 40), ("X-Forgejo-Signature", signature(body)))

    assert alone.status_code == 401
    assert beside.status_code in (202, 204)


def test_authorization_is_not_looked_at(hook: Hook) -> None:
    """Forgejo sends what the hook's owner typed there; a token is no signature, a wrong one no obstacle."""
    body = hook.harmless()
    token = hook.service.token("admin")

    right_token = hook.send(body, ("Authorization", f"Bearer {token}"))
    wrong_token = hook.send(body, ("Authorization", "Bearer nonsense"), ("X-Forgejo-Signature", signature(body)))

    assert right_token.status_code == 401
    assert wrong_token.status_code in (202, 204)


def test_while_a_secret_is_changed_both_are_accepted(hook: Hook) -> None:
    """W21: the forge and the service cannot be told at the same moment."""
    old, new, other = (hook.harmless() for _ in range(3))

    assert hook.service.hook(old, signed_headers(old, secret=PREVIOUS)).status_code in (202, 204)
    assert hook.service.hook(new, signed_headers(new)).status_code in (202, 204)
    assert hook.service.hook(other, signed_headers(other, secret="a third")).status_code == 401


def test_a_form_is_refused_with_the_name_of_the_hooks_setting(hook: Hook) -> None:
    """W8: a form is signed over what it decodes to; the sentence says what to change on the forge."""
    payload = hook.harmless()
    body = urlencode({"payload": payload}).encode()
    headers = [("Content-Type", "application/x-www-form-urlencoded"), ("X-Forgejo-Signature", signature(payload))]

    answer = hook.service.anonymous.post("/hooks/forgejo", content=body, headers=headers)

    assert answer.status_code == 415
    assert "application/json" in answer.text
    assert answer.headers["X-Request-Id"]


@pytest.mark.parametrize("verb", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
def test_other_verbs_are_refused_with_a_sentence(hook: Hook, verb: str) -> None:
    """A redirect turns Forgejo's POST into an empty GET that the forge shows as a success (forgejo.md, section 8)."""
    answer = hook.service.anonymous.request(verb, "/hooks/forgejo")

    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]
    assert answer.headers["X-Request-Id"]
    if verb == "GET":
        assert "redirect" in answer.text.lower() or "重定向" in answer.text


def _raw(hook: Hook, head: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", hook.service.port), timeout=30)
    connection.sendall(f"POST /hooks/forgejo HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n".encode())
    return connection


def _status(connection: socket.socket) -> int | None:
    """The status of what comes back; None where the connection ended without an answer."""
    try:
        line = connection.recv(4096)
    except ConnectionError:
        return None
    return int(line.split()[1]) if line else None


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_body_over_the_cap_is_refused_while_it_comes(hook: Hook, framing: str) -> None:
    """W6: 413 as soon as the cap is passed, not when all of it is there; nothing of it is kept."""
    before = len(hook.service.items("/deliveries"))
    length = "Transfer-Encoding: chunked\r\n" if framing == "chunked" else f"Content-Length: {100 * CAP}\r\n"
    with _raw(hook, f"Content-Type: application/json\r\n{length}") as connection:
        piece = b" " * 50_000
        if framing == "chunked":
            piece = b"c350\r\n" + piece + b"\r\n"
        try:
            for _ in range(2 * CAP // 50_000):
                connection.sendall(piece)
        except ConnectionError:
            pass  # it may close as soon as it has answered
        status = _status(connection)

    assert status == 413
    assert len(hook.service.items("/deliveries")) == before


def test_a_body_just_under_the_cap_is_taken(hook: Hook) -> None:
    """W6: large pushes make large bodies."""
    body = hook.harmless(padding="x" * (CAP - 10_000))

    assert hook.service.hook(body).status_code in (202, 204)


def test_a_body_that_drips_is_cut_at_the_deadline(hook: Hook) -> None:
    """W7: 5 s for the whole body, however often a byte comes; others are answered meanwhile."""
    started = time.monotonic()
    with _raw(hook, "Content-Type: application/json\r\nContent-Length: 1000\r\n") as connection:
        connection.settimeout(0.5)
        ended = None
        while ended is None and time.monotonic() - started < 25:
            try:
                connection.sendall(b" ")
                ended = connection.recv(4096)
            except TimeoutError:
                assert hook.service.anonymous.get("/healthz").status_code == 200
            except ConnectionError:
                ended = b""
    took = time.monotonic() - started

    assert ended is not None
    assert 4 < took < 20
    assert not ended.startswith(b"HTTP/1.1 2")


def test_the_bodys_shape_decides_what_an_event_is(hook: Hook) -> None:
    """W9: the event's header is not signed; a signed body of `issues` is no push, whatever its header says."""
    body = json.dumps({"action": "opened", "number": 1, "issue": {"id": 1}, "repository": {"id": 1}}).encode()

    answer = hook.service.hook(body, signed_headers(body, event="push"))

    assert answer.status_code == 204
    assert hook.service.outcome(body)["outcome"] == "ignored"


def test_an_event_nobody_knows_is_no_error(hook: Hook) -> None:
    """Forgejo shows a red mark for every answer that is not 2xx."""
    body = b'{"action": "created", "sender": {"login": "x"}}'

    assert hook.service.hook(body, signed_headers(body, event="star")).status_code == 204


@pytest.mark.parametrize("ref", ["refs/heads/other", "refs/tags/v1", "refs/pull/1/head", "refs/heads/main2"])
def test_a_push_to_anything_else_than_the_branch_is_ignored_with_its_reason(hook: Hook, ref: str) -> None:
    """W14: said in the list of deliveries, so that nobody wonders."""
    tip = hook.repo.tip()

    row = hook.service.deliver(hook.repo, Push(tip, tip, ref))

    assert row["outcome"] == "ignored"
    assert row["reason"]
    assert row["ref"] == ref


def test_a_push_of_another_repository_is_ignored(hook: Hook) -> None:
    """An organisation's hook sends every repository's events, with one secret (registration.md, Who)."""
    tip = hook.repo.tip()

    row = hook.service.deliver(hook.repo, Push(tip, tip), repository_id=2)

    assert row["outcome"] == "ignored"
    assert row["reason"]


def test_an_after_that_is_nowhere_registers_nothing(hook: Hook) -> None:
    """W15: git decides, not the payload."""
    before = hook.service.tools()

    row = hook.service.deliver(hook.repo, Push(hook.repo.tip(), hook.repo.tip()), after="ab" * 20)

    assert row["outcome"] == "unchanged"
    assert hook.service.tools() == before


def test_a_payload_that_claims_the_branch_is_gone_removes_nothing(hook: Hook) -> None:
    """W13: 40 zeros in a signed body, while the branch stands where it stood."""
    tip = hook.repo.tip()

    hook.service.deliver(hook.repo, Push(tip, tip), after=ZEROS)

    assert hook.service.run("first")["ok"] is True


@pytest.mark.parametrize(
    "changes",
    [
        {"commits": None},
        {"commits": []},
        {"commits": "x"},
        {"commits": [None, 3, {}]},
        {"head_commit": None},
        {"repository": "x"},
        {"repository": None},
        {"pusher": None},
        {"pusher": 7},
        {"before": None},
        {"after": 5},
        {"ref": None},
        {"ref": ["refs/heads/main"]},
    ],
    ids=repr,
)
def test_a_signed_body_of_a_strange_shape_is_handled_or_refused(hook: Hook, changes: dict[str, object]) -> None:
    """W17: 2xx or 400, never a fault of ours."""
    answer = hook.service.hook(hook.harmless(**changes))

    assert answer.status_code in (202, 204, 400)
    assert hook.service.anonymous.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b'{"ref": "refs/heads/main", "n": NaN}',
        b'{"ref": "refs/heads/main", "ref": "refs/heads/other"}',
        b'{"ref": "refs/heads/main", "n": ' + b"9" * 5000 + b"}",
        b'{"ref": "refs/heads/main", "n": -Infinity}',
        b'{"ref": "refs/heads/main"',
        b"[" * 5000,
        b"\xff\xfe{}",
        b"",
        b"[]",
        b'"text"',
    ],
    ids=lambda body: repr(body[:40]),
)
def test_a_signed_body_that_is_not_plain_json_is_refused(hook: Hook, body: bytes) -> None:
    """W19: parsers disagree about these; nothing that depends on which one read it is believed."""
    answer = hook.service.hook(body)

    assert answer.status_code == 400
    assert hook.service.anonymous.get("/healthz").status_code == 200


def test_one_delivery_sent_fifty_times_at_once_is_one_row_and_one_registration(hook: Hook) -> None:
    """W10: all are answered 2xx, the tool is registered once, the row counts the requests."""
    hook.repo.write_tool("at-once")
    hook.repo.commit()
    body = push_payload(hook.repo, hook.repo.push())
    headers = signed_headers(body)

    def send(_: int) -> int:
        answer = httpx.post(f"{hook.service.url}/hooks/forgejo", content=body, headers=headers, trust_env=False)
        return answer.status_code

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(send, range(50)))
    row = hook.service.outcome(body)

    assert {status // 100 for status in answers} == {2}
    assert row["count"] == 50
    assert row["outcome"] == "applied"
    assert row["registered"] == ["at-once"]
    assert len(hook.service.versions("at-once")) == 1


def test_a_replay_of_an_older_push_changes_nothing(hook: Hook) -> None:
    """W12: its row counts it; what runs stays what the branch's tip holds, and the pushers stay too (W24)."""
    bodies = []
    for display in ("一", "二", "三"):
        hook.repo.write_tool("replayed", display=display)
        hook.repo.commit()
        bodies.append(push_payload(hook.repo, hook.repo.push()))
        hook.service.hook(bodies[-1])
        hook.service.outcome(bodies[-1])
    before = hook.service.versions("replayed")

    answer = hook.service.hook(bodies[0])
    hook.service.sync()

    row = hook.service.delivery(bodies[0])
    assert answer.status_code in (202, 204)
    assert row is not None
    assert row["count"] == 2
    assert hook.service.versions("replayed") == before
    assert hook.service.tools()["replayed"]["display"] == "三"


def test_repeats_that_change_nothing_do_not_make_the_service_look_each_time(parts: Parts) -> None:
    """W12: whoever recorded one delivery could otherwise make the service ask the forge without end."""
    with GitHttpServer(parts.folder / "counted") as counted:
        repo = NativeRepo(counted, "native-repo.git", parts.folder / "work")
        repo.write_tool("only")
        repo.commit()
        service = parts.service(repo)
        body = push_payload(repo, repo.push())
        service.hook(body)
        service.outcome(body)
        service.hook(body)
        service.sync()
        counted.forget()

        for _ in range(100):
            assert service.hook(body).status_code in (202, 204)
        time.sleep(1)

        looks = [request for request in counted.requests if "info/refs" in request.path]
        row = service.delivery(body)
        assert row is not None
        assert row["count"] == 102
        assert len(looks) <= 2


def test_a_hook_is_answered_at_once_while_the_repository_hangs(parts: Parts) -> None:
    """Forgejo gives up after 5 s and waits with every other hook meanwhile: no git work before the answer."""
    with GitHttpServer(parts.folder / "hangs") as hangs:
        repo = NativeRepo(hangs, "native-repo.git", parts.folder / "work")
        repo.write_tool("only")
        repo.commit()
        push = repo.push()
        service = parts.service(repo)
        hangs.faults = Faults(sleep_s=3)

        started = time.monotonic()
        answers = [service.hook(push_payload(repo, push, nonce=number)) for number in range(3)]
        took = time.monotonic() - started
        hangs.faults = Faults()

        assert {answer.status_code // 100 for answer in answers} == {2}
        assert took < 2.5
        assert service.run("only")["ok"] is True


def test_what_was_pushed_while_the_service_was_down_is_registered_at_its_start(parts: Parts) -> None:
    """W22: Forgejo never sends again; the look at the start finds it."""
    repo = parts.repo("before")
    service = parts.service(repo)
    service.stop()
    repo.write_tool("meanwhile")
    repo.commit()
    repo.push()

    service.start()

    assert service.run("meanwhile")["output"] == "meanwhile\n"


def test_without_a_secret_every_hook_is_refused(parts: Parts) -> None:
    """An empty secret would be a secret that everybody knows."""
    repo = parts.repo("only")
    service = parts.service(repo, webhook_secret=None)
    tip = repo.tip()
    body = push_payload(repo, Push(tip, tip))

    answers = [service.hook(body, signed_headers(body, secret=secret)) for secret in ("", "None", "anything")]

    assert all(answer.status_code in (401, 503) for answer in answers)
    assert service.get("/deliveries")["items"] == []
