"""Over the limits a call waits its turn: bounded, fair, and looked at again in the moment it starts."""

import contextlib
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.calls import Background, Gate, Gates, ask, decide, following, in_state
from tests.harness.definitions import shell_exec_text
from tests.harness.forge import NativeRepo, push_payload
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, eventually

MAX_RUNS, SHARE, MAX_QUEUE = 3, 2, 4
SIX = ["ok", "tool", "method", "output", "error", "duration_ms"]
WORD = {"word": {"type": "string", "required": True}}
SECRET = {"stdin": {"type": "string", "required": True, "secret": True}}
ASKS: dict[str, Any] = {"constraints": {"require_confirm": True}}
CLIENTS = 64
STREAMS = 300


@dataclass
class Busy:
    """A service with few places, tools that wait at gates, and the calls of one test that wait in the queue."""

    service: BitongService
    repo: NativeRepo
    one: str
    other: str
    third: str
    gates: Gates = field(init=False)
    background: Background = field(init=False)

    def hold(self, token: str) -> tuple[str, Gate]:
        """A run of `token` that has started, and the gate it waits at."""
        gate = self.gates.new()
        answer = self.service.exec("local-exec", {"cmd": gate.cmd}, token=token, wait=False)
        run = in_state(self.service, answer.json()["run"]["id"], "started")
        return run["id"], gate

    def fill(self) -> list[Gate]:
        """Take every place: two of the first token's, one of the other's."""
        return [self.hold(token)[1] for token in (self.one, self.one, self.other)]

    def call(
        self, token: str, tool: str, params: dict[str, Any] | None = None, **fields: Any
    ) -> tuple[str, Future[httpx.Response]]:
        """A call that waits in the queue: its run, and its answer to come."""
        before = set(self.queued())
        answer = self.background.exec(token, tool, params, **fields)
        new: set[str] = eventually(lambda: set(self.queued()) - before)
        return new.pop(), answer

    def queued(self) -> list[str]:
        """The runs that wait."""
        return [run["id"] for run in self.service.items("/runs", state="queued")]

    def new_tool(self, name: str, **fields: Any) -> None:
        """A tool, registered."""
        self.repo.write_tool(name, **fields)
        self.repo.commit()
        self.service.push(self.repo)

    def assert_refused(self, run: str, code: str) -> None:
        """It never started, and the record has its refusal alone."""
        told = self.service.get(f"/runs/{run}")
        assert (told["state"], told["started_at"], told["ok"]) == ("refused", None, False)
        (refused,) = self.service.facts("run.refused", run=run)
        assert refused["code"] == code
        assert self.service.facts("run.started", run=run) == self.service.facts("run.finished", run=run) == []


def _write_tools(repo: NativeRepo) -> None:
    repo.write_tool("local-exec", text=shell_exec_text("local-exec", executor="shell"))
    repo.write_tool("say", command=["printf", "%s", "{word}"], params_schema=WORD)
    repo.write_tool("asks", command=["printf", "%s", "{word}"], params_schema=WORD, **ASKS)
    repo.write_tool("hides", command=["wc", "-c"], params_schema=SECRET)
    short = {"max_output_bytes": 10, "timeout_ms": 30_000}
    repo.write_tool("short", text=shell_exec_text("short", executor="shell", constraints=short))
    repo.commit()
    repo.push()


@pytest.fixture(scope="module")
def few(shared_parts: Parts) -> Busy:
    repo = shared_parts.repo()
    _write_tools(repo)
    limits = {"max_runs": MAX_RUNS, "max_runs_per_token": SHARE, "max_queue": MAX_QUEUE, "shutdown_grace_s": 1}
    service = shared_parts.service(repo, **limits)
    one, other, third = (service.token("exec", tools=("*",) * number) for number in (1, 2, 3))
    return Busy(service, repo, one, other, third)


@pytest.fixture(scope="module")
def ordinary(shared_parts: Parts, few: Busy) -> Busy:
    """The same on the limits a service has when nobody sets them."""
    service = shared_parts.service(few.repo, shutdown_grace_s=1)
    one, other, third = (service.token("exec", tools=("*",) * number) for number in (1, 2, 3))
    return Busy(service, few.repo, one, other, third)


