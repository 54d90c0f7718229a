"""The verifier behind `bitong audit verify` (contract/audit.md, Verification). It shares no code with the writer.

`python -m service.verify FILE` reads one copy of the database, read-only, and names what is wrong, first index first.
To be read in this order:

1. `tree.py`, `forms.py`, `notes.py`: the tree of RFC 6962, the forms in which things are stored, and signed notes;
2. `log.py`, `checkpoints.py`: each entry's bytes, leaf and columns, in index order, the tiles of the tree over them, and
   each checkpoint where the tree has its size;
3. `story.py`, `rows.py`: the second pass, in a process of its own where the log is long: what the entries tell, held
   against the rows; `runs.py`: each run refused alone, or started and ended once; every column of theirs that an entry
   says something of; what was kept of them, by the hashes in the entries; `confirmations.py`: each question, answered at
   most once;
4. `definitions.py`, `tokens.py`: versions with their files down to the bytes, rejections, rights;
   `clone.py`, `git.py`: the same versions against a clone of the repository;
5. `database.py`, `findings.py`: how the file is opened, and how a difference is told.

Beside it, `proofs.py` checks the file that proves one run, without any database.

Entries are streamed. What stays in memory is one record for each version, token, rejection, confirmation and run still open.
Not checked here: columns that no entry speaks of (such as a version's parsed definition).
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pysqlite3.dbapi2 as sqlite

from service.verify.checkpoints import Checkpoints, read_files, read_keys
from service.verify.clone import Clone
from service.verify.database import open_database, schema, storage
from service.verify.findings import MAX_FINDINGS, Finding, Findings, Report, VerifyError, lines, shown
from service.verify.log import Log
from service.verify.proofs import verify_proof
from service.verify.rows import Repository, Told, attempt, check_copy, check_rows

__all__ = ["Finding", "Report", "VerifyError", "lines", "verify_database", "verify_proof"]

LONG: Final = 20_000  # entries from which on a second process is worth its start

Progress = Callable[[int, int], None]


def verify_database(
    path: str | os.PathLike[str],
    *,
    keys: Sequence[str] = (),
    checkpoints: Sequence[Path] = (),
    clone: Path | None = None,
    tools_path: str = "tools",
    progress: Progress | None = None,
    long: int = LONG,
) -> Report:
    """Check all that follows from the log in this copy; `progress` is told (entries done, entries in all).

    `keys`: vkeys that signatures are checked with; `checkpoints`: files that somebody kept; `clone`: a folder with the
    repository, whose tools stand below `tools_path`; `long`: from so many entries on, by two processes. Raises VerifyError
    for what is none of these. What is damaged or hostile is reported on, as far as it reads.
    """
    begun = time.perf_counter()
    findings = Findings()
    known = read_keys(keys)
    kept = read_files(checkpoints)
    repository = None if clone is None else Repository(clone, tools_path)
    if clone is not None:
        Clone(clone, tools_path)  # what is no repository is said at once
    with ExitStack() as closing:
        try:
            db = open_database(path)
            closing.callback(db.close)
            signed = Checkpoints(db, findings, known)
            log = Log(db, findings, signed)
            if not schema(db, findings):
                told = Told(Findings(), (), {}, (_UNTRUSTED,))
            else:
                rows = _begin_rows(closing, db, path, repository, long)
                attempt(partial(storage, db, findings), findings)
                attempt(partial(signed.load, kept), findings)
                _read(log, findings, progress)
                signed.check(log.next, whole=log.whole)
                told = rows()
        except (sqlite.Error, OSError) as error:
            raise VerifyError(
                f"不是能读的数据库：{shown(error)}。", f"Not a readable database: {shown(error)}."
            ) from error
        except BrokenProcessPool as error:
            raise VerifyError("核对的进程意外结束。", "A process of the verifier ended unexpectedly.") from error
    findings.join(told.findings)
    return _report(log, signed, told, findings, time.perf_counter() - begun)


_UNTRUSTED: Final = ("结构不可信，没有往下读。", "The schema is not to be trusted, so nothing was read through it.")


def _begin_rows(
    closing: ExitStack, db: sqlite.Connection, path: str | os.PathLike[str], repository: Repository | None, long: int
) -> Callable[[], Told]:
    """Begin the second pass in a process of its own, or leave it for later; the answer waits for it."""
    (last,) = db.execute("SELECT max(idx) FROM log_entries").fetchone()
    if not isinstance(last, int) or last < long:
        return partial(check_rows, db, repository)
    pool = closing.enter_context(ProcessPoolExecutor(1, multiprocessing.get_context("spawn")))
    future: Future[Told] = pool.submit(check_copy, os.fspath(path), repository)
    return future.result


def _read(log: Log, findings: Findings, progress: Progress | None) -> None:
    try:
        log.read(progress)
    except sqlite.Error as error:
        findings.find(log.next, "storage-unreadable", "file", error, "rows")
    attempt(log.tail, findings)


def _report(log: Log, signed: Checkpoints, told: Told, findings: Findings, seconds: float) -> Report:
    notes = [*told.notes, *signed.notes()]
    if not log.whole:
        notes.append(("缺口之后的树没有重算。", "Beyond the gap the tree was not recomputed."))
    if findings.total > MAX_FINDINGS:
        notes.append((f"共 {findings.total} 处不符，只列最前的。", f"{findings.total} findings; the first are listed."))
    return Report(
        size=log.tree.size,
        root=log.tree.root().hex(),
        checkpoints=signed.compared,
        open_runs=told.open_runs,
        entries=dict(sorted(told.entries.items())),
        findings=tuple(findings.first()),
        seconds=seconds,
        notes=tuple(notes),
    )
