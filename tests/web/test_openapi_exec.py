"""What `/exec` really answers is what the OpenAPI document says, field by field."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from service.domain.times import uuid7
from service.web.server import API
from tests.web.desk import MAX_PARAMS_BYTES, Desk
from tests.web.openapi import Described

SIX = ["ok", "tool", "method", "output", "error", "duration_ms"]
EXEC = f"{API}/exec"
HEX = "0" * 40

SUCCESSES = [
    ("shell-exec", {"cmd": "echo hello"}),
    ("shell-exec", {"cmd": "echo hello; echo warning >&2"}),
    ("greet", {"word": "你好", "count": 3}),
]


@pytest.mark.parametrize(("tool", "params"), SUCCESSES)
def test_a_success_is_as_described(call: Callable[..., httpx.Response], tool: str, params: dict[str, Any]) -> None:
    """No `code` where nothing went wrong."""
    answer = call(tool, params)

    assert answer.status_code == 200
    assert answer.json()["ok"] is True
    assert "code" not in answer.json()


ENDINGS = [
    ("echo bad >&2; exit 3", {}, "failed"),
    ("exit 3", {}, "failed"),
    ("kill -9 $$", {}, "failed"),
    ("sleep 5", {"timeout_ms": 100}, "timed-out"),
    ("head -c 3000 /dev/zero; printf '\\377'; exit 1", {}, "failed"),
    ("printf '\\377\\376'; printf '\\377' >&2; exit 1", {}, "failed"),
]


@pytest.mark.parametrize(("cmd", "fields", "code"), ENDINGS)
def test_a_run_that_did_not_succeed_is_as_described(
    call: Callable[..., httpx.Response], cmd: str, fields: dict[str, Any], code: str
) -> None:
    """Exit codes, signals, time limits, what was cut, what is no UTF-8."""
    answer = call("shell-exec", {"cmd": cmd}, **fields)

    assert answer.status_code == 200
    assert answer.json()["code"] == code


REFUSALS: list[tuple[str, dict[str, Any], int, str]] = [
    ("no-such-tool", {}, 404, "unknown-tool"),
    ("wrong", {}, 404, "unknown-tool"),
    ("gone", {}, 404, "removed-tool"),
    ("shell-exec", {}, 422, "bad-parameters"),
    ("shell-exec", {"params": {"cmd": 5, "x": 1}}, 422, "bad-parameters"),
    ("shell-exec", {"params": {"cmd": "id"}, "commit": "abc"}, 422, "bad-parameters"),
    ("shell-exec", {"params": {"cmd": "id"}, "timeout_ms": 999_999}, 422, "bad-parameters"),
    ("shell-exec", {"params": {"cmd": "id"}, "colour": "red"}, 422, "bad-parameters"),
    ("shell-exec", {"params": {"cmd": "id"}, "match_id": uuid7()}, 422, "bad-parameters"),
    ("shell-exec", {"intent": "查看最近的提交记录"}, 422, "bad-parameters"),
    ("shell-exec", {"params": {"cmd": "id"}, "commit": HEX}, 409, "not-active"),
    ("shell-exec", {"timeout_ms": "5"}, 400, "bad-request"),
    ("shell-exec", {"params": {"cmd": "x" * MAX_PARAMS_BYTES}}, 413, "too-large"),
    ("far", {}, 503, "not-available"),
    ("asks", {}, 202, "needs-confirmation"),
    ("greet", {"wait": False}, 202, "accepted"),
]


@pytest.mark.parametrize(("tool", "fields", "status", "code"), REFUSALS)
def test_a_refusal_is_as_described(
    call: Callable[..., httpx.Response], tool: str, fields: dict[str, Any], status: int, code: str
) -> None:
    """The contract's table of cases."""
    answer = call(tool, **fields)

    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_who_may_not_call_is_told_as_described(desk: Desk, api: Described) -> None:
    """401 and 403 have the six fields too."""
    for client, status in ((desk.client(), 401), (desk.client("read"), 403)):
        answer = client.post(EXEC, json={"tool": "greet"})

        assert answer.status_code == status
        assert list(answer.json())[:6] == SIX
        assert api.wrong("POST", EXEC, answer) == []


def test_a_body_that_is_no_json_is_told_as_described(everything: httpx.Client, api: Described) -> None:
    """400, with the six fields."""
    for body in (b"", b"{", b"[]", b'{"tool": "a", "tool": "b"}'):
        answer = everything.post(EXEC, content=body)

        assert answer.status_code in {400, 422}
        assert api.wrong("POST", EXEC, answer) == []


@pytest.mark.parametrize(("intent", "found"), [("打个招呼", True), ("红烧肉要炖多久", False), ("", False)])
def test_an_intent_is_answered_as_described(
    everything: httpx.Client, api: Described, intent: str, *, found: bool
) -> None:
    """With candidates, or an honest no."""
    answer = everything.post(EXEC, json={"intent": intent, "context": {"repo": "native-repo"}})

    assert api.wrong("POST", EXEC, answer) == []
    assert (answer.status_code, answer.json()["found"]) == (200, found)
