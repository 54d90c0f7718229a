"""`bitong confirm`: who answers reads first what will run; a yes is never one key, and never without a terminal by itself."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.cli.live import at_a_terminal, live_service
from tests.git_http import GitHttpServer
from tests.harness.parts import Parts
from tests.harness.service import BitongService

NOWHERE = "0190b5a4-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, git_server: GitHttpServer) -> Iterator[BitongService]:
    parts = Parts(tmp_path_factory.mktemp("confirm"), git_server)
    yield live_service(parts)
    parts.close()


def _asked(service: BitongService, cmd: str, tool: str = "asks") -> str:
    """A call that waits for a yes; its confirmation's id."""
    answer = service.exec(tool, {"cmd": cmd}).json()
    assert answer["code"] == "needs-confirmation", answer
    return str(answer["confirmation"]["id"])


def _state(service: BitongService, confirmation: str) -> str:
    return str(service.get(f"/confirmations/{confirmation}")["state"])


# Being asked


def test_a_tool_that_asks_first_says_what_would_run_and_how_to_say_yes(live: BitongService) -> None:
    """1, since nothing ran; the line is a command that works."""
    done = live.client_cli("exec", "asks", "cmd=echo yes it ran")

    line = re.search(r"^ +bitong (confirm approve (\S+))$", done.stderr, re.MULTILINE)
    assert line is not None
    shown = live.get(f"/confirmations/{line[2]}")
    assert (done.returncode, done.stdout, shown["state"]) == (1, "", "waiting")
    assert all(part in done.stderr for part in ("/bin/sh -c 'echo yes it ran'", shown["expires_at"], "测试需要它。"))
    approved = live.client_cli(*line[1].split(), "--yes")
    assert (approved.returncode, approved.stdout) == (0, "yes it ran\n")


def test_a_program_is_told_by_the_answer(live: BitongService) -> None:
    """--json: the answer, and 1."""
    done = live.client_cli("exec", "asks", "cmd=true", "--json")

    answer = json.loads(done.stdout)
    assert (done.returncode, answer["code"]) == (1, "needs-confirmation")
    assert live.client_cli("confirm", "reject", answer["confirmation"]["id"]).returncode == 0


def test_what_waits_is_listed_for_people_and_for_programs(live: BitongService) -> None:
    """What others wrote cannot move the cursor."""
    waiting = _asked(live, "printf '\x1b[31m'; echo waits")
    over = _asked(live, "echo over")
    live.client_cli("confirm", "reject", over)

    table = live.client_cli("confirm", "list")
    told = json.loads(live.client_cli("confirm", "list", "--json").stdout)["items"]
    everything = json.loads(live.client_cli("confirm", "list", "--state", "all", "--json").stdout)["items"]
    rejected = json.loads(live.client_cli("confirm", "list", "--state", "rejected", "--limit", "1", "--json").stdout)

    assert waiting in table.stdout
    assert "\\u001b[31m" in table.stdout
    assert "\x1b" not in table.stdout
    assert over not in table.stdout
    assert waiting in {item["id"] for item in told}
    assert {item["state"] for item in told} == {"waiting"}
    assert {waiting, over} <= {item["id"] for item in everything}
    assert [item["id"] for item in rejected["items"]] == [over]
    assert live.client_cli("confirm", "list", "--state", "nonsense").returncode == 2


# Answering


def test_approving_prints_and_exits_as_exec_does(live: BitongService) -> None:
    """The run's output, its error, its exit; what ran is said first, on standard error."""
    done = live.client_cli("confirm", "approve", _asked(live, "echo out; echo err >&2; exit 3"), "--yes")

    assert (done.returncode, done.stdout) == (1, "out\n")
    assert "err\n" in done.stderr
    assert "/bin/sh -c 'echo out; echo err >&2; exit 3'" in done.stderr


def test_approving_for_a_program_prints_the_answer_alone(live: BitongService) -> None:
    """And records the reason."""
    confirmation = _asked(live, "echo out")

    done = live.client_cli("confirm", "approve", confirmation, "--yes", "--json", "--reason", "夜间窗口")

    shown = live.get(f"/confirmations/{confirmation}")
    assert (done.returncode, json.loads(done.stdout)["output"]) == (0, "out\n")
    assert (shown["state"], shown["reason"]) == ("approved", "夜间窗口")


