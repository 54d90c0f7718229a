"""What a database holds, read from the file alone, and the tree that must follow from it (RFC 6962, section 2.1)."""

import hashlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pysqlite3.dbapi2 as sqlite

from service.domain.audit import Fact
from service.domain.merkle import TiledLog
from service.store.database import Database, Transaction

ROOT = Path(__file__).parents[2]
PAGE = 4096
COMMITTED = 4  # where a frame of the write-ahead log says how large a commit made the file (fileformat2, 4.2)


def fact(name: str, **facts: Any) -> Fact:
    """An entry's worth of something, told apart by its name."""
    return Fact("run.refused", "token:x", {"run": name, "tool": "t", **facts})


def append(name: str, **facts: Any) -> Callable[[Transaction], int]:
    """A job that appends one entry and answers its index."""
    return lambda transaction: transaction.append(fact(name, **facts)).index


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """All rows of a question to the file, through the library that also writes it."""
    with_file = sqlite.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return list(with_file.execute(sql))
    finally:
        with_file.close()


def names(path: Path) -> list[str]:
    """What `fact` named the entries, in their order."""
    return [row[0] for row in rows(path, "SELECT run FROM log_entries ORDER BY idx")]


def leaves(path: Path) -> list[bytes]:
    """Each entry's leaf, recomputed from its bytes, in an unbroken order from 0."""
    found = rows(path, "SELECT idx, entry, leaf FROM log_entries ORDER BY idx")
    assert [row[0] for row in found] == list(range(len(found)))
    computed = [hashlib.sha256(b"\0" + row[1]).digest() for row in found]
    assert computed == [row[2] for row in found]
    assert [json.loads(row[1])["index"] for row in found] == list(range(len(found)))
    return computed


def root(hashes: Sequence[bytes]) -> bytes:
    """The tree head as the RFC words it: split at the largest power of two smaller than n."""
    if len(hashes) < 2:
        return hashes[0] if hashes else hashlib.sha256(b"").digest()
    split = 1 << (len(hashes) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + root(hashes[:split]) + root(hashes[split:])).digest()


def log_of(hashes: Sequence[bytes]) -> TiledLog:
    """The tree that grows from these leaves, one by one."""
    log = TiledLog()
    for leaf in hashes:
        log, _ = log.append(leaf)
    return log


def wal(path: Path) -> Path:
    """The write-ahead log of a database."""
    return path.with_name(path.name + "-wal")


def commits(path: Path) -> int:
    """How many commits the write-ahead log holds. Read by another process: S8 holds for tests too."""
    content = subprocess.run(["cat", str(wal(path))], check=True, capture_output=True).stdout
    salt, body, size = content[16:24], content[32:], 24 + PAGE
    frames = [body[start : start + 24] for start in range(0, len(body) - size + 1, size)]
    return sum(frame[8:16] == salt and frame[COMMITTED:8] != b"\0\0\0\0" for frame in frames)


def together(database: Database, jobs: Sequence[Callable[[Transaction], Any]]) -> list[Any]:
    """Run jobs that all wait while the writer is busy, so that they share a commit; each one's result or error."""
    busy, go = threading.Event(), threading.Event()
    answers: list[Any] = [None] * len(jobs)

    def hold(_: Transaction) -> None:
        busy.set()
        go.wait(30)

    def ask(number: int) -> None:
        answers[number] = outcome(database, jobs[number])

    holder = threading.Thread(target=database.write, args=(hold,))
    holder.start()
    busy.wait(30)
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    time.sleep(0.02 + 0.001 * len(jobs))  # they only have to put themselves in a queue
    go.set()
    for thread in [holder, *threads]:
        thread.join(60)
        assert not thread.is_alive()
    return answers


def outcome(database: Database, job: Callable[[Transaction], Any]) -> Any:
    """A job's result, or the error it raised."""
    try:
        return database.write(job)
    except Exception as error:  # noqa: BLE001 - whichever it is, it is the answer
        return error


def python(script: str, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
    """A process of its own that runs this text with our packages; its output is a pipe."""
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **variables}
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], env=environment, stdout=subprocess.PIPE, text=True
    )
