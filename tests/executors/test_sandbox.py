"""Commands in the sandbox, with a real bubblewrap. Rows of cases.md: X1, X4, X5, X8, X9, X11, X32, X33, X34, M2."""

import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from service.domain.executors import Cancel, ToolFile
from service.errors import UsageError
from service.execution.executors.bubblewrap import TOOL_FOLDER, shown_by
from service.execution.executors.sandbox import Sandbox
from tests.executors.as_nobody import as_nobody

pytestmark = pytest.mark.usefixtures("nothing_left")

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp"}
FOREIGN = b"\x7fELF\x02\x02\x01" + bytes(9) + b"\x00\x02\x00\x2b" + bytes(44)
FILES = (
    ToolFile("say.sh", executable=True, content=b'#!/bin/sh\necho "said $1 in $PWD"\n'),
    ToolFile("deep/er/data.bin", executable=False, content=bytes(range(256)) * 300),
    ToolFile("empty", executable=False, content=b""),
)
needs_bwrap = pytest.mark.skipif(Sandbox().unavailable() is not None, reason="bubblewrap does not work here")


@pytest.fixture(params=[pytest.param("bubblewrap", marks=needs_bwrap), "none"])
def either(request):
    return Sandbox(request.param)


@pytest.fixture
def inside():
    sandbox = Sandbox(tmp_bytes=4_000_000, shm_bytes=1_000_000)
    if (reason := sandbox.unavailable()) is not None:
        pytest.skip(reason.en)
    return sandbox


def run(sandbox, *argv, seconds=20.0, files=(), keep=65_536, env=ENV, **more):
    return sandbox.run(argv, env=env, files=files, deadline=time.monotonic() + seconds, keep=keep, **more)


def shell(sandbox, script, **more):
    return run(sandbox, "/bin/sh", "-c", script, **more)


def test_the_tools_folder_is_the_working_directory_and_its_script_runs(either):
    finished = run(either, "./say.sh", "a b\n汉", files=FILES)

    assert finished.exit_code == 0
    assert finished.stdout.kept.decode().startswith("said a b\n汉 in /")
    data = run(either, "/bin/cat", "deep/er/data.bin", files=FILES, keep=100_000)
    assert data.stdout.kept == FILES[1].content


def test_only_what_was_executable_can_be_executed(either):
    """X4."""
    finished = run(either, "./deep/er/data.bin", files=FILES)

    assert (finished.ended, finished.error.errno) == ("did-not-start", errno.EACCES)


def test_a_directory_may_be_given_also_beneath_the_tools_folder(either):
    assert run(either, "/bin/pwd", cwd="/usr/bin").stdout.kept == b"/usr/bin\n"
    assert run(either, "/bin/ls", files=FILES, cwd="deep/er").stdout.kept == b"data.bin\n"
    assert run(either, "/bin/ls", files=FILES, cwd="nowhere").error.errno == errno.ENOENT


def test_the_folder_cannot_be_written_to(inside):
    finished = shell(
        inside, "chmod 777 . say.sh; echo x >new; echo x >say.sh; rm empty; mv deep other; cat say.sh", files=FILES
    )

    assert finished.stdout.kept == FILES[0].content
    assert finished.stderr.kept.count(b"Read-only file system") == 6


def test_nothing_of_the_folder_is_left_behind(either):
    """Also no descriptor: the fixture looks."""
    before = {path.name for path in Path(tempfile.gettempdir()).iterdir()}
    run(either, "./say.sh", files=FILES)

    left = {path.name for path in Path(tempfile.gettempdir()).iterdir()} - before
    assert not [name for name in left if name.startswith("bitong")]


@pytest.mark.parametrize("path", ["../escaped", "/tmp/escaped", "a/../../escaped", "", "a//b"])
def test_a_file_that_would_lie_outside_the_folder_is_not_written(either, path):
    """M6: registration refuses such a path; were it to come here, nothing runs."""
    finished = run(either, "/bin/true", files=[ToolFile(path, executable=False, content=b"x")])

    assert finished.ended == "did-not-start"
    assert not Path("/tmp/escaped").exists()


