"""What a tool may take. Rows of cases.md: X6, X7, X10."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from service.execution.executors.rlimits import ToolLimits
from service.execution.executors.sandbox import Sandbox
from tests.executors.as_nobody import as_nobody

pytestmark = pytest.mark.usefixtures("nothing_left")

ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(params=["bubblewrap", "none"])
def mode(request):
    if (reason := Sandbox(request.param).unavailable()) is not None:
        pytest.skip(reason.en)
    return request.param


def shell(sandbox, script, seconds=20):
    return sandbox.run(["/bin/sh", "-c", script], env=ENV, files=(), deadline=time.monotonic() + seconds, keep=65_536)


def limits_of(sandbox):
    """{name: (soft, hard)} as the tool sees them."""
    lines = shell(sandbox, "cat /proc/self/limits").stdout.kept.decode().splitlines()[1:]
    return {line[:25].strip(): tuple(line[26:].split()[:2]) for line in lines}


def test_limits_are_the_documented_ones_unless_set(mode):
    got = limits_of(Sandbox(mode))

    assert got["Max address space"] == (str(512 * 2**20),) * 2
    assert got["Max file size"] == (str(256 * 2**20),) * 2
    assert got["Max core file size"] == ("0", "0")
    assert got["Max open files"] == ("1024", str(resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    assert int(got["Max processes"][0]) == 256 if mode == "bubblewrap" else int(got["Max processes"][0]) > 256


def test_limits_can_be_set(mode):
    got = limits_of(Sandbox(mode, limits=ToolLimits(memory_bytes=2**30, processes=99, file_bytes=12345)))

    assert (got["Max address space"][1], got["Max file size"][1]) == (str(2**30), "12345")
    assert int(got["Max processes"][1]) >= 99


def test_a_tool_is_never_held_less_than_the_service(mode):
    """A hard limit cannot be raised without privileges: asking for more would fail every run."""
    code = f"""
import resource, time
resource.setrlimit(resource.RLIMIT_FSIZE, (9_000_000, 9_000_000))
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
from service.execution.executors.sandbox import Sandbox
sandbox = Sandbox({mode!r})
f = sandbox.run(["/bin/sh", "-c", "ulimit -Hf; ulimit -Hn; ulimit -Sn"], env={{}}, files=(),
                deadline=time.monotonic() + 20, keep=99)
print(f.stdout.kept.decode().split(), f.error)
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert answer.stdout == "['17578', '200', '200'] None\n", answer.stderr


def test_a_tool_that_takes_too_much_memory_fails_by_itself(mode):
    """X7: 4 GiB; the service's own limits stay."""
    before = resource.getrlimit(resource.RLIMIT_AS)

    finished = shell(Sandbox(mode), "exec dd if=/dev/zero of=/dev/null bs=4G count=1")

    assert (finished.exit_code, b"memory exhausted" in finished.stderr.kept) == (1, True)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_a_file_that_grows_too_large_ends_its_writer(mode, tmp_path):
    """X10: exit code 153 is 128 + SIGXFSZ, as the shell says it."""
    folder = "/tmp" if mode == "bubblewrap" else tmp_path
    sandbox = Sandbox(mode, limits=ToolLimits(file_bytes=1_000_000))

    finished = shell(sandbox, f"head -c 2000000 /dev/zero >{folder}/x; echo $?; stat -c %s {folder}/x")

    assert finished.stdout.kept.split() == [b"153", b"1000000"]


def test_where_programs_do_not_run_from_memory_tools_run_without_limits_and_it_is_said_once(monkeypatch, caplog):
    """`vm.memfd_noexec`, here by asking for such files (MFD_NOEXEC_SEAL, Linux 6.3)."""
    create = os.memfd_create
    monkeypatch.setattr(os, "memfd_create", lambda name, flags=1: create(name, 0x8))
    try:
        os.close(os.memfd_create("probe"))
    except OSError:
        pytest.skip("the kernel knows no such files")
    sandbox = Sandbox("none")

    finished = [shell(sandbox, "ulimit -f; exit 3") for _ in range(2)]

    assert [run.exit_code for run in finished] == [3, 3]
    assert [record.message for record in caplog.records] == [
        "shell tools run without limits: this host runs no programs from memory"
    ]


