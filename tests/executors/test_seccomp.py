"""The filter of system calls: what it answers, for both machines by evaluation, for this one by the kernel. X9, X32."""

import ctypes
import errno
import platform
import re
import socket
import struct
import time
from pathlib import Path

import pytest

from service.domain.executors import ToolFile
from service.execution.executors.launcher import elf_image
from service.execution.executors.probe import COLUMNS, NUMBERS, SystemCall, probe_image, probe_results
from service.execution.executors.sandbox import Sandbox
from service.execution.executors.seccomp import DENIED, EXAMINED, filter_program

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
ENV = {"PATH": "/usr/bin:/bin"}
COLUMN = COLUMNS.get(platform.machine(), 0)
NEW_NAMESPACES = {
    *("mnt 0x00020000", "cgroup 0x02000000", "uts 0x04000000", "ipc 0x08000000"),
    *("user 0x10000000", "pid 0x20000000", "net 0x40000000"),
}


def answer(machine, number, *arguments, arch=None):
    """What the kernel would do: the few instructions of classic BPF that the filter is made of."""
    data = struct.pack("<IIQ6Q", number, arch or MACHINES[machine], 0, *arguments, *[0] * (6 - len(arguments)))
    program = list(struct.iter_unpack("<HBBI", filter_program(machine)))
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        else:
            jumps = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: accumulator & value != 0}
            at += if_true if jumps[code] else if_false


def number_of(machine, name):
    return {**NUMBERS, **EXAMINED, **DENIED}[name][COLUMNS[machine]]


@pytest.mark.parametrize("machine", MACHINES)
def test_every_denied_call_is_answered_with_its_error(machine):
    for name, entry in DENIED.items():
        number = entry[COLUMNS[machine]]
        if number is not None:
            assert answer(machine, number) == ERRNO | entry[2], name


@pytest.mark.parametrize("machine", MACHINES)
def test_all_other_calls_are_allowed(machine):
    denied = {entry[COLUMNS[machine]] for entry in DENIED.values()}

    for number in set(range(470)) - denied - {number_of(machine, "personality"), number_of(machine, "socket")}:
        assert answer(machine, number) == ALLOW, number


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_the_kernels(machine):
    if not HEADERS[machine].exists():
        pytest.skip(f"needs {HEADERS[machine]}")
    text = HEADERS[machine].read_text()
    defined = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}

    for name, entry in {**NUMBERS, **EXAMINED, **DENIED}.items():
        number = entry[COLUMNS[machine]]
        if name not in defined:
            assert number is None or number > 450, name  # newer than the headers
        elif number is not None:
            assert number == defined[name], name


@pytest.mark.parametrize("machine", MACHINES)
def test_other_architectures_numbers_are_not_understood_as_ours(machine):
    """i386 and Arm's 32 bits kill the program; x32 is not there."""
    for arch in (0x40000003, 0x40000028):
        assert answer(machine, 39, arch=arch) == KILL
    if machine == "x86_64":
        assert answer(machine, 39 | 0x40000000) == ERRNO | errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_a_process_may_be_cloned_but_no_namespace(machine):
    clone = number_of(machine, "clone")

    assert answer(machine, clone, 17) == ALLOW
    assert answer(machine, clone, 0x3D0F00) == ALLOW  # a thread, as glibc makes it
    for namespace in NEW_NAMESPACES:
        assert answer(machine, clone, int(namespace.split()[1], 16) | 17) == ERRNO | errno.EPERM, namespace


@pytest.mark.parametrize("machine", MACHINES)
def test_no_terminal_is_typed_into(machine):
    """X9: TIOCSTI and TIOCLINUX, also with bits that the kernel does not look at."""
    ioctl = number_of(machine, "ioctl")

    assert answer(machine, ioctl, 0, 0x5401) == ALLOW  # TCGETS: isatty
    for request in (0x5412, 0x541C, 0x100005412):
        assert answer(machine, ioctl, 0, request) == ERRNO | errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_are_of_families_that_namespaces_hold(machine):
    """X33: vsock reaches the hypervisor past all of them, and UNIX sockets whoever listens on a path that is shown."""
    number = number_of(machine, "socket")

    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
        assert answer(machine, number, family) == ALLOW
    for family in (socket.AF_UNIX, 38, 40, socket.AF_PACKET, 31, 29):  # ALG, VSOCK, PACKET, BLUETOOTH, CAN
        assert answer(machine, number, family) == ERRNO | errno.EAFNOSUPPORT


@pytest.mark.parametrize("machine", MACHINES)
def test_a_personality_may_be_asked_for_but_not_a_strange_one_taken(machine):
    number = number_of(machine, "personality")

    assert answer(machine, number, 0xFFFFFFFF) == answer(machine, number, 0) == ALLOW
    for strange in (0x0400000, 0x0040000, 0x0100000):  # READ_IMPLIES_EXEC, ADDR_NO_RANDOMIZE, MMAP_PAGE_ZERO
        assert answer(machine, number, strange) == ERRNO | errno.EPERM


@pytest.fixture
def inside():
    sandbox = Sandbox()
    if (reason := sandbox.unavailable()) is not None:
        pytest.skip(reason.en)
    return sandbox


def run(sandbox, argv, files=()):
    return sandbox.run(argv, env=ENV, files=files, deadline=time.monotonic() + 20, keep=65_536)


def test_the_kernel_answers_as_the_table_says(inside):
    """With arguments that no call takes, so that other errors come where the filter is not asked."""
    names = [name for name, entry in DENIED.items() if entry[COLUMN] is not None]
    image = probe_image([SystemCall(DENIED[name][COLUMN], (-1,) * 6) for name in names])

    finished = run(inside, ["./probe"], [ToolFile("probe", executable=True, content=image)])

    got = dict(zip(names, probe_results(finished.stdout.kept), strict=True))
    assert got == {name: -DENIED[name][2] for name in names}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="an instruction of x86")
def test_a_call_of_32_bits_is_the_end(inside):
    """`int 0x80` with getpid's number there, then an orderly end."""
    code = bytes.fromhex("b814000000cd8031ffb8e70000000f05")
    file = ToolFile("old", executable=True, content=elf_image(code, b"", "x86_64"))

    assert run(inside, ["./old"], [file]).signal == "SIGSYS"


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs a Python under /usr")
def test_threads_processes_and_sockets_of_a_tools_own_work(inside):
    """clone3 is not there: glibc takes clone."""
    code = """
import socket, subprocess, threading
thread = threading.Thread(target=print, args=["thread"])
thread.start()
thread.join()
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname())
one, other = socket.socketpair()
one.send(b"x")
print(subprocess.run(["echo", "process"], capture_output=True, text=True).stdout, end="")
"""
    finished = run(inside, ["/usr/bin/python3", "-c", code])

    assert (finished.stdout.kept, finished.stderr.kept) == (b"thread\nprocess\n", b"")


def test_privileges_cannot_be_gained_and_the_filter_stands(inside):
    """X32."""
    finished = run(inside, ["grep", "-E", "NoNewPrivs|Seccomp:", "/proc/self/status"])

    assert finished.stdout.kept.split() == [b"NoNewPrivs:", b"1", b"Seccomp:", b"2"]
    assert ctypes.CDLL(None).prctl(39, 0, 0, 0, 0) == 0, "not ours, in the service"
