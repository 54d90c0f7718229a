"""Words and figures as people read them, in both languages: states, times, spans, sizes."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from service.errors import Message

# A state is never colour alone: a sign, a colour's name in the style sheet, a word.
STATES: Final[Mapping[str, tuple[str, str, Message]]] = {
    "succeeded": ("✓", "good", Message("成功", "succeeded")),
    "failed": ("✗", "bad", Message("失败", "failed")),
    "timed_out": ("⏱", "bad", Message("超时", "timed out")),
    "cancelled": ("⊘", "quiet", Message("已取消", "cancelled")),
    "interrupted": ("?", "bad", Message("已中断", "interrupted")),
    "unknown": ("?", "bad", Message("未知", "unknown")),
    "started": ("●", "busy", Message("运行中", "running")),
    "queued": ("…", "busy", Message("排队", "queued")),
    "awaiting_confirmation": ("⏸", "waits", Message("待确认", "waits for a yes")),
    "refused": ("⊘", "quiet", Message("未执行", "refused")),
    # confirmations
    "waiting": ("⏸", "waits", Message("待确认", "waits for a yes")),
    "approved": ("✓", "good", Message("已批准", "approved")),
    "rejected": ("✗", "bad", Message("已拒绝", "rejected")),
    "expired": ("⏱", "quiet", Message("已过期", "expired")),
    "dropped": ("⊘", "quiet", Message("已作废", "dropped")),
    # versions and tools
    "active": ("✓", "good", Message("现行", "active")),
    "superseded": ("·", "quiet", Message("旧版", "superseded")),
    "removed": ("−", "quiet", Message("已移除", "removed")),
    "orphaned": ("⊘", "bad", Message("提交已不在分支上", "its commit left the branch")),
    "unregistered": ("✗", "bad", Message("未登记", "not registered")),
    # deliveries
    "applied": ("✓", "good", Message("已登记", "applied")),
    "unchanged": ("·", "quiet", Message("没有变化", "nothing changed")),
    "ignored": ("·", "quiet", Message("不相关", "ignored")),
    "pending": ("…", "busy", Message("处理中", "under way")),
}
_DRAWING: Final = Markup('<svg class="glyph" viewBox="0 0 12 12"><path d="{}"/></svg>')
# Signs that many systems have no letter for, or show as a coloured picture.
DRAWN: Final[Mapping[str, Markup]] = {
    "⏸": _DRAWING.format("M4 2v8M8 2v8"),
    "⏱": _DRAWING.format("M6 3.2V6l2 1.4M6 1a5 5 0 1 0 0 10A5 5 0 1 0 6 1"),
}
SCOPES: Final[Mapping[str, Message]] = {
    "read": Message("查看", "read"),
    "exec": Message("执行", "run"),
    "confirm": Message("确认", "confirm"),
    "admin": Message("管理", "admin"),
}
EFFECTS: Final[Mapping[str, Message]] = {
    "read": Message("只读取", "only reads"),
    "write": Message("会改动", "changes things"),
    "destructive": Message("会破坏，不可撤回", "destroys; cannot be undone"),
}
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def span(milliseconds: int | None) -> str:
    """A duration: `3 ms`, `1.2 s`, `4 min 05 s`, `2 h 03 min`."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def clock(seconds: float) -> str:
    """How long something has gone on, as a clock: `00:12`, `1:03:20`. A clock that ran back shows `00:00`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def running(since: str, limit_ms: int | None) -> Markup:
    """`00:12 / 05:00`, which goes on in the browser."""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds()
    limit = "" if limit_ms is None else f" / {clock(limit_ms / 1000)}"
    return Markup('<span class="elapsed" title="{}"><span data-since="{}">{}</span>{}</span>').format(
        exact(since), since, clock(seconds), limit
    )


def size(count: int | None) -> str:
    """Bytes: `63 B`, `1.2 MB` (powers of 1,000)."""
    if count is None:
        return "–"
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def ago(moment: str, now: datetime | None = None) -> Message:
    """How long ago, or how long until."""
    then = datetime.fromisoformat(moment)
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    zh, en = _amount(abs(int(seconds)))
    if abs(seconds) < 5:
        return Message("刚刚", "just now")
    return Message(f"{zh}前", f"{en} ago") if seconds > 0 else Message(f"{zh}后", f"in {en}")


def _amount(seconds: int) -> tuple[str, str]:
    if seconds < 60:
        return f"{seconds} 秒", f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} 分钟", f"{seconds // 60} min"
    if seconds < 86_400:
        return f"{seconds // 3600} 小时", f"{seconds // 3600} h"
    return f"{seconds // 86_400} 天", f"{seconds // 86_400} d"


def exact(moment: str) -> str:
    """The moment in the server's own zone, which is named."""
    there = datetime.fromisoformat(moment).astimezone()
    return there.strftime("%Y-%m-%d %H:%M:%S.") + f"{there.microsecond // 1000:03d} {there.tzname()}"
