"""Runs that go on without their caller: `wait: false`, the wait's limit, events as they come, cancelling, and the end."""

import secrets
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.calls import Background, Event, Gate, Gates, ask, decide, following, in_state, leave_after_calling
from tests.harness.definitions import shell_exec_text
from tests.harness.forge import NativeRepo
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, eventually

MAX_WAIT_S = 2
GRACE_S = 2
SIX = ["ok", "tool", "method", "output", "error", "duration_ms"]
UNKNOWN = "01900000-0000-7000-8000-000000000000"
WORD = {"word": {"type": "string", "required": True}}
ITEM = {
    *("id", "state", "reason", "ok", "tool", "method", "version", "commit", "actor", "started_at", "ended_at"),
    *("duration_ms", "exit_code", "error", "output_bytes", "stderr_bytes", "match_id", "confirmation_id", "receipt"),
}


@dataclass
class Desk:
    """A service with a short wait, an owner of runs, and others who may see or end them or not."""

    service: BitongService
    repo: NativeRepo
    owner: str
    other: str
    reader: str
    gates: Gates = field(init=False)
    background: Background = field(init=False)

    def start(self, cmd: str, *, token: str | None = None) -> str:
        """A run that has started and that nobody waits for."""
        answer = self.service.exec("local-exec", {"cmd": cmd}, token=token or self.owner, wait=False)
        assert answer.status_code == 202, answer.text
        run: str = in_state(self.service, answer.json()["run"]["id"], "started", "succeeded", "failed")["id"]
        return run

    def held(self, before: str = "true", after: str = "true") -> tuple[str, Gate]:
        """A run that waits at a gate between two commands."""
        gate = self.gates.new()
        return self.start(f"{before}; {gate.cmd} >/dev/null; {after}"), gate

    def all_events(self, run: str, *, last: str | None = None) -> list[Event]:
        """The events of a run until the stream ends."""
        with following(self.service, self.owner, run, last=last) as events:
            return list(events)

    def item(self, run: str) -> dict[str, Any]:
        """The run as the list has it."""
        return next(row for row in self.service.items("/runs") if row["id"] == run)

    def cancel(self, run: str, *, token: str | None = None) -> httpx.Response:
        """An order to end a run: the owner's, unless a token is given."""
        return self.service.client(token or self.owner).post(f"{API}/runs/{run}/cancel")


def text_of(events: list[Event], stream: str = "stdout") -> str:
    """What came of one stream; AssertionError where a piece does not begin where the one before ended."""
    pieces = [event.data for event in events if event.name == "output" and event.data["stream"] == stream]
    reached = pieces[0]["offset"] if pieces else 0
    for piece in pieces:
        assert piece["offset"] == reached
        reached += len(piece["text"].encode())
    return "".join(piece["text"] for piece in pieces)


@pytest.fixture(scope="module")
def served(shared_parts: Parts) -> Desk:
    repo = shared_parts.repo()
    repo.write_tool("local-exec", text=shell_exec_text("local-exec", executor="shell"))
    repo.write_tool(
        "asks",
        command=["printf", "%s", "{word}"],
        params_schema=WORD,
        constraints={"require_confirm": True},
    )
    repo.commit()
    repo.push()
    service = shared_parts.service(repo, max_wait_s=MAX_WAIT_S, shutdown_grace_s=GRACE_S)
    _ = service.admin
    return Desk(service, repo, service.token("exec"), service.token("exec", tools=("*",)), service.token("read"))


@pytest.fixture
def desk(served: Desk, tmp_path: Path) -> Iterator[Desk]:
    served.gates = Gates(tmp_path)
    with Background(served.service) as served.background:
        yield served
        served.gates.close()
    eventually(lambda: not served.service.items("/runs", state="started"))


# Without waiting


def test_who_does_not_wait_is_answered_at_once_and_the_run_goes_on(desk: Desk) -> None:
    """202 `accepted`, the six fields first, and a run whose end is found by its id."""
    gate = desk.gates.new()

    answer = desk.service.exec("local-exec", {"cmd": gate.cmd}, token=desk.owner, wait=False)

    told = answer.json()
    assert (answer.status_code, told["code"], list(told)[:6]) == (202, "accepted", SIX)
    assert (told["ok"], told["output"], told["duration_ms"]) == (False, "", 0)
    assert told["run"]["state"] in ("queued", "started")
    gate.open()
    run = in_state(desk.service, told["run"]["id"])
    assert (run["state"], run["output"], run["exit_code"]) == ("succeeded", "through\n", 0)
    assert desk.service.entry(run["receipt"]["index"])["facts"]["run"] == run["id"]


