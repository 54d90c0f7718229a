"""The service that people look at: a registry with a history, runs of every kind, and something that waits for a yes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.harness.definitions import shell_exec_text, tool_text
from tests.pages.people import Person, signed_in
from tests.web.desk import Desk

ALL = ("read", "exec", "confirm", "admin")


@dataclass
class House:
    """A desk, what happened on it, and a caller."""

    desk: Desk
    caller: httpx.Client
    well: str
    failed: str
    refused: str

    def run(self, tool: str, **params: Any) -> dict[str, Any]:
        """Call a tool; its whole answer."""
        answer = self.caller.post("/api/v1/exec", json={"tool": tool, "params": params})
        return dict(answer.json())

    def asks(self, tool: str, **params: Any) -> str:
        """Call a tool that asks first; the id of the question."""
        return str(self.run(tool, **params)["confirmation"]["id"])


def furnish(desk: Desk) -> None:
    """The tools of this house, committed in two steps."""
    desk.commit(
        shell_exec=shell_exec_text(constraints={"timeout_ms": 20000, "max_output_bytes": 200_000}),
        git_ops=tool_text(
            "git-ops", display="git操作", intent="查看最近的提交记录", why="提交前要看历史", effect="read"
        ),
        restart=tool_text("restart", constraints={"require_confirm": True}, effect="write"),
        wipe=tool_text(
            "wipe",
            constraints={"require_confirm": True},
            effect="destructive",
            params_schema={"path": {"type": "string", "required": True}},
            command=["echo", "{path}"],
        ),
        gone=tool_text("gone"),
    )
    desk.commit(
        git_ops=tool_text("git-ops", display="git操作", intent="查看最近的提交记录", why="写全了 -n", effect="read"),
        broken="name: broken\nmethod: nope\n",
        gone=None,
    )


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    desk = Desk(tmp_path_factory.mktemp("house"))
    furnish(desk)
    desk.start()
    caller = desk.client("read", "exec")
    house = House(desk, caller, "", "", "")
    house.well = house.run("git-ops")["run"]["id"]
    house.failed = house.run("shell-exec", cmd="echo fatal: not a git repository >&2; exit 128")["run"]["id"]
    house.refused = house.run("shell-exec", cmd=5)["run"]["id"]
    yield house
    desk.close()


@pytest.fixture(scope="session")
def person(house: House) -> Person:
    """Somebody who may everything."""
    return signed_in(house.desk, *ALL, sub="7")
