"""What grows stays bounded: the write-ahead log beside readers (S9), refusals and repeats (S15), the log's tiles."""

import hashlib
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import select

from service.domain.merkle import TILE, TiledLog
from service.store import log
from service.store.database import Database
from service.store.tables import log_entries
from tests.harness.forge import push_payload, signed_headers
from tests.harness.parts import Parts
from tests.harness.service import API
from tests.store.kept import fact, leaves, log_of, root, rows, wal

MIB = 1024 * 1024
ROWS = 20_000
WAL_WITH_PAGED_READS = 48 * MIB  # measured: 4 to 10 MiB, 20 on a busy machine; unbounded it would be hundreds
WAL_WITH_ONE_LONG_READ = 64 * MIB  # measured: 32 MiB for 20,000 rows in 400 commits; grows while the read lasts


def _write(database: Database, rows_: int, at_once: int = 50) -> None:
    for start in range(0, rows_, at_once):
        facts = [fact(f"row-{start + number}", x="x" * 200) for number in range(at_once)]
        database.write(lambda transaction, facts=facts: transaction.append_all(facts))


def test_a_list_read_page_by_page_leaves_the_write_ahead_log_bounded(path: Path, database: Database) -> None:
    """S9: someone pages through everything while 20,000 rows are written; no page takes a second, no row is missed."""
    _write(database, 1000)
    ending = threading.Event()
    slowest: list[float] = []
    seen: list[int] = []

    def page_through() -> None:
        while not ending.is_set():
            before: int | None = None
            while True:
                began = time.monotonic()
                with database.read() as connection:
                    page = log.listed(connection, log.LogFilter(), before=before, limit=1000)
                slowest.append(time.monotonic() - began)
                if not page:
                    break
                before = page[-1]["idx"]
                seen.append(before)

    reader = threading.Thread(target=page_through)
    reader.start()
    largest = 0
    for _ in range(10):
        _write(database, ROWS // 10)
        largest = max(largest, wal(path).stat().st_size)
    ending.set()
    reader.join(60)

    assert seen
    assert max(slowest) <= 5, "a second, with the slack that cases.md gives to times"
    assert largest <= WAL_WITH_PAGED_READS
    assert len(leaves(path)) == ROWS + 1000


def test_after_one_long_read_checkpoints_resume_and_the_write_ahead_log_is_used_again(
    path: Path, database: Database
) -> None:
    """S9: one view held over 20,000 rows keeps the log from starting over: it grows by what is written, no more.

    The view stays as it was; once it ends, the same file serves 20,000 further rows without growing.
    """
    _write(database, 1000)
    size = path.stat().st_size
    with database.read() as connection:
        first = connection.execute(select(log_entries.c.idx)).all()
        _write(database, ROWS)
        while_reading = wal(path).stat().st_size
        again = connection.execute(select(log_entries.c.idx)).all()

    _write(database, ROWS)
    afterwards = wal(path).stat().st_size

    assert len(first) == len(again) == 1000
    assert 4 * MIB < while_reading <= WAL_WITH_ONE_LONG_READ
    assert afterwards <= while_reading + 4 * MIB
    assert path.stat().st_size > size + 4 * MIB, "what was written is in the database itself"
    database.close()
    assert not wal(path).exists()
    assert database.log == log_of(leaves(path))


def test_tiles_are_whole_and_a_start_picks_the_tree_up(path: Path) -> None:
    """Around 256 and 65,536 entries, where tiles of both levels begin: each start finds the tree as it was.

    Then every tile is what its leaves give, worked out from the RFC alone.
    """
    database = Database(path)
    kept: list[TiledLog] = []
    for size in (1, 255, 256, 257, 511, 512, 513, 65_279, 65_535, 65_536, 65_537, 65_792, 66_000):
        while (have := database.log.size) < size:
            facts = [fact(str(have + number)) for number in range(min(4000, size - have))]
            database.write(lambda transaction, facts=facts: transaction.append_all(facts))
        kept.append(database.log)
        database.close()
        database = Database(path)
        assert database.log == kept[-1]
    database.close()

    hashes = leaves(path)
    for whole in kept:
        assert whole.root() == root(hashes[: whole.size])
    tiles = {row[:2]: row[2] for row in rows(path, "SELECT level, idx, hash FROM log_tiles")}
    assert sorted(tiles) == [*((1, number) for number in range(257)), (2, 0)]
    for number in (0, 1, 255, 256):
        assert tiles[1, number] == root(hashes[number * TILE : (number + 1) * TILE])
    assert tiles[2, 0] == root(hashes[: TILE**2])


@pytest.fixture
def limited(parts: Parts):
    """A service with one tool that takes a number, and its repository."""
    repo = parts.repo()
    repo.write_tool("count", command=["echo", "{n}"], params_schema={"n": {"type": "integer", "required": True}})
    repo.commit()
    repo.push()
    return parts.service(repo), repo


def test_refused_calls_and_repeated_deliveries_take_bounded_room(limited) -> None:
    """S15: after a burst one token's wrong calls are 429 and leave no row; others run; a delivery repeated is a number."""
    service, repo = limited
    wrong, right = service.token("exec", name="wrong"), service.token("exec", name="right")
    service.run("count", {"n": 1}, token=right)
    entries, size = service.get("/audit")["items"][0]["index"], _bytes(service.data_dir)

    statuses = [service.exec("count", {"n": "x" * 20_000}, token=wrong).status_code for _ in range(220)]
    began = time.monotonic()
    other = service.exec("count", {"n": 2}, token=right)
    took = time.monotonic() - began
    body = push_payload(repo, repo.push())
    hooked = [service.hook(body, signed_headers(body)).status_code for _ in range(60)]

    refused = statuses.count(422)
    assert set(statuses) == {422, 429}
    assert statuses[:100] == [422] * 100
    assert statuses.count(429) >= 50
    assert len(service.items("/audit", type="run.refused")) == refused
    assert other.json()["output"] == "2\n"
    assert took < 5
    assert set(hooked) <= {202, 204}
    digest = hashlib.sha256(body).hexdigest()
    kept = [row for row in service.items("/deliveries") if row["body_sha256"] == digest]
    assert [row["count"] for row in kept] == [60]
    assert service.get("/audit")["items"][0]["index"] <= entries + refused + 8
    assert _bytes(service.data_dir) - size <= 8 * MIB
    assert service.exec("count", {"n": "x"}, token=wrong).status_code in (422, 429)
    assert service.admin.get(f"{API}/runs").status_code == 200


def _bytes(data_dir: Path) -> int:
    return sum(file.stat().st_size for file in data_dir.glob("bitong.db*"))