def test_what_is_refused_is_refused_also_without_waiting(desk: Desk) -> None:
    """Not to wait changes when the answer comes, not which."""
    answers = [
        desk.service.exec("no-such-tool", token=desk.owner, wait=False),
        desk.service.exec("local-exec", {}, token=desk.owner, wait=False),
        desk.service.exec("local-exec", {"cmd": "true"}, token=desk.owner, wait=False, version=9),
    ]

    assert [answer.status_code for answer in answers] == [404, 422, 409]


def test_who_waits_longer_than_the_limit_gets_the_run_and_it_goes_on(desk: Desk) -> None:
    """`max_wait_s` ends the wait and nothing else."""
    gate = desk.gates.new()
    before = time.monotonic()

    answer = desk.service.exec("local-exec", {"cmd": gate.cmd}, token=desk.owner)

    assert (answer.status_code, answer.json()["code"]) == (202, "accepted")
    assert answer.json()["run"]["state"] == "started"
    assert time.monotonic() - before >= MAX_WAIT_S - 0.5
    gate.open()
    assert in_state(desk.service, answer.json()["run"]["id"])["state"] == "succeeded"


def test_a_caller_that_goes_away_cancels_nothing(desk: Desk, tmp_path: Path) -> None:
    """The run goes on to its own end, with its record."""
    gate, mark = desk.gates.new(), tmp_path / "mark"
    body = {"tool": "local-exec", "params": {"cmd": f"touch {mark}; {gate.cmd}"}}

    leave_after_calling(desk.service, desk.owner, body)
    eventually(mark.exists)
    (run,) = desk.service.items("/runs", state="started")
    gate.open()

    told = in_state(desk.service, run["id"])
    assert (told["state"], told["output"]) == ("succeeded", "through\n")


# Events of a run


def test_events_are_the_state_then_the_output_in_order_then_the_end(desk: Desk) -> None:
    """U8: each stream in order and without a gap; the end is the list's item, with its receipt."""
    run, gate = desk.held("echo 一; echo err >&2", "echo 二; echo err2 >&2; exit 3")
    with following(desk.service, desk.owner, run) as events:
        seen = [next(events)]
        while not (text_of(seen) and text_of(seen, "stderr")):
            seen.append(next(events))
        gate.open()
        seen += list(events)

    assert (seen[0].name, seen[0].data["id"], seen[0].data["state"]) == ("state", run, "started")
    assert {event.name for event in seen[1:-1]} <= {"state", "output"}
    assert (text_of(seen), text_of(seen, "stderr")) == ("一\n二\n", "err\nerr2\n")
    assert [event.data["offset"] for event in seen if event.name == "output"].count(0) == 2
    assert seen[-1].name == "end"
    assert set(seen[-1].data) == ITEM
    assert (seen[-1].data["state"], seen[-1].data["exit_code"]) == ("failed", 3)
    end, item = dict(seen[-1].data), desk.item(run)
    assert {**end, "receipt": end["receipt"]["leaf"]} == {**item, "receipt": item["receipt"]["leaf"]}


def test_output_comes_while_the_run_goes_on(desk: Desk) -> None:
    """Not only at its end."""
    run, gate = desk.held("echo early")

    with following(desk.service, desk.owner, run) as events:
        seen = next(event for event in events if event.name == "output")
        state = desk.service.get(f"/runs/{run}")["state"]
        gate.open()

    assert (seen.data["text"], state) == ("early\n", "started")


def test_no_piece_of_output_ends_within_a_character(desk: Desk) -> None:
    """U11: the bytes of one character written apart are shown as that character."""
    first, second = ("".join(f"\\{byte:03o}" for byte in part) for part in ("笔".encode()[:1], "笔".encode()[1:]))
    run, gate = desk.held(f"printf 'a{first}'", f"printf '{second}b'")
    with following(desk.service, desk.owner, run) as events:
        seen = [next(events), next(events)]
        gate.open()
        seen += list(events)

    assert text_of(seen) == "a笔b"


