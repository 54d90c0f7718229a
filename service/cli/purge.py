"""`bitong audit purge-output`: output and parameters of old runs go; every proof stays whole."""

import re
import sys
import time
from typing import Annotated, Any, Final

import typer

from service.cli import calling, direct, showing
from service.cli import settings as given
from service.cli.calling import Service
from service.domain.actors import OPERATOR
from service.domain.times import parse_time, rfc3339
from service.errors import Message, Unavailable, UsageError
from service.settings import Settings

_SPAN: Final = re.compile(r"(\d{1,6})([mhdw])\Z", re.ASCII)
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_HELD: Final = Message(
    "已清除，但还有读者持有旧的视图，磁盘上的日志文件（WAL）里可能还留有内容；稍后再执行一次即可。",
    "Purged; but a reader still holds an older view, so that the write-ahead log may hold some of it. Run this again later.",
)


def purge_output(
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="90d", help="结束已久的：90d、12h 或时间 / ended before")
    ] = None,
    larger_than: Annotated[
        int | None, typer.Option("--larger-than", metavar="BYTES", min=0, help="保留的字节多于 / more bytes kept than")
    ] = None,
    tool: Annotated[str | None, typer.Option(help="只限这个工具 / of this tool alone")] = None,
    run: Annotated[str | None, typer.Option(metavar="ID", help="只限这次运行 / this run alone")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="只数，不清除 / only count them")] = False,
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """清除运行的输出与参数，一切证明仍然成立。 Purge output and parameters of runs; every proof stays whole.

    每个运行在日志里留一条记录；给出的条件须全部满足。 An entry in the log for each; all conditions given must hold.

    示例 / example: bitong audit purge-output --older-than 90d --larger-than 1000000 --dry-run
    """
    wanted = {"older_than": _moment(older_than), "larger_than": larger_than, "tool": tool, "run": run}
    if all(value is None for value in wanted.values()):
        raise UsageError(
            Message(
                "请说明清除什么：--older-than、--larger-than、--tool 或 --run。",
                "Say what to purge: --older-than, --larger-than, --tool or --run.",
            )
        )
    body = {name: value for name, value in wanted.items() if value is not None}
    settings = given.read(config)
    service = calling.running(settings)
    if service is not None:
        with service:
            done = _through(service, body, dry=dry_run)
    else:
        done = _directly(settings, wanted, dry=dry_run)
    if json:
        showing.as_json(done | {"dry_run": dry_run})
    else:
        zh, en = ("将清除", "would be purged") if dry_run else ("已清除", "purged")
        showing.fields([(f"{zh} runs {en}", f"{done['runs']:,}"), ("字节 bytes", f"{done['bytes']:,}")])
    if done["folded"] is False:
        raise Unavailable(_HELD)


def _through(service: Service, body: dict[str, Any], *, dry: bool) -> dict[str, Any]:
    purged = size = after = 0
    while True:
        done = service.json("POST", "/audit/purge-output", body=body | {"dry_run": dry, "after": after})
        purged, size = purged + done["runs"], size + done["bytes"]
        if done["next"] is None:
            return {"runs": purged, "bytes": size, "folded": done["folded"]}
        after = done["next"]
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{purged:,}")


def _directly(settings: Settings, wanted: dict[str, Any], *, dry: bool) -> dict[str, Any]:
    from service.store.purging import Wanted, step  # noqa: PLC0415 - heavy

    asked = Wanted(wanted["older_than"], wanted["larger_than"], wanted["tool"], wanted["run"])
    purged = size = 0
    after: int | None = 0
    with direct.opened(settings) as bitong:
        while after is not None:
            done = step(bitong.database, asked, actor=OPERATOR.name, why="purge-output", after=after, dry=dry)
            purged, size, after = purged + done.runs, size + done.bytes, done.next
        folded = None if dry else bitong.database.fold()
    return {"runs": purged, "bytes": size, "folded": folded}


def _moment(text: str | None) -> str | None:
    """RFC 3339: so long ago, or a time as people write it."""
    if text is None:
        return None
    try:
        if span := _SPAN.match(text):
            return rfc3339(time.time() - int(span[1]) * _SECONDS[span[2]])
        return parse_time(text)
    except (ValueError, OverflowError):
        raise UsageError(
            Message(
                "--older-than 写作 90d、12h 或 2026-05-31T00:00:00Z。",
                "--older-than takes 90d, 12h or 2026-05-31T00:00:00Z.",
            )
        ) from None