def _ready(busy: Busy, folder: Path) -> Iterator[Busy]:
    busy.gates = Gates(folder)
    with Background(busy.service) as busy.background:
        yield busy
        busy.gates.close()
    eventually(lambda: not [*busy.queued(), *busy.service.items("/runs", state="started")])


@pytest.fixture
def busy(few: Busy, tmp_path: Path) -> Iterator[Busy]:
    yield from _ready(few, tmp_path)


@pytest.fixture
def wide(ordinary: Busy, tmp_path: Path) -> Iterator[Busy]:
    yield from _ready(ordinary, tmp_path)


# Waiting


def test_over_its_share_a_token_waits_while_another_tokens_call_starts(busy: Busy) -> None:
    """X16: a place is free, but not for who holds its share already."""
    _, gate = busy.hold(busy.one)
    busy.hold(busy.one)

    run, waiting = busy.call(busy.one, "say", {"word": "等"})
    other = busy.service.exec("say", {"word": "先"}, token=busy.other)

    assert (other.status_code, other.json()["output"]) == (200, "先")
    assert busy.queued() == [run]
    gate.open()
    assert (waiting.result().status_code, waiting.result().json()["output"]) == (200, "等")


def test_what_waits_is_a_queued_run_that_all_can_see(busy: Busy) -> None:
    """In the list and by its id, without a start; `wait: false` answers with it."""
    busy.fill()

    answer = busy.service.exec("say", {"word": "x"}, token=busy.third, wait=False)

    told = answer.json()
    (listed,) = busy.service.items("/runs", state="queued")
    assert (answer.status_code, told["code"], list(told)[:6]) == (202, "accepted", SIX)
    assert (told["run"]["state"], listed["id"]) == ("queued", told["run"]["id"])
    assert (listed["started_at"], listed["ended_at"], listed["receipt"]) == (None, None, None)
    assert busy.service.client(busy.third).get(f"{API}/runs/{listed['id']}").json()["state"] == "queued"
    assert busy.service.facts("run.started", run=listed["id"]) == []


def test_the_clock_of_a_call_starts_when_it_starts(busy: Busy) -> None:
    """A time limit shorter than the wait is kept all the same; the duration is the execution's."""
    gates = busy.fill()
    _, waiting = busy.call(busy.third, "local-exec", {"cmd": "echo 到"}, timeout_ms=900)
    time.sleep(1)
    gates[2].open()

    told = waiting.result().json()

    assert (told["ok"], told["output"]) == (True, "到\n")
    assert told["duration_ms"] < 900


def test_a_waiting_run_is_followed_from_the_queue_to_its_end(busy: Busy) -> None:
    """Its states as it takes them."""
    gates, own = busy.fill(), busy.gates.new()
    run, _ = busy.call(busy.third, "local-exec", {"cmd": own.cmd})

    with following(busy.service, busy.third, run) as events:
        first = next(events)
        gates[0].open()
        second = next(events)
        own.open()
        rest = list(events)

    assert [(event.name, event.data["state"]) for event in (first, second)] == [
        ("state", "queued"),
        ("state", "started"),
    ]
    assert "".join(event.data["text"] for event in rest if event.name == "output") == "through\n"
    assert (rest[-1].name, rest[-1].data["state"]) == ("end", "succeeded")


def test_the_queue_is_bounded_and_what_does_not_fit_is_told_to_come_again(busy: Busy) -> None:
    """429 with Retry-After, no run; its key is not kept; all that waited come to their turn."""
    gates = busy.fill()
    waiting = [busy.call(busy.third, "say", {"word": str(number)})[1] for number in range(MAX_QUEUE)]
    runs = len(busy.service.items("/runs"))
    with httpx.Client(base_url=busy.service.url, trust_env=False) as client:
        headers = {"Authorization": f"Bearer {busy.third}", "Idempotency-Key": "full"}
        body = {"tool": "say", "params": {"word": "多"}}

        full = client.post(f"{API}/exec", json=body, headers=headers)
        grown = len(busy.service.items("/runs")) - runs
        for gate in gates:
            gate.open()
        answers = [answer.result() for answer in waiting]
        later = client.post(f"{API}/exec", json=body, headers=headers)

    assert (full.status_code, full.json()["code"], list(full.json())[:6]) == (429, "busy", SIX)
    assert int(full.headers["Retry-After"]) >= 1
    assert grown == 0
    assert [answer.json()["output"] for answer in answers] == [str(number) for number in range(MAX_QUEUE)]
    assert (later.status_code, later.json()["output"]) == (200, "多")


