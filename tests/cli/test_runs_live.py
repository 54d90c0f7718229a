"""`bitong runs tail` and `cancel`: a run followed and ended from another terminal than the one that began it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.live import Command, Gate, live_service
from tests.cli.relay import Relay
from tests.git_http import GitHttpServer
from tests.harness.parts import Parts
from tests.harness.service import BitongService, eventually

NOWHERE = "0190b5a4-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, git_server: GitHttpServer) -> Iterator[BitongService]:
    parts = Parts(tmp_path_factory.mktemp("runs"), git_server)
    yield live_service(parts)
    parts.close()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path)
    yield gate
    gate.open()


def _begun(service: BitongService, cmd: str, tool: str = "sh", token: str | None = None) -> str:
    """A run that goes on, once it began; its id."""
    answer = service.exec(tool, {"cmd": cmd}, wait=False, token=token).json()
    run = str(answer["run"]["id"])
    eventually(lambda: service.get(f"/runs/{run}")["state"] == "started")
    return run


def test_tail_follows_a_run_that_another_began(live: BitongService, gate: Gate) -> None:
    """From its beginning, as it comes, and exits as it ended."""
    run = _begun(live, f"echo one; {gate.waits}; echo two; echo why >&2; exit 4")
    command = Command(live, "runs", "tail", run)

    first = command.line()
    gate.open()
    code, rest, aside = command.end()

    assert (code, first, rest) == (1, b"one\n", b"two\n")
    assert aside.startswith(b"why\n")


def test_tail_of_a_run_that_is_over_prints_what_was_kept(live: BitongService) -> None:
    """The same bytes, the same exit."""
    well = live.run("sh", {"cmd": "echo 笔; echo aside >&2"})["run"]["id"]
    ill = live.run("sh", {"cmd": "exit 3"})["run"]["id"]

    done = [live.client_cli("runs", "tail", run) for run in (well, ill, NOWHERE)]

    assert [(one.returncode, one.stdout) for one in done] == [(0, "笔\n"), (1, ""), (1, "")]
    assert done[0].stderr == "aside\n"


def test_tail_tells_a_program_each_event_in_a_line(live: BitongService) -> None:
    """`state`, `output` and `end`, as the API has them."""
    run = live.run("sh", {"cmd": "echo out"})["run"]["id"]

    done = live.client_cli("runs", "tail", run, "--json")

    events = [json.loads(line) for line in done.stdout.splitlines()]
    output = [event["text"] for event in events if event["event"] == "output"]
    assert (done.returncode, output) == (0, ["out\n"])
    assert (events[-1]["event"], events[-1]["id"], events[-1]["ok"]) == ("end", run, True)


def test_events_that_cannot_be_had_are_no_success_for_a_program(live: BitongService) -> None:
    """There is nothing to print a line of; people get the end instead."""
    run = live.run("sh", {"cmd": "echo out"})["run"]["id"]
    with Relay(live.port) as relay:
        relay.refuse = b"/events HTTP"
        told = Command(live, "runs", "tail", run, "--json", url=relay.url).end()
        shown = Command(live, "runs", "tail", run, url=relay.url).end()

    assert (told[0], told[1]) == (1, b"")
    assert b"404" in told[2]
    assert shown == (0, b"out\n", b"")


def test_tail_goes_on_from_the_question_to_the_end(live: BitongService) -> None:
    """A call that waits for a yes is followed until somebody says it."""
    asked = live.exec("asks", {"cmd": "echo at last"}).json()
    with Relay(live.port) as relay:
        command = Command(live, "runs", "tail", asked["run"]["id"], url=relay.url)
        eventually(lambda: any(b"/events" in line for line in relay.seen))
        answer = live.admin.post(f"/api/v1/confirmations/{asked['confirmation']['id']}", json={"decision": "approve"})
        ended = command.end()

    assert answer.status_code == 200
    assert ended == (0, b"at last\n", b"")


def test_a_follower_whose_right_ends_follows_no_longer(live: BitongService, gate: Gate) -> None:
    """R14: 2, in words; the run goes on."""
    run = _begun(live, f"echo one; {gate.waits}")
    command = Command(live, "runs", "tail", run, token=live.token("read", name="short-lived"))
    first = command.line()

    live.cli("token", "revoke", "short-lived")
    code, _, aside = command.end()

    assert (first, code) == (b"one\n", 2)
    assert b"Traceback" not in aside
    assert live.get(f"/runs/{run}")["state"] == "started"
    gate.open()
    eventually(lambda: live.get(f"/runs/{run}")["state"] == "succeeded")


def test_ctrl_c_ends_the_following_alone(live: BitongService, gate: Gate) -> None:
    """130, and how to end the run too."""
    run = _begun(live, f"echo one; {gate.waits}")
    command = Command(live, "runs", "tail", run)
    command.line()

    command.interrupt()
    code, _, aside = command.end()

    assert (code, live.get(f"/runs/{run}")["state"]) == (130, "started")
    assert f"bitong runs cancel {run}" in aside.decode()
    gate.open()
    eventually(lambda: live.get(f"/runs/{run}")["state"] == "succeeded")


def test_cancelling_ends_a_run_and_whoever_follows_it(live: BitongService) -> None:
    """0 for the one who cancels, 1 for the one who waited; a second time there is nothing to end."""
    run = _begun(live, "echo one; sleep 30")
    command = Command(live, "runs", "tail", run)
    first = command.line()

    done = live.client_cli("runs", "cancel", run)
    again = live.client_cli("runs", "cancel", run)

    code, _, aside = command.end()
    assert (done.returncode, done.stdout, again.returncode, first, code) == (0, "", 1, b"one\n", 1)
    assert "cancelled" in done.stderr
    assert b"cancelled" in aside
    assert live.client_cli("runs", "cancel", NOWHERE).returncode == 1


def test_cancelling_tells_a_program_the_run(live: BitongService) -> None:
    """As `runs show` has it."""
    run = _begun(live, "sleep 30")

    told = json.loads(live.client_cli("runs", "cancel", run, "--json").stdout)

    assert (told["id"], told["state"]) == (run, "cancelled")


def test_only_an_admin_ends_the_run_of_another(live: BitongService) -> None:
    """The operator of this host may, without a token."""
    run = _begun(live, "sleep 30", token=live.token("exec"))

    other = live.client_cli("runs", "cancel", run, token=live.token("read", "exec"))
    operator = live.cli("runs", "cancel", run)

    assert (other.returncode, operator.returncode) == (2, 0)
    assert live.get(f"/runs/{run}")["state"] == "cancelled"
