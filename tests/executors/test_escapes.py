"""Nothing survives the end of a run, however it tries. Rows of cases.md: X2, X13."""

import itertools
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service.domain.executors import Cancel, ToolFile
from service.execution.executors.sandbox import Sandbox
from tests.executors.as_nobody import as_nobody
from tests.executors.conftest import marked

pytestmark = pytest.mark.usefixtures("nothing_left")

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
ROUNDS = [50, pytest.param(200, marks=pytest.mark.slow)]
REFORK = b"#!/bin/sh\nsleep 0.005\nsetsid ./refork.sh $1 &\n"
# Each says "ready" once it has done what it can; `{m}` is in the arguments of all that must not survive.
MODES = {
    "same-group": "sleep {m} & sleep {m} & echo ready; sleep {m}",
    "own-session": "setsid sleep {m} & setsid sleep {m} >/dev/null 2>&1 & echo ready; sleep {m}",
    "double-fork": "setsid sh -c 'setsid sleep {m} & setsid sleep {m} &' & wait $!; echo ready; sleep {m}",
    "leader-first": "setsid sleep {m} >/dev/null 2>&1 & setsid sh -c 'setsid sleep {m} >/dev/null 2>&1 &'; echo ready",
    "no-sigterm": "trap '' TERM INT HUP; setsid sh -c \"trap '' TERM; sleep {m}; sleep {m}\" & echo ready; sleep {m}",
    "re-forks": "setsid ./refork.sh {m} & echo ready; sleep {m}",
}


@pytest.fixture(params=["bubblewrap", "none"])
def sandbox(request):
    sandbox = Sandbox(request.param)
    if (reason := sandbox.unavailable()) is not None:
        pytest.skip(reason.en)
    return sandbox


def escape(sandbox, mode, mark, *, end):
    """One run, ended as `end` says: by its "deadline", by a "cancel" once the tool is ready, or by "itself"."""
    cancel = Cancel()
    return sandbox.run(
        ["/bin/sh", "-c", MODES[mode].format(m=mark)],
        env=ENV,
        files=[ToolFile("refork.sh", executable=True, content=REFORK)],
        deadline=time.monotonic() + (0.1 if end == "deadline" else 20),
        keep=100,
        cancel=cancel,
        on_output=lambda *_: cancel.ask() if end == "cancel" else None,
    ).ended


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("mode", MODES)
def test_nothing_survives_a_run_however_it_tries(sandbox, survivors, mode, rounds):
    """X2: ended by its deadline, by a cancel, or by itself."""
    mark = f"63.{time.monotonic_ns()}"

    ways = ["itself"] if mode == "leader-first" else [*["cancel"] * 9, "deadline"]
    ends = {escape(sandbox, mode, mark, end=end) for end in itertools.islice(itertools.cycle(ways), rounds)}

    assert survivors(mark) == 0
    assert ends == ({"exited"} if mode == "leader-first" else {"cancelled", "deadline"})


@pytest.mark.parametrize("rounds", [100, pytest.param(600, marks=pytest.mark.slow)])
def test_nothing_survives_a_run_that_is_ended_while_it_starts(sandbox, survivors, rounds):
    """X2: a limit of some milliseconds is the caller's to give; many at once, so that each start takes its time."""
    mark = f"69.{time.monotonic_ns()}"

    def brief(index):
        # A thread of its own: the sandbox dies with the thread that started it.
        deadline = time.monotonic() + 0.002 + 0.001 * (index % 40)
        return sandbox.run(["sleep", mark], env=ENV, files=(), deadline=deadline, keep=10).ended

    with ThreadPoolExecutor(6) as pool:
        ends = set(pool.map(brief, range(rounds)))

    assert survivors(mark) == 0
    assert ends <= {"deadline", "did-not-start"}


