"""Makes what a specification test is made of, and ends it all: nothing left over, ended well, the log verifies."""

import subprocess
from pathlib import Path
from typing import Any

from tests.git_http import GitHttpServer
from tests.harness.forge import NativeRepo
from tests.harness.gatekeeper import ReferenceGatekeeper
from tests.harness.service import BitongService


class Parts:
    """Makes repositories, services and gatekeepers below one folder, and ends them all.

    `close` asserts for each service what `BitongService.close` does: nothing left over, ended well, the log verifies.
    """

    def __init__(self, folder: Path, server: GitHttpServer) -> None:
        self.folder = folder
        self.server = server
        self.services: list[BitongService] = []
        self.gatekeepers: list[ReferenceGatekeeper] = []
        self._made = 0

    def _place(self, kind: str) -> Path:
        self._made += 1
        return self.folder / f"{kind}-{self._made}"

    def repo(self, *tools: str, branch: str = "main") -> NativeRepo:
        """A new repository; `tools` are names of valid shell tools, committed and pushed."""
        place = self._place("repo")
        repo = NativeRepo(self.server, f"{self.folder.name}/{place.name}.git", place, branch)
        for tool in tools:
            repo.write_tool(tool)
        if tools:
            repo.commit("最初的工具")
            repo.push()
        return repo

    def service(self, repo: NativeRepo | None = None, *, start: bool = True, **settings: Any) -> BitongService:
        """A service that tracks `repo`, started and ready unless `start` is false."""
        if repo is not None:
            settings = {"repository_url": repo.url, "repository_branch": repo.branch, **settings}
        service = BitongService(self._place("service"), **settings)
        self.services.append(service)
        return service.start() if start else service

    def gatekeeper(self) -> ReferenceGatekeeper:
        """A running reference gatekeeper."""
        node = ReferenceGatekeeper(self._place("gatekeeper"))
        self.gatekeepers.append(node)
        return node

    def check(self) -> None:
        """What must hold after each test, for every service that runs."""
        for service in self.services:
            if service.running:
                service.assert_nothing_is_left_over()

    def close(self) -> None:
        """End everything; the first thing that is not well is raised after all has ended."""
        problems: list[BaseException] = []
        for part in [*self.services, *self.gatekeepers]:
            try:
                part.close()
            except (AssertionError, OSError, subprocess.SubprocessError) as problem:
                problems.append(problem)
        if problems:
            raise problems[0]