@pytest.mark.parametrize(
    ("content", "executable", "number"),
    [
        (None, False, errno.ENOENT),
        (b"#!/bin/sh\n", False, errno.EACCES),
        (FOREIGN, True, errno.ENOEXEC),
        (b"no format at all\n", True, errno.ENOEXEC),
        (b"#!/no/such/interpreter\n", True, errno.ENOENT),
    ],
)
def test_a_program_that_cannot_start_says_why_and_leaves_no_text(either, content, executable, number):
    """X4: not as bubblewrap's exit code 1 and its words, and no shell takes over what has no format."""
    files = [] if content is None else [ToolFile("program", executable=executable, content=content)]

    finished = run(either, "./program", files=files)

    assert (finished.ended, finished.exit_code, finished.error.errno) == ("did-not-start", None, number)
    assert (finished.stdout.total, finished.stderr.total) == (0, 0)


def test_a_program_is_looked_for_along_the_path(either):
    assert run(either, "printf", "%s", "found").stdout.kept == b"found"
    assert run(either, "no-such-program").error.errno == errno.ENOENT


@pytest.mark.parametrize("argv", [("/bin/echo", "a\0b"), ("/bin/echo", "x" * 3_000_000)])
def test_arguments_that_no_program_can_take_do_not_raise(either, argv):
    """M2, at the last line of defence; E2BIG."""
    assert run(either, *argv).ended == "did-not-start"


@pytest.mark.parametrize("name", ["SEGV", "KILL", "TERM", "ABRT"])
def test_death_by_a_signal_is_not_an_exit_code(either, name):
    """X5."""
    finished = shell(either, f"kill -{name} $$")

    assert (finished.ended, finished.exit_code, finished.signal) == ("exited", None, f"SIG{name}")


@pytest.mark.parametrize("code", [1, 126, 127, 137, 139, 255])
def test_a_shells_own_exit_code_is_not_a_signal(either, code):
    """X5: `sh` says 137 of a command of its own that was killed; it was not killed itself."""
    finished = shell(either, f"exit {code}")

    assert (finished.exit_code, finished.signal) == (code, None)


def test_standard_input_comes_through_or_is_empty(either):
    """X8."""
    assert run(either, "/bin/cat").stdout.total == 0
    assert run(either, "/bin/cat", stdin=b"x" * 300_000).stdout.total == 300_000


def test_the_environment_is_the_one_given(either):
    finished = run(either, "/usr/bin/env", env={"PATH": "/usr/bin", "NAME": "汉 \n\x1b"})

    assert finished.stdout.kept.decode() == "PATH=/usr/bin\nNAME=汉 \n\x1b\n"


def test_a_deadline_and_a_cancel_keep_what_was_said(either, survivors):
    """X1."""
    late = shell(either, "echo partial; sleep 62.0011", seconds=0.5)
    cancel = Cancel()
    timer = threading.Timer(0.3, cancel.ask)
    timer.start()
    cancelled = shell(either, "echo partial; sleep 62.0011", cancel=cancel)
    timer.join()

    assert (late.ended, late.stdout.kept) == ("deadline", b"partial\n")
    assert (cancelled.ended, cancelled.stdout.kept) == ("cancelled", b"partial\n")
    assert survivors("62.0011") == 0


