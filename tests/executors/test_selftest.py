"""The sandbox's start-up self-test: what it tries, and that a wall which does not stand is named. X32, X33, X34."""

import os
from pathlib import Path

import pytest

from service.domain.definitions import Definition
from service.execution.executors import sandbox as module
from service.execution.executors.rlimits import ToolLimits
from service.execution.executors.sandbox import Sandbox
from service.execution.executors.shell import ShellExecutor
from tests.executors.as_nobody import as_nobody

pytestmark = pytest.mark.usefixtures("nothing_left")

NAMES = {
    *("user", "capabilities", "filter"),
    *("start", "processes", "descriptors", "remount", "mount", "mknod", "unshare", "namespaces", "keyring", "ptrace"),
    *("environ", "read-only", "kernel-settings", "host-files", "shm-size", "tmp-size", "memory-limit", "sockets"),
    *("escape", "survivors"),
}
TOOL = Definition(
    name="tool",
    display="工具",
    intent="做一件事",
    method="exec",
    executor="shell",
    author="ICE",
    created="2026-05-31",
    why="因为",
    params_schema={},
)


@pytest.fixture(autouse=True)
def _bubblewrap():
    if Sandbox().unavailable() is not None:
        pytest.skip("bubblewrap does not work here")


@pytest.fixture
def weakened(tmp_path):
    """A sandbox whose bubblewrap is given more: before its other options, or after them."""

    def make(before="", after=""):
        script = tmp_path / "bwrap"
        script.write_text(f'#!/bin/sh\nexec /usr/bin/env bwrap {before} "$1" "$2" {after} "$3" "$4"\n')
        script.chmod(0o755)
        return Sandbox(bwrap=str(script))

    return make


@pytest.mark.parametrize("opened", [{}, {"network": True}, {"read_paths": ["/var/lib"]}])
def test_all_walls_stand_whatever_the_operator_opens(opened):
    result = Sandbox(**opened).self_test()

    assert [check for check in result.checks if not check.ok] == []
    assert {check.name for check in result.checks} == NAMES


def test_a_tmp_that_is_larger_than_a_file_may_be_is_no_failure():
    result = Sandbox(tmp_bytes=2**30, limits=ToolLimits(file_bytes=1000)).self_test()

    assert {check.name for check in result.checks if check.ok} == NAMES - {"shm-size", "tmp-size"}
    assert result.failed() is None


def test_all_walls_stand_for_an_ordinary_user():
    code = """
from service.execution.executors.sandbox import Sandbox
result = Sandbox().self_test()
print(len(result.checks), [check for check in result.checks if not check.ok])
"""
    answer = as_nobody(code)

    assert answer.stdout == f"{len(NAMES)} []\n", answer.stderr


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("--dir /run", "", "host-files"),
        ("", "--share-net", "sockets"),
        ("", "--tmpfs /etc", "read-only"),
        ("", "--dev-bind /dev /dev", "shm-size"),
        ("", "--bind /tmp /tmp", "tmp-size"),
        ("", "9</dev/null", "descriptors"),
    ],
)
def test_a_wall_that_does_not_stand_is_named_and_nothing_runs(weakened, before, after, name):
    """A sandbox with one hole each."""
    sandbox = weakened(before, after)

    reason = sandbox.unavailable()

    failed = {check.name for check in sandbox.self_test().checks if not check.ok}
    assert name in failed
    assert any(wall in reason.en and wall in reason.zh for wall in failed)
    assert sandbox.state in {f"unavailable: {wall}" for wall in failed}
    assert reason.en in ShellExecutor(sandbox).unavailable(TOOL).en


def test_a_bubblewrap_that_starts_nothing_is_told_in_its_own_words(weakened):
    sandbox = weakened("--no-such-option")

    assert "no-such-option" in sandbox.unavailable().en
    assert sandbox.state == "unavailable: start"


def test_a_failure_is_tried_again_and_a_success_is_not(weakened, monkeypatch):
    sandbox = weakened("--dir /run")
    assert sandbox.unavailable() is not None
    weakened()

    assert sandbox.unavailable() is not None, "not at once"
    monkeypatch.setattr(module, "TEST_AGAIN_S", 0.0)
    assert sandbox.unavailable() is None
    weakened("--dir /run")
    assert sandbox.unavailable() is None


def test_the_state_says_what_was_seen_and_never_tries():
    sandbox = Sandbox()
    before = sandbox.state
    sandbox.unavailable()

    assert (before, sandbox.state) == ("unavailable: not tested yet", "bubblewrap")
    assert Sandbox("none").state == ("none, as root" if os.geteuid() == 0 else "none")
    assert Sandbox("none").self_test().checks == ()


def test_it_leaves_nothing_on_the_host():
    def folders():
        return {path for folder in ("/run", "/tmp", "/var/tmp") for path in Path(folder).glob("bitong-probe-*")}

    before = folders()
    Sandbox().self_test()

    assert folders() <= before
