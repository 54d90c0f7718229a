"""`Idempotency-Key`: however often a call is sent, it happens once, and each sending gets the one answer."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.calls import Background, Gate, Gates, decide, in_state, leave_after_calling
from tests.harness.definitions import shell_exec_text
from tests.harness.forge import NativeRepo
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, eventually

WORD = {"word": {"type": "string", "default": "寻常"}}
MOST_WAITING = 20
LONGEST_KEY = 200


@dataclass
class Desk:
    """A service, an actor, and tools that leave a mark each time they run."""

    service: BitongService
    repo: NativeRepo
    token: str

    def call(
        self, key: str, tool: str, params: dict[str, Any] | None = None, *, token: str | None = None, **fields: Any
    ) -> httpx.Response:
        """An exact call with a key, as the actor unless another token is given."""
        body = {"tool": tool, "params": params or {}, **fields}
        client = self.service.client(token or self.token)
        return client.post(f"{API}/exec", json=body, headers={"Idempotency-Key": key})

    def refused(self, key: str, tool: str, params: dict[str, Any] | None = None, **fields: Any) -> tuple[int, str]:
        """Status and code of a call."""
        answer = self.call(key, tool, params, **fields)
        return answer.status_code, answer.json()["code"]


@pytest.fixture(scope="module")
def desk(shared_parts: Parts) -> Desk:
    repo = shared_parts.repo()
    repo.write_tool("local-exec", text=shell_exec_text("local-exec", executor="shell"))
    repo.write_tool("say", command=["printf", "%s", "{word}"], params_schema=WORD)
    repo.write_tool("say-too", command=["printf", "%s", "{word}"], params_schema=WORD)
    repo.write_tool(
        "hides", command=["wc", "-c"], params_schema={"stdin": {"type": "string", "required": True, "secret": True}}
    )
    repo.write_tool(
        "asks", command=["printf", "%s", "{word}"], params_schema=WORD, constraints={"require_confirm": True}
    )
    repo.commit()
    repo.push()
    service = shared_parts.service(repo)
    return Desk(service, repo, service.token("exec"))


@dataclass
class Marks:
    """A command that leaves a line each time it runs, and waits at a gate if there is one."""

    path: Path
    gate: Gate | None = None

    @property
    def params(self) -> dict[str, str]:
        """The parameters of the tool that runs a command."""
        return {"cmd": f"echo x >> {self.path}; {self.gate.cmd if self.gate else 'echo through'}"}

    @property
    def count(self) -> int:
        """How often it ran."""
        return len(self.path.read_text().splitlines()) if self.path.exists() else 0


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return Marks(tmp_path / "marks")


@pytest.fixture
def gated(tmp_path: Path) -> Any:
    gates = Gates(tmp_path)
    yield Marks(tmp_path / "marks", gates.new())
    gates.close()


# The same call again


def test_a_call_sent_again_with_its_key_gets_the_same_answer_and_runs_once(desk: Desk, marks: Marks) -> None:
    """M8: the same run, with the same receipt."""
    first = desk.call("again", "local-exec", marks.params)
    second = desk.call("again", "local-exec", marks.params)

    assert first.status_code == second.status_code == 200
    assert first.json()["output"] == second.json()["output"] == "through\n"
    assert first.json()["run"]["id"] == second.json()["run"]["id"]
    assert first.json()["receipt"]["leaf"] == second.json()["receipt"]["leaf"]
    assert list(second.json())[:6] == list(first.json())[:6]
    assert marks.count == 1


def test_without_a_key_a_call_sent_again_is_another_call(desk: Desk, marks: Marks) -> None:
    """Only who asks for it gets it."""
    for _ in range(2):
        desk.service.run("local-exec", marks.params, token=desk.token)

    assert marks.count == 2


def test_a_failure_is_an_answer_as_well(desk: Desk, marks: Marks) -> None:
    """What failed is not tried again by us."""
    params = {"cmd": f"{marks.params['cmd']}; exit 3"}

    told = [desk.call("fails", "local-exec", params).json() for _ in range(2)]

    assert [(one["code"], one["run"]["exit_code"]) for one in told] == [("failed", 3)] * 2
    assert told[0]["run"]["id"] == told[1]["run"]["id"]
    assert marks.count == 1


def test_calls_at_the_same_moment_start_one_run_and_all_get_its_answer(desk: Desk, gated: Marks) -> None:
    """M8: those that come while it runs wait for it."""
    with Background(desk.service) as background:
        calls = [background.exec(desk.token, "local-exec", gated.params, key="at once") for _ in range(12)]
        eventually(lambda: gated.count)
        gated.gate.open()
    told = [call.result() for call in calls]

    assert Counter((answer.status_code, answer.json()["output"]) for answer in told) == {(200, "through\n"): 12}
    assert len({answer.json()["run"]["id"] for answer in told}) == 1
    assert gated.count == 1


def test_a_repeat_waits_for_the_run_that_nobody_waited_for(desk: Desk, gated: Marks) -> None:
    """How long one waits is not what the call is."""
    accepted = desk.call("waits", "local-exec", gated.params, wait=False)
    again = desk.call("waits", "local-exec", gated.params, wait=False)
    with Background(desk.service) as background:
        repeat = background.exec(desk.token, "local-exec", gated.params, key="waits")
        gated.gate.open()

    answer = repeat.result()
    assert (accepted.status_code, again.status_code, answer.status_code) == (202, 202, 200)
    assert answer.json()["output"] == "through\n"
    assert len({told.json()["run"]["id"] for told in (accepted, again, answer)}) == 1
    assert gated.count == 1


def test_who_went_away_gets_the_answer_by_asking_again(desk: Desk, gated: Marks) -> None:
    """The run went on without its caller; the repeat finds what became of it."""
    body = {"tool": "local-exec", "params": gated.params}
    leave_after_calling(desk.service, desk.token, body, **{"Idempotency-Key": "vanished"})
    eventually(lambda: gated.count)
    gated.gate.open()
    eventually(lambda: not desk.service.items("/runs", state="started"))

    answer = desk.call("vanished", "local-exec", gated.params)

    assert (answer.status_code, answer.json()["output"]) == (200, "through\n")
    assert gated.count == 1


def test_after_the_end_of_the_service_a_repeat_gets_what_became_of_its_call(
    desk: Desk, marks: Marks, tmp_path: Path
) -> None:
    """R8: an answer from before; of a run that the service did not survive, that it was interrupted; neither runs again."""
    cut = Marks(tmp_path / "cut")
    before = desk.call("before", "local-exec", marks.params).json()
    params = {"cmd": f"{cut.params['cmd']}; sleep 30"}
    run = desk.call("cut", "local-exec", params, wait=False).json()["run"]["id"]
    eventually(lambda: cut.count)

    desk.service.kill()
    desk.service.start()

    after, interrupted = desk.call("before", "local-exec", marks.params), desk.call("cut", "local-exec", params)
    assert (after.status_code, after.json()["output"]) == (200, "through\n")
    assert after.json()["run"]["id"] == before["run"]["id"]
    assert (interrupted.status_code, interrupted.json()["code"]) == (200, "interrupted")
    assert interrupted.json()["run"]["id"] == run
    assert (marks.count, cut.count) == (1, 1)


def test_a_repeat_after_a_new_version_gets_the_old_answer(desk: Desk) -> None:
    """The call happened; that the tool has changed since does not make it happen again."""
    desk.repo.write_tool("changes", command=["echo", "one"])
    desk.repo.commit()
    desk.service.push(desk.repo)
    first = desk.call("older", "changes").json()
    desk.repo.write_tool("changes", command=["echo", "two"])
    desk.repo.commit()
    desk.service.push(desk.repo)

    again, other = desk.call("older", "changes"), desk.call("newer", "changes")

    assert (again.status_code, again.json()["run"]["id"]) == (200, first["run"]["id"])
    assert (again.json()["output"], again.json()["definition"]["version"]) == ("one\n", 1)
    assert (other.json()["output"], other.json()["definition"]["version"]) == ("two\n", 2)


def test_parameters_are_the_same_when_they_are_after_their_defaults(desk: Desk) -> None:
    """A default that is written out is no other call."""
    one = desk.call("default", "say", {}).json()
    two = desk.call("default", "say", {"word": "寻常"}).json()

    assert one["output"] == two["output"] == "寻常"
    assert one["run"]["id"] == two["run"]["id"]


# Another call


@pytest.mark.parametrize(
    ("tool", "params", "fields"),
    [
        ("say", {"word": "别的"}, {}),
        ("say-too", {}, {}),
        ("say", {}, {"timeout_ms": 1000}),
        ("say", {}, {"version": 1}),
    ],
)
def test_a_key_of_one_call_does_not_serve_another(
    desk: Desk, tool: str, params: dict[str, Any], fields: dict[str, Any]
) -> None:
    """M8: tool, parameters, demand and time limit; 409, recorded as a refused run, and the first stands."""
    key = f"taken-{tool}-{params}-{fields}".encode("ascii", "replace").decode()
    first = desk.call(key, "say", {}).json()

    other = desk.call(key, tool, params, **fields)

    assert (other.status_code, other.json()["code"]) == (409, "key-reused")
    assert desk.service.get(f"/runs/{other.json()['run']['id']}")["state"] == "refused"
    assert other.json()["run"]["id"] != first["run"]["id"]
    assert desk.call(key, "say", {}).json()["run"]["id"] == first["run"]["id"]


def test_secrets_are_compared_without_being_kept(desk: Desk) -> None:
    """M7: the same secret is the same call, another one another; neither is on the disk."""
    one, other = "s3cr3t-with-a-key", "s3cr3t-of-another-call"

    first = desk.call("secret", "hides", {"stdin": one})
    again = desk.call("secret", "hides", {"stdin": one})
    reused = desk.call("secret", "hides", {"stdin": other})

    assert first.json()["output"].strip() == str(len(one))
    assert again.json()["run"]["id"] == first.json()["run"]["id"]
    assert (reused.status_code, reused.json()["code"]) == (409, "key-reused")
    assert desk.service.files_with(b"s3cr3t-") == []


def test_a_key_belongs_to_an_actor(desk: Desk, marks: Marks) -> None:
    """R14: another's same key is another call; so is that of a token made again under the same name."""
    first, other = desk.service.actor("key-owner", "exec"), desk.service.actor("key-other", "exec")
    runs = [desk.call("shared", "local-exec", marks.params, token=token).json() for token in (first, other)]
    desk.service.revoke("key-owner")
    again = desk.service.actor("key-owner", "exec")
    runs.append(desk.call("shared", "local-exec", marks.params, token=again).json())

    eventually(lambda: desk.call("shared", "local-exec", marks.params, token=first).status_code == 401, within_s=5)
    assert len({run["run"]["id"] for run in runs}) == 3
    assert marks.count == 3