@pytest.mark.parametrize("mode", [pytest.param("bubblewrap", marks=needs_bwrap), "none"])
def test_there_is_no_terminal_and_the_session_is_its_own(mode):
    """X9: the service has a terminal here; the tool cannot open it, and leads no session that could get one."""
    if shutil.which("script") is None:
        pytest.skip("needs util-linux's script for a terminal")
    code = """
import os, time
from service.execution.executors.sandbox import Sandbox
script = "cut -d' ' -f6,7 /proc/self/stat; (: </dev/tty) 2>/dev/null || echo none; "
script += "test -t 0 -o -t 1 -o -t 2 || echo pipes"
env = {"PATH": "/usr/bin:/bin"}
f = Sandbox("MODE").run(["/bin/sh", "-c", script], env=env, files=(), deadline=time.monotonic() + 20, keep=99)
open("/dev/tty")
session, terminal, *said = f.stdout.kept.decode().split()
print("TOOL", session not in ("0", str(os.getsid(0))), terminal, *said)
""".replace("MODE", mode)
    command = f"{sys.executable} -c '{code.replace(chr(39), chr(39) + chr(34) + chr(39) + chr(34) + chr(39))}'"
    answer = subprocess.run(
        ["script", "-qec", command, "/dev/null"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )

    assert "TOOL True 0 none pipes" in answer.stdout, answer.stdout


def test_files_of_the_host_are_not_there(inside, tmp_path):
    """X11, X33: our data, other people's homes, what holds sockets; and of /etc only what is needed."""
    (tmp_path / "bitong.db").write_text("data")
    hidden = ("/etc/shadow", "/etc/ssh", "/root", "/home", "/run", "/var", "/srv", "/sys", "/opt", "/boot", "/mnt")

    finished = shell(inside, f"ls -d {tmp_path} {' '.join(hidden)}; ls /; ls /etc")

    assert finished.stderr.kept.count(b"No such file or directory") == len(hidden) + 1
    root, etc = finished.stdout.kept.decode().split("alternatives")[0].split(), finished.stdout.kept.decode()
    assert {"bin", "lib", "usr", "proc", "dev", "tmp", "tool"} <= set(root)
    assert "shadow" not in etc
    assert "hostname" not in etc


def test_other_processes_and_their_environment_are_not_there(inside):
    """X11, X34: `ps` shows the tool's own, and process 1 keeps to itself."""
    finished = shell(inside, "ls -d /proc/[0-9]*; cat /proc/1/environ /proc/1/mem /proc/1/fd/*; kill -9 1; echo alive")

    numbers = [int(line.removeprefix("/proc/")) for line in finished.stdout.kept.decode().split()[:-1]]
    assert {1, 2} <= set(numbers) <= {1, 2, 3}
    assert finished.stdout.kept.endswith(b"alive\n")
    assert finished.stderr.kept.count(b"Permission denied") >= 3


CONNECT = """
import socket, sys
path, name, port = sys.argv[1:]
for kind, address in (
    (socket.AF_UNIX, path), (socket.AF_UNIX, "\\0" + name), (socket.AF_INET, ("127.0.0.1", int(port)))
):
    try:
        socket.socket(kind).connect(address)
        print("connected")
    except OSError:
        print("refused")
"""


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs a Python under /usr")
def test_sockets_of_the_host_are_out_of_reach(inside, tmp_path):
    """X33: in the file system, abstract, and on loopback."""
    name = f"bitong-test-{os.getpid()}"
    with (
        socket.socket(socket.AF_UNIX) as file,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.create_server(("127.0.0.1", 0)) as tcp,
    ):
        for listener, address in ((file, str(tmp_path / "s")), (abstract, "\0" + name)):
            listener.bind(address)
            listener.listen()
        arguments = (str(tmp_path / "s"), name, str(tcp.getsockname()[1]))
        outside = subprocess.run(["/usr/bin/python3", "-c", CONNECT, *arguments], capture_output=True)
        finished = run(inside, "/usr/bin/python3", "-c", CONNECT, *arguments)

    assert outside.stdout.split() == [b"connected"] * 3
    assert finished.stdout.kept.split() == [b"refused"] * 3


def test_no_parameter_shows_in_bubblewraps_arguments_or_environment(inside):
    """X34: looked at from outside while it runs; only the tool's own vector holds it."""
    mark = "seen-62-0015"
    seen = {}

    def look(name, data):
        for pid in (entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()):
            try:
                command, environment = (Path(f"/proc/{pid}/{part}").read_bytes() for part in ("cmdline", "environ"))
            except OSError:
                continue
            if mark.encode() in command + environment:
                seen[Path(f"/proc/{pid}/comm").read_text().strip()] = (
                    mark.encode() in command,
                    mark.encode() in environment,
                )

    finished = shell(inside, f"echo ready; sleep 0.2; : {mark}", env={**ENV, "MARKED": mark}, on_output=look)

    assert finished.exit_code == 0
    assert seen.pop("sh") == (True, True)
    assert set(seen) <= {"sleep"}


def test_the_tool_has_three_descriptors(inside):
    """X34."""
    assert shell(inside, "ls /proc/$$/fd; :").stdout.kept.split() == [b"0", b"1", b"2"]


@pytest.mark.parametrize(("folder", "size"), [("/dev/shm", 1_000_000), ("/tmp", 4_000_000)])
def test_memory_that_files_take_has_a_size(inside, folder, size):
    """X34."""
    finished = shell(inside, f"head -c 100000000 /dev/zero >{folder}/x; stat -c %s {folder}/x")

    assert b"No space left on device" in finished.stderr.kept
    assert size * 0.9 <= int(finished.stdout.kept) <= size * 1.1


def test_nothing_but_those_can_be_written_to(inside):
    """X32: the kernel's settings belong to root, and root may have started this, with capabilities or without.

    Opened for appending and nothing written, so that a sandbox that fails here harms nobody.
    """
    closed = (
        "/x /dev/x /etc/x /usr/x /tool/x /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/self/oom_score_adj"
    )

    finished = shell(inside, f"for f in {closed}; do (: >>$f) && echo opened $f; done; : >>/dev/null; : >>/tmp/x")

    assert finished.stdout.kept == b""
    assert finished.exit_code == 0


def test_rights_are_gone(inside):
    """X32, its plain part: nothing to mount with, no other user to become, no namespace to get rights back in."""
    finished = shell(
        inside, "grep -E 'Cap(Eff|Prm|Bnd|Amb)|NoNewPrivs' /proc/self/status; unshare -Ur true; mount -o remount,rw /"
    )

    assert finished.stdout.kept.count(b"0000000000000000") == 4
    assert b"NoNewPrivs:\t1" in finished.stdout.kept
    assert finished.exit_code != 0
    assert b"unshare" in finished.stderr.kept


def test_a_path_the_operator_names_is_there_read_only(tmp_path):
    (tmp_path / "data").write_text("shown")
    sandbox = Sandbox(read_paths=[str(tmp_path)])
    if sandbox.unavailable() is not None:
        pytest.skip("bubblewrap does not work here")

    finished = shell(sandbox, f"cat {tmp_path}/data; echo x >{tmp_path}/data")

    assert finished.stdout.kept == b"shown"
    assert b"Read-only file system" in finished.stderr.kept


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/run",
        "/run/user",
        "/var",
        "/home",
        "/root",
        "/srv",
        "/sys",
        "/proc",
        "/etc",
        "data",
        "/a/../run",
        "/run/",
        "/var/run",
    ],
)
def test_a_path_that_the_contract_closes_is_refused(path):
    with pytest.raises(UsageError):
        Sandbox(read_paths=[path])