def test_a_token_with_much_to_do_does_not_keep_another_from_its_turn(busy: Busy) -> None:
    """Whoever comes after three calls of one token waits for one of them at most."""
    _, gate = busy.hold(busy.one)
    _, second = busy.hold(busy.one)
    busy.hold(busy.other)
    many = [busy.call(busy.one, "say", {"word": str(number)}) for number in range(3)]
    late = busy.call(busy.third, "say", {"word": "后来"})
    gate.open()
    second.open()

    answers = [answer.result() for _, answer in (*many, late)]

    assert {answer.status_code for answer in answers} == {200}
    started = [busy.service.facts("run.started", run=run)[0]["index"] for run, _ in (*many, late)]
    assert started[3] < sorted(started[:3])[1]


def test_a_repeat_of_what_waits_takes_no_place_of_its_own(busy: Busy) -> None:
    """M8: with its key it is the same call, also when the queue has no room for another."""
    gates = busy.fill()
    run, first = busy.call(busy.third, "say", {"word": "0"}, key="waits once")
    others = [busy.call(busy.third, "say", {"word": "x"})[1] for _ in range(MAX_QUEUE - 1)]
    repeats = [busy.background.exec(busy.third, "say", {"word": "0"}, key="waits once") for _ in range(3)]
    shown = busy.background.exec(busy.third, "say", {"word": "0"}, key="waits once", wait=False).result()
    for gate in gates:
        gate.open()

    answers = [call.result() for call in (first, *repeats)]
    assert (shown.status_code, shown.json()["run"]["id"]) == (202, run)
    assert {(answer.status_code, answer.json()["run"]["id"]) for answer in answers} == {(200, run)}
    assert {call.result().status_code for call in others} == {200}


# What ends while it waits


def _new_version(busy: Busy, name: str) -> None:
    busy.new_tool(name, display="另一个")


def _removal(busy: Busy, name: str) -> None:
    busy.repo.remove_tool(name)
    busy.repo.commit()
    busy.service.push(busy.repo)


def _force_push(busy: Busy, name: str) -> None:
    assert name in busy.service.tools()
    busy.repo.git("reset", "--quiet", "--hard", "HEAD~1")
    busy.service.push(busy.repo, force=True)


@pytest.mark.parametrize(
    ("change", "code"),
    [(_new_version, "definition-changed"), (_removal, "definition-changed"), (_force_push, "orphaned")],
)
def test_a_call_whose_definition_changed_while_it_waited_is_refused(
    busy: Busy, change: Callable[[Busy, str], None], code: str
) -> None:
    """X37: what would run is not what was asked for; 409, recorded, never started."""
    name = f"queued{change.__name__.replace('_', '-')}"
    busy.new_tool(name)
    gates = busy.fill()
    run, waiting = busy.call(busy.third, name)

    change(busy, name)
    gates[0].open()

    answer = waiting.result()
    assert (answer.status_code, answer.json()["code"], list(answer.json())[:6]) == (409, code, SIX)
    assert answer.json()["run"]["id"] == run
    busy.assert_refused(run, code)


def test_a_call_whose_tool_did_not_change_runs_after_a_push(busy: Busy) -> None:
    """What others push is no reason to refuse it."""
    gates = busy.fill()
    _, waiting = busy.call(busy.third, "say", {"word": "还在"})
    busy.new_tool("pushed-meanwhile")
    gates[0].open()

    assert waiting.result().json()["output"] == "还在"


def test_a_call_whose_token_was_revoked_while_it_waited_is_refused_at_once(busy: Busy) -> None:
    """X37, R14: within a second (five times the slack), although no place is free."""
    busy.fill()
    run, waiting = busy.call(busy.service.actor("leaving-the-queue", "exec"), "say", {"word": "x"})

    busy.service.revoke("leaving-the-queue")

    answer = waiting.result(timeout=5)
    assert (answer.status_code, answer.json()["code"]) == (409, "rights-ended")
    busy.assert_refused(run, "rights-ended")


