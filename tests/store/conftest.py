"""What the store's tests stand on: an empty migrated database, a small disk of its own, and whole services."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.store.database import Database
from service.store.migrations import ensure_schema
from tests.git_http import GitHttpServer
from tests.harness.parts import Parts


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the schema and nothing in it, as the migrations make it. Copied, never used itself."""
    path = tmp_path_factory.mktemp("migrated") / "bitong.db"
    ensure_schema(path)
    return path


@pytest.fixture
def path(migrated: Path, tmp_path: Path) -> Path:
    """An empty database file in a folder of its own."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    return Path(shutil.copy(migrated, folder / "bitong.db"))


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    """An open database, closed at the end."""
    opened = Database(path)
    yield opened
    opened.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes a file system of a given size (`24m`) in memory; skips where this user may not mount."""
    mounted: list[Path] = []

    def make(size: str) -> Path:
        place = tmp_path / f"disk-{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "bitong-test", str(place)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"a small disk needs the right to mount: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield make
    for place in mounted:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture(scope="session")
def git_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHttpServer]:
    """One git server for all repositories."""
    with GitHttpServer(tmp_path_factory.mktemp("git")) as server:
        yield server


@pytest.fixture
def parts(small_disk: object, tmp_path_factory: pytest.TempPathFactory, git_server: GitHttpServer) -> Iterator[Parts]:
    """Whole services for one test; each stops well and verifies at the end, before its disk goes."""
    made = Parts(tmp_path_factory.mktemp("own"), git_server)
    yield made
    made.close()
