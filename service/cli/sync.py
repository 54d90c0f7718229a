"""`bitong sync`: look at the repository now."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from service.cli import calling, direct, showing
from service.cli import settings as given
from service.domain.history import Progress
from service.errors import Message, Unavailable, UsageError
from service.settings import Settings, refuse_unsafe

WATCH_S: Final = 1.0
WAIT_S: Final = 610.0  # the service itself waits ten minutes for its look


def register(application: typer.Typer) -> None:
    """The command."""
    application.command("sync")(sync)


def sync(
    full: Annotated[bool, typer.Option("--full", help="从头重看全部历史 / look at all of history again")] = False,
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """立即查看仓库并登记改动。 Look at the repository now, and register what changed.

    示例 / example: bitong sync --full
    """
    settings = given.read(config)
    service = calling.running(settings)
    showing.say(Message("正在查看仓库……", "looking at the repository…"))
    if service is not None:
        with service, _watching(service):
            look = service.json("POST", "/sync", query={"wait": True, "full": full or None}, within_s=WAIT_S)
    else:
        look = _look(settings, full=full)
    if json:
        showing.as_json(look)
    else:
        _show(look)
    if look["outcome"] == "failed":
        reason = look["reason"] or ""
        raise Unavailable(Message(f"仓库读不到：{reason}", f"The repository could not be read: {reason}"))


def _look(settings: Settings, *, full: bool) -> dict[str, Any]:
    if settings.repository_url is None:
        raise UsageError(
            Message(
                "未设置 repository_url，没有可查看的仓库。",
                "repository_url is not set; there is no repository to look at.",
            )
        )
    refuse_unsafe(settings)
    with direct.opened(settings, _tell) as bitong:
        return bitong.ingest.look(full=full).as_json()


@contextmanager
def _watching(service: calling.Service) -> Iterator[None]:
    """While the block waits for the running service's look, say now and then how far it is."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(WATCH_S):
            if (progress := service.progress()) is not None:
                _tell(progress)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _tell(progress: Progress) -> None:
    done = f"{progress.done:,}" if progress.total is None else f"{progress.done:,}/{progress.total:,}"
    phase = {"fetch": "取回字节 bytes fetched", "walk": "已看提交 commits seen"}.get(progress.phase, progress.phase)
    ending = "\r" if sys.stderr.isatty() else "\n"
    sys.stderr.write(f"bitong: {phase}: {done}{ending}")


def _show(look: dict[str, Any]) -> None:
    names = {"registered": "登记 registered", "removed": "移除 removed", "rejected": "拒绝 rejected"}
    showing.fields([("结果 outcome", look["outcome"]), ("提交 tip", look["tip"])])
    showing.fields([(shown, look[name] or None) for name, shown in names.items()])