# What is kept


def test_a_refused_call_is_kept(desk: Desk) -> None:
    """It made a run: a repeat is refused by the same one, and the corrected call needs another key."""
    first, second = (desk.call("refused", "say", {"word": 5}) for _ in range(2))

    assert (first.status_code, second.status_code) == (422, 422)
    assert first.json()["run"]["id"] == second.json()["run"]["id"]
    assert first.json()["problems"] == second.json()["problems"] != []
    assert desk.refused("refused", "say", {"word": "5"}) == (409, "key-reused")


def test_a_call_of_an_unknown_tool_is_not_kept(desk: Desk) -> None:
    """404 made no run: once the tool is there, the same key runs it, and with other parameters too."""
    assert desk.refused("early", "comes-later") == (404, "unknown-tool")
    desk.repo.write_tool("comes-later")
    desk.repo.commit()
    desk.service.push(desk.repo)

    answer = desk.call("early", "comes-later")
    assert (answer.status_code, answer.json()["output"]) == (200, "comes-later\n")


def test_a_call_that_came_when_it_was_busy_is_not_kept(desk: Desk) -> None:
    """429 made no run: the same key asks as soon as there is room."""
    keen = desk.service.actor("keen", "exec")
    waiting = [desk.service.exec("asks", token=keen).json()["confirmation"]["id"] for _ in range(MOST_WAITING)]
    busy = desk.call("busy", "asks", token=keen)
    decide(desk.service, waiting[0], "reject")

    later = desk.call("busy", "asks", token=keen)

    assert (busy.status_code, busy.json()["code"]) == (429, "busy")
    assert (later.status_code, later.json()["code"]) == (202, "needs-confirmation")
    for id in (*waiting[1:], later.json()["confirmation"]["id"]):
        decide(desk.service, id, "reject")


