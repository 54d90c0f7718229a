"""The seed's own standard of proof (section 4), and the six fields of its receipt (section 2, step 5)."""

from dataclasses import dataclass

import pytest

from tests.harness.definitions import shell_exec_text
from tests.harness.forge import NativeRepo
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, eventually

SIX = ["ok", "tool", "method", "output", "error", "duration_ms"]
SUGGESTION = "此工具尚不在仓库中，需铸渊新建"


@dataclass
class Seed:
    """A service whose repository holds the seed's example twice: once for each executor that runs here."""

    service: BitongService
    repo: NativeRepo


@pytest.fixture(scope="module")
def seed(shared_parts: Parts) -> Seed:
    node = shared_parts.gatekeeper()
    repo = shared_parts.repo()
    repo.write_tool("shell-exec", text=shell_exec_text(executor="gatekeeper"))
    repo.write_tool("local-exec", text=shell_exec_text("local-exec"))
    repo.commit("种子里的例子")
    service = shared_parts.service(repo, **node.settings)
    service.push(repo)
    return Seed(service, repo)


both_executors = pytest.mark.parametrize(
    ("tool", "method"), [("shell-exec", "gatekeeper:exec"), ("local-exec", "shell:exec")]
)


@both_executors
def test_a_tool_in_the_repository_is_found_and_its_output_comes_back(seed: Seed, tool: str, method: str) -> None:
    """Section 4, first example: shell-exec is there, `echo hello` gives hello."""
    answer = seed.service.exec(tool, {"cmd": "echo hello"})

    told = answer.json()
    assert answer.status_code == 200
    assert list(told)[:6] == SIX
    assert (told["ok"], told["tool"], told["method"], told["output"], told["error"]) == (
        True,
        tool,
        method,
        "hello\n",
        None,
    )
    assert isinstance(told["duration_ms"], int)
    assert told["found"] is True
    assert told["definition"]["author"] == "ICE-GL-ZY001"
    assert told["definition"]["commit"] == seed.repo.tip()


def test_a_tool_that_is_not_in_the_repository_is_not_found(seed: Seed) -> None:
    """Section 4, second example; the sentence is the seed's own, the six fields stand first all the same."""
    answer = seed.service.exec("draw-a-horse", {"cmd": "echo hello"})

    told = answer.json()
    assert answer.status_code == 404
    assert list(told)[:6] == SIX
    assert [told[field] for field in ("ok", "tool", "method", "output", "duration_ms")] == [
        False,
        "draw-a-horse",
        "",
        "",
        0,
    ]
    assert told["found"] is False
    assert told["suggestion"] == SUGGESTION
    assert told["code"] == "unknown-tool"
    assert "run" not in told


@both_executors
def test_the_real_standard_error_of_a_failing_tool_comes_back(seed: Seed, tool: str, method: str) -> None:
    """Section 4, third example: whole and untouched, nothing put before or after what the tool itself said."""
    told = seed.service.run(tool, {"cmd": "echo partial; echo 'no such horse: 马良' >&2; exit 3"})

    assert list(told)[:6] == SIX
    assert told["ok"] is False
    assert told["method"] == method
    assert told["output"] == "partial\n"
    assert told["error"] == "no such horse: 马良\n"
    assert told["code"] == "failed"
    assert told["run"]["state"] == "failed"
    assert told["run"]["reason"] == "exit-code"
    assert told["run"]["exit_code"] == 3
    assert set(told["message"]) == {"zh", "en"}


def test_a_new_definition_in_the_repository_is_found_after_its_push(seed: Seed) -> None:
    """Section 4, fourth example, by the hook: nothing else than the push is needed."""
    before = seed.service.exec("new-brush").status_code
    seed.repo.write_tool("new-brush")
    seed.repo.commit("铸渊写了一支新笔")

    row = seed.service.push(seed.repo)
    told = seed.service.run("new-brush")

    assert before == 404
    assert row["outcome"] == "applied"
    assert row["registered"] == ["new-brush"]
    assert told["output"] == "new-brush\n"


def test_the_next_scan_finds_a_new_definition_by_itself(parts: Parts) -> None:
    """Section 4, fourth example, word by word: the hook was lost, the next look finds it (W22)."""
    repo = parts.repo("first")
    service = parts.service(repo, poll_interval_s=1)
    repo.write_tool("second")
    repo.commit()
    repo.push()

    eventually(lambda: service.exec("second").status_code == 200)

    assert service.run("second")["output"] == "second\n"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"not json", 400, "bad-request"),
        (b"[]", 400, "bad-request"),
        (b'{"tool": "local-exec", "params": {}}', 422, "bad-parameters"),
        (b'{"tool": "local-exec", "params": {"cmd": "true"}, "timeout_ms": 30001}', 422, "bad-parameters"),
        (b'{"tool": "draw-a-horse"}', 404, "unknown-tool"),
    ],
)
def test_the_six_fields_stand_first_also_when_nothing_ran(seed: Seed, body: bytes, status: int, code: str) -> None:
    """Section 2, step 5: whoever reads receipts reads these six, whatever happened."""
    answer = seed.service.admin.post(f"{API}/exec", content=body, headers={"Content-Type": "application/json"})

    told = answer.json()
    assert answer.status_code == status
    assert list(told)[:6] == SIX
    assert (told["ok"], told["output"], told["duration_ms"], told["code"]) == (False, "", 0, code)
    assert told["error"]
    assert set(told["message"]) == {"zh", "en"}


@pytest.mark.parametrize("token", [None, "wrong"])
def test_the_six_fields_stand_first_also_for_nobody(seed: Seed, token: str | None) -> None:
    """An agent whose token ended reads the same receipt as any other."""
    answer = seed.service.client(token).post(f"{API}/exec", json={"tool": "local-exec", "params": {"cmd": "true"}})

    assert answer.status_code == 401
    assert list(answer.json())[:6] == SIX
    assert answer.json()["code"] == "unauthenticated"


def test_a_tool_that_asks_first_runs_once_zhuyuan_confirms(seed: Seed) -> None:
    """Seed §7, require_confirm: nothing runs before; 铸渊 with both scopes may confirm its own call."""
    seed.repo.write_tool("asks-first", constraints={"require_confirm": True})
    seed.repo.commit("要先确认的工具")
    seed.service.push(seed.repo)
    zhuyuan = seed.service.client(seed.service.token("exec", "confirm"))

    asked = zhuyuan.post(f"{API}/exec", json={"tool": "asks-first"})
    waiting = zhuyuan.get(f"{API}/runs/{asked.json()['run']['id']}").json()["state"]
    answer = zhuyuan.post(
        f"{API}/confirmations/{asked.json()['confirmation']['id']}", json={"decision": "approve"}
    ).json()

    assert (asked.status_code, waiting) == (202, "awaiting_confirmation")
    assert (answer["ok"], answer["run"]["id"]) == (True, asked.json()["run"]["id"])
