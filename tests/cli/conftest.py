"""Parts that the command line's tests are made of: real repositories, services and processes."""

from collections.abc import Iterator

import pytest

from tests.git_http import GitHttpServer
from tests.harness.definitions import shell_exec_text
from tests.harness.parts import Parts
from tests.harness.service import BitongService


@pytest.fixture(scope="session")
def git_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHttpServer]:
    """One git server for all repositories."""
    with GitHttpServer(tmp_path_factory.mktemp("git")) as server:
        yield server


@pytest.fixture
def parts(tmp_path_factory: pytest.TempPathFactory, git_server: GitHttpServer) -> Iterator[Parts]:
    """Parts for one test alone; at its end nothing is left over and the log verifies."""
    parts = Parts(tmp_path_factory.mktemp("own"), git_server)
    yield parts
    parts.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, git_server: GitHttpServer) -> Iterator[BitongService]:
    """A running service with three tools: `first`, `sh` (a shell) and `typed` (a parameter of each type)."""
    parts = Parts(tmp_path_factory.mktemp("shared"), git_server)
    repo = parts.repo("first")
    repo.write_tool("sh", text=shell_exec_text("sh", executor="shell"))
    kinds = ("string", "integer", "number", "boolean", "array", "object")
    schema = {f"a_{kind}": {"type": kind, "required": False} for kind in kinds}
    repo.write_tool("typed", params_schema=schema, command=["echo", "{a_string}", "{a_integer}"])
    repo.commit()
    repo.push()
    yield parts.service(repo)
    parts.close()
