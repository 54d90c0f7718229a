"""Definitions that only the instance's own document settles (contract/registration.md, What is checked).

Real git, real SQLite, looks as the service makes them; after each test the log verifies from the file alone.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.domain.audit import SYSTEM, Fact
from service.intake.definitions.reading import read_definition
from service.intake.definitions.settling import read_open, settle
from service.intake.ingest import Ingest
from service.store import tools
from service.verify import verify_database
from tests.harness.definitions import tool_text
from tests.intake.test_registration_holes import BROKEN, Registry

PAINT = {
    "repoPaint": {
        "verb": "POST",
        "path": "/repos/{owner}/{repo}/paint",
        "parameters": [{"name": "layer", "in": "query", "type": "integer", "required": True}],
        "body": {"colour": {"type": "string", "required": True}},
    }
}
REPO_GET = {
    "verb": "GET",
    "path": "/repos/{owner}/{repo}",
    "parameters": [{"name": "lang", "in": "query", "type": "string"}],
}
TEXT = {"type": "string", "required": True}
NUMBER = {"type": "integer", "required": True}
PAINTS: dict[str, Any] = {
    "executor": "git-forgejo",
    "method": "repoPaint",
    "params_schema": {"colour": TEXT, "layer": NUMBER},
}
GETS: dict[str, Any] = {"executor": "git-forgejo", "method": "repoGet", "params_schema": {}}


class Instance(Registry):
    """A registry whose forge shows a document when a test says so."""

    document: tuple[str, dict[str, Any]] = ("", {})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.database.write(lambda transaction: transaction.append(Fact("log.opened", SYSTEM, {"origin": "here"})))

    def _new_ingest(self) -> Ingest:
        return Ingest(
            self.database,
            self.mirror,
            branch="main",
            tools_path="tools",
            repository_id=lambda: None,
            operations=lambda: self.document,
        )

    def restart(self) -> None:
        self.ingest = self._new_ingest()

    def describe(self, facts: dict[str, Any]) -> None:
        """The forge has these operations besides, and shows them."""
        self.document = (f"revision of {sorted(facts)} {id(facts)}", facts)

    def brought(self, name: str) -> list[tuple[int, str, str]]:
        """Number, commit and state of each version, the oldest number first."""
        return [(version.number, version.commit, version.state) for version in reversed(self.versions(name))]

    def current(self, name: str) -> list[str]:
        """The codes of what the tip has against the name."""
        rows = [row for row in self.rejections(name) if row["current"]]
        return [problem["code"] for row in rows for problem in json.loads(row["problems"])]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Instance]:
    made = Instance(tmp_path)
    yield made
    made.close()
    assert verify_database(tmp_path / "bitong.db").findings == ()


# A name


def test_a_name_that_only_the_instance_knows_is_rejected_until_its_document_was_seen(registry: Instance) -> None:
    """G25: the document comes without a commit; the version is the commit's."""
    registry.write_tool("paint", **PAINTS)
    commit = registry.commit()
    before = registry.look()
    rejected = registry.current("paint")
    registry.describe(PAINT)

    after = registry.look()

    assert (before.rejected, before.registered, rejected) == (("paint",), (), ["unknown-operation"])
    assert (after.outcome, after.registered, after.rejected, after.moved) == ("applied", ("paint",), (), False)
    assert registry.brought("paint") == [(1, commit, "active")]
    assert registry.tool("paint").state == "active"
    assert registry.current("paint") == []
    assert (registry.log("definition.rejected"), registry.log("definition.registered")) == (1, 1)


def test_a_document_that_was_seen_before_the_push_registers_it_at_once(registry: Instance) -> None:
    registry.describe(PAINT)
    registry.write_tool("paint", **PAINTS)
    registry.commit()

    look = registry.look()

    assert (look.registered, look.rejected) == (("paint",), ())
    assert registry.versions("paint")[0].warnings == ()
    assert registry.log("definition.rejected") == 0


def test_the_nearest_name_is_the_instances_too(registry: Instance) -> None:
    registry.describe(PAINT)
    registry.write_tool("paint", **(PAINTS | {"method": "repoPant"}))
    registry.commit()

    registry.look()

    assert registry.current("paint") == ["unknown-operation"]
    assert "repoPaint" in registry.rejections("paint")[0]["problems"]


def test_a_look_by_a_known_document_changes_nothing(registry: Instance) -> None:
    """Also after a start, which settles anew what is still rejected."""
    registry.write_tool("paint", **PAINTS)
    registry.write_tool("other", **(PAINTS | {"method": "repoNoSuchThing"}))
    registry.commit()
    registry.look()
    registry.describe(PAINT)
    registry.look()
    size = registry.database.log.size
    registry.restart()

    looks = [registry.look(), registry.look(full=True)]

    assert [(look.outcome, look.registered, look.rejected) for look in looks] == [("unchanged", (), ())] * 2
    assert registry.database.log.size == size
    assert registry.current("other") == ["unknown-operation"]


