"""The service that these tests ask, with a registry that has a history, and its own description of itself."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from service.web.server import API
from tests.harness.definitions import shell_exec_text, tool_text
from tests.web.desk import Desk
from tests.web.openapi import Described

SIX = ["ok", "tool", "method", "output", "error", "duration_ms"]
EXEC = f"{API}/exec"
GREETING: dict[str, Any] = {
    "command": ["printf", "%s %s", "{word}", "{count}"],
    "params_schema": {
        "word": {"type": "string", "enum": ["hello", "你好"], "default": "hello", "description": "说什么"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        "list": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "max_length": 3},
    },
    "constraints": {"timeout_ms": 5000},
    "effect": "read",
    "deprecated": "请改用 shell-exec",
    "examples": ["打个招呼"],
}


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A registry with a history: versions, a rejection, a removed tool, one that needs a node, one that asks first."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    desk.commit(
        shell_exec=shell_exec_text(constraints={"timeout_ms": 20000, "max_output_bytes": 1000}),
        greet=tool_text("greet", **GREETING),
        gone=tool_text("gone"),
        far=tool_text("far", executor="gatekeeper", method="run", command=["uname"], node="BS-SG-001"),
        asks=tool_text("asks", constraints={"require_confirm": True}),
        wrong="name: wrong\nintent: [\n",
    )
    desk.commit(greet=tool_text("greet", **{**GREETING, "why": "换了说法。"}), gone=None)
    desk.commit(greet=tool_text("greet", without=("why",), **GREETING))
    desk.start()
    desk.bitong.sessions.open("2", "bingshuo", ("read", "confirm"), "forgejo")
    yield desk
    desk.close()


@pytest.fixture(scope="session")
def everything(desk: Desk) -> httpx.Client:
    """Somebody who may everything."""
    return desk.client("read", "exec", "confirm", "admin")


@pytest.fixture(scope="session")
def api(everything: httpx.Client) -> Described:
    """The document as served."""
    answer = everything.get(f"{API}/openapi.json")

    assert answer.status_code == 200
    return Described(answer.json())


@pytest.fixture(scope="session")
def call(everything: httpx.Client, api: Described) -> Callable[..., httpx.Response]:
    """An exec call whose answer was held against the document."""

    def call(tool: str, params: dict[str, Any] | None = None, **fields: Any) -> httpx.Response:
        answer = everything.post(EXEC, json={"tool": tool, "params": params or {}, **fields})
        assert api.wrong("POST", EXEC, answer) == []
        assert list(answer.json())[:6] == SIX
        return answer

    return call