def test_who_comes_back_with_the_last_id_gets_what_was_missed_and_nothing_twice(desk: Desk) -> None:
    """`Last-Event-ID`, as browsers send it when a connection breaks."""
    run, gate = desk.held("echo 一", "echo 二")
    with following(desk.service, desk.owner, run) as events:
        last = next(event for event in events if event.name == "output")
    gate.open()
    in_state(desk.service, run)

    seen = desk.all_events(run, last=last.id)

    assert last.data["text"] == "一\n"
    assert text_of(seen) == "二\n"
    assert (seen[-1].name, seen[-1].data["state"]) == ("end", "succeeded")


@pytest.mark.parametrize("last", ["", "0", "x", "-1", "99999999-99999999", "9" * 400, "1-2-3"])
def test_a_last_id_that_was_never_given_does_no_harm(desk: Desk, last: str) -> None:
    """Whatever it is, the stream ends with the end."""
    run = desk.start("echo done")
    in_state(desk.service, run)

    assert desk.all_events(run, last=last)[-1].name == "end"


def test_a_run_that_is_over_gives_its_output_and_its_end_at_once(desk: Desk) -> None:
    """Who comes late sees what there was, both streams."""
    run = desk.start("echo 出; echo 错 >&2")
    in_state(desk.service, run)

    seen = desk.all_events(run)

    assert (text_of(seen), text_of(seen, "stderr")) == ("出\n", "错\n")
    assert (seen[-1].name, seen[-1].data["state"]) == ("end", "succeeded")


def test_many_may_follow_one_run_and_all_hear_the_same(desk: Desk) -> None:
    """Owner and readers, from the beginning or later."""
    run, gate = desk.held("echo 一", "echo 二")
    with (
        following(desk.service, desk.owner, run) as one,
        following(desk.service, desk.reader, run) as two,
        following(desk.service, desk.service.token("read", "exec"), run) as three,
    ):
        gate.open()
        heard = [list(events) for events in (one, two, three)]

    assert [text_of(events) for events in heard] == ["一\n二\n"] * 3
    assert [events[-1].name for events in heard] == ["end"] * 3


def test_a_run_that_waits_for_its_confirmation_is_followed_through_it(desk: Desk) -> None:
    """It waits, then it is over: with what it gave, or refused."""
    for decision, end in (("approve", "succeeded"), ("reject", "refused")):
        asked = ask(desk.service, "asks", {"word": "确认"}, token=desk.owner)
        with following(desk.service, desk.owner, asked["run"]["id"]) as events:
            first = next(events)
            decide(desk.service, asked["confirmation"]["id"], decision)
            rest = list(events)

        assert (first.name, first.data["state"]) == ("state", "awaiting_confirmation")
        assert (rest[-1].name, rest[-1].data["state"]) == ("end", end)
        assert text_of(rest) == ("确认" if decision == "approve" else "")


@pytest.mark.parametrize("state", ["started", "succeeded"])
def test_a_run_that_a_token_may_not_see_has_no_events_for_it(desk: Desk, state: str) -> None:
    """R13: another's for `exec` alone, a tool outside the patterns: the bytes of a run that never was."""
    run, gate = desk.held()
    if state == "succeeded":
        gate.open()
    in_state(desk.service, run, state)
    narrow = desk.service.token("read", "exec", tools=("asks",))

    for token in (desk.other, narrow):
        client = desk.service.client(token)
        hidden, never = (client.get(f"{API}/runs/{id}/events") for id in (run, UNKNOWN))
        assert (hidden.status_code, never.status_code) == (404, 404)
        assert hidden.content.replace(run.encode(), UNKNOWN.encode()) == never.content
    assert desk.service.anonymous.get(f"{API}/runs/{run}/events").status_code == 401


def test_the_stream_of_a_revoked_token_is_closed_and_the_run_goes_on(desk: Desk) -> None:
    """R14: within a second (five times the slack), although the run says nothing."""
    run, gate = desk.held()
    leaving = desk.service.actor("leaving-follower", "read")
    with following(desk.service, leaving, run) as events:
        first = next(events)
        desk.service.revoke("leaving-follower")
        before = time.monotonic()
        rest = list(events)
        took = time.monotonic() - before

    assert first.name == "state"
    assert "end" not in {event.name for event in rest}
    assert took < 5
    assert desk.service.client(leaving).get(f"{API}/runs/{run}/events").status_code == 401
    gate.open()
    assert in_state(desk.service, run)["state"] == "succeeded"