def test_a_call_that_is_cancelled_while_it_waits_is_refused(busy: Busy) -> None:
    """By who asked, or by an administrator; by nobody else."""
    busy.fill()
    for canceller in (busy.third, busy.service.token("admin")):
        run, waiting = busy.call(busy.third, "say", {"word": "x"})
        stranger = busy.service.client(busy.other).post(f"{API}/runs/{run}/cancel")
        cancelled = busy.service.client(canceller).post(f"{API}/runs/{run}/cancel")
        again = busy.service.client(canceller).post(f"{API}/runs/{run}/cancel")

        assert (stranger.status_code, cancelled.status_code, again.status_code) == (404, 200, 409)
        answer = waiting.result(timeout=10)
        assert (answer.status_code, answer.json()["code"]) == (409, "cancelled")
        busy.assert_refused(run, "cancelled")


def test_at_sigterm_all_who_wait_are_answered(busy: Busy) -> None:
    """R7: a run that does not end within the grace is ended, with what it said; what was queued never starts: 503."""
    busy.hold(busy.one)
    busy.hold(busy.one)
    cmd = f"echo early; {busy.gates.new().cmd}"
    running = busy.background.exec(busy.other, "local-exec", {"cmd": cmd})
    eventually(lambda: len(busy.service.items("/runs", state="started")) == MAX_RUNS)
    run, waiting = busy.call(busy.third, "say", {"word": "x"})

    busy.service.stop()
    ended, answer = running.result(), waiting.result()
    busy.service.start()

    assert (ended.status_code, ended.json()["output"], list(ended.json())[:6]) == (200, "early\n", SIX)
    assert ended.json()["code"] in ("cancelled", "interrupted")
    assert ended.json()["run"]["reason"] == "shutdown"
    assert (answer.status_code, answer.json()["run"]["id"]) == (503, run)
    assert busy.service.get(f"/runs/{run}")["state"] == "refused"
    assert len(busy.service.facts("run.refused", run=run)) == 1
    assert busy.service.facts("run.started", run=run) == []


def test_what_waited_when_the_service_was_killed_is_refused_after_the_restart(busy: Busy) -> None:
    """R8, S14: nothing is left open, nothing that waited starts by itself, and a secret that waited left no byte."""
    secret = "s3cr3t-in-the-queue"
    busy.fill()
    run, waiting = busy.call(busy.third, "hides", {"stdin": secret})

    busy.service.kill()
    left = busy.service.files_with(secret.encode())
    busy.service.start()

    with contextlib.suppress(httpx.TransportError):
        waiting.result()
    eventually(lambda: not [*busy.queued(), *busy.service.items("/runs", state="started")], within_s=5)
    busy.assert_refused(run, "crash")
    assert left == busy.service.files_with(secret.encode()) == []


# Confirmed calls


def test_an_approved_call_waits_its_turn_like_any_other(busy: Busy) -> None:
    """A yes is no place."""
    gates = busy.fill()
    asked = ask(busy.service, "asks", {"word": "批准"}, token=busy.third)
    confirmation = f"{API}/confirmations/{asked['confirmation']['id']}"

    waiting = busy.background.post(busy.service.token("exec", "confirm"), confirmation, {"decision": "approve"})
    in_state(busy.service, asked["run"]["id"], "queued")
    again = decide(busy.service, asked["confirmation"]["id"], "reject")
    gates[0].open()

    assert (waiting.result().status_code, waiting.result().json()["output"]) == (200, "批准")
    assert (again.status_code, again.json()["code"]) == (409, "confirmation-approved")


def test_an_approved_call_whose_definition_changed_before_it_started_is_refused(busy: Busy) -> None:
    """X15: between the yes and the start."""
    busy.new_tool("asks-in-the-queue", **ASKS)
    gates = busy.fill()
    asked = ask(busy.service, "asks-in-the-queue", token=busy.third)
    confirmation = f"{API}/confirmations/{asked['confirmation']['id']}"
    waiting = busy.background.post(busy.service.token("exec", "confirm"), confirmation, {"decision": "approve"})
    in_state(busy.service, asked["run"]["id"], "queued")

    busy.new_tool("asks-in-the-queue", display="另一个", **ASKS)
    gates[0].open()

    answer = waiting.result()
    assert (answer.status_code, answer.json()["code"]) == (409, "definition-changed")
    busy.assert_refused(asked["run"]["id"], "definition-changed")


