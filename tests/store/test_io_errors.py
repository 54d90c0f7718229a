"""Storage that fails at each call in turn: nothing acknowledged is lost, and the process ends (S3, S4)."""

import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from service.store.database import Database
from tests.harness.parts import Parts
from tests.harness.service import API, eventually
from tests.store.failing_writer import JOBS
from tests.store.kept import ROOT, leaves, log_of, names, rows

HERE = Path(__file__).parent
SYNC, WRITE, READ = 1, 2, 3
EXIT_STORAGE = 74


@pytest.fixture(scope="session")
def failing_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes calls fail, compiled; skips where there is no C compiler or no glibc."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("failing storage is a C library, and there is no cc here")
    library = tmp_path_factory.mktemp("failing") / "failing_storage.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "failing_storage.c"), "-ldl"]
    subprocess.run(command, check=True)
    return library


def _cases(library: Path, migrated: Path, place: Path, kind: int, numbers: list[int]) -> list[tuple[Path, int, str]]:
    """(folder, exit code, calls seen) of a writer for each number; see failing_writer.py."""
    place.mkdir(exist_ok=True)
    shutil.copy(migrated, place / "bitong.db")
    command = [sys.executable, str(HERE / "failing_writer.py"), str(place), str(kind), *map(str, numbers)]
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "LD_PRELOAD": str(library)}
    done = subprocess.run(command, check=True, env=variables, capture_output=True, text=True)
    lines = [line.split() for line in done.stdout.splitlines() if line[:1].isdigit() and line.count(" ") == 2]
    assert [int(line[0]) for line in lines] == numbers, done.stdout
    return [(place / line[0], int(line[1]), line[2]) for line in lines]


def _nothing_lost(folder: Path) -> int:
    """What was told is there, in order, without a gap, and the file is sound; how much was told."""
    told = (folder / "told").read_text().split()
    path = folder / "bitong.db"
    reopened = Database(path)
    reopened.close()
    found = names(path)
    assert found[: len(told)] == told
    assert found == [f"entry-{number}" for number in range(len(found))]
    assert reopened.log == log_of(leaves(path))
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    return len(told)


def test_each_write_is_synced_before_it_returns(failing_storage: Path, migrated: Path, tmp_path: Path) -> None:
    """S4: a kill proves nothing about power; each commit reaches fdatasync or fsync of the database's files."""
    [(folder, code, seen)] = _cases(failing_storage, migrated, tmp_path / "counted", SYNC, [0])

    assert code == 0
    assert _nothing_lost(folder) == JOBS
    assert int(seen) >= JOBS


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        pytest.param(SYNC, range(1, 19), id="each-sync"),
        pytest.param(WRITE, [1, 2, 3, 4, 5, 6, 7, 9, 12, 40, 161, 170, 330, 500, 640, 700, 1000, 1300], id="writes"),
        pytest.param(READ, [1, 2, 3, 5, 8, 13, 20, 60, 150, 300], id="reads"),
        pytest.param(WRITE, range(1, 1420, 11), id="more-writes", marks=pytest.mark.slow),
        pytest.param(READ, range(1, 470, 7), id="more-reads", marks=pytest.mark.slow),
    ],
)
def test_no_acknowledged_row_is_lost_whichever_call_fails(
    failing_storage: Path, migrated: Path, tmp_path: Path, kind: int, numbers: list[int]
) -> None:
    """S4, S3: from the n-th call on all fail with EIO, checkpoints included: an end with 74, or a refusal to open.

    A writer that went on after a failed fsync would tell of rows that are on no disk.
    """
    ended = []
    for folder, code, _ in _cases(failing_storage, migrated, tmp_path / "failing", kind, list(numbers)):
        told = _nothing_lost(folder)
        error = folder / "error"
        said = error.read_text() if error.exists() else None
        assert (code, said) in ((EXIT_STORAGE, None), (1, "Unavailable"), (0, None)), folder
        assert (code != 0) or told == JOBS
        ended.append(code)

    assert EXIT_STORAGE in ended


def test_a_service_whose_disk_fails_runs_nothing_and_ends(failing_storage: Path, parts: Parts) -> None:
    """S3, S4: the commit of `started` fails at fsync: no run, exit code 74 so that a supervisor starts it anew, all there."""
    marks, broken = parts.folder / "marks", parts.folder / "broken"
    marks.mkdir()
    repo = parts.repo()
    repo.write_tool("mark", command=["touch", str(marks) + "/{name}"], params_schema={"name": {"type": "string"}})
    repo.commit()
    repo.push()
    service = parts.service(repo, start=False)
    service.variables = {"LD_PRELOAD": str(failing_storage), "STORAGE_FAILS_WHEN": str(broken)}
    service.start()
    before = service.run("mark", {"name": "before"})
    process = service.process
    assert process is not None

    broken.touch()
    try:
        status = service.admin.post(f"{API}/exec", json={"tool": "mark", "params": {"name": "never"}}).status_code
    except httpx.TransportError:
        status = None

    eventually(lambda: process.poll() is not None)
    assert status in (None, 503)
    assert process.returncode == EXIT_STORAGE
    assert [file.name for file in marks.iterdir()] == ["before"]
    broken.unlink()
    service.start()
    assert service.get(f"/runs/{before['run']['id']}")["state"] == "succeeded"
    assert {run["state"] for run in service.items("/runs")} <= {"succeeded", "interrupted"}
    assert service.run("mark", {"name": "after"})["ok"]