BOMB = """
import threading, time
from service.execution.executors.rlimits import ToolLimits
from service.execution.executors.sandbox import Sandbox
sandbox = Sandbox(MODE, limits=ToolLimits(processes=40))
print(sandbox.unavailable(), end=" ")
most = 0

def bomb():
    script = "f() { sleep 9 & f | f & f; }; f; wait"
    sandbox.run(["/bin/sh", "-c", script], env=ENV, files=(), deadline=time.monotonic() + 2, keep=10)

def others():
    return int(open("/proc/loadavg").read().split()[3].partition("/")[2])

before = others()
thread = threading.Thread(target=bomb)
thread.start()
while thread.is_alive():
    most = max(most, others() - before)
    time.sleep(0.01)
    if most > 30 and not thread.name.endswith("seen"):
        thread.name += "seen"
        started = time.monotonic()
        Sandbox("none").run(["/bin/true"], env=ENV, files=(), deadline=started + 10, keep=1)
        print(time.monotonic() - started < 5, end=" ")
print(10 < most < 400)
"""


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs a Python under /usr")
def test_memory_that_is_no_processs_own_cannot_be_had():
    """X7: RLIMIT_AS does not count what stands in files in memory; the sized tmpfs are the only ones."""
    sandbox = Sandbox()
    if sandbox.unavailable() is not None:
        pytest.skip("bubblewrap does not work here")
    code = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for call in (lambda: libc.memfd_create(b"x", 0), lambda: libc.shmget(0, 1 << 20, 0o1600)):
    print(call(), errno.errorcode[ctypes.get_errno()])
"""
    deadline = time.monotonic() + 20

    finished = sandbox.run(["/usr/bin/python3", "-c", code], env=ENV, files=(), deadline=deadline, keep=1000)

    assert finished.stdout.kept == b"-1 ENOSYS\n-1 ENOSYS\n", finished.stderr.kept


def test_when_memory_ends_it_is_the_tool_that_goes():
    """X7: not the service, however little the tool seems to hold."""
    sandbox = Sandbox()
    if sandbox.unavailable() is not None:
        pytest.skip("bubblewrap does not work here")

    assert {shell(sandbox, "cat /proc/self/oom_score_adj").stdout.kept for _ in range(20)} == {b"1000\n"}


@pytest.mark.parametrize("kind", ["bubblewrap", "none"])
def test_a_fork_bomb_of_an_ordinary_user_is_held(kind):
    """X6; the kernel does not hold root to it, and Debian 12's CI has no cgroup of its own to try."""
    answer = as_nobody(f"MODE, ENV = {kind!r}, {ENV!r}\n{BOMB}")

    assert answer.stdout.split()[0] == "None", answer.stderr
    assert set(answer.stdout.split()[1:]) == {"True"}, answer.stdout


def test_processes_are_counted_by_run_and_not_by_user():
    """Two runs of an ordinary user with room for 30 each start 20 each."""
    if os.uname().release.split(".")[:2] < ["5", "14"]:
        pytest.skip("the kernel counts by user")
    code = f"""
import threading, time
from service.execution.executors.rlimits import ToolLimits
from service.execution.executors.sandbox import Sandbox
sandbox = Sandbox(limits=ToolLimits(processes=30))
sandbox.unavailable()
def run():
    script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.5 & done; wait; echo all"
    f = sandbox.run(["/bin/sh", "-c", script], env={ENV!r}, files=(), deadline=time.monotonic() + 20, keep=10)
    print(f.stdout.kept.decode().strip() + chr(10), end="")
threads = [threading.Thread(target=run) for _ in range(2)]
[thread.start() for thread in threads]
"""
    answer = as_nobody(code)

    assert answer.stdout.split() == ["all", "all"], answer.stderr