def test_the_stream_of_all_that_happens_is_closed_too_when_its_token_is_revoked(desk: Desk) -> None:
    """R14: `GET /events`, likewise."""
    leaving = desk.service.actor("leaving-listener", "read")
    with desk.service.client(leaving).stream("GET", f"{API}/events", timeout=30) as response:
        desk.service.revoke("leaving-listener")
        before = time.monotonic()
        for _ in response.iter_raw():
            assert time.monotonic() - before < 5
        took = time.monotonic() - before

    assert (response.status_code, took < 5) == (200, True)


# Cancelling


def _marker() -> str:
    """Seconds to sleep that no other process of this host asks for."""
    return f"3153600{secrets.randbelow(10)}.{secrets.randbelow(10**9):09}"


def _processes_with(marker: str) -> list[bytes]:
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((folder / "cmdline").read_bytes())
        except OSError:
            continue
    return [line for line in lines if marker.encode() in line]


def test_a_cancelled_run_ends_with_its_whole_tree_and_its_caller_hears_it(desk: Desk) -> None:
    """Children in the background too; what it had said until then comes back, and the record is complete."""
    marker = _marker()
    cmd = f"echo early; echo why >&2; sleep {marker} & (sleep {marker}; true) & sleep {marker}"
    waiting = desk.background.exec(desk.owner, "local-exec", {"cmd": cmd})
    eventually(lambda: len(_processes_with(marker)) >= 3)
    (run,) = desk.service.items("/runs", state="started")

    cancelled = desk.cancel(run["id"])

    answer = waiting.result()
    told = answer.json()
    assert cancelled.status_code == 200
    eventually(lambda: not _processes_with(marker), within_s=5)
    if answer.status_code == 200:  # else its wait had passed before
        assert (told["ok"], told["code"], told["output"]) == (False, "cancelled", "early\n")
        assert told["error"].startswith("why\n")
    ended = in_state(desk.service, run["id"])
    (finished,) = desk.service.facts("run.finished", run=run["id"])
    assert (ended["state"], ended["output"], ended["ok"]) == ("cancelled", "early\n", False)
    assert (finished["state"], finished["stdout"]["bytes"]) == ("cancelled", 6)


def test_a_tool_that_does_not_listen_is_ended_all_the_same(desk: Desk) -> None:
    """X2: what ignores the polite signal gets the other."""
    marker = _marker()
    run = desk.start(f"trap '' TERM INT HUP; echo ready; while true; do sleep {marker}; done")
    eventually(lambda: _processes_with(marker))

    desk.cancel(run)

    assert in_state(desk.service, run, within_s=10)["state"] == "cancelled"
    eventually(lambda: not _processes_with(marker), within_s=5)


def test_who_follows_hears_of_the_cancelling(desk: Desk) -> None:
    """The end says so, with its receipt."""
    run, _ = desk.held("echo early")
    with following(desk.service, desk.owner, run) as events:
        next(event for event in events if event.name == "output")
        desk.cancel(run)
        end = list(events)[-1]

    assert (end.name, end.data["state"], end.data["ok"]) == ("end", "cancelled", False)
    assert desk.service.entry(end.data["receipt"]["index"])["facts"]["run"] == run


def test_an_administrator_ends_anybodys_run_and_the_record_names_whose_it_was(desk: Desk) -> None:
    """`admin`: any, also one that may not read."""
    for scopes in (("admin",), ("read", "admin")):
        run, _ = desk.held()
        owner = desk.service.get(f"/runs/{run}")["actor"]

        answer = desk.cancel(run, token=desk.service.token(*scopes))

        assert answer.status_code == 200
        assert in_state(desk.service, run)["state"] == "cancelled"
        assert desk.service.get(f"/runs/{run}")["actor"] == owner


