"""Tools that run once somebody has confirmed them: who may see and answer a question, and how it ends."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.calls import Background, Gate, ask, decide, in_state
from tests.harness.definitions import shell_exec_text
from tests.harness.forge import NativeRepo
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, eventually, free_port

ASKS: dict[str, Any] = {"constraints": {"require_confirm": True}}
WORD = {"word": {"type": "string", "required": True}}
SIX = ["ok", "tool", "method", "output", "error", "duration_ms"]
UNKNOWN = "01900000-0000-7000-8000-000000000000"
MOST_WAITING = 20
TTL_S = 2
QUESTION = {
    *("id", "expires_at", "tool", "version", "commit", "sha256", "params_digest", "display", "why", "preview"),
}
ITEM = {
    *("id", "state", "tool", "version", "commit", "sha256", "params", "params_digest", "preview", "actor", "asked_at"),
    *("expires_at", "answered_by", "answered_at", "reason", "self"),
}


@dataclass
class Desk:
    """A service with tools that ask first, and three people: who asks, who answers, and who does neither."""

    service: BitongService
    repo: NativeRepo
    asker: str
    answerer: str
    other: str

    def ask(self, tool: str = "asks", params: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        """A question of the asker's."""
        given = {"word": "x"} if params is None and tool == "asks" else params
        return ask(self.service, tool, given, **{"token": self.asker, **fields})

    def decide(self, told: dict[str, Any], decision: str, *, token: str | None = None) -> httpx.Response:
        """The answerer's decision."""
        return decide(self.service, told["confirmation"]["id"], decision, token=token or self.answerer)

    def look(self, told: dict[str, Any]) -> dict[str, Any]:
        """The question as it is now."""
        found: dict[str, Any] = self.service.get(f"/confirmations/{told['confirmation']['id']}")
        return found

    def run(self, told: dict[str, Any]) -> dict[str, Any]:
        """The run that waits for it, as it is now."""
        found: dict[str, Any] = self.service.get(f"/runs/{told['run']['id']}")
        return found

    def facts(self, kind: str, told: dict[str, Any]) -> list[dict[str, Any]]:
        """What the record says of it."""
        name = "confirmation" if kind.startswith("confirmation") else "run"
        return self.service.facts(kind, **{name: told[name]["id"]})

    def new_tool(self, name: str, **fields: Any) -> None:
        """A tool that asks first, registered."""
        self.repo.write_tool(name, **{**ASKS, **fields})
        self.repo.commit()
        self.service.push(self.repo)


@pytest.fixture(scope="module")
def desk(shared_parts: Parts) -> Desk:
    repo = shared_parts.repo()
    repo.write_tool("asks", command=["printf", "%s", "{word}"], params_schema=WORD, **ASKS)
    repo.write_tool("local-exec", text=shell_exec_text("local-exec", executor="shell"))
    repo.write_tool("asks-shell", text=shell_exec_text("asks-shell", executor="shell", **ASKS))
    repo.write_tool(
        "asks-secret",
        command=["wc", "-c"],
        params_schema={"stdin": {"type": "string", "required": True, "secret": True, "max_length": 64}},
        **ASKS,
    )
    repo.write_tool(
        "asks-far",
        executor="hlpd-api",
        method="POST /personas/{persona}/notes",
        params_schema={"persona": {"type": "string", "required": True}, "key": {"type": "string", "secret": True}},
        **ASKS,
    )
    repo.commit()
    repo.push()
    service = shared_parts.service(repo, hlpd_api_url=f"http://127.0.0.1:{free_port()}/hlpd")
    asker, answerer, other = service.token("exec"), service.token("exec", "confirm"), service.token("exec", "read")
    return Desk(service, repo, asker, answerer, other)


@pytest.fixture(scope="module")
def strict(shared_parts: Parts, desk: Desk) -> Desk:
    service = shared_parts.service(desk.repo, confirmation_ttl_s=TTL_S, confirm_self=False, max_runs_per_token=1)
    asker = service.token("exec", "confirm")
    return Desk(service, desk.repo, asker, service.token("exec", "confirm", tools=("*",)), asker)


