"""`bitong audit`: the log, read from a running service, and verified from a file without one."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from service.cli import calling, direct, export, purge, showing
from service.cli import settings as given
from service.errors import Message, Unavailable
from service.store.folder import DataFolder

if TYPE_CHECKING:
    from service.verify import Report

COLUMNS: Final = ("index", "type", "at", "actor", "facts")
_STEP: Final = 5000  # entries between two words on how far it is


def application() -> typer.Typer:
    """The group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="审计日志。 The audit log.")
    group.command("list")(list_entries)
    group.command("show")(show)
    group.command("verify")(verify)
    group.command("prove")(prove)
    group.command("checkpoint")(checkpoint)
    group.command("key")(key)
    group.command("export")(export.export)
    group.command("purge-output")(purge.purge_output)
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
    exported: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="audit export 导出的文件 / a file that audit export wrote"),
    ] = None,
    vkey: Annotated[
        list[str] | None, typer.Option("--key", metavar="VKEY", help="公钥，可重复 / a key, repeatable")
    ] = None,
    kept: Annotated[
        list[Path] | None,
        typer.Option("--checkpoint", metavar="FILE", help="别处保存的检查点，可重复 / one kept elsewhere, repeatable"),
    ] = None,
    clone: Annotated[
        Path | None, typer.Option("--clone", metavar="DIR", help="仓库的克隆 / a clone of the repository")
    ] = None,
    tools_path: Annotated[
        str, typer.Option("--tools-path", metavar="PATH", help="克隆中工具的路径 / where its tools stand")
    ] = "tools",
    proof: Annotated[
        Path | None, typer.Option("--proof", metavar="FILE", help="只核对一次运行的证明 / only a proof of one run")
    ] = None,
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """核对整个日志与各表；不需要服务。不符则退出码为 1。 Verify the log and the tables, without a service; exit 1 if not well.

    示例 / example: bitong audit verify --database /backup/bitong.db --key "$(cat bitong.vkey)" --clone ~/native-repo
    """
    from service.verify import VerifyError, verify_database  # noqa: PLC0415 - only this command needs it
    from service.verify.export import verify_export  # noqa: PLC0415

    try:
        if proof is not None:
            _verify_proof(proof, vkey or [], json=json)
            return
        if exported is not None:
            _show_report(verify_export(exported, keys=vkey or [], checkpoints=kept or []), json=json)
            return
        report = verify_database(
            database if database is not None else given.read(config).database_path,
            keys=vkey or [],
            checkpoints=kept or [],
            clone=clone,
            tools_path=tools_path,
            progress=_tell if sys.stderr.isatty() else None,
        )
    except VerifyError as error:
        if json:
            showing.as_json({"ok": False, "error": {"zh": error.zh, "en": error.en}})
        sys.stderr.write(f"{error.zh}\n{error.en}\n")
        raise typer.Exit(1) from None
    _show_report(report, json=json)


def prove(
    run: Annotated[str, typer.Argument(metavar="RUN", help="运行的 id / the run's id")], config: given.Config = None
) -> None:
    """一次运行的证明文件，交给任何人都能核对。 A file that proves one run to anybody.

    示例 / example: bitong audit prove 0190b5a4-0000-7000-8000-000000000000 > run.proof.json
    """
    with calling.reading(config) as service:
        showing.as_json(service.get(f"/runs/{calling.path_part(run)}/proof"))


def checkpoint(config: given.Config = None) -> None:
    """最新的签名检查点。 The newest signed checkpoint.

    示例 / example: bitong audit checkpoint > bitong.checkpoint
    """
    with calling.reading(config) as service:
        answer = service.ask("GET", "/audit/checkpoint")
    if not answer.is_success:
        raise calling.failure_of(answer)
    sys.stdout.write(answer.text)


def key(
    rotate: Annotated[
        bool, typer.Option("--rotate", help="换新密钥（服务须已停止） / take a new key; the service has to be stopped")
    ] = False,
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """日志的公钥，每行一把，最后一把在用。 The log's public keys, one a line; the last one is in use.

    示例 / example: bitong audit key > bitong.vkey
    """
    if rotate:
        with direct.opened(given.read(config)) as bitong:
            bitong.checkpoints.rotate()
            keys = [str(one) for one in bitong.checkpoints.keys]
    else:
        keys = _keys(config)
    if json:
        showing.as_json(keys)
    else:
        sys.stdout.write("".join(f"{one}\n" for one in keys))


def _keys(config: Path | None) -> list[str]:
    """As a running service tells, or as the data folder's log says while none runs."""
    settings = given.read(config)
    if os.environ.get("BITONG_TOKEN") or DataFolder(settings.data_dir).running() is not None:
        with calling.reading(config) as service:
            kinds = ("key.created", "key.rotated")
            items = [item for kind in kinds for item in service.get("/audit", type=kind, limit=calling.MOST)["items"]]
        return [item["facts"]["key"] for item in sorted(items, key=lambda item: int(item["index"]))]
    if not settings.database_path.exists():
        raise Unavailable(Message("data_dir 里没有数据库。", "There is no database in data_dir."))
    with direct.opened(settings) as bitong:
        return [str(one) for one in bitong.checkpoints.keys]


def _verify_proof(file: Path, keys: list[str], *, json: bool) -> None:
    from service.verify import VerifyError, verify_proof  # noqa: PLC0415

    try:
        content = file.read_bytes()
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise VerifyError(f"读不到证明：{why}。", f"The proof cannot be read: {why}.") from error
    proved = verify_proof(content, keys)
    if json:
        showing.as_json({"ok": True} | proved)
        return
    sys.stdout.write("证明成立 / it is proved\n")
    showing.fields([("run", proved["run"]), ("size", proved["size"]), ("root", proved["root"])])
    for entry in proved["entries"]:
        showing.fields(
            [(f"{entry['index']} {entry['type']}", f"{entry['at']} {entry['actor']}"), *entry["facts"].items()]
        )
    for note in proved["notes"]:
        showing.fields([("注意 note", f"{note['zh']} {note['en']}")])


def _show_report(report: "Report", *, json: bool) -> None:
    from service.verify import lines  # noqa: PLC0415
    from service.verify.__main__ import as_json  # noqa: PLC0415

    if json:
        showing.as_json(as_json(report))
    else:
        sys.stdout.write("\n".join(lines(report)) + "\n")
    if report.findings:
        raise typer.Exit(1)


def _tell(done: int, total: int) -> None:
    if done % _STEP == 0 or done == total:
        sys.stderr.write(f"\r{done:,}/{total:,}" + ("\n" if done == total else ""))
