"""A log on a real database in a folder of its own, and the part that signs it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from service.domain.audit import AuditEntry, Fact
from service.store.checkpointing import Checkpoints
from service.store.database import Database
from service.store.folder import DataFolder
from service.store.migrations import ensure_schema

ORIGIN = "bitong/test"


class SignedLog:
    """One data folder, opened and closed as often as a test likes; `close` without `stop` is a crash."""

    def __init__(self, path: Path, template: Path, origin: str = ORIGIN) -> None:
        self.origin = origin
        self.folder = DataFolder(path)
        self.folder.make()
        self.file = path / "bitong.db"
        if not self.file.exists():
            shutil.copy(template, self.file)
        self.database: Database
        self.checkpoints: Checkpoints
        self.open()

    def open(self) -> None:
        """As `serve` opens it."""
        self.database = Database(self.file)
        if self.database.log.size == 0:
            self.append("log.opened", origin=self.origin)
        self.checkpoints = Checkpoints(self.database, self.folder)
        self.checkpoints.open()

    def append(self, kind: str = "session.opened", times: int = 1, **facts: object) -> list[AuditEntry]:
        return self.database.write(lambda transaction: transaction.append_all([Fact(kind, "bitong", facts)] * times))

    def checkpoint(self) -> str:
        """The newest, of all there is."""
        return self.checkpoints.current(self.database.log.size).note

    def again(self, between: Callable[[], None] = lambda: None) -> None:
        """The end of the process, and its next start."""
        self.database.close()
        between()
        self.open()


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """An empty database, migrated once."""
    file = tmp_path_factory.mktemp("template") / "bitong.db"
    ensure_schema(file)
    return file


@pytest.fixture
def new_log(tmp_path, template):
    made = []

    def make(name: str = "data") -> SignedLog:
        made.append(SignedLog(tmp_path / name, template))
        return made[-1]

    yield make
    for log in made:
        log.database.close()


@pytest.fixture
def log(new_log):
    return new_log()