# Asking


def test_a_tool_that_asks_first_answers_with_the_question_and_nothing_runs(desk: Desk, tmp_path: Path) -> None:
    """202, the six fields first, `confirmation` with its fields, and a run that waits."""
    mark = tmp_path / "ran"

    told = desk.ask("asks-shell", {"cmd": f"touch {mark}"})

    active = desk.service.tools()["asks-shell"]["definition"]
    question, run = told["confirmation"], desk.run(told)
    assert list(told)[:6] == SIX
    assert (told["ok"], told["tool"], told["method"]) == (False, "asks-shell", "shell:exec")
    assert (told["output"], told["duration_ms"]) == ("", 0)
    assert set(question) == QUESTION
    assert {name: question[name] for name in ("version", "commit", "sha256")} == {
        name: active[name] for name in ("version", "commit", "sha256")
    }
    assert (run["state"], run["confirmation_id"], run["started_at"]) == ("awaiting_confirmation", question["id"], None)
    assert not mark.exists()
    assert desk.decide(told, "reject").status_code == 200
    assert not mark.exists()


def test_wait_false_asks_as_well(desk: Desk) -> None:
    """Not to wait for an answer is no way around a question."""
    told = desk.ask("asks", {"word": "x"}, wait=False)

    assert desk.run(told)["state"] == "awaiting_confirmation"
    desk.decide(told, "reject")


@pytest.mark.parametrize(
    ("tool", "params", "preview"),
    [
        ("asks", {"word": "a b'$(x)"}, {"argv": ["printf", "%s", "a b'$(x)"]}),
        ("asks-shell", {"cmd": "echo 笔 | cat"}, {"argv": ["/bin/sh", "-c", "echo 笔 | cat"]}),
    ],
)
def test_the_preview_is_the_argument_vector_that_will_run(
    desk: Desk, tool: str, params: dict[str, Any], preview: dict[str, Any]
) -> None:
    """Who answers sees what the executor will send, not what the caller says of it."""
    told = desk.ask(tool, params)

    assert {name: told["confirmation"]["preview"][name] for name in preview} == preview
    assert desk.look(told)["preview"] == told["confirmation"]["preview"]
    desk.decide(told, "reject")


def test_the_preview_of_a_call_to_an_api_is_its_verb_and_url_without_secrets(desk: Desk) -> None:
    """The slots filled as they will be sent."""
    secret = "s3cr3t-of-a-body"

    told = desk.ask("asks-far", {"persona": "铸 渊", "key": secret})

    shown = str(told["confirmation"]["preview"])
    assert "POST" in shown
    assert f"{desk.service.settings['hlpd_api_url']}/personas/%E9%93%B8%20%E6%B8%8A/notes" in shown
    assert secret not in desk.service.admin.get(f"{API}/confirmations/{told['confirmation']['id']}").text + str(told)
    assert desk.look(told)["params"]["persona"] == "铸 渊"
    desk.decide(told, "reject")


def test_what_would_be_refused_is_refused_before_anybody_is_asked(desk: Desk) -> None:
    """422 and 409 make a refused run and no question."""
    before = len(desk.service.items("/confirmations"))

    bad = desk.service.exec("asks", {}, token=desk.asker)
    other = desk.service.exec("asks", {"word": "x"}, token=desk.asker, version=99)

    assert (bad.status_code, bad.json()["code"]) == (422, "bad-parameters")
    assert (other.status_code, other.json()["code"]) == (409, "not-active")
    assert len(desk.service.items("/confirmations")) == before


# Answering


def test_an_approved_call_runs_and_answers_as_exec_does(desk: Desk) -> None:
    """The six fields first, the run that waited, its receipt; the record ties the run to the question."""
    told = desk.ask("asks", {"word": "笔筒"})

    answer = desk.decide(told, "approve")

    said = answer.json()
    assert (answer.status_code, list(said)[:6]) == (200, SIX)
    assert (said["ok"], said["output"], said["error"]) == (True, "笔筒", None)
    assert (said["run"]["id"], said["run"]["state"]) == (told["run"]["id"], "succeeded")
    assert desk.service.entry(said["receipt"]["index"])["facts"]["run"] == told["run"]["id"]
    (started,) = desk.facts("run.started", told)
    assert started["confirmation"] == told["confirmation"]["id"]
    assert started["params_digest"] == told["confirmation"]["params_digest"]


