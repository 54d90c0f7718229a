"""Table import: a first look at a long history, against what the git CLI takes to read and to clone it."""

import time
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks import repository
from tests.benchmarks.git_server import GitServer
from tests.benchmarks.processes import Peaks, cpu_seconds, descendants
from tests.benchmarks.service import Service
from tests.benchmarks.tables import Table, mb, median, times
from tests.git_http import git

TOOLS, COMMITS = 1000, 5000


class Import:
    """One first look: a service on a repository that was empty until it was ready."""

    def __init__(self, folder: Path, origin: Path, url: str | Path) -> None:
        self._folder = folder
        self._origin = origin
        self._url = url
        self.cpu = (0.0, 0.0)
        self.peaks = (0, 0)

    def run(self, whole: Path, commits: int) -> float:
        """Put the history in its place and let the service look; seconds of that look."""
        with Service(self._folder, repository_url=self._url) as service:
            git("fetch", "--quiet", whole, "main:main", at=self._origin)
            before = _cpu(service.pid)
            with Peaks(service.pid) as peaks:
                began = time.perf_counter()
                _look(service)
                took = time.perf_counter() - began
            own, below = (now - then for now, then in zip(_cpu(service.pid), before, strict=True))
            self.cpu, self.peaks = (own, below), (peaks.own, peaks.below)
            _check(service, TOOLS, commits)
        return took


def run(folder: Path, *, quick: bool) -> None:
    """Print the table."""
    commits = COMMITS // 5 if quick else COMMITS
    whole = repository.make(folder / "whole.git", {}, TOOLS, commits)
    git_took: dict[str, list[float]] = {"git log --raw": [], "git clone --bare": []}
    ours: dict[str, float] = {}
    with ExitStack() as stack:
        server = stack.enter_context(GitServer(folder))
        imports = {}
        for kind, over_http in (("over HTTP", True), ("local path", False)):
            origin = repository.make_empty(folder / f"{kind}.git")
            imports[kind] = Import(folder / kind, origin, server.url(f"{kind}.git") if over_http else origin)
        for number, (kind, one) in enumerate([*imports.items(), ("", None)]):
            git_took["git log --raw"].append(_git("log", "--raw", "--no-abbrev", "--root", "main", at=whole))
            clone = ("clone", "--bare", "--quiet", server.url("whole.git"), f"clone-{number}.git")
            git_took["git clone --bare"].append(_git(*clone, at=folder))
            if one is not None:
                ours[kind] = one.run(whole, commits)
    _show(git_took, ours, imports, commits)


def _git(*arguments: str, at: Path) -> float:
    """Seconds that a git command took."""
    began = time.perf_counter()
    git(*arguments, at=at)
    return time.perf_counter() - began


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


def _show(git_took: dict[str, list[float]], ours: dict[str, float], imports: dict[str, Import], commits: int) -> None:
    columns = ("", "s", "x git log", "x git clone", "commits/s", "CPU s")
    table = Table(f"import: the first look at {TOOLS} tools and {commits} commits", *columns)
    rows = {name: median(spans) for name, spans in git_took.items()}
    log, clone = rows.values()
    for name, took in [*rows.items(), *ours.items()]:
        spent = imports[name].cpu if name in imports else None
        cpu = "" if spent is None else f"{spent[0]:.1f} + {spent[1]:.1f}"
        label = f"bitong, {name}" if name in imports else name
        table.row(label, f"{took:.2f}", times(took, log), times(took, clone), f"{commits / took:.0f}", cpu)
    for name, one in imports.items():
        service, mirror = map(mb, one.peaks)
        table.note(f"peak RSS {name}: service {service} MB, its mirror processes together {mirror} MB (each 10 ms)")
    table.note("CPU: of the service + of its mirror processes")
    table.note("bitong: one `POST /sync?wait=true` each; git: medians of before, between and after")
    table.show()