def test_an_approved_call_of_a_revoked_token_never_starts(busy: Busy) -> None:
    """R14: the asker's right has ended, whoever said yes."""
    busy.fill()
    asked = ask(busy.service, "asks", {"word": "x"}, token=busy.service.actor("leaving-after-a-yes", "exec"))
    confirmation = f"{API}/confirmations/{asked['confirmation']['id']}"
    waiting = busy.background.post(busy.service.token("exec", "confirm"), confirmation, {"decision": "approve"})
    in_state(busy.service, asked["run"]["id"], "queued")

    busy.service.revoke("leaving-after-a-yes")

    answer = waiting.result(timeout=5)
    assert (answer.status_code, answer.json()["code"]) == (409, "rights-ended")
    busy.assert_refused(asked["run"]["id"], "rights-ended")


# Many at once


def test_sixteen_runs_at_once_each_have_their_own_output_and_cap(wide: Busy, tmp_path: Path) -> None:
    """X16: each waits until all have begun, so none can have waited for another to end."""
    folder = tmp_path / "begun"
    folder.mkdir()
    calls = []
    for number in range(16):
        sign = chr(ord("a") + number)
        cmd = f"touch {folder}/{sign}; while [ $(ls {folder} | wc -l) -lt 16 ]; do sleep 0.1; done; echo {sign * 20}"
        token = wide.one if number % 2 else wide.other
        calls.append((sign, wide.background.exec(token, "short", {"cmd": cmd})))

    for sign, call in calls:
        told = call.result().json()
        assert (told["ok"], told["output"]) == (True, sign * 10)
        assert (told["run"]["truncated"], told["run"]["output_bytes"]) == (True, 21)


def test_sixty_four_clients_at_once_all_get_their_answer(wide: Busy) -> None:
    """X16: those without a place wait for one; each gets what it asked for."""
    calls = [wide.background.exec(wide.one, "say", {"word": f"字{number}"}) for number in range(CLIENTS)]

    answers = [call.result() for call in calls]

    assert Counter(answer.status_code for answer in answers) == {200: CLIENTS}
    assert [answer.json()["output"] for answer in answers] == [f"字{number}" for number in range(CLIENTS)]


def _open(wide: Busy, path: str) -> socket.socket:
    """A GET whose answer is left to lie."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(20)
    connection.connect(("127.0.0.1", wide.service.port))
    token = wide.service.token("read")
    host = f"127.0.0.1:{wide.service.port}"
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    return connection


def test_many_who_wait_and_follow_keep_nobody_else_from_an_answer(wide: Busy) -> None:
    """R19: 80 waiting calls, hundreds of streams; within a second, five times the slack. The export: not built yet."""
    run, gate = wide.hold(wide.one)
    calls = [wide.background.exec(wide.one, "local-exec", {"cmd": gate.cmd}) for _ in range(80)]
    eventually(lambda: len(wide.queued()) == CLIENTS)
    with contextlib.ExitStack() as stack:
        paths = [f"{API}/runs/{run}/events", f"{API}/events"] * (STREAMS // 2)
        streams = [stack.enter_context(contextlib.closing(_open(wide, path))) for path in paths]
        heads = Counter(stream.recv(15) for stream in streams)
        wide.repo.write_tool("pushed-under-load")
        wide.repo.commit()
        body, took = push_payload(wide.repo, wide.repo.push()), {}
        for name, act in {
            "healthz": lambda: wide.service.anonymous.get("/healthz").status_code == 200,
            "hook": lambda: wide.service.hook(body).status_code == 202,
            "call": lambda: wide.service.exec("say", {"word": "别人"}, token=wide.other).json()["output"] == "别人",
        }.items():
            before = time.monotonic()
            assert act(), name
            took[name] = time.monotonic() - before
    gate.open()
    statuses = Counter(call.result().status_code for call in calls)

    assert heads == {b"HTTP/1.1 200 OK": STREAMS}
    assert {name: seconds for name, seconds in took.items() if seconds > 5} == {}
    assert statuses == {200: 7 + CLIENTS, 429: 80 - 7 - CLIENTS}
    assert "pushed-under-load" in eventually(lambda: wide.service.tools().keys() & {"pushed-under-load"})
