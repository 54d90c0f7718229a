"""What the numbers were measured on."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.tables import median, ms, p99


def describe(folder: Path) -> None:
    """Print cores, versions, load and what a durable append costs in `folder`."""
    syncs = fsync_times(folder)
    print(f"* {os.cpu_count()} cores ({_processor()}), load {os.getloadavg()[0]:.2f}, {_memory_gb():.1f} GB memory")
    print(f"* {platform.system()} {platform.release()}, {_filesystem(folder)} under {folder.parent}")
    programs = ", ".join(_said(program, "--version") for program in ("git", "bwrap", "cc"))
    print(f"* Python {sys.version.split()[0]}, {programs}")
    print(f"* append of 500 bytes with fdatasync: median {ms(median(syncs))} ms, p99 {ms(p99(syncs))} ms", flush=True)


def fsync_times(folder: Path, count: int = 300) -> list[float]:
    """Seconds of appends of 500 bytes, each made durable."""
    record = b"r" * 500
    found = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(record)
            os.fdatasync(file.fileno())
            found.append(time.perf_counter() - began)
    return found


def _said(program: str, *arguments: str) -> str:
    if shutil.which(program) is None:
        return f"no {program}"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or [f"{program}: ?"])[0]


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _filesystem(folder: Path) -> str:
    best, kind = "", "?"
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, mount, this, *_ = line.split()
        inside = str(folder).startswith(mount.rstrip("/") + "/") or mount == "/"
        if inside and len(mount) > len(best):
            best, kind = mount, this
    return kind