def test_a_path_that_tools_could_speak_through_is_refused(tmp_path):
    """X33: read-only is no wall for a socket or a pipe."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    os.mkfifo(tmp_path / "pipe")

    for name in ("socket", "pipe"):
        with pytest.raises(UsageError, match="shell_read_paths"):
            Sandbox(read_paths=[str(tmp_path / name)])


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs a Python under /usr")
@pytest.mark.parametrize("network", [False, True])
def test_a_socket_in_a_folder_that_is_shown_is_out_of_reach(inside, tmp_path, network):
    """X33: it lies there, and nobody can connect."""
    sandbox = Sandbox(read_paths=[str(tmp_path)], network=network)
    code = (
        "import socket, sys, os; print(os.path.exists(sys.argv[1])); socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        finished = run(sandbox, "/usr/bin/python3", "-c", code, str(tmp_path / "s"))

    assert finished.stdout.kept == b"True\n"
    assert b"Address family not supported" in finished.stderr.kept


def test_a_read_path_that_is_not_there_is_named_with_its_setting(inside, tmp_path):
    """Not with advice to take the walls away."""
    sandbox = Sandbox(read_paths=[str(tmp_path / "nowhere")])

    reason = sandbox.unavailable()

    assert "shell_read_paths" in reason.en
    assert "shell_read_paths" in reason.zh
    assert "nowhere" in reason.en
    assert "none" not in reason.en + reason.zh
    assert sandbox.state == "unavailable: read-paths"


@pytest.mark.parametrize(
    ("path", "read_paths", "network", "shown"),
    [
        ("/usr/local/data", [], False, "/usr"),
        ("/usr", [], False, "/usr"),
        ("/etc/alternatives/token", [], False, "/etc/alternatives"),
        ("/etc/ssl/certs/key", [], True, "/etc/ssl/certs"),
        ("/etc/ssl/certs/key", [], False, None),
        ("/srv/data/bitong", ["/opt", "/srv/data"], False, "/srv/data"),
        ("/srv/data", ["/srv/data/shared"], False, "/srv/data/shared"),
        ("/srv/data-2", ["/srv/data"], False, None),
        ("/var/lib/bitong", [], True, None),
    ],
)
def test_it_knows_what_tools_can_see(path, read_paths, network, shown):
    """X11, X33."""
    assert shown_by(Path(path), read_paths, network=network) == shown


def test_a_link_hides_nothing_from_that(tmp_path):
    """Real paths count: of what is ours, and of what is shown."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    assert shown_by(tmp_path / "link/x", [str(tmp_path / "real")], network=False) == str(tmp_path / "real")
    assert shown_by(tmp_path / "real/x", [str(tmp_path / "link")], network=False) == str(tmp_path / "link")


