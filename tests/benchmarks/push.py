"""Table push: from a signed webhook to the new version in the API, 1,000 tools, against `git fetch` of the same commit."""

import copy
import json
import time
from pathlib import Path
from typing import Any

from tests.benchmarks import repository
from tests.benchmarks.git_server import GitServer
from tests.benchmarks.load import Caller, sequential
from tests.benchmarks.service import SECRET, Service
from tests.benchmarks.tables import Table, median, ms, p99, times
from tests.git_http import git
from tests.harness.forge import PUSH, signed_headers

TOOLS = 1000
_EVERY_S = 0.001
_WAIT_S = 30.0


def run(folder: Path, *, quick: bool) -> None:
    """Print the table."""
    origin = repository.make(folder / "origin.git", {}, TOOLS)
    clone = folder / "clone.git"
    fetches: list[float] = []
    answers: list[float] = []
    pushes: list[float] = []
    with GitServer(folder) as server, Service(folder / "service", repository_url=server.url("origin.git")) as service:
        git("clone", "--quiet", "--bare", server.url("origin.git"), clone)
        git("config", "gc.auto", "0", at=clone)
        before = git("rev-parse", "main", at=origin)
        for number in range(3 + (8 if quick else 30)):
            after = repository.one_more(origin, number, revision=number + 1)
            if number % 2:
                fetches.append(_fetch(clone, server.url("origin.git")))
            answered, visible = _push(service, before, after, repository.tool_name(number))
            answers.append(answered)
            pushes.append(visible)
            if not number % 2:
                fetches.append(_fetch(clone, server.url("origin.git")))
            before = after
    _show(fetches[3:], answers[3:], pushes[3:])


def _fetch(clone: Path, url: str) -> float:
    began = time.perf_counter()
    git("fetch", "--quiet", url, "+refs/heads/main:refs/heads/main", at=clone)
    return time.perf_counter() - began


def _push(service: Service, before: str, after: str, tool: str) -> tuple[float, float]:
    """Seconds until the hook was answered, and until the API shows the commit."""
    body = json.dumps(_payload(before, after), ensure_ascii=False, indent=2).encode()
    signed = dict(signed_headers(body, secret=SECRET))
    hook = Caller(service.port, service.request("POST", "/hooks/forgejo", body, signed), b" 202 ")
    watcher = Caller(service.port, service.request("GET", f"/api/v1/tools/{tool}"), after.encode())
    sequential(watcher, 1)
    began = time.perf_counter()
    answered = sequential(hook, 1)
    if answered.failures:
        raise RuntimeError(answered.first_failure)
    while sequential(watcher, 1).failures:
        if time.perf_counter() - began > _WAIT_S:
            raise RuntimeError(f"{tool} at {after} did not appear within {_WAIT_S} s")
        time.sleep(_EVERY_S)
    visible = time.perf_counter() - began
    for caller in (hook, watcher):
        caller.close()
    return answered.latencies[0], visible


def _payload(before: str, after: str) -> dict[str, Any]:
    """A recorded delivery with these commits."""
    payload: dict[str, Any] = copy.deepcopy(PUSH)
    payload |= {"ref": "refs/heads/main", "before": before, "after": after, "total_commits": 1}
    payload["commits"] = [{**payload["commits"][0], "id": after}]
    payload["head_commit"] = {**payload["head_commit"], "id": after}
    payload["repository"]["id"] = 1
    return payload


def _show(fetches: list[float], answers: list[float], pushes: list[float]) -> None:
    table = Table(f"push: one commit to a repository of {TOOLS} tools, over HTTP", "", "p50 ms", "p99", "x git fetch")
    rows = (("git fetch, the CLI", fetches), ("hook answered", answers), ("hook sent -> version in the API", pushes))
    for name, spans in rows:
        table.row(name, ms(median(spans)), ms(p99(spans)), times(median(spans), median(fetches)))
    table.note("aim: <= 1.5x `git fetch` of the same commit over the same server")
    table.note(f"n = {len(pushes)}; the API is asked every {_EVERY_S * 1000:g} ms after its last answer")
    table.show()
