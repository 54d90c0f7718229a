"""Parts a specification test is made of, and what must hold at the end of each."""

from collections.abc import Iterator

import pytest

from tests.git_http import GitHttpServer
from tests.harness.parts import Parts


@pytest.fixture(scope="session")
def git_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHttpServer]:
    """One git server for all repositories."""
    with GitHttpServer(tmp_path_factory.mktemp("git")) as server:
        yield server


@pytest.fixture(scope="module")
def shared_parts(tmp_path_factory: pytest.TempPathFactory, git_server: GitHttpServer) -> Iterator[Parts]:
    """Parts that a whole file shares, so that it starts one service and not one a test."""
    parts = Parts(tmp_path_factory.mktemp("shared"), git_server)
    yield parts
    parts.close()


@pytest.fixture
def parts(tmp_path_factory: pytest.TempPathFactory, git_server: GitHttpServer) -> Iterator[Parts]:
    """Parts for one test alone."""
    parts = Parts(tmp_path_factory.mktemp("own"), git_server)
    yield parts
    parts.close()


@pytest.fixture(autouse=True)
def nothing_is_left_over(shared_parts: Parts) -> Iterator[None]:
    """After each test: no delivery without an outcome, no run left open."""
    yield
    shared_parts.check()
