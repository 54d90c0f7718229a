"""`bitong exec`: the output comes while the tool runs, each byte once, and one call is one run whatever breaks between."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.cli import printing
from tests.cli.live import Command, Gate, live_service
from tests.cli.relay import Relay
from tests.git_http import GitHttpServer
from tests.harness.parts import Parts
from tests.harness.service import ALL_SCOPES, BitongService, bitong, environment, eventually

ID = r"[0-9a-f]{8}-[0-9a-f-]{27}"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, git_server: GitHttpServer) -> Iterator[BitongService]:
    parts = Parts(tmp_path_factory.mktemp("live"), git_server)
    yield live_service(parts)
    parts.close()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path)
    yield gate
    gate.open()


def _runs(service: BitongService, tool: str = "sh") -> int:
    return len(service.items("/runs", tool=tool))


# As it comes


def test_output_comes_while_the_tool_runs(live: BitongService, gate: Gate) -> None:
    """Each stream on its own; the rest, and the exit code, when it ended."""
    words = f"cmd=echo one; echo aside >&2; {gate.waits}; echo two; exit 3"
    command = Command(live, "exec", "sh", words, token=live.token("exec"))

    first = (command.line(), command.aside())
    gate.open()
    code, rest, aside = command.end()

    assert first == (b"one\n", b"aside\n")
    assert (code, rest) == (1, b"two\n")
    assert b"exit-code, 3" in aside


def test_bytes_are_exact_however_they_come(live: BitongService, gate: Gate) -> None:
    """U3: half a character now and half later, and what is no text at all."""
    words = rf"printf '\347'; echo; printf '\254\224'; {gate.waits}; printf '\254\377\0'; printf '\376' >&2"
    command = Command(live, "exec", "sh", f"cmd={words}")

    first = command.line()
    gate.open()
    code, rest, aside = command.end()

    assert (code, first + rest, aside) == (0, b"\xe7\n\xac\x94\xac\xff\0", b"\xfe")


def test_output_that_outruns_its_follower_is_whole_at_the_end(live: BitongService) -> None:
    """Live, a service tells the beginning and what came last; what was between is in the record."""
    words = "cmd=seq 1 120000; echo middle >&2; seq 1 20000"
    command = Command(live, "exec", "roomy", words)

    code, out, aside = command.end()

    assert (code, aside) == (0, b"middle\n")
    assert out == b"".join(b"%d\n" % n for last in (120000, 20000) for n in range(1, last + 1))


def test_no_more_is_printed_than_was_kept_and_the_cut_is_said(live: BitongService, gate: Gate) -> None:
    """U11: the same bytes as at the end of a call that waited: no half character at the cut."""
    words = f"printf 'a笔笔笔笔笔笔笔笔笔笔\\n'; {gate.waits}; for i in 1 2 3 4 5 6 7 8 9; do printf 笔笔笔笔; done"
    command = Command(live, "exec", "short", f"cmd={words}")

    first = command.line()
    gate.open()
    code, rest, aside = command.end()

    record = live.items("/runs", tool="short")[0]
    assert (code, first) == (0, ("a" + "笔" * 10 + "\n").encode())
    assert (first + rest).decode() == live.get(f"/runs/{record['id']}")["output"]
    assert 97 <= len(first + rest) < 100
    assert b"100" in aside


def test_json_is_the_answer_alone(live: BitongService) -> None:
    """Nothing streams into it."""
    done = live.client_cli("exec", "sh", "cmd=echo out; echo err >&2; exit 2", "--json")

    answer = json.loads(done.stdout)
    assert (done.returncode, answer["output"], answer["error"], answer["code"]) == (1, "out\n", "err\n", "failed")


def test_not_waiting_prints_the_run_alone(live: BitongService, gate: Gate) -> None:
    """For scripts: an id to ask for later."""
    done = live.client_cli("exec", "sh", f"cmd={gate.waits}; echo late", "--no-wait")
    told = live.client_cli("exec", "sh", "cmd=true", "--no-wait", "--json")

    gate.open()
    run = done.stdout.strip()
    assert (done.returncode, told.returncode, json.loads(told.stdout)["code"]) == (0, 0, "accepted")
    assert re.fullmatch(ID, run)
    assert f"bitong runs tail {run}" in done.stderr
    assert live.client_cli("runs", "tail", run).stdout == "late\n"
    assert live.client_cli("runs", "tail", json.loads(told.stdout)["run"]["id"]).returncode == 0


def test_a_time_limit_may_be_shorter_only(live: BitongService) -> None:
    """M16: 1 when it passed, 2 when it is more than the definition allows."""
    late = live.client_cli("exec", "sh", "cmd=echo begun; sleep 30", "--timeout", "300")
    higher = live.client_cli("exec", "sh", "cmd=true", "--timeout", "30001")

    assert (late.returncode, late.stdout, higher.returncode) == (1, "begun\n", 2)
    assert "timed_out" in late.stderr
    assert "timeout_ms" in higher.stderr


# Once


def test_the_same_key_is_the_same_run(live: BitongService) -> None:
    """Another call with that key is 1; a key that is none is 2."""
    before = _runs(live)

    done = [live.client_cli("exec", "sh", "cmd=date +%s%N", "--key", "one") for _ in range(2)]
    other = live.client_cli("exec", "sh", "cmd=echo other", "--key", "one")
    bad = [live.client_cli("exec", "sh", "cmd=true", "--key", key).returncode for key in ("", "钥", "x" * 201)]

    ok = [item for item in live.items("/runs", tool="sh") if item["ok"]]
    assert [one.returncode for one in done] == [0, 0]
    assert done[0].stdout == done[1].stdout
    assert (other.returncode, bad) == (1, [2, 2, 2])
    assert _runs(live) == before + 2
    assert ok


@pytest.mark.parametrize("how", [(), ("--json",)], ids=["live", "json"])
def test_a_lost_answer_is_asked_for_again_and_runs_once(live: BitongService, how: tuple[str, ...]) -> None:
    """The service got the call, its answer did not come back: the same key asks again."""
    before = _runs(live)
    with Relay(live.port) as relay:
        relay.swallow = b"POST /api/v1/exec"
        command = Command(live, "exec", "sh", "cmd=echo once", *how, url=relay.url)
        code, out, aside = command.end()
        posts = [line for line in relay.seen if line.startswith(b"POST /api/v1/exec")]

    assert (code, len(posts), _runs(live)) == (0, 2, before + 1)
    assert (json.loads(out)["output"] if how else out.decode()) == "once\n"
    assert "same key" in aside.decode()


def test_a_lost_connection_is_taken_up_where_it_broke(live: BitongService, gate: Gate) -> None:
    """Nothing twice, nothing left out; said on standard error."""
    before = _runs(live)
    second = Gate(Path(live.folder))
    words = f"cmd=echo one; {gate.waits}; echo two; echo aside >&2; {second.waits}; echo three"
    with Relay(live.port) as relay:
        command = Command(live, "exec", "sh", words, url=relay.url)
        lines = [command.line()]
        relay.cut()
        gate.open()
        said = [command.aside(), command.aside()]
        lines.append(command.line())
        second.open()
        code, rest, aside = command.end()

    assert (code, [*lines, rest]) == (0, [b"one\n", b"two\n", b"three\n"])
    assert aside == b"aside\n"
    assert "Connecting again" in b"".join(said).decode()
    assert _runs(live) == before + 1


def test_where_no_events_can_be_had_the_end_is_waited_for(live: BitongService, gate: Gate) -> None:
    """As behind a proxy that passes no streams."""
    with Relay(live.port) as relay:
        relay.refuse = b"/events HTTP"
        command = Command(live, "exec", "sh", f"cmd=echo one; {gate.waits}; echo two", url=relay.url)
        eventually(lambda: any(b"/events" in line for line in relay.seen))
        gate.open()
        ended = command.end()

    assert ended == (0, b"one\ntwo\n", b"")


def test_a_service_that_dies_and_comes_back_says_what_became_of_the_run(parts: Parts, tmp_path: Path) -> None:
    """X13: interrupted, and 1; it is not run again."""
    service = live_service(parts)
    command = Command(service, "exec", "sh", "cmd=echo one; exec sleep 30")
    first = command.line()

    service.kill()
    service.start()
    code, rest, aside = command.end()

    assert (first, code, rest) == (b"one\n", 1, b"")
    assert b"interrupted" in aside
    assert _runs(service) == 1


@pytest.mark.slow
def test_a_service_that_stays_away_is_3_and_says_how_to_look_later(parts: Parts) -> None:
    """The run's own fate is not known here."""
    service = live_service(parts)
    command = Command(service, "exec", "sh", "cmd=echo one; exec sleep 30")
    command.line()

    service.kill()
    code, _, aside = command.end()

    service.start()
    run = service.items("/runs", tool="sh")[0]["id"]
    assert code == 3
    assert f"bitong runs tail {run}" in aside.decode()


