"""A server, a repository on it, and a mirror of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.intake.mirror.looking import Mirror
from tests.git_http import GitHttpServer
from tests.git_objects import Builder
from tests.mirror.watch import Watch


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitHttpServer]:
    """An empty folder, served."""
    (tmp_path / "served").mkdir()
    with GitHttpServer(tmp_path / "served") as server:
        yield server


@pytest.fixture
def builder(server: GitHttpServer) -> Builder:
    """A bare repository on the server."""
    return Builder(server.create("owner/native-repo.git"))


@pytest.fixture
def watch_of(server: GitHttpServer, builder: Builder, tmp_path: Path) -> Iterator[Any]:
    """Makes watches: of the repository over HTTP, or of what the options say."""
    made: list[Mirror] = []

    def make(**options: Any) -> Watch:
        given = {"url": server.url("owner/native-repo.git"), "branch": "main", "folder": tmp_path / "data" / "mirror"}
        made.append(Mirror(**{**given, **options}))
        return Watch(made[-1])

    yield make
    for mirror in made:
        mirror.close()


@pytest.fixture
def watch(watch_of: Any) -> Watch:
    """A mirror of the repository over HTTP."""
    watch: Watch = watch_of()
    return watch
