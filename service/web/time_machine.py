"""Which version of a tool would have run at a moment, and why that one (contract/http-api.md, `/tools/{name}/at`)."""

from dataclasses import asdict
from typing import Any

from service.errors import Message, NotFound
from service.store import moments
from service.store.moments import Then
from service.web.lists import check_names, read_time, unfit
from service.web.parts import Parts
from service.web.routing import Answer, Asked
from service.web.tools import version_of


def tool_at(parts: Parts, asked: Asked) -> Answer:
    """`{tool, time, state, version, why, because, following}`: `version` as in the list of versions, or null.

    `because` {index, type, at}: the entry that decided it, null where nothing had happened; `following`: the next change.
    """
    check_names(asked, ("time",))
    name = asked.path["name"]
    if parts.index.find(name, asked.actor) is None:
        raise NotFound(Message("没有这个工具。", "There is no such tool."), code="unknown-tool")
    time = read_time(asked, "time")
    if time is None:
        raise unfit("time", "需要 time。", "It is needed.")
    with parts.database.read() as connection:
        then = moments.at(connection, name, time)
    shown: dict[str, Any] = {"tool": name, "time": time, "state": then.state}
    shown["version"] = None if then.version is None else version_of(then.version)
    shown["why"] = _why(then).as_json()
    shown["because"] = None if then.because is None else asdict(then.because)
    shown["following"] = None if then.following is None else asdict(then.following)
    return Answer(shown)


def _why(then: Then) -> Message:
    because, number = then.because, then.version.number if then.version is not None else None
    if because is None:
        return Message("那时它还没有登记过。", "It had not been registered yet.")
    entry_zh, entry_en = f"日志第 {because.index} 条（{because.at}）", f"entry {because.index} of {because.at}"
    if because.type == "run.started":
        return Message(
            f"第 {number} 版：那之前的最后一次运行用的就是它，其后定义没有变化（{entry_zh}）。",
            f"Version {number}: the last run before used it, and no definition changed since ({entry_en}).",
        )
    if then.state == "active":
        return Message(
            f"第 {number} 版：那之前的最后一次变化使它生效（{entry_zh}）。",
            f"Version {number}: the last change before made it the one that runs ({entry_en}).",
        )
    zh, en = {
        "removed": ("那时它已被移除", "It had been removed by then"),
        "orphaned": ("那时它的提交已不在主干上", "Its commits were no longer on the tracked branch"),
        "unregistered": ("那时没有可以运行的定义", "There was no definition that could run"),
    }[then.state]
    last = ("", "") if number is None else (f"；最后运行的是第 {number} 版", f"; version {number} was the last to run")
    return Message(
        f"{zh}，不会运行{last[0]}（{entry_zh}）。", f"{en}, so nothing would have run{last[1]} ({entry_en})."
    )