def test_a_document_that_came_while_the_service_was_down_settles_at_its_start(registry: Instance) -> None:
    registry.write_tool("paint", **PAINTS)
    registry.commit()
    registry.look()
    registry.describe(PAINT)
    registry.restart()

    assert registry.look().registered == ("paint",)


# Its history


def test_every_commit_that_only_the_document_settles_becomes_a_version_in_historys_order(registry: Instance) -> None:
    """Numbers that were given stay; those of older commits come next."""
    registry.write_tool("paint", **PAINTS)
    first = registry.commit()
    registry.write_tool("paint", **GETS)
    second = registry.commit()
    registry.write_tool("paint", **PAINTS, why="再画一次。")
    third = registry.commit()
    registry.write_tool("paint", **GETS, why="不画了。")
    last = registry.commit()
    registry.look()
    numbered = registry.brought("paint")
    registry.describe(PAINT)

    registry.look()

    assert numbered == [(1, second, "superseded"), (2, last, "active")]
    assert registry.brought("paint") == [*numbered, (3, first, "superseded"), (4, third, "superseded")]
    version = registry.tool("paint").version
    assert version is not None
    assert version.number == 2


def test_the_same_history_gives_the_same_versions_whenever_the_document_came(tmp_path: Path) -> None:
    """Same import, any way: before the first look, between two, or after the last."""
    found = []
    for when in range(4):
        folder = tmp_path / str(when)
        folder.mkdir()
        registry = Instance(folder)
        found.append(_history_with_a_document_after(registry, when))
        registry.close()
        assert verify_database(folder / "bitong.db").findings == ()

    assert found[0] == found[1] == found[2] == found[3]
    assert {state for states in found[0].values() for _, state in states} == {"active", "superseded", "removed"}


def _history_with_a_document_after(registry: Instance, looks: int) -> dict[str, list[tuple[int, str]]]:
    """Each tool's (how manieth commit, state), and how it stands."""
    commits: list[str] = []
    for step in range(4):
        if step == looks:
            registry.describe(PAINT)
        _write(registry, step)
        commits.append(registry.commit())
        registry.look()
    registry.describe(PAINT)
    registry.look()
    return {
        name: sorted((commits.index(commit), state) for _, commit, state in registry.brought(name))
        for name in ("paint", "gone", "was", "fine")
    }


def _write(registry: Instance, step: int) -> None:
    if step == 0:
        registry.write_tool("fine")
        registry.write_tool("was")
        registry.write_tool("gone", **PAINTS)
    elif step == 1:
        registry.write_tool("was", **PAINTS)
        registry.write_tool("paint", **PAINTS)
    elif step == 2:
        registry.go("rm", "-r", "--quiet", "tools/was", "tools/gone")
        registry.write_tool("paint", **PAINTS, why="又一次。")
    else:
        registry.write("tools/paint/TOOL.hdlp", BROKEN)


def test_a_tool_that_fell_back_runs_the_nearer_version_that_the_document_gives_it(registry: Instance) -> None:
    """And stays behind, for its newest definition is broken whatever the document says."""
    registry.write_tool("paint")
    registry.commit()
    registry.write_tool("paint", **PAINTS)
    nearer = registry.commit()
    registry.write("tools/paint/TOOL.hdlp", BROKEN)
    registry.commit()
    registry.look()
    registry.describe(PAINT)

    registry.look()

    tool = registry.tool("paint")
    assert tool.version is not None
    assert (tool.state, tool.behind, tool.version.commit) == ("active", True, nearer)
    assert registry.current("paint") != []


def test_a_removed_tool_stays_removed_and_what_ran_last_is_the_version_that_came_to_be(registry: Instance) -> None:
    registry.write_tool("was")
    registry.commit()
    registry.write_tool("was", **PAINTS)
    last = registry.commit()
    registry.go("rm", "-r", "--quiet", "tools/was")
    registry.commit()
    assert registry.look().removed == ("was",)
    registry.describe(PAINT)

    look = registry.look()

    assert (look.registered, look.removed) == (("was",), ())
    assert [(commit, state) for _, commit, state in registry.brought("was")][1:] == [(last, "removed")]
    with registry.database.read() as connection:
        tool = tools.tool(connection, "was")
    assert tool is not None
    assert tool.version is not None
    assert (tool.state, tool.version.commit) == ("removed", last)


def test_a_commit_that_a_force_push_dropped_gives_an_orphan_that_comes_back_with_it(registry: Instance) -> None:
    registry.write_tool("fine")
    base = registry.commit()
    registry.write_tool("paint", **PAINTS)
    dropped = registry.commit()
    registry.look()
    registry.place(base)
    registry.describe(PAINT)
    registry.look()
    orphan = registry.brought("paint")

    registry.place(dropped)

    assert orphan == [(1, dropped, "orphaned")]
    assert registry.brought("paint") == [(1, dropped, "active")]
    assert registry.current("paint") == []