def test_an_approved_call_that_fails_says_so_as_exec_does(desk: Desk) -> None:
    """200, `ok` false, its code and its words; what ran is not the question's failure."""
    answer = desk.decide(desk.ask("asks-shell", {"cmd": "echo no >&2; exit 3"}), "approve")

    said = answer.json()
    assert (answer.status_code, said["ok"], said["code"]) == (200, False, "failed")
    assert (said["error"], said["run"]["exit_code"]) == ("no\n", 3)


def test_a_rejected_call_never_runs_and_the_answer_is_the_confirmation(desk: Desk, tmp_path: Path) -> None:
    """200; its run is refused, with a reason and an entry of its own."""
    mark = tmp_path / "ran"
    told = desk.ask("asks-shell", {"cmd": f"touch {mark}"})

    answer = desk.decide(told, "reject")

    said, run = answer.json(), desk.run(told)
    assert answer.status_code == 200
    assert said == desk.look(told)
    assert set(said) == ITEM
    assert (said["state"], said["reason"], said["self"]) == ("rejected", "reject，试", False)
    assert (run["state"], run["reason"]) == ("refused", "confirmation-rejected")
    assert len(desk.facts("run.refused", told)) == 1
    assert desk.facts("run.started", told) == desk.facts("run.finished", told) == []
    assert not mark.exists()


@pytest.mark.parametrize(("decision", "kind"), [("approve", "approved"), ("reject", "rejected")])
def test_the_record_names_who_asked_and_who_answered(desk: Desk, decision: str, kind: str) -> None:
    """`confirmation.requested` and the answer, with all the facts audit.md names; `self` is false for two."""
    told = desk.ask()
    desk.decide(told, decision)

    (asked,), (answered,) = desk.facts("confirmation.requested", told), desk.facts(f"confirmation.{kind}", told)
    row, question = desk.look(told), told["confirmation"]
    common = {"run": told["run"]["id"], "tool": "asks", "version": 1, "params_digest": question["params_digest"]}
    assert common.items() <= asked.items()
    assert common.items() <= answered.items()
    assert asked["asker"] == answered["asker"] == asked["actor"] == row["actor"]
    assert answered["answerer"] == answered["actor"] == row["answered_by"]
    assert answered["answerer"] != answered["asker"]
    assert (row["state"], answered["self"], row["self"]) == (kind, False, False)
    assert row["asked_at"] <= row["answered_at"] < row["expires_at"]


def test_who_answers_an_own_question_is_recorded_as_one_and_the_same(desk: Desk) -> None:
    """`self: true`, in the record and in the list."""
    told = desk.ask(token=desk.answerer)

    assert desk.decide(told, "approve").status_code == 200

    (answered,) = desk.facts("confirmation.approved", told)
    assert (answered["self"], answered["asker"]) == (True, answered["answerer"])
    assert desk.look(told)["self"] is True


def test_where_nobody_may_confirm_an_own_call_another_must(strict: Desk) -> None:
    """`confirm_self = false`: the own answer is forbidden and leaves the question as it was."""
    told = strict.ask()

    own = strict.decide(told, "approve", token=strict.asker)
    other = strict.decide(told, "approve")

    assert (own.status_code, other.status_code) == (403, 200)
    assert other.json()["output"] == "x"
    (answered,) = strict.facts("confirmation.approved", told)
    assert answered["self"] is False


