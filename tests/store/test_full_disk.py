"""A full disk: no start without its record, reads go on, receipts use the reserve, and space ends it (S1)."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from service.errors import CannotRecord
from service.store.database import HEADROOM_BYTES, RESERVE_BYTES, Database
from tests.harness.forge import NativeRepo, push_payload, signed_headers
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, eventually
from tests.store.kept import append, leaves, log_of, names


def fill(disk: Path, *, leave: int = 0) -> Path:
    """A file that takes all space that is left, to the last block, and then gives `leave` bytes back."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while True:
                    file.write(b"\1" * size)
            except OSError:
                continue
        file.truncate(file.tell() - leave)
    return filler


def _marking(parts: Parts, disk: Path) -> tuple[BitongService, NativeRepo, Path]:
    """A service that keeps its data on `disk`, its repository, and where `mark` leaves a file each time it ran."""
    marks = parts.folder / "marks"
    marks.mkdir()
    repo = parts.repo()
    text = {"name": {"type": "string"}}
    repo.write_tool("mark", command=["touch", f"{marks}/{{name}}"], params_schema=text)
    waits = f"touch {marks}/waiting; while [ ! -e {marks}/go ]; do sleep 0.05; done; echo done"
    repo.write_tool("wait", command=["/bin/sh", "-c", waits])
    repo.commit()
    repo.push()
    return parts.service(repo, data_dir=disk / "data"), repo, marks


def _in_background(service: BitongService, tool: str, answers: list[httpx.Response]) -> threading.Thread:
    token = service.token("exec")

    def call() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        body = {"tool": tool}
        answers.append(httpx.post(f"{service.url}{API}/exec", json=body, headers=headers, timeout=60, trust_env=False))

    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_a_full_disk_stops_new_runs_and_nothing_else(parts: Parts, small_disk: Callable[[str], Path]) -> None:
    """S1: 503 `cannot-record` and nothing ran, small or large; reads go on; what ran is recorded; space is enough to go on."""
    disk = small_disk("24m")
    service, repo, marks = _marking(parts, disk)
    admin, ran = service.admin, service.run("mark", {"name": "before"})
    answers: list[httpx.Response] = []
    waiting = _in_background(service, "wait", answers)
    eventually((marks / "waiting").exists)

    filler = fill(disk)
    told: list[tuple[int, str | None]] = []
    for number in range(12):
        size = 200_000 if number % 3 == 0 else 1
        answer = service.exec("mark", {"name": f"full-{number}"} if size == 1 else {"name": "x" * size})
        told.append((answer.status_code, answer.json().get("code")))
    refused = service.exec("mark", {"wrong": 1})
    issued = admin.post(f"{API}/tokens", json={"name": "new", "scopes": ["read"]})
    body = push_payload(repo, repo.push())
    hooked = service.hook(body, signed_headers(body))
    reads = [admin.get(API + path).status_code for path in ("/tools", "/runs", "/audit", f"/runs/{ran['run']['id']}")]
    (marks / "go").touch()
    waiting.join(30)

    first = next(place for place, (status, _) in enumerate(told) if status == 503)
    assert told[first:] == [(503, "cannot-record")] * len(told[first:])
    assert first <= 1, "only what the last blocks still held was taken"
    assert {file.name for file in marks.iterdir() if file.name.startswith("full")} <= {
        f"full-{n}" for n in range(first)
    }
    assert [answer.status_code for answer in (refused, issued, hooked)] == [503, 503, 503]
    assert reads == [200, 200, 200, 200]
    assert admin.get("/healthz").status_code == 200
    [answer] = answers
    assert (answer.status_code, answer.json()["output"]) == (200, "done\n")
    assert service.get(f"/runs/{answer.json()['run']['id']}")["state"] == "succeeded"
    assert service.exec("mark", {"name": "still-full"}).status_code == 503

    filler.unlink()

    assert service.run("mark", {"name": "after"})["ok"]
    assert (marks / "after").exists()
    assert not (marks / "still-full").exists()
    assert service.hook(body, signed_headers(body)).status_code in (202, 204)
    assert (service.data_dir / "reserve").stat().st_size == RESERVE_BYTES


def _until_full(database: Database) -> int:
    """Writes until one is refused; how many were taken."""
    for number in range(10_000):
        try:
            database.write(append(f"taken-{number}", x="x" * 50_000))
        except CannotRecord:
            return number
    raise AssertionError("the disk never filled")


@pytest.fixture
def on_small_disk(migrated: Path, small_disk: Callable[[str], Path]) -> Path:
    """A database on a disk of 12 MiB, 4 of which become the reserve."""
    path = small_disk("12m") / "bitong.db"
    path.write_bytes(migrated.read_bytes())
    return path