def test_a_collision_outlives_the_document_that_settled_the_definition(registry: Instance) -> None:
    registry.write_tool("pa-int")
    registry.commit()
    registry.write_tool("pa_int", **PAINTS)
    registry.commit()
    registry.look()
    before = registry.current("pa_int")
    registry.describe(PAINT)

    registry.look()

    assert sorted(before) == ["name-collision", "unknown-operation"]
    assert registry.current("pa_int") == ["name-collision"]
    assert [state for _, _, state in registry.brought("pa_int")] == ["superseded"]
    assert registry.tool("pa-int").state == "active"


# When the document changes again


def test_an_operation_that_the_document_lost_removes_nothing(registry: Instance) -> None:
    """Never a removal: what is registered stays; what is pushed from then on is judged by what was seen last."""
    registry.describe(PAINT)
    registry.write_tool("paint", **PAINTS)
    registry.commit()
    registry.look()
    registry.describe({"repoGet": REPO_GET})
    lost = registry.look()
    registry.write_tool("paint", **PAINTS, why="再来。")
    registry.commit()

    look = registry.look()

    assert (lost.outcome, lost.removed, lost.rejected) == ("unchanged", (), ())
    assert look.rejected == ("paint",)
    assert (registry.tool("paint").state, registry.tool("paint").behind) == ("active", True)


def test_a_forge_that_shows_no_document_any_more_settles_nothing_otherwise(registry: Instance) -> None:
    registry.describe(PAINT)
    registry.write_tool("paint", **PAINTS)
    registry.write_tool("pant", **(PAINTS | {"method": "repoPant"}))
    registry.commit()
    registry.look()
    size = registry.database.log.size
    registry.document = ("", {})
    registry.restart()

    look = registry.look()

    assert (look.outcome, registry.database.log.size) == ("unchanged", size)
    assert registry.tool("paint").state == "active"


def test_what_is_wrong_with_a_definition_is_told_again_when_the_document_changes_it(registry: Instance) -> None:
    """Without the document the name is unknown; with it, a parameter is."""
    registry.write_tool("paint", **(PAINTS | {"params_schema": {"color": TEXT, "layer": NUMBER}}))
    registry.commit()
    registry.look()
    before = registry.current("paint")
    registry.describe(PAINT)

    look = registry.look()

    assert before == ["unknown-operation"]
    assert (look.outcome, look.registered, look.rejected) == ("applied", (), ("paint",))
    assert registry.current("paint") == ["unknown-operation-parameter"]
    assert registry.log("definition.rejected") == 2


def test_a_definition_is_settled_anew_however_its_problems_were_told_last(registry: Instance) -> None:
    """The document gives a parameter a place where it cannot stand, and then another."""
    paint = PAINT["repoPaint"] | {"path": "/repos/{owner}/{repo}/paint/{colour}", "body": {}}
    registry.write_tool("paint", **(PAINTS | {"params_schema": {"colour": {**TEXT, "secret": True}}}))
    registry.commit()
    registry.look()
    registry.describe({"repoPaint": paint})
    registry.look()
    told = registry.current("paint")
    registry.describe(PAINT)

    assert told == ["secret-in-path"]
    assert registry.look().registered == ("paint",)


def test_a_parameter_that_only_the_document_knows_is_registered_by_it(registry: Instance) -> None:
    registry.write_tool("get", **(GETS | {"params_schema": {"lang": TEXT}}))
    registry.commit()
    registry.look()
    before = registry.current("get")
    registry.describe({"repoGet": REPO_GET})

    assert before == ["unknown-operation-parameter"]
    assert registry.look().registered == ("get",)


# What is said of it


@pytest.mark.parametrize("facts", [{}, PAINT, PAINT | {"repoGet": REPO_GET}, {"repoPaint": None, "repoGet": 7}])
@pytest.mark.parametrize(
    "fields",
    [
        PAINTS,
        PAINTS | {"method": "repoPant"},
        PAINTS | {"params_schema": {"color": TEXT}},
        PAINTS | {"params_schema": {"colour": {"type": "string"}, "layer": {**TEXT, "secret": True}}},
        GETS,
        GETS | {"params_schema": {"lang": TEXT}},
        GETS | {"params_schema": {"lang": {**TEXT, "secret": True}, "land": TEXT}},
        GETS | {"params_schema": {"lang": TEXT}, "effect": "painting"},
        GETS | {"method": "repoGetContents", "params_schema": {"lang": TEXT}, "node": "BS-SG-001"},
        {},
    ],
)
def test_a_definition_settled_later_is_as_if_it_had_been_read_with_the_document(
    fields: dict[str, Any], facts: dict[str, Any]
) -> None:
    """The same definition, problems and warnings, at the same lines."""
    content = tool_text("paint", **fields).encode()

    assert settle(read_open(content, "paint"), facts) == read_definition(content, "paint", extra_operations=facts)