@pytest.mark.parametrize("first", ["approve", "reject"])
@pytest.mark.parametrize("second", ["approve", "reject"])
def test_a_question_is_answered_once(desk: Desk, tmp_path: Path, first: str, second: str) -> None:
    """409 with the state it is in; nothing runs again and the first answer stands."""
    marks = tmp_path / "marks"
    told = desk.ask("asks-shell", {"cmd": f"echo x >> {marks}"})
    desk.decide(told, first)
    before = desk.look(told)

    answer = desk.decide(told, second)

    state = {"approve": "approved", "reject": "rejected"}[first]
    assert (answer.status_code, answer.json()["code"]) == (409, f"confirmation-{state}")
    assert desk.look(told) == before
    assert (marks.read_text() if marks.exists() else "") == ("x\n" if first == "approve" else "")


@pytest.mark.parametrize("decisions", [("approve",) * 6, ("approve", "reject") * 3])
def test_of_answers_at_the_same_moment_exactly_one_counts(
    desk: Desk, tmp_path: Path, decisions: tuple[str, ...]
) -> None:
    """One transaction decides: one 200, the others 409, and the tool ran once or never."""
    marks, start = tmp_path / "marks", threading.Barrier(len(decisions))
    told = desk.ask("asks-shell", {"cmd": f"echo x >> {marks}; sleep 0.2"})
    path, headers = f"{API}/confirmations/{told['confirmation']['id']}", {"Authorization": f"Bearer {desk.answerer}"}

    def answer(decision: str) -> tuple[int, str]:
        with httpx.Client(base_url=desk.service.url, trust_env=False, timeout=30) as client:
            start.wait()
            return client.post(path, json={"decision": decision}, headers=headers).status_code, decision

    with ThreadPoolExecutor(len(decisions)) as threads:
        answers = list(threads.map(answer, decisions))

    assert Counter(status for status, _ in answers) == {200: 1, 409: len(decisions) - 1}
    won = next(decision for status, decision in answers if status == 200)
    assert (marks.read_text() if marks.exists() else "") == ("x\n" if won == "approve" else "")
    answered = desk.facts("confirmation.approved", told) + desk.facts("confirmation.rejected", told)
    assert len(answered) == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"decision": "yes"}', b'{"decision": null}', b"{"])