def test_after_a_write_failed_a_smaller_one_does_not_slip_through(on_small_disk: Path) -> None:
    """S1: what fits by luck is refused as well, until the reserve can be laid again with room beside it."""
    database = Database(on_small_disk)
    database.write(append("first"))
    fill(on_small_disk.parent, leave=256 * 1024)
    with pytest.raises(CannotRecord):
        database.write(append("large", x="x" * 1_000_000))

    for _ in range(20):
        with pytest.raises(CannotRecord):
            database.write(append("small"))
    disk = os.statvfs(on_small_disk.parent)

    assert disk.f_bavail * disk.f_frsize >= RESERVE_BYTES - 65536, "the reserve's space was given up"
    assert database.write(append("a receipt"), urgent=True) == 1
    with pytest.raises(CannotRecord):
        database.write(append("small"))
    database.close()
    assert names(on_small_disk) == ["first", "a receipt"]
    assert database.log == log_of(leaves(on_small_disk))


def test_a_job_that_meets_the_full_disk_in_a_group_is_refused_with_it(on_small_disk: Path) -> None:
    """S1: the group's other jobs are told so as well; none of them happened, and the log is as before."""
    database = Database(on_small_disk)
    filler = fill(on_small_disk.parent, leave=256 * 1024)
    log = database.log
    answers: list[str] = []

    def ask(number: int) -> None:
        try:
            database.write(append(f"job-{number}", x="x" * (300_000 if number == 3 else 10)))
            answers.append("taken")
        except CannotRecord:
            answers.append("refused")

    hold = threading.Event()
    holder = threading.Thread(target=database.write, args=(lambda _: hold.wait(30),))
    holder.start()
    time.sleep(0.1)
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    hold.set()
    for thread in [holder, *threads]:
        thread.join(30)

    assert answers == ["refused"] * 8
    assert database.log == log
    filler.unlink()
    assert database.write(append("after")) == 0
    database.close()


def test_receipts_of_all_that_ran_fit_the_reserve(on_small_disk: Path) -> None:
    """S1: sixteen runs (max_runs) of the default 64 KiB of output each are recorded on the full disk."""
    database = Database(on_small_disk)
    _until_full(database)
    before = database.log.size

    for number in range(16):
        database.write(append(f"receipt-{number}", x="x" * 131_072), urgent=True)

    assert database.log.size == before + 16
    database.close()


def test_many_callers_at_a_full_disk_do_not_take_the_reserve_from_a_receipt(on_small_disk: Path) -> None:
    """S1: refused calls look for space again and again; none of them holds it while a receipt needs it."""
    database = Database(on_small_disk)
    _until_full(database)
    ending = threading.Event()
    answers: list[str] = []

    def knock() -> None:
        while not ending.is_set():
            try:
                database.write(append("small"))
                answers.append("taken")
            except CannotRecord:
                answers.append("refused")

    threads = [threading.Thread(target=knock) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(40):
        database.write(append(f"receipt-{number}", x="x" * 10_000), urgent=True)
    ending.set()
    for thread in threads:
        thread.join(30)

    assert set(answers) == {"refused"}
    database.close()


def test_it_goes_on_when_there_is_room_for_the_reserve_and_more(on_small_disk: Path) -> None:
    """S1: not at the reserve's size, but with HEADROOM_BYTES beside it; then the reserve is whole again."""
    database = Database(on_small_disk)
    filler = fill(on_small_disk.parent)
    _until_full(database)
    reserve = on_small_disk.with_name("reserve")

    os.truncate(filler, filler.stat().st_size - HEADROOM_BYTES // 2)
    with pytest.raises(CannotRecord):
        database.write(append("too early"))
    assert not reserve.exists()
    filler.unlink()
    database.write(append("after"))

    assert reserve.stat().st_size == RESERVE_BYTES
    database.close()
    assert names(on_small_disk)[-1] == "after"


@pytest.mark.slow
def test_a_start_on_a_full_disk_says_so(parts: Parts, small_disk: Callable[[str], Path]) -> None:
    """S1: nothing can be recorded, so it does not start, and says what to look at; with space it starts."""
    disk = small_disk("24m")
    service, _, _ = _marking(parts, disk)
    service.stop()
    filler = fill(disk)
    (service.data_dir / "reserve").unlink()
    fill(disk)

    done = service.cli("serve")

    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "data_dir" in done.stderr
    filler.unlink()
    service.start()
    assert service.run("mark", {"name": "after"})["ok"]
