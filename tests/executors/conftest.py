import os
import time
from pathlib import Path

import pytest

from tests.harness.far_side import answering, far_side

__all__ = ["answering", "far_side"]


def children() -> set[str]:
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


@pytest.fixture
def nothing_left():
    """The test ends without a descriptor or a process, dead or alive, that was not there before."""
    open_before = descriptors()
    before = children()
    yield
    assert descriptors() == open_before
    assert children() <= before


def marked(mark: str) -> list[int]:
    """The processes that carry `mark` in their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


@pytest.fixture
def survivors():
    """Counts processes with a mark, once those that are dying have had up to 5 s (1 s, with the tests' slack)."""

    def count(mark: str) -> int:
        until = time.monotonic() + 5
        while (alive := marked(mark)) and time.monotonic() < until:
            time.sleep(0.01)
        return len(alive)

    return count
