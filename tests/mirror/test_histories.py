"""Thirty recorded histories: what a look says is what contract/registration.md makes of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.git_http import git
from tests.git_objects import Builder
from tests.mirror.watch import Watch

HISTORIES = Path(__file__).parents[1] / "data" / "histories"


def _made(watch: Any) -> set[tuple[str, str]]:
    """(folder, commit) of every definition that a reachable commit made."""
    return {
        (change.folder.decode(), commit)
        for commit in watch.reachable()
        for change in watch.commits[commit].changes
        if change.source is None
        and change.tree is not None
        and watch.folders[change.folder, change.tree].reading is not None
    }


def _expected(step: dict[str, Any]) -> set[tuple[str, str]]:
    return {(tool, commit) for tool, commit in step["versions"] + step["rejected"]}


@pytest.mark.parametrize("number", sorted(path.stem for path in HISTORIES.glob("*.json")))
def test_a_history_says_the_same_step_by_step_and_at_once(
    number: str, builder: Builder, watch_of: Any, tmp_path: Path
) -> None:
    """Covers G12, G24: merges, reverts and force-pushes, over HTTP in steps and from a local path as if new each time."""
    git("fetch", HISTORIES / f"{number}.bundle", "refs/heads/*:refs/heads/*", at=builder.folder)
    in_steps = watch_of()
    local = watch_of(url=str(builder.folder), folder=tmp_path / "local").mirror
    for index, step in enumerate(json.loads((HISTORIES / f"{number}.json").read_bytes())["steps"], start=1):
        builder.move(git("rev-parse", f"refs/heads/step-{index}", at=builder.folder))
        at_once = Watch(local)

        in_steps.look()
        at_once.look(full=True)

        assert in_steps.tip.commit == at_once.tip.commit == step["tip"]
        assert _made(in_steps) == _expected(step)
        assert _made(at_once) == _expected(step)
        assert {name: in_steps.commits[name] for name in at_once.commits} == at_once.commits
    before = dict(in_steps.commits)

    in_steps.look(full=True)

    assert in_steps.commits == before
    assert set(at_once.commits) == in_steps.reachable()