def test_what_is_no_decision_decides_nothing(desk: Desk, body: bytes) -> None:
    """Neither yes nor no: an error of the caller's, and the question waits on."""
    told = desk.ask()
    path = f"{API}/confirmations/{told['confirmation']['id']}"

    answer = desk.service.client(desk.answerer).post(path, content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code in (400, 422)
    assert desk.look(told)["state"] == "waiting"
    desk.decide(told, "reject")


# Who may see a question, and who may answer it


def test_a_question_is_seen_by_who_asked_and_by_who_may_answer(desk: Desk) -> None:
    """For another token with `exec` alone it is not there: the bytes of one that never was."""
    told = desk.ask()
    path = f"{API}/confirmations/{told['confirmation']['id']}"
    never = desk.service.client(desk.other).get(f"{API}/confirmations/{UNKNOWN}")

    assert set(_ids(desk, desk.asker)) & set(_ids(desk, desk.answerer)) >= {told["confirmation"]["id"]}
    assert desk.service.client(desk.asker).get(path).json() == desk.look(told)
    hidden = desk.service.client(desk.other).get(path)
    assert (hidden.status_code, never.status_code) == (404, 404)
    assert hidden.content.replace(told["confirmation"]["id"].encode(), UNKNOWN.encode()) == never.content
    assert told["confirmation"]["id"] not in _ids(desk, desk.other)
    desk.decide(told, "reject")


def _ids(desk: Desk, token: str) -> list[str]:
    answer = desk.service.client(token).get(f"{API}/confirmations", params={"limit": 1000})
    assert answer.status_code == 200
    return [row["id"] for row in answer.json()["items"]]


def test_a_question_of_a_tool_outside_the_answerers_patterns_does_not_exist(desk: Desk) -> None:
    """C3, R13: seeing and answering it give byte for byte what an unknown one gives; inside them it is there."""
    told = desk.ask()
    id = told["confirmation"]["id"]
    narrow = desk.service.client(desk.service.token("exec", "confirm", tools=("asks-*",)))

    for method, body in (("GET", None), ("POST", {"decision": "approve"})):
        hidden = narrow.request(method, f"{API}/confirmations/{id}", json=body)
        never = narrow.request(method, f"{API}/confirmations/{UNKNOWN}", json=body)
        assert (hidden.status_code, never.status_code) == (404, 404)
        assert hidden.content.replace(id.encode(), UNKNOWN.encode()) == never.content
        assert set(hidden.headers) == set(never.headers)
    assert id not in narrow.get(f"{API}/confirmations", params={"limit": 1000}).text
    assert desk.look(told)["state"] == "waiting"
    assert desk.decide(told, "reject", token=desk.service.token("exec", "confirm", tools=("ask?",))).is_success


@pytest.mark.parametrize(
    ("scopes", "statuses"),
    [
        ((), {401}),
        (("read",), {403}),
        (("exec",), {403}),
        (("read", "exec", "admin"), {403}),
        (("confirm",), {403, 404}),
        (("confirm", "admin"), {403, 404}),
    ],
)
def test_answering_takes_both_confirm_and_exec(desk: Desk, scopes: tuple[str, ...], statuses: set[int]) -> None:
    """Also for who asked, and whatever else a token may do."""
    told = desk.ask(**({"token": desk.service.token(*scopes)} if "exec" in scopes else {}))
    client = desk.service.client(desk.service.token(*scopes) if scopes else None)

    answer = client.post(f"{API}/confirmations/{told['confirmation']['id']}", json={"decision": "approve"})

    assert answer.status_code in statuses
    assert desk.look(told)["state"] == "waiting"
    desk.decide(told, "reject")


# How a question ends without an answer


def test_a_question_nobody_answers_expires_and_its_run_is_refused(strict: Desk) -> None:
    """By its time alone, without anybody looking; then an answer is 409. Recorded once."""
    told = strict.ask()

    run = in_state(strict.service, told["run"]["id"], within_s=TTL_S + 5)

    late = strict.decide(told, "approve")
    (expired,) = strict.facts("confirmation.expired", told)
    assert (run["state"], run["reason"]) == ("refused", "confirmation-expired")
    assert (late.status_code, late.json()["code"]) == (409, "confirmation-expired")
    assert strict.look(told)["state"] == "expired"
    assert _seconds(strict.look(told)["asked_at"], strict.look(told)["expires_at"]) == TTL_S
    assert (expired["asker"], expired["answerer"]) == (strict.look(told)["actor"], None)
    assert len(strict.facts("run.refused", told)) == 1
    assert strict.facts("run.started", told) == []


def test_a_yes_is_good_for_as_long_as_its_question(strict: Desk, tmp_path: Path) -> None:
    """What then waits in the queue past that time is refused when its turn comes: all of it is looked at again."""
    gate = Gate(tmp_path / "gate")
    strict.service.exec("local-exec", {"cmd": gate.cmd}, token=strict.asker, wait=False)
    told = strict.ask()
    path = f"{API}/confirmations/{told['confirmation']['id']}"
    with Background(strict.service) as background:
        waiting = background.post(strict.answerer, path, {"decision": "approve"})
        in_state(strict.service, told["run"]["id"], "queued")
        time.sleep(TTL_S + 0.5)
        gate.open()

    answer = waiting.result()
    assert (answer.status_code, answer.json()["code"]) == (409, "confirmation-expired")
    assert (strict.run(told)["state"], strict.run(told)["reason"]) == ("refused", "confirmation-expired")
    assert strict.facts("run.started", told) == []
    eventually(lambda: not strict.service.items("/runs", state="started"))


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def _new_version(desk: Desk, name: str) -> None:
    desk.new_tool(name, display="另一个")


def _removal(desk: Desk, name: str) -> None:
    desk.repo.remove_tool(name)
    desk.repo.commit()
    desk.service.push(desk.repo)


def _force_push(desk: Desk, name: str) -> None:
    assert name in desk.service.tools()
    desk.repo.git("reset", "--quiet", "--hard", "HEAD~1")
    desk.service.push(desk.repo, force=True)


@pytest.mark.parametrize("change", [_new_version, _removal, _force_push])
def test_a_question_is_dropped_when_its_definition_is_no_longer_active(
    desk: Desk, change: Callable[[Desk, str], None]
) -> None:
    """X15: a yes to what was asked is no yes to what would run now."""
    name = f"dropped{change.__name__.replace('_', '-')}"
    desk.new_tool(name)
    told = desk.ask(name)

    change(desk, name)

    run = in_state(desk.service, told["run"]["id"], within_s=10)
    answer = desk.decide(told, "approve")
    assert (run["state"], run["reason"]) == ("refused", "confirmation-dropped")
    assert desk.look(told)["state"] == "dropped"
    assert (answer.status_code, answer.json()["code"]) == (409, "definition-changed")
    assert len(desk.facts("confirmation.dropped", told)) == len(desk.facts("run.refused", told)) == 1
    assert desk.facts("run.started", told) == []


def test_a_question_of_an_unchanged_tool_outlives_a_push(desk: Desk) -> None:
    """What others push is no reason to ask again."""
    told = desk.ask()
    desk.new_tool("pushed-beside")

    answer = desk.decide(told, "approve")

    assert (answer.status_code, answer.json()["output"]) == (200, "x")


def test_a_question_is_dropped_when_the_askers_token_is_revoked(desk: Desk) -> None:
    """R14: within a second (five times the slack); a token made again under the name is another actor."""
    told = desk.ask(token=desk.service.actor("leaving-asker", "exec"))

    desk.service.revoke("leaving-asker")

    eventually(lambda: desk.look(told)["state"] == "dropped", within_s=5)
    answer, again = desk.decide(told, "approve"), desk.service.actor("leaving-asker", "exec")
    assert (answer.status_code, answer.json()["code"]) == (409, "rights-ended")
    assert (desk.run(told)["state"], desk.run(told)["reason"]) == ("refused", "confirmation-dropped")
    assert len(desk.facts("confirmation.dropped", told)) == 1
    assert desk.service.client(again).get(f"{API}/confirmations/{told['confirmation']['id']}").status_code == 404


def test_a_question_of_a_cancelled_run_is_dropped(desk: Desk) -> None:
    """Who asked may take the question back; its run is refused, and nobody can say yes any more."""
    told = desk.ask()
    path = f"{API}/runs/{told['run']['id']}/cancel"

    others = desk.service.client(desk.other).post(path)
    own = desk.service.client(desk.asker).post(path)

    late = desk.decide(told, "approve")
    assert (others.status_code, own.status_code) == (403, 200)
    assert (desk.run(told)["state"], desk.run(told)["reason"]) == ("refused", "cancelled")
    assert desk.look(told)["state"] == "dropped"
    assert (late.status_code, late.json()["code"]) == (409, "confirmation-dropped")
    assert len(desk.facts("confirmation.dropped", told)) == len(desk.facts("run.refused", told)) == 1


def test_a_revoked_answerer_answers_nothing(desk: Desk) -> None:
    """R14: the question waits on for others."""
    told = desk.ask()
    leaving = desk.service.actor("leaving-answerer", "exec", "confirm")
    desk.service.revoke("leaving-answerer")

    eventually(lambda: desk.service.client(leaving).get(f"{API}/confirmations").status_code == 401, within_s=5)
    answer = desk.decide(told, "approve", token=leaving)

    assert answer.status_code == 401
    assert desk.look(told)["state"] == "waiting"
    assert desk.decide(told, "approve").status_code == 200


# How many may wait


def test_one_actor_has_at_most_twenty_questions_waiting(desk: Desk) -> None:
    """C1: the next is 429 with Retry-After and makes no run; others may ask, and so may it after an answer."""
    keen = desk.service.actor("keen", "exec")
    waiting = [desk.ask(token=keen) for _ in range(MOST_WAITING)]
    runs = len(desk.service.items("/runs"))

    refused = [desk.service.exec("asks", {"word": "x"}, token=keen) for _ in range(5)]

    assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(429, "busy")}
    assert all(list(answer.json())[:6] == SIX and int(answer.headers["Retry-After"]) >= 1 for answer in refused)
    assert len(desk.service.items("/runs")) == runs
    waiting.append(desk.ask())
    assert desk.decide(waiting[0], "reject").status_code == 200
    waiting.append(desk.ask(token=keen))
    for told in waiting[1:]:
        desk.decide(told, "reject")


