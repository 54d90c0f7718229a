"""Table import: a first look at a long history, against what the git CLI takes to read and to clone it."""

import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import repository
from tests.benchmarks.git_server import GitServer
from tests.benchmarks.processes import Peaks
from tests.benchmarks.service import Service
from tests.benchmarks.tables import Table, mb, median, times
from tests.git_http import git

TOOLS, COMMITS = 1000, 5000


def run(folder: Path, *, quick: bool) -> None:
    """Print the table."""
    commits = COMMITS // 5 if quick else COMMITS
    whole = repository.make(folder / "whole.git", {}, TOOLS, commits)
    found: dict[str, list[float]] = {}
    peaks: list[Peaks] = []
    with GitServer(folder) as server:
        for number in range(1 if quick else 3):
            _note(found, "git log --raw", lambda: git("log", "--raw", "--no-abbrev", "--root", "main", at=whole))
            clone = folder / f"clone-{number}.git"
            address = server.url("whole.git")
            _note(found, "git clone --bare", lambda: git("clone", "--quiet", "--bare", address, clone))
            for kind, url in (("over HTTP", server.url(f"empty-{number}.git")), ("local path", "")):
                origin = folder / (f"empty-{number}.git" if url else f"local-{number}.git")
                repository.make_empty(origin)
                with Service(folder / f"{kind}-{number}", repository_url=url or origin) as service:
                    git("fetch", "--quiet", whole, "main:main", at=origin)
                    with Peaks(service.pid) as peak:
                        _note(found, f"bitong, {kind}", lambda: _look(service))
                    if url:
                        peaks.append(peak)
                    _check(service, TOOLS, commits)
    _show(found, peaks, commits)


def _note(found: dict[str, list[float]], name: str, work: Callable[[], object]) -> None:
    began = time.perf_counter()
    work()
    found.setdefault(name, []).append(time.perf_counter() - began)


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


def _show(found: dict[str, list[float]], peaks: list[Peaks], commits: int) -> None:
    table = Table(
        f"import: the first look at {TOOLS} tools and {commits} commits", "", "s", "x git log", "x git clone", "commits/s"
    )
    log, clone = (median(found[name]) for name in ("git log --raw", "git clone --bare"))
    for name, spans in found.items():
        took = median(spans)
        table.row(name, f"{took:.2f}", times(took, log), times(took, clone), f"{commits / took:.0f}")
    own, below = max(peak.own for peak in peaks), max(peak.below for peak in peaks)
    table.note(f"peak RSS over HTTP: service {mb(own)} MB, its mirror processes together {mb(below)} MB (looked at each 10 ms)")
    table.note(f"medians of n = {len(found['git clone --bare'])}; bitong: from POST /sync until it answers, all versions in the database")
    table.show()