def test_rights_are_looked_at_before_the_key(desk: Desk) -> None:
    """Who may not run it any more gets no answer of before."""
    token = desk.service.actor("leaving-with-a-key", "exec")
    assert desk.call("rights", "say", token=token).status_code == 200
    desk.service.revoke("leaving-with-a-key")

    eventually(lambda: desk.call("rights", "say", token=token).status_code == 401, within_s=5)


@pytest.mark.parametrize(("length", "status"), [(LONGEST_KEY, 200), (LONGEST_KEY + 1, 400)])
def test_a_key_has_at_most_two_hundred_characters(desk: Desk, length: int, status: int) -> None:
    """A longer one is a bad request; none is cut short, as two could become one."""
    runs = len(desk.service.items("/runs"))

    answer = desk.call("k" * length, "say")

    assert answer.status_code == status
    assert answer.json().get("code") == (None if status == 200 else "bad-request")
    assert len(desk.service.items("/runs")) - runs == (1 if status == 200 else 0)


def test_the_record_holds_a_keys_hash(desk: Desk) -> None:
    """`key_hash` of `run.started`: null without a key, else lower-case hex, and another for another key."""
    with_key = [desk.call(key, "say").json()["run"]["id"] for key in ("one-key", "two-keys")]
    without = desk.service.run("say", token=desk.token)["run"]["id"]

    hashes = [desk.service.facts("run.started", run=run)[0]["key_hash"] for run in (*with_key, without)]

    assert hashes[2] is None
    assert hashes[0] != hashes[1]
    assert all(len(bytes.fromhex(digest)) == 32 for digest in hashes[:2])


