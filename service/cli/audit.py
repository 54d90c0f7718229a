"""`bitong audit`: the log, read from a running service, and verified from a file without one."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from service.cli import calling, showing
from service.cli import settings as given

COLUMNS: Final = ("index", "type", "at", "actor", "facts")
_STEP: Final = 5000  # entries between two words on how far it is


def application() -> typer.Typer:
    """The group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="审计日志。 The audit log.")
    group.command("list")(list_entries)
    group.command("show")(show)
    group.command("verify")(verify)
    return group


def list_entries(
    kind: Annotated[str | None, typer.Option("--type", help="类型，如 run.finished / the type")] = None,
    tool: Annotated[str | None, typer.Option(help="工具名 / the tool")] = None,
    actor: Annotated[str | None, typer.Option(help="谁 / who")] = None,
    run: Annotated[str | None, typer.Option(help="运行的 id / a run's id")] = None,
    since: Annotated[str | None, typer.Option(help="从何时起 / from this time on")] = None,
    until: Annotated[str | None, typer.Option(help="到何时止 / up to this time")] = None,
    limit: Annotated[int | None, typer.Option(min=1, max=calling.MOST, help="最多几项 / at most so many")] = None,
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """列出日志，最新的在前。 List the log, newest first.

    示例 / example: bitong audit list --type run.finished --tool shell-exec
    """
    wanted = {"type": kind, "tool": tool, "actor": actor, "run": run, "since": since, "until": until, "limit": limit}
    with calling.reading(config) as service:
        page = service.get("/audit", **wanted)
    if json:
        showing.as_json(page)
        return
    showing.table(COLUMNS, [[item[column] for column in COLUMNS] for item in page["items"]])


def show(
    index: Annotated[int, typer.Argument(metavar="INDEX", min=0, help="序号 / its index")],
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """一条日志。 One entry.

    示例 / example: bitong audit show 12 --json
    """
    with calling.reading(config) as service:
        entry = service.get(f"/audit/entries/{index}")
    if json:
        showing.as_json(entry)
        return
    showing.fields([(name, entry[name]) for name in ("index", "type", "at", "actor", "leaf")])
    showing.fields(entry["facts"].items())


def verify(
    database: Annotated[
        Path | None, typer.Option("--database", metavar="FILE", help="默认为 data_dir 中的 / data_dir's unless given")
    ] = None,
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """核对整个日志与各表；不需要服务。不符则退出码为 1。 Verify the log and the tables, without a service; exit 1 if not well.

    示例 / example: bitong audit verify --database /backup/bitong.db
    """
    from service.verify import VerifyError, lines, verify_database  # noqa: PLC0415 - only this command needs it

    file = database if database is not None else given.read(config).database_path
    try:
        report = verify_database(file, progress=_tell if sys.stderr.isatty() else None)
    except VerifyError as error:
        if json:
            showing.as_json({"ok": False, "error": {"zh": error.zh, "en": error.en}})
        sys.stderr.write(f"{error.zh}\n{error.en}\n")
        raise typer.Exit(1) from None
    if json:
        shape: dict[str, Any] = asdict(report)
        shape["notes"] = [{"zh": zh, "en": en} for zh, en in report.notes]
        showing.as_json({"ok": not report.findings} | shape)
    else:
        sys.stdout.write("\n".join(lines(report)) + "\n")
    if report.findings:
        raise typer.Exit(1)


def _tell(done: int, total: int) -> None:
    if done % _STEP == 0 or done == total:
        sys.stderr.write(f"\r{done:,}/{total:,}" + ("\n" if done == total else ""))
