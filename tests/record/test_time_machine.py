"""Which version would have run at a moment (contract/http-api.md, `/tools/{name}/at`)."""

import time

import httpx
import pytest

from service.domain.times import now
from service.web.server import API
from tests.git_http import git
from tests.harness.definitions import shell_exec_text
from tests.harness.service import bitong, environment
from tests.web.desk import Desk


@pytest.fixture
def desk(tmp_path):
    desk = Desk(tmp_path)
    desk.commit(other=shell_exec_text("other"))
    desk.start()
    yield desk
    desk.close()


@pytest.fixture
def somebody(desk) -> httpx.Client:
    return desk.client("read", "exec", "admin")


def look(desk: Desk) -> str:
    """Register what was committed; a moment after it, and before whatever comes next."""
    desk.bitong.ingest.look()
    time.sleep(0.01)
    moment = now()
    time.sleep(0.01)
    return moment


def then(client: httpx.Client, moment: str, tool: str = "shell-exec") -> dict:
    answer = client.get(f"{API}/tools/{tool}/at", params={"time": moment})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def told(client: httpx.Client, moment: str) -> tuple:
    shown = then(client, moment)
    return shown["state"], shown["version"] and shown["version"]["version"]


def test_each_moment_has_the_version_of_its_time(desk, somebody):
    """Before it was registered, after each new version, after it was removed and when it came back."""
    before = now()
    moments = []
    for text in (shell_exec_text(), shell_exec_text(why="第二版。"), None, shell_exec_text(why="又回来了。")):
        desk.commit(shell_exec=text)
        moments.append(look(desk))

    assert told(somebody, before) == ("unregistered", None)
    assert [told(somebody, moment) for moment in moments] == [
        ("active", 1),
        ("active", 2),
        ("removed", 2),
        ("active", 3),
    ]


def test_it_says_why_and_which_entry_decided(desk, somebody):
    desk.commit(shell_exec=shell_exec_text())
    first = look(desk)
    desk.commit(shell_exec=shell_exec_text(why="第二版。"))
    look(desk)

    shown = then(somebody, first)

    entry = somebody.get(f"{API}/audit/entries/{shown['because']['index']}").json()
    assert (entry["type"], entry["facts"]["version"]) == ("definition.registered", 1)
    assert shown["because"] == {name: entry[name] for name in ("index", "type", "at")}
    assert shown["following"]["index"] > entry["index"]
    assert f"entry {entry['index']}" in shown["why"]["en"]
    assert shown["version"] == somebody.get(f"{API}/tools/shell-exec/versions").json()["items"][1]


def test_after_a_force_push_the_older_version_ran_again(desk, somebody):
    first = desk.commit(shell_exec=shell_exec_text())
    look(desk)
    desk.commit(shell_exec=shell_exec_text(why="第二版。"))
    second = look(desk)
    git("reset", "--hard", "--quiet", first, at=desk.repository)
    back = look(desk)

    assert [told(somebody, moment) for moment in (second, back)] == [("active", 2), ("active", 1)]


def test_a_run_before_that_moment_tells_what_a_merge_let_run(desk, somebody):
    """Which of two versions a merge takes follows from git alone; what ran says it."""
    base = desk.commit(shell_exec=shell_exec_text())
    git("checkout", "--quiet", "-b", "side", at=desk.repository)
    desk.commit(shell_exec=shell_exec_text(why="旁支的一版。"))
    git("checkout", "--quiet", "main", at=desk.repository)
    git("merge", "--quiet", "--no-ff", "-s", "ours", "-m", "不要旁支的", "side", at=desk.repository)
    look(desk)
    assert base
    ran = somebody.post(f"{API}/exec", json={"tool": "shell-exec", "params": {"cmd": "echo x"}}).json()
    time.sleep(0.01)
    moment = now()
    time.sleep(0.01)
    desk.commit(shell_exec=shell_exec_text(why="之后的一版。"))
    look(desk)

    shown = then(somebody, moment)

    assert shown["version"]["version"] == ran["definition"]["version"] == 1
    assert shown["because"]["type"] == "run.started"


def test_a_tool_that_does_not_exist_for_a_token_has_no_past(desk):
    limited = desk.client("read", tools=("sh*",))

    answers = [limited.get(f"{API}/tools/{name}/at", params={"time": "2026-05-31"}) for name in ("other", "nothing")]

    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(404, "unknown-tool")}


@pytest.mark.parametrize("query", [{}, {"time": "yesterday"}, {"tyme": "2026-05-31"}])
def test_a_moment_has_to_be_given(somebody, query):
    answer = somebody.get(f"{API}/tools/other/at", params=query)

    assert (answer.status_code, answer.json()["code"]) == (422, "bad-parameters")


def test_the_command_line_tells_it_to_people(desk, somebody, tmp_path):
    token = somebody.headers["Authorization"].removeprefix("Bearer ")
    env = environment({}, BITONG_URL=desk.url, BITONG_TOKEN=token)

    done = bitong("tools", "at", "other", now(), env=env, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "state: active" in done.stdout
    assert "version: 1" in done.stdout
    assert "Version 1" in done.stdout