# A question with a key


def test_a_repeat_of_a_call_that_asks_gets_the_present_state_of_its_question(desk: Desk) -> None:
    """One question: waiting at first, then what the approved run gave."""
    asked = desk.call("asks", "asks", {"word": "问"}).json()
    again = desk.call("asks", "asks", {"word": "问"})
    decide(desk.service, asked["confirmation"]["id"], "approve")

    answered = desk.call("asks", "asks", {"word": "问"})

    assert (again.status_code, again.json()["code"]) == (202, "needs-confirmation")
    assert again.json()["confirmation"] == asked["confirmation"]
    assert (answered.status_code, answered.json()["output"]) == (200, "问")
    assert answered.json()["run"]["id"] == asked["run"]["id"] == again.json()["run"]["id"]
    assert len(desk.service.facts("confirmation.requested", run=asked["run"]["id"])) == 1


def test_a_repeat_of_a_rejected_call_is_refused_and_asks_nobody_again(desk: Desk) -> None:
    """No is an answer too."""
    asked = desk.call("rejected", "asks").json()
    decide(desk.service, asked["confirmation"]["id"], "reject")
    questions = len(desk.service.items("/confirmations"))

    again = desk.call("rejected", "asks")

    assert (again.status_code, again.json()["code"]) == (409, "confirmation-rejected")
    assert again.json()["run"]["id"] == asked["run"]["id"]
    assert len(desk.service.items("/confirmations")) == questions


def test_questions_at_the_same_moment_with_one_key_are_one_question(desk: Desk) -> None:
    """Else one of two could be approved and the other rejected."""
    with Background(desk.service) as background:
        calls = [background.exec(desk.token, "asks", {}, key="one question") for _ in range(8)]
    told = [call.result().json() for call in calls]

    assert len({one["confirmation"]["id"] for one in told}) == 1
    assert in_state(desk.service, told[0]["run"]["id"], "awaiting_confirmation")
    decide(desk.service, told[0]["confirmation"]["id"], "reject")


def test_an_approval_through_a_key_runs_once_for_all_who_repeat(desk: Desk) -> None:
    """A repeat that comes while the approved run goes on waits for it."""
    asked = desk.call("approved once", "asks", {"word": "一次"}).json()
    with Background(desk.service) as background:
        path = f"{API}/confirmations/{asked['confirmation']['id']}"
        approval = background.post(desk.service.token("exec", "confirm"), path, {"decision": "approve"})
        repeats = [background.exec(desk.token, "asks", {"word": "一次"}, key="approved once") for _ in range(6)]
    answers = [call.result() for call in (approval, *repeats)]

    assert {answer.json()["run"]["id"] for answer in answers} == {asked["run"]["id"]}
    assert {answer.status_code for answer in answers} <= {200, 202}
    assert len(desk.service.facts("run.started", run=asked["run"]["id"])) == 1


def test_a_mended_call_is_not_held_to_its_own_mistake(desk: Desk, marks: Marks) -> None:
    """M16: an unknown field is no part of what a key stands for, so its refusal does not stand for seven days."""
    wrong = desk.call("mended", "local-exec", marks.params, timout_ms=5)
    right = desk.call("mended", "local-exec", marks.params)
    wrong_again = desk.call("mended", "local-exec", marks.params, timout_ms=5)

    assert [wrong.status_code, right.status_code, wrong_again.status_code] == [422, 200, 422]
    assert marks.count == 1