def test_of_questions_asked_at_the_same_moment_no_more_than_twenty_wait(desk: Desk) -> None:
    """C1: counting and asking are one step."""
    keen = desk.service.actor("very-keen", "exec")
    with Background(desk.service) as background:
        calls = [background.exec(keen, "asks", {"word": "x"}) for _ in range(MOST_WAITING + 10)]
    answers = [call.result() for call in calls]

    assert Counter(answer.status_code for answer in answers) == {202: MOST_WAITING, 429: 10}
    for answer in answers:
        if answer.status_code == 202:
            desk.decide(answer.json(), "reject")


# Secrets, and the end of the service


def test_a_secret_of_a_question_is_shown_nowhere_and_reaches_the_tool(desk: Desk) -> None:
    """M7: a keyed hash stands for it where parameters are listed; the tool gets the value itself."""
    secret = "s3cr3t-of-a-question"

    told = desk.ask("asks-secret", {"stdin": secret})
    row = desk.look(told)
    answer = desk.decide(told, "approve")

    shown = [str(told), str(row), str(desk.service.items("/confirmations")), answer.text, desk.service.log_text()]
    assert set(row["params"]) == {"stdin"}
    assert "•••" in str(told["confirmation"]["preview"])
    assert [text for text in shown if secret in text] == []
    assert answer.json()["output"].strip() == str(len(secret))
    assert desk.service.files_with(secret.encode()) == []


