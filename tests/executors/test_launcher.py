"""The programs made of instructions of our own. Rows of cases.md: X32."""

import errno
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.execution.executors.launcher import launcher_code, launcher_image, read_report
from service.execution.executors.probe import COLUMNS, SystemCall, probe_code, probe_image, probe_results
from service.execution.executors.seccomp import DENIED

ENV = {"PATH": "/usr/bin:/bin"}
COLUMN = COLUMNS.get(platform.machine(), 0)

KEY = """
import ctypes, os, subprocess, sys
add_key, keyctl, image, probe = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
libc = ctypes.CDLL(None)
key = libc.syscall(add_key, b"user", b"bitong-test", b"secret", 6, -3)
print(key, flush=True)
open(probe, "r+b").write(open(probe, "rb").read().replace(bytes.fromhex("efbeadde00000000"), key.to_bytes(8, "little")))
subprocess.run([probe])
subprocess.run([image], pass_fds=[int(sys.argv[5])])
libc.syscall(keyctl, 3, key)
"""


@pytest.mark.skipif(platform.machine() not in COLUMNS, reason="no launcher for this machine")
def test_without_the_filter_the_services_keys_are_still_out_of_reach(tmp_path):
    """X32: the launcher's own keyring is the first wall, so it is looked at alone."""
    probe, image = tmp_path / "probe", tmp_path / "launcher"
    probe.write_bytes(probe_image([SystemCall(DENIED["keyctl"][COLUMN], (11, 0xDEADBEEF, 0, 0))]))
    fd = os.eventfd(0, os.EFD_NONBLOCK)
    image.write_bytes(launcher_image([str(probe)], ENV, "/", fd))
    for file in (probe, image):
        file.chmod(0o755)
    numbers = [str(DENIED[name][COLUMN]) for name in ("add_key", "keyctl")]

    said = subprocess.run(
        [sys.executable, "-c", KEY, *numbers, image, probe, str(fd)], capture_output=True, pass_fds=[fd], check=True
    ).stdout
    report = read_report(fd)
    os.close(fd)

    key, _, results = said.partition(b"\n")
    if int(key) < 0:
        pytest.skip("this host keeps no keys")
    outside, inside = probe_results(results)
    assert outside == len("secret")
    assert inside in (-errno.EACCES, -errno.ENOKEY)
    assert report.status == 0


@pytest.mark.parametrize(("program", "code"), [("launcher", launcher_code), ("probe", probe_code)])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_instructions_are_what_their_source_says(tmp_path, machine, program, code):
    prefix = f"{machine}-linux-gnu-"
    if shutil.which(prefix + "as") is None:
        pytest.skip(f"needs {prefix}as (binutils)")
    source = Path(__file__).parents[2] / "service/execution/executors" / f"{program}_{machine}.s"
    subprocess.run([prefix + "as", source, "-o", tmp_path / "l.o"], check=True)
    subprocess.run(
        [prefix + "objcopy", "-O", "binary", "-j", ".text", tmp_path / "l.o", tmp_path / "l.bin"], check=True
    )

    assert (tmp_path / "l.bin").read_bytes() == code(machine)