@pytest.mark.parametrize(
    ("kind", "rounds"),
    [
        ("bubblewrap", 50),
        ("none", 10),
        pytest.param("bubblewrap", 200, marks=pytest.mark.slow),
        pytest.param("none", 200, marks=pytest.mark.slow),
    ],
)
def test_nothing_survives_a_run_of_an_ordinary_user(survivors, kind, rounds):
    """X2; undumpable, as the service makes itself."""
    mark = f"64.{time.monotonic_ns()}"
    code = f"""
import ctypes, time
from service.domain.executors import Cancel, ToolFile
from service.execution.executors.sandbox import Sandbox
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
sandbox = Sandbox({kind!r})
print(sandbox.unavailable(), end=" ")
files = [ToolFile("refork.sh", executable=True, content={REFORK!r})]
for script in {[script.format(m=mark) for script in MODES.values()]!r}:
    for _ in range({rounds}):
        cancel = Cancel()
        f = sandbox.run(["/bin/sh", "-c", script], env={ENV!r}, files=files, deadline=time.monotonic() + 20, keep=10,
                        cancel=cancel, on_output=lambda *_: script.endswith("ready") or cancel.ask())
    print(f.ended, end=" ")
"""

    answer = as_nobody(code)

    assert survivors(mark) == 0
    assert answer.stdout == "None cancelled cancelled cancelled exited cancelled cancelled ", answer.stderr


def test_a_run_that_ended_by_itself_is_over_when_it_is_said_to_be(sandbox):
    """Not soon after: the kernel, or the launcher, has nothing left before we hear of the end."""
    mark = f"65.{time.monotonic_ns()}"

    for _ in range(20):
        escape(sandbox, "leader-first", mark, end="itself")

        assert [pid for pid in marked(mark) if not _is_dead(pid)] == []


def _is_dead(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


SERVICE = """
import os, sys, threading, time
from service.domain.executors import ToolFile
from service.execution.executors.sandbox import Sandbox
sandbox = Sandbox(sys.argv[1])
files = [ToolFile("refork.sh", executable=True, content=REFORK)]
def run(script):
    sandbox.run(["/bin/sh", "-c", script], env={"PATH": "/usr/bin:/bin"}, files=files, deadline=time.monotonic() + 60,
                keep=10, on_output=lambda name, data: os.write(1, b"ready\\n"))
for script in sys.argv[2:]:
    threading.Thread(target=run, args=[script]).start()
"""


def killed_service(mode, scripts):
    service = subprocess.Popen(
        [sys.executable, "-c", f"REFORK = {REFORK!r}" + SERVICE, mode, *scripts], stdout=subprocess.PIPE
    )
    ready = [service.stdout.readline() for _ in scripts]
    service.kill()
    service.communicate()
    assert ready == [b"ready\n"] * len(scripts)
    assert service.returncode == -signal.SIGKILL


@pytest.mark.parametrize("rounds", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_nothing_survives_the_service(survivors, rounds):
    """X13: SIGKILL, so that nobody can clean up, while five runs do what they can."""
    if Sandbox().unavailable() is not None:
        pytest.skip("bubblewrap does not work here")
    mark = f"66.{time.monotonic_ns()}"
    scripts = [script.format(m=mark) for mode, script in MODES.items() if mode != "leader-first"]

    for _ in range(rounds):
        killed_service("bubblewrap", scripts)

    assert survivors(mark) == 0


def test_without_a_sandbox_the_tool_itself_does_not_survive_the_service(survivors):
    """X13, as far as it goes there: what the tool started in turn does survive."""
    mark = f"67.{time.monotonic_ns()}"

    killed_service("none", [f"echo ready; exec sleep {mark}"])

    assert survivors(mark) == 0


def test_runs_side_by_side_end_only_their_own():
    """Without a sandbox, descendants are looked for by their launcher."""
    sandbox = Sandbox("none")
    ended = []
    heard = threading.Event()

    def other():
        deadline = time.monotonic() + 20
        script = "setsid sleep 0.7 & echo ready; wait; echo whole"
        ended.append(
            sandbox.run(
                ["/bin/sh", "-c", script],
                env=ENV,
                files=(),
                deadline=deadline,
                keep=99,
                on_output=lambda *_: heard.set(),
            )
        )

    thread = threading.Thread(target=other)
    thread.start()
    assert heard.wait(20)
    assert escape(sandbox, "double-fork", f"68.{time.monotonic_ns()}", end="cancel") == "cancelled"
    thread.join()

    assert ended[0].stdout.kept == b"ready\nwhole\n"