@pytest.mark.parametrize("end", [BitongService.kill, BitongService.stop])
def test_a_question_outlives_the_service_but_one_with_a_secret_has_expired(
    desk: Desk, end: Callable[[BitongService], None]
) -> None:
    """C4, S14: what has no secret is approved after the restart; the other says that it expired, and left no byte."""
    secret = f"s3cr3t-at-the-end-by-{end.__name__}"
    plain, hidden = desk.ask("asks", {"word": "之后"}), desk.ask("asks-secret", {"stdin": secret})

    end(desk.service)
    left = desk.service.files_with(secret.encode())
    desk.service.start()

    answer, late = desk.decide(plain, "approve"), desk.decide(hidden, "approve")
    assert left == desk.service.files_with(secret.encode()) == []
    assert (answer.status_code, answer.json()["output"]) == (200, "之后")
    assert (late.status_code, late.json()["code"]) == (409, "confirmation-expired")
    assert desk.look(hidden)["state"] == "expired"
    assert (desk.run(hidden)["state"], desk.run(hidden)["reason"]) == ("refused", "confirmation-expired")
    assert len(desk.facts("confirmation.expired", hidden)) == len(desk.facts("run.refused", hidden)) == 1
    assert desk.facts("confirmation.expired", plain) == []


def test_what_ended_while_the_service_was_away_is_found_at_its_start(desk: Desk) -> None:
    """X15, R14: a definition pushed and a token revoked meanwhile; a yes afterwards starts neither."""
    desk.new_tool("asks-changed-meanwhile")
    changed = desk.ask("asks-changed-meanwhile")
    revoked = desk.ask(token=desk.service.actor("left-meanwhile", "exec"))
    desk.service.stop()
    desk.repo.write_tool("asks-changed-meanwhile", display="另一个", **ASKS)
    desk.repo.commit()
    desk.repo.push()
    desk.service.revoke("left-meanwhile")

    desk.service.start()

    for told, code in ((changed, "definition-changed"), (revoked, "rights-ended")):
        answer = desk.decide(told, "approve")
        assert (answer.status_code, answer.json()["code"]) == (409, code)
        assert (desk.look(told)["state"], desk.run(told)["state"]) == ("dropped", "refused")
        assert len(desk.facts("confirmation.dropped", told)) == len(desk.facts("run.refused", told)) == 1
