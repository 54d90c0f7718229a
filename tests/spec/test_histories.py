"""Thirty histories made at random, and what contract/registration.md makes of each step (G12, G13, G14, G16, G24).

Two services take all of them in turn, as a branch that is replaced again and again: one is told of every step, twice;
the other of the last steps alone. With --slow each history also has a fresh service for each of the three ways.
"""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.git_http import git
from tests.harness.forge import DATA, NativeRepo
from tests.harness.parts import Parts
from tests.harness.service import BitongService

HISTORIES = sorted(path.stem for path in (DATA / "histories").glob("*.json"))
NORMAL = "005"  # in the normal set alone on a service, each way: it holds a collision, orphans and removals

every_history = pytest.mark.parametrize("history", HISTORIES)
fresh_histories = pytest.mark.parametrize(
    "history", [name if name == NORMAL else pytest.param(name, marks=pytest.mark.slow) for name in HISTORIES]
)


@dataclass
class Tracked:
    """A service, and the repository whose branch is put where a test wants it."""

    service: BitongService
    repo: NativeRepo

    def go(self, tip: str) -> None:
        """The branch stands at `tip`, and the service has looked."""
        self.repo.place(tip)
        assert self.service.sync().status_code == 200


@pytest.fixture(scope="module")
def bare(shared_parts: Parts) -> NativeRepo:
    """One repository that holds the commits of all histories; its `main` is yet to be born."""
    repo = shared_parts.repo()
    _load(repo, *HISTORIES)
    return repo


def _load(repo: NativeRepo, *histories: str) -> None:
    for name in histories:
        bundle = str(DATA / "histories" / f"{name}.bundle")
        git("fetch", "--quiet", bundle, f"+refs/heads/*:refs/heads/{name}/*", at=repo.bare)


@pytest.fixture(scope="module")
def step_by_step(shared_parts: Parts, bare: NativeRepo) -> Tracked:
    return Tracked(shared_parts.service(bare), bare)


@pytest.fixture(scope="module")
def all_at_once(shared_parts: Parts, bare: NativeRepo) -> Tracked:
    return Tracked(shared_parts.service(bare), bare)


def _steps(history: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = json.loads((DATA / "histories" / f"{history}.json").read_bytes())["steps"]
    return steps


def _registry(tracked: Tracked) -> dict[str, Any]:
    """What the lists say, in the words of the histories' README; of the commits that the tip reaches."""
    service = tracked.service
    reachable = set(git("rev-list", "main", at=tracked.repo.bare).split())
    names = {name for history in HISTORIES for step in _steps(history) for name, _ in step["versions"]}
    versions = [(name, version) for name in names for version in service.versions(name)]
    rejections = [item for item in service.items("/rejections") if item["commit"] in reachable]
    collisions = [item for item in rejections if _collides(item)]
    return {
        "versions": sorted([name, v["commit"]] for name, v in versions if v["state"] != "orphaned"),
        "orphaned": sorted([name, v["commit"]] for name, v in versions if v["state"] == "orphaned"),
        "rejected": sorted([item["tool"], item["commit"]] for item in rejections if not _collides(item)),
        "active": {
            name: {"commit": tool["definition"]["commit"], "behind": bool(tool["behind"])}
            for name, tool in service.tools().items()
        },
        "collides": {item["tool"]: json.dumps(item["problems"]) for item in collisions if item["current"]},
    }


def _collides(rejection: dict[str, Any]) -> bool:
    return all(problem["code"] == "name-collision" for problem in rejection["problems"])


def _assert_registered(tracked: Tracked, step: dict[str, Any], *, orphans: list[list[str]] | None) -> None:
    found = _registry(tracked)

    assert found["versions"] == sorted(step["versions"])
    assert found["rejected"] == sorted(step["rejected"])
    assert found["active"] == step["active"]
    assert set(found["collides"]) == set(step["collides"])
    assert all(step["collides"][name] in told for name, told in found["collides"].items())
    if orphans is not None:
        assert found["orphaned"] == sorted(orphans)
    _assert_removed(tracked, step)


def _assert_removed(tracked: Tracked, step: dict[str, Any]) -> None:
    """A removed tool is 404 with its removal; one that never was valid there, or is another history's, is not."""
    had = {name for name, _ in step["versions"]}
    for name in step["removed"]:
        answer = tracked.service.exec(name)
        assert answer.status_code in (404, 409)
        if name in had:
            assert answer.json()["code"] == "removed-tool"
            assert set(answer.json()["removed"]) >= {"at", "commit", "by"}


@every_history
def test_each_step_of_a_history_is_registered_as_git_says_and_again_when_looked_at_twice(
    step_by_step: Tracked, history: str
) -> None:
    """G24: commit by commit; a second look at the same tip changes nothing, not even in the log."""
    for step in _steps(history):
        step_by_step.go(step["tip"])
        _assert_registered(step_by_step, step, orphans=None)

        newest = step_by_step.service.get("/audit", limit=1)["items"]
        before = _registry(step_by_step)
        step_by_step.go(step["tip"])

        assert step_by_step.service.get("/audit", limit=1)["items"] == newest
        assert _registry(step_by_step) == before


@every_history
def test_a_history_imported_at_once_ends_the_same(all_at_once: Tracked, history: str) -> None:
    """G24: the last step alone gives the same versions, the same active ones and the same removals."""
    step = _steps(history)[-1]

    all_at_once.go(step["tip"])

    _assert_registered(all_at_once, step, orphans=None)


@pytest.mark.parametrize("way", ["at once", "each twice", pytest.param("step by step", marks=pytest.mark.slow)])
@fresh_histories
def test_a_history_alone_on_a_service_ends_as_git_says_whichever_way_it_came(
    parts: Parts, history: str, way: str
) -> None:
    """G13, G24: nothing but this history: what a force-push took away, and nothing else, is orphaned."""
    repo = parts.repo()
    _load(repo, history)
    tracked = Tracked(parts.service(repo), repo)
    steps = _steps(history)[-1:] if way == "at once" else _steps(history)
    for step in steps:
        for _ in range(2 if way == "each twice" else 1):
            tracked.go(step["tip"])
        _assert_registered(tracked, step, orphans=[] if way == "at once" else step["orphaned"])