@pytest.mark.parametrize("bwrap", ["/no/such/bwrap", "/bin/false"])
def test_without_a_working_bubblewrap_it_says_so(bwrap):
    sandbox = Sandbox(bwrap=bwrap)

    assert "bubblewrap" in sandbox.unavailable().en
    assert run(sandbox, "/bin/true").ended == "did-not-start"


def test_what_bubblewrap_says_when_it_cannot_build_the_sandbox_is_not_the_tools_error(inside, tmp_path):
    (tmp_path / "soon-gone").mkdir()
    sandbox = Sandbox(read_paths=[str(tmp_path / "soon-gone")])
    (tmp_path / "soon-gone").rmdir()

    finished = run(sandbox, "/bin/true")

    assert (finished.ended, finished.stderr.total) == ("did-not-start", 0)
    assert "soon-gone: No such file or directory" in finished.error.strerror


def test_an_ordinary_user_gets_the_same_sandbox():
    """Started as nobody."""
    code = """
import time
from service.execution.executors.sandbox import Sandbox
from service.domain.executors import ToolFile
sandbox = Sandbox()
print(sandbox.unavailable())
files = [ToolFile("f", executable=True, content=b"#!/bin/sh\\nid -u; pwd; kill -SEGV $$")]
f = sandbox.run(["./f"], env={"PATH": "/usr/bin:/bin"}, files=files, deadline=time.monotonic() + 20, keep=99)
print(f.stdout.kept.decode().split(), f.signal, f.error)
"""

    answer = as_nobody(code)

    assert answer.stdout == f"None\n['1000', '{TOOL_FOLDER}'] SIGSEGV None\n", answer.stderr
