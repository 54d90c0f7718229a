"""The rows against what the entries tell: a pass of its own, so that a long log is read by two processes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pysqlite3.dbapi2 as sqlite

from service.verify.clone import Clone
from service.verify.confirmations import Confirmations
from service.verify.database import open_database
from service.verify.definitions import Definitions
from service.verify.findings import Findings
from service.verify.runs import Runs
from service.verify.story import Story
from service.verify.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Repository:
    """Where a clone is, and where its tools stand."""

    folder: Path
    tools_path: str


@dataclass(frozen=True, slots=True)
class Told:
    """What came of the pass; it crosses from one process to another."""

    findings: Findings
    open_runs: tuple[str, ...]
    entries: Mapping[str, int]
    notes: tuple[tuple[str, str], ...]


def check_copy(path: str, repository: Repository | None) -> Told:
    """In a process of its own, with one view of its own: log and rows of the same moment."""
    db = open_database(path)
    try:
        return check_rows(db, repository)
    finally:
        db.close()


def check_rows(db: sqlite.Connection, repository: Repository | None) -> Told:
    """Every row that follows from the log, and the clone where one is given."""
    findings = Findings()
    definitions = Definitions(db, findings)
    runs = Runs(db, findings, definitions.versions)
    tokens = Tokens(db, findings)
    confirmations = Confirmations(db, findings)
    readers = {kind: read for part in (definitions, runs, tokens, confirmations) for kind, read in part.readers.items()}
    story = Story(db, findings, readers)
    steps = (story.read, runs.check, definitions.check, definitions.rejections, tokens.check)
    for step in (*steps, confirmations.check, confirmations.keys):
        attempt(step, findings)
    notes: list[tuple[str, str]] = []
    if repository is not None:
        clone = Clone(repository.folder, repository.tools_path)
        attempt(partial(clone.check, definitions.versions, findings), findings)
        notes += clone.notes()
    return Told(findings, tuple(runs.open), story.entries, tuple(notes))


def attempt(step: Callable[[], None], findings: Findings, *, index: int | None = None) -> None:
    """One step; what it could not read of the file is said, and the others go on."""
    try:
        step()
    except sqlite.Error as error:
        findings.find(index, "storage-unreadable", "file", error, "rows")
