"""What every page says at its top when it holds: the repository is late, the disk is full, something waits for a yes."""

import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from service.web import confirmations, operations

if TYPE_CHECKING:
    from service.web.pages.view import View

MOST: Final = 99


def of(view: "View", count: int) -> list[dict[str, str]]:
    """`[{text, link, kind}]`, the worst first."""
    states = view.api(operations.readyz)["parts"]
    found = [*_repository(view, states["repository"]), *_disk(view), *_others(view, states)]
    if count:
        shown = f"{MOST}+" if count > MOST else str(count)
        text = view.say(f"{shown} 个操作等待确认", f"{shown} to confirm")
        found.append({"text": text, "link": "/confirmations", "kind": "waits"})
    return found


def waiting(view: "View") -> int:
    """How many questions this reader could answer or has asked."""
    if not view.actor.may("exec"):
        return 0
    return len(view.api(confirmations.list_confirmations, state="waiting", limit=MOST + 1)["items"])


def _disk(view: "View") -> list[dict[str, str]]:
    if not view.parts.database.full:
        return []
    text = view.say("磁盘已满：新的运行不会开始。", "The disk is full: no new run starts.")
    return [{"text": text, "link": "", "kind": "bad"}]


def _others(view: "View", states: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Parts that say they are not well (cases.md R12: a missing key), in the words of `/readyz`."""
    unwell = {
        name: told["state"]
        for name, told in states.items()
        if name not in ("database", "repository", "shell") and told["state"] not in ("ok", "not-configured")
    }
    return [
        {"text": view.say(f"{name} 不正常：{state}", f"{name} is not well: {state}"), "link": "/audit", "kind": "bad"}
        for name, state in unwell.items()
    ]


def _repository(view: "View", told: Mapping[str, Any]) -> list[dict[str, str]]:
    state, since = told["state"], told.get("since")
    if state == "not-configured":
        text = view.say(
            "没有设置 repository_url：不会登记任何工具。", "repository_url is not set: no tool is registered."
        )
    elif state == "first-look":
        text = view.say("正在第一次读取仓库…", "The repository is being read for the first time…")
    elif since is not None:
        minutes = max(1, int((time.time() - datetime.fromisoformat(since).timestamp()) / 60))
        text = view.say(
            f"已有 {minutes} 分钟读不到仓库，会继续重试；登记过的工具照常执行。",
            f"The repository could not be read for {minutes} min; it is tried again. Registered tools run as before.",
        )
    else:
        return []
    return [{"text": text, "link": "/registrations", "kind": "waits"}]
