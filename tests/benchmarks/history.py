"""Table import: a first look at a long history, against what the git CLI takes to read and to clone it."""

import time
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks import repository
from tests.benchmarks.git_server import GitServer
from tests.benchmarks.processes import Peaks, cpu_seconds, descendants
from tests.benchmarks.service import Service
from tests.benchmarks.tables import Table, mb, median, times
from tests.git_http import git

TOOLS, COMMITS = 1000, 5000


class Import(NamedTuple):
    """One first look: its seconds, and CPU seconds and most bytes of the service and of its mirror processes."""

    seconds: float
    cpu: tuple[float, float]
    peaks: tuple[int, int]


def run(folder: Path, *, quick: bool) -> None:
    """Print the table."""
    commits = COMMITS // 5 if quick else COMMITS
    whole = repository.make(folder / "whole.git", {}, TOOLS, commits)
    logs: list[float] = []
    clones: list[float] = []
    with GitServer(folder) as server:

        def measure_git(number: int) -> None:
            logs.append(_git("log", "--raw", "--no-abbrev", "--root", "main", at=whole))
            clone = ("clone", "--bare", "--quiet", server.url("whole.git"), f"clone-{number}.git")
            clones.append(_git(*clone, at=folder))

        measure_git(0)
        ours = _import(folder, server, whole, commits)
        measure_git(1)
    _show(median(logs), median(clones), ours, commits)


def _git(*arguments: str, at: Path) -> float:
    """Seconds that a git command took."""
    began = time.perf_counter()
    git(*arguments, at=at)
    return time.perf_counter() - began


def _import(folder: Path, server: GitServer, whole: Path, commits: int) -> Import:
    """A service on a repository that is empty until it is ready; then the history comes, and it looks."""
    origin = repository.make_empty(folder / "origin.git")
    with Service(folder / "service", repository_url=server.url("origin.git"), fetch_timeout_s=1200) as service:
        git("fetch", "--quiet", whole, "main:main", at=origin)
        before = _cpu(service.pid)
        with Peaks(service.pid) as peaks:
            began = time.perf_counter()
            _look(service)
            took = time.perf_counter() - began
        own, below = (now - then for now, then in zip(_cpu(service.pid), before, strict=True))
        _check(service, TOOLS, commits)
    return Import(took, (own, below), (peaks.own, peaks.below))


def _cpu(pid: int) -> tuple[float, float]:
    """CPU seconds of the service, and of its mirror processes, those that ended included."""
    return cpu_seconds(pid)[0], sum(sum(cpu_seconds(child)) for child in descendants(pid))


def _look(service: Service) -> None:
    status, answer = service.call("POST", "/api/v1/sync?wait=true")
    if status != 200 or answer["outcome"] != "applied":
        raise RuntimeError(f"the look: {status} {answer}")


def _check(service: Service, tools: int, commits: int) -> None:
    """What was imported is all of it."""
    status, answer = service.call("GET", "/api/v1/tools")
    if status != 200 or len(answer["items"]) != tools:
        raise RuntimeError(f"tools: {status}, {len(answer['items'])} of {tools}")
    versions = sum(tool["definition"]["version"] for tool in answer["items"])
    if versions != tools + commits:
        raise RuntimeError(f"versions: {versions} of {tools + commits}")


def _show(log: float, clone: float, ours: Import, commits: int) -> None:
    title = f"import: the first look at {TOOLS} tools and {commits} commits, over HTTP"
    table = Table(title, "", "s", "x git log", "x git clone", "commits/s", "CPU s")
    cpu = f"{ours.cpu[0]:.1f} + {ours.cpu[1]:.1f}"
    rows = (
        ("git log --raw", log, ""),
        ("git clone --bare", clone, ""),
        ("bitong, POST /sync?wait=true", ours.seconds, cpu),
    )
    for name, took, spent in rows:
        table.row(name, f"{took:.2f}", times(took, log), times(took, clone), f"{commits / took:.0f}", spent)
    service, mirror = map(mb, ours.peaks)
    table.note(f"peak RSS: service {service} MB, its mirror processes together {mirror} MB (looked at each 10 ms)")
    table.note("CPU: of the service + of its mirror processes; git before and after, the medians")
    table.show()
