"""The verifier behind `bitong audit verify` (contract/audit.md, Verification). It shares no code with the writer.

`python -m service.verify FILE` reads one copy of the database, read-only, and names what is wrong, first index first.
To be read in this order:

1. `tree.py`, `forms.py`: the tree of RFC 6962 and the forms in which things are stored;
2. `log.py`: each entry's bytes, leaf and columns, in index order, and the tiles of the tree over them;
3. `runs.py`: each run refused alone, or started and ended once; every column of theirs that an entry says something of;
   what was kept of them, by the hashes in the entries;
4. `definitions.py`, `tokens.py`: versions with their files down to the bytes, rejections, rights;
5. `database.py`, `findings.py`: how the file is opened, and how a difference is told.

Entries are streamed. What stays in memory is one record for each version, token, rejection and run still open.
Not checked here: checkpoints' signatures, and columns that no entry speaks of (such as a version's parsed definition).
"""

import os
import time
from collections.abc import Callable
from functools import partial

import pysqlite3.dbapi2 as sqlite

from service.verify.database import open_database, schema, storage
from service.verify.definitions import Definitions
from service.verify.findings import MAX_FINDINGS, Finding, Findings, Report, VerifyError, lines, shown
from service.verify.log import Log
from service.verify.runs import Runs
from service.verify.tokens import Tokens

__all__ = ["Finding", "Report", "VerifyError", "lines", "verify_database"]

Progress = Callable[[int, int], None]


def verify_database(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Report:
    """Check all that follows from the log in this copy; `progress` is told (entries done, entries in all).

    Raises VerifyError for what is no database of Bitong's. What is damaged or hostile is reported on, as far as it reads.
    """
    db = None
    try:
        db = open_database(path)
        return _verify(db, progress)
    except (sqlite.Error, OSError) as error:
        raise VerifyError(f"不是能读的数据库：{shown(error)}。", f"Not a readable database: {shown(error)}.") from error
    finally:
        if db is not None:
            db.close()


def _verify(db: sqlite.Connection, progress: Progress | None) -> Report:
    begun = time.perf_counter()
    findings = Findings()
    definitions = Definitions(db, findings)
    runs = Runs(db, findings, definitions.versions)
    tokens = Tokens(db, findings)
    log = Log(db, findings, {**definitions.readers, **runs.readers, **tokens.readers})
    notes = [("没有核对检查点的签名。", "No checkpoint's signature was checked.")]
    if not schema(db, findings):
        notes.append(("结构不可信，没有往下读。", "The schema is not to be trusted, so nothing was read through it."))
    else:
        reading = partial(log.read, progress)
        checks = (log.tail, runs.check, definitions.check, definitions.rejections, tokens.check)
        for step in (partial(storage, db, findings), reading, *checks):
            try:
                step()
            except sqlite.Error as error:  # what it could not read is said; the others go on
                findings.find(log.next if step is reading else None, "storage-unreadable", "file", error, "rows")
    if not log.whole:
        notes.append(("缺口之后的树没有重算。", "Beyond the gap the tree was not recomputed."))
    if findings.total > MAX_FINDINGS:
        notes.append((f"共 {findings.total} 处不符，只列最前的。", f"{findings.total} findings; the first are listed."))
    return Report(
        size=log.tree.size,
        root=log.tree.root().hex(),
        open_runs=tuple(runs.open),
        entries=dict(sorted(log.entries.items())),
        findings=tuple(findings.first()),
        seconds=time.perf_counter() - begun,
        notes=tuple(notes),
    )
