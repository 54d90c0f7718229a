"""The verifier behind `bitong audit verify` (contract/audit.md, Verification). It shares no code with the writer.

`python -m service.verify FILE` reads one copy of the database, read-only, and names what is wrong, first index first.
To be read in this order:

1. `tree.py`, `forms.py`, `notes.py`: the tree of RFC 6962, the forms in which things are stored, and signed notes;
2. `log.py`, `checkpoints.py`: each entry's bytes, leaf and columns, in index order, the tiles of the tree over them, and
   each checkpoint where the tree has its size;
3. `runs.py`: each run refused alone, or started and ended once; every column of theirs that an entry says something of;
   what was kept of them, by the hashes in the entries; `confirmations.py`: each question, answered at most once;
4. `definitions.py`, `tokens.py`: versions with their files down to the bytes, rejections, rights;
   `clone.py`, `git.py`: the same versions against a clone of the repository;
5. `database.py`, `findings.py`: how the file is opened, and how a difference is told.

Beside it, `proofs.py` checks the file that proves one run, without any database.

Entries are streamed. What stays in memory is one record for each version, token, rejection, confirmation and run still open.
Not checked here: columns that no entry speaks of (such as a version's parsed definition).
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pysqlite3.dbapi2 as sqlite

from service.verify.checkpoints import Checkpoints, Kept, read_files, read_keys
from service.verify.clone import Clone
from service.verify.confirmations import Confirmations
from service.verify.database import open_database, schema, storage
from service.verify.definitions import Definitions
from service.verify.findings import MAX_FINDINGS, Finding, Findings, Report, VerifyError, lines, shown
from service.verify.log import Log
from service.verify.notes import Key
from service.verify.proofs import verify_proof
from service.verify.runs import Runs
from service.verify.tokens import Tokens

__all__ = ["Finding", "Report", "VerifyError", "lines", "verify_database", "verify_proof"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class _Against:
    """What the copy is held against beside itself."""

    keys: Sequence[Key]
    checkpoints: Sequence[Kept]
    clone: Clone | None


def verify_database(
    path: str | os.PathLike[str],
    *,
    keys: Sequence[str] = (),
    checkpoints: Sequence[Path] = (),
    clone: Path | None = None,
    tools_path: str = "tools",
    progress: Progress | None = None,
) -> Report:
    """Check all that follows from the log in this copy; `progress` is told (entries done, entries in all).

    `keys`: vkeys that signatures are checked with; `checkpoints`: files that somebody kept; `clone`: a folder with the
    repository, whose tools stand below `tools_path`. Raises VerifyError for what is none of these. What is damaged or
    hostile is reported on, as far as it reads.
    """
    against = _Against(read_keys(keys), read_files(checkpoints), None if clone is None else Clone(clone, tools_path))
    db = None
    try:
        db = open_database(path)
        return _verify(db, against, progress)
    except (sqlite.Error, OSError) as error:
        raise VerifyError(f"不是能读的数据库：{shown(error)}。", f"Not a readable database: {shown(error)}.") from error
    finally:
        if db is not None:
            db.close()


def _verify(db: sqlite.Connection, against: _Against, progress: Progress | None) -> Report:
    begun = time.perf_counter()
    findings = Findings()
    definitions = Definitions(db, findings)
    runs = Runs(db, findings, definitions.versions)
    tokens = Tokens(db, findings)
    confirmations = Confirmations(db, findings)
    checkpoints = Checkpoints(db, findings, against.keys)
    parts = (definitions, runs, tokens, confirmations, checkpoints)
    log = Log(db, findings, checkpoints, {type_: reader for part in parts for type_, reader in part.readers.items()})
    notes: list[tuple[str, str]] = []
    if not schema(db, findings):
        notes.append(("结构不可信，没有往下读。", "The schema is not to be trusted, so nothing was read through it."))
    else:
        reading = partial(log.read, progress)
        before = (partial(storage, db, findings), partial(checkpoints.load, against.checkpoints))
        after = (log.tail, runs.check, definitions.check, definitions.rejections, tokens.check)
        for step in (*before, reading, *after, confirmations.check, confirmations.keys):
            try:
                step()
            except sqlite.Error as error:  # what it could not read is said; the others go on
                findings.find(log.next if step is reading else None, "storage-unreadable", "file", error, "rows")
        checkpoints.check(log.next, whole=log.whole)
        if against.clone is not None:
            against.clone.check(definitions.versions, findings)
            notes += against.clone.notes()
    notes += checkpoints.notes()
    if not log.whole:
        notes.append(("缺口之后的树没有重算。", "Beyond the gap the tree was not recomputed."))
    if findings.total > MAX_FINDINGS:
        notes.append((f"共 {findings.total} 处不符，只列最前的。", f"{findings.total} findings; the first are listed."))
    return Report(
        size=log.tree.size,
        root=log.tree.root().hex(),
        checkpoints=checkpoints.compared,
        open_runs=tuple(runs.open),
        entries=dict(sorted(log.entries.items())),
        findings=tuple(findings.first()),
        seconds=time.perf_counter() - begun,
        notes=tuple(notes),
    )