def test_others_end_nothing(desk: Desk) -> None:
    """Another's `exec`, a reader, a confirmer, a token for other tools, nobody: the run goes on."""
    run, gate = desk.held()
    others = [
        desk.other,
        desk.reader,
        desk.service.token("exec", "read"),
        desk.service.token("exec", "confirm"),
        desk.service.token("read", "admin", tools=("asks",)),
    ]

    statuses = [desk.cancel(run, token=token).status_code for token in others]
    nobody = desk.service.anonymous.post(f"{API}/runs/{run}/cancel").status_code

    assert (statuses[0], statuses[4], nobody) == (404, 404, 401)
    assert set(statuses) <= {403, 404}
    gate.open()
    assert in_state(desk.service, run)["state"] == "succeeded"


def test_a_run_that_is_over_or_never_was_cannot_be_cancelled(desk: Desk) -> None:
    """409, and the record stays as it is; an unknown one is 404."""
    run = desk.start("echo done")
    before = in_state(desk.service, run)

    over, unknown = desk.cancel(run), desk.cancel(UNKNOWN)

    assert (over.status_code, unknown.status_code) == (409, 404)
    assert desk.service.get(f"/runs/{run}")["state"] == before["state"] == "succeeded"
    assert len(desk.service.facts("run.finished", run=run)) == 1


def test_a_run_cancelled_by_many_at_once_ends_once(desk: Desk) -> None:
    """Some hear that it was over already; there is one end."""
    run, _ = desk.held()
    orders = [desk.background.post(desk.owner, f"{API}/runs/{run}/cancel") for _ in range(6)]

    statuses = Counter(order.result().status_code for order in orders)

    assert set(statuses) <= {200, 409}
    assert statuses[200] >= 1
    assert in_state(desk.service, run)["state"] == "cancelled"
    assert len(desk.service.facts("run.finished", run=run)) == 1


def test_cancelling_in_the_moment_of_the_end_gives_one_end(desk: Desk) -> None:
    """Whichever was first: state, answer and record agree."""
    for _ in range(8):
        run, gate = desk.held()
        order = desk.background.post(desk.owner, f"{API}/runs/{run}/cancel")
        gate.open()
        status = order.result().status_code

        ended = in_state(desk.service, run)
        (finished,) = desk.service.facts("run.finished", run=run)
        assert ended["state"] == finished["state"]
        assert ended["state"] in {200: ("cancelled", "succeeded"), 409: ("succeeded",)}[status]


# The end of the service


def test_at_sigterm_runs_may_end_within_the_grace_and_all_have_their_record(desk: Desk) -> None:
    """R7: one ends by itself and its caller is answered; the others are ended; streams keep nothing open."""
    marker = _marker()
    soon = desk.background.exec(desk.owner, "local-exec", {"cmd": "echo soon; sleep 0.7; echo done"})
    late = [desk.start(f"echo early-{number}; sleep {marker}") for number in range(3)]
    eventually(lambda: len(desk.service.items("/runs", state="started")) == 4)
    runs = {run["id"] for run in desk.service.items("/runs", state="started")}
    with following(desk.service, desk.reader, late[0]) as events:
        next(events)
        before = time.monotonic()
        desk.service.stop()
        took = time.monotonic() - before
    left = _processes_with(marker)
    desk.service.start()

    (first,) = runs - set(late)
    assert left == []
    assert took < GRACE_S + 10
    assert (soon.result().status_code, soon.result().json()["output"]) == (200, "soon\ndone\n")
    assert desk.service.get(f"/runs/{first}")["state"] == "succeeded"
    for number, run in enumerate(late):
        told = desk.service.get(f"/runs/{run}")
        assert told["state"] in ("cancelled", "interrupted")
        assert (told["reason"], told["output"]) == ("shutdown", f"early-{number}\n")
        assert len(desk.service.facts("run.finished", run=run)) == 1


def test_a_run_that_was_killed_with_the_service_is_told_to_who_follows_it_afterwards(desk: Desk) -> None:
    """R8: its events end with `interrupted`, and nothing starts it again. That nothing of it lives: the sandbox's tests."""
    run = desk.start("echo early; sleep 4")

    desk.service.kill()
    desk.service.start()

    seen = desk.all_events(run)
    assert (seen[-1].name, seen[-1].data["state"], seen[-1].data["reason"]) == ("end", "interrupted", "crash")
    assert desk.cancel(run).status_code == 409
    assert len(desk.service.facts("run.finished", run=run)) == 1