def test_ctrl_c_leaves_the_run_alone_and_says_how_to_end_it(live: BitongService, gate: Gate) -> None:
    """130; the sentence is a command that works."""
    command = Command(live, "exec", "sh", f"cmd=echo one; {gate.waits}")
    command.line()

    command.interrupt()
    code, _, aside = command.end()

    told = re.search(rf"bitong (runs cancel ({ID}))", aside.decode())
    assert told is not None
    assert (code, live.get(f"/runs/{told[2]}")["state"]) == (130, "started")
    assert live.client_cli(*told[1].split()).returncode == 0
    assert live.get(f"/runs/{told[2]}")["state"] == "cancelled"
    assert b"Traceback" not in aside


def test_ctrl_c_while_the_whole_answer_is_waited_for_leaves_the_run_alone_too(live: BitongService, gate: Gate) -> None:
    """With --json there is no id yet: the list has it."""
    before = _runs(live)
    command = Command(live, "exec", "sh", f"cmd={gate.waits}", "--json")
    eventually(lambda: _runs(live) > before)

    command.interrupt()
    code, out, aside = command.end()

    gate.open()
    assert (code, out) == (130, b"")
    assert b"bitong runs list --tool sh" in aside


# Secrets


def _with_input(service: BitongService, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    env = environment(service.settings, BITONG_URL=service.url, BITONG_TOKEN=service.token(*ALL_SCOPES))
    command = [sys.executable, "-m", "service", *arguments]
    return subprocess.run(command, env=env, cwd=service.folder, input=stdin, capture_output=True, timeout=60)


def test_a_secret_comes_from_a_file_or_standard_input(live: BitongService, tmp_path: Path) -> None:
    """It stands in no process list; the line break that ends a file is no part of it."""
    file = tmp_path / "password"
    file.write_bytes("geheim 密\n".encode())

    by_file = _with_input(live, "exec", "echo-input", f"stdin=@{file}")
    by_input = _with_input(live, "exec", "echo-input", "stdin=-", stdin=b"a\nb\r\n")
    as_json = _with_input(live, "exec", "echo-input", "--params", "-", stdin=b'{"stdin": "c\\n"}')

    assert [done.stdout for done in (by_file, by_input, as_json)] == ["geheim 密".encode(), b"a\nb", b"c\n"]


def test_what_is_no_secret_is_read_as_it_is(live: BitongService, tmp_path: Path) -> None:
    """A file's content with its last line break; a text that begins with @ is written @@."""
    file = tmp_path / "script"
    file.write_bytes(b"printf '%s' \"x\n\"\n")

    by_file = _with_input(live, "exec", "sh", f"cmd=@{file}", "--json")
    doubled = _with_input(live, "exec", "sh", "cmd=@@", "--json")

    runs = [json.loads(done.stdout)["run"]["id"] for done in (by_file, doubled)]
    assert [live.get(f"/runs/{run}")["params"]["cmd"] for run in runs] == ["printf '%s' \"x\n\"\n", "@"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("stdin=@missing",),
        ("stdin=@.",),
        ("stdin=@",),
        ("stdin=-", "note=-"),
        ("stdin=@latin",),
        ("--params", "@missing"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_read_is_used_wrongly(live: BitongService, arguments: tuple[str, ...]) -> None:
    """In words, and nothing runs."""
    (live.folder / "latin").write_bytes(b"\xe9")
    before = _runs(live, "echo-input")

    done = live.client_cli("exec", "echo-input", *arguments)

    assert (done.returncode, done.stdout, _runs(live, "echo-input")) == (2, "", before)
    assert "bitong: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_says_how_a_secret_is_given_and_how_it_exits(tmp_path: Path) -> None:
    """Read first, without a service."""
    done = bitong("exec", "--help", env=environment({"columns": "200"}), cwd=tmp_path)

    said = " ".join(done.stdout.split())
    assert all(part in said for part in ("key=@FILE", "key=-", "--no-wait", "--timeout", "--key", "130"))


# How it ended


@pytest.mark.parametrize(
    ("state", "reason", "code"),
    [
        ("failed", "exit-code", 1),
        ("refused", "definition-changed", 1),
        ("refused", "shutdown", 3),
        ("refused", "busy", 3),
    ],
)
def test_a_run_that_the_service_could_not_begin_is_3(state: str, reason: str, code: int) -> None:
    """Refused after it had waited in line: by what keeps it, as a call that is refused at once."""
    run = {"id": "x", "state": state, "reason": reason, "exit_code": None}

    assert printing.exit_code(ok=False, run=run) == code


def test_live_output_that_is_not_what_was_recorded_is_said(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A far side may stream one thing and answer another; the record holds."""
    run = {"id": "x", "stderr": "", "notes": []}
    shown = printing.Printing(1000)

    shown.take({"stream": "stdout", "offset": 0, "text": "streamed"})
    shown.finish({"ok": True, "output": "answered", "error": None}, run)

    told = capfdbinary.readouterr()
    assert told.out == b"streamed"
    assert b"bitong runs show x" in told.err