def test_without_a_terminal_a_yes_has_to_be_said_outright(live: BitongService) -> None:
    """2, a sentence, and it still waits."""
    confirmation = _asked(live, "true")

    done = live.client_cli("confirm", "approve", confirmation)

    assert (done.returncode, done.stdout, _state(live, confirmation)) == (2, "", "waiting")
    assert "--yes" in done.stderr


@pytest.mark.parametrize("typed", ["", "n", "nonsense"])
def test_at_a_terminal_yes_is_not_the_default(live: BitongService, typed: str) -> None:
    """C5: Enter alone, or a no: 1, and it still waits."""
    confirmation = _asked(live, "true")

    code, out, shown = at_a_terminal(live, "confirm", "approve", confirmation, typed={"[y/N]": typed})

    assert (code, out, _state(live, confirmation)) == (1, b"", "waiting")
    assert "it still waits" in shown


def test_at_a_terminal_all_that_matters_is_read_before_the_question(live: BitongService) -> None:
    """C5: the tool, its version, author and why, the exact words, who asks, until when; then y, and it runs."""
    confirmation = _asked(live, "echo 'it ran'")
    asked = live.get(f"/confirmations/{confirmation}")

    code, out, shown = at_a_terminal(live, "confirm", "approve", confirmation, typed={"[y/N]": "y"})

    before, _, _ = shown.partition("[y/N]")
    said = ("asks", asked["commit"], "ICE-GL-ZY001", "测试需要它。", asked["actor"], asked["expires_at"], "it ran")
    assert [part for part in said if part not in before] == []
    assert (code, out) == (0, b"it ran\n")


def test_what_destroys_is_approved_by_typing_its_name(live: BitongService) -> None:
    """C5: a y is not enough."""
    by_letter, by_name = _asked(live, "echo gone", "destroys"), _asked(live, "echo gone", "destroys")

    refused = at_a_terminal(live, "confirm", "approve", by_letter, typed={"(destroys)": "y"})
    done = at_a_terminal(live, "confirm", "approve", by_name, typed={"(destroys)": "destroys"})

    assert (refused[0], refused[1], _state(live, by_letter)) == (1, b"", "waiting")
    assert (done[0], done[1]) == (0, b"gone\n")
    assert "destructive" in done[2]


def test_rejecting_says_why_and_nothing_runs(live: BitongService) -> None:
    """Whoever follows the run reads it too."""
    confirmation = _asked(live, "echo no")

    done = live.client_cli("confirm", "reject", confirmation, "--reason", "不是现在")

    run = next(item for item in live.items("/runs", tool="asks") if item["confirmation_id"] == confirmation)
    followed = live.client_cli("runs", "tail", run["id"])
    assert (done.returncode, done.stdout) == (0, "")
    assert (live.get(f"/confirmations/{confirmation}")["reason"], run["state"]) == ("不是现在", "refused")
    assert (followed.returncode, followed.stdout) == (1, "")
    assert "confirmation-rejected" in followed.stderr


def test_what_was_answered_before_or_is_not_there_is_1(live: BitongService) -> None:
    """With the service's own sentence; nothing is asked first."""
    confirmation = _asked(live, "true")
    live.client_cli("confirm", "reject", confirmation)

    answers = [
        live.client_cli("confirm", *words)
        for words in (
            ("approve", confirmation, "--yes"),
            ("reject", confirmation),
            ("approve", NOWHERE, "--yes"),
            ("reject", NOWHERE),
        )
    ]

    assert [(done.returncode, done.stdout) for done in answers] == [(1, "")] * 4
    assert "rejected already" in answers[0].stderr
    assert not any("Traceback" in done.stderr for done in answers)


def test_who_may_not_answer_is_told_so(live: BitongService) -> None:
    """C3: without the scope the question of another does not exist; without a token nobody asks, not even here."""
    confirmation = _asked(live, "true")

    lacking = live.client_cli("confirm", "approve", confirmation, "--yes", token=live.token("exec", "read"))
    nobody = live.cli("confirm", "list")

    assert (lacking.returncode, nobody.returncode) == (1, 2)
    assert "--scope exec --scope confirm" in nobody.stderr
    assert _state(live, confirmation) == "waiting"
