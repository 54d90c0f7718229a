"""Matching in the service, where its storage or its registry is not as usual."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.domain.index import Index
from service.domain.tools import Tool, ToolVersion
from service.execution.matching import Matching
from service.store.database import Database
from service.store.migrations import ensure_schema
from tests.matching.registry import ANYONE, starter


def registry() -> Index:
    versions = [
        ToolVersion(
            id=number,
            tool=one.name,
            number=1,
            state="active",
            commit="0" * 40,
            tree="0" * 40,
            blob="0" * 40,
            sha256="0" * 64,
            definition=one,
            git_author="",
            git_committer="",
            git_committed_at=None,
            pusher=None,
            registered_at="2026-05-31T08:00:00.000Z",
        )
        for number, one in enumerate(starter(), 1)
    ]
    return Index([Tool(version.tool, "active", version) for version in versions], 1)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    ensure_schema(tmp_path / "bitong.db")
    database = Database(tmp_path / "bitong.db")
    yield database
    database.close()


def test_a_match_that_cannot_be_written_down_is_answered_without_an_id(tmp_path: Path):
    ensure_schema(tmp_path / "bitong.db")
    database, index = Database(tmp_path / "bitong.db"), registry()
    matching = Matching(database, index=lambda: index)
    matching.start()
    assert matching.match("查看最近的提交记录", ANYONE).id is not None
    matching.stop()

    database.close()
    answered = matching.match("查看最近的提交记录", ANYONE)

    assert answered.id is None
    assert answered.match.candidates[0].tool == "git-log"


def test_what_is_asked_while_a_registry_is_being_read_is_answered_as_of_the_one_before(database: Database):
    index = [registry()]
    matching = Matching(database, index=lambda: index[0])
    matching.start()
    assert matching.match("查看最近的提交记录", ANYONE).match.found
    matching.stop()  # as if building took for ever

    index[0] = Index([], 2)

    assert matching.match("查看最近的提交记录", ANYONE).match.found


def test_too_many_and_too_old_matches_leave(database: Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("service.store.matching.KEEP_ROWS", 100)
    index = registry()
    matching = Matching(database, index=lambda: index)
    matching.start()

    for _ in range(256):
        matching.match("查看最近的提交记录", ANYONE)
    matching.stop()

    assert [row[0] for row in database.fetch("SELECT count(*) FROM matches", {})] == [100]
