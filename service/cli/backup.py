"""`bitong backup` and `bitong restore`: a whole copy of the database, and putting one back."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from service.cli import calling, showing
from service.cli import settings as given
from service.cli.export import new_file
from service.domain.actors import OPERATOR
from service.domain.times import now
from service.errors import Message, Unavailable, UsageError
from service.settings import Settings
from service.store.folder import DataFolder

if TYPE_CHECKING:
    from service.domain.actors import Token
    from service.store.restoring import Placed

SILENCE_S: Final = 3600.0  # that making the copy may take before its first byte
_KEYS: Final = ("log.key", "parameters.key")

_KEEP_KEYS: Final = Message(
    "密钥不在备份里：请另外保存 data_dir 中的 log.key（没有它就不能再签检查点）与 parameters.key。",
    "Keys are not in it: keep log.key (without it no checkpoint is signed) and parameters.key of data_dir elsewhere.",
)


def register(application: typer.Typer) -> None:
    """Both commands."""
    application.command("backup")(backup)
    application.command("restore")(restore)


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="新文件 / a new file")],
    json: given.Json = False,
    config: given.Config = None,
) -> None:
    """整个数据库的一份副本，服务可以照常运行；密钥不在其中。 A copy of the database, in use or not; keys are not in it.

    示例 / example: bitong backup /backup/bitong-2026-05-31.db
    """
    settings = given.read(config)
    if file.exists():
        raise UsageError(Message(f"{file} 已存在。", f"{file} is there already."))
    service = calling.running(settings)
    if service is None:
        _copy(settings, file)
    else:
        with service, new_file(file) as target, service.stream("/backup", silence_s=SILENCE_S) as answer:
            if not answer.is_success:
                answer.read()
                raise calling.failure_of(answer)
            for piece in answer.iter_raw():
                target.write(piece)
    size = file.stat().st_size
    if json:
        showing.as_json({"file": str(file), "bytes": size})
    else:
        showing.fields([("备份 backup", str(file)), ("字节 bytes", f"{size:,}")])
    showing.say(_KEEP_KEYS)


def restore(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="备份 / the backup")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="先核对备份 / verify it first")] = False,
    acknowledge: Annotated[
        bool, typer.Option("--acknowledge", help="确认日志可能变短 / acknowledge that the log may be shorter now")
    ] = False,
    keep: Annotated[
        list[str] | None, typer.Option("--keep", metavar="NAME", help="保留此令牌，可多次 / keep this token; repeat it")
    ] = None,
    end: Annotated[
        list[str] | None, typer.Option("--end", metavar="NAME", help="停用此令牌，可多次 / end this token; repeat it")
    ] = None,
    config: given.Config = None,
) -> None:
    """把备份放回 data_dir（服务须已停止）；原来的数据库留在旁边。 Put a backup in place; the service has to be stopped.

    日志比已知的短时，确认之前什么都不写入。--acknowledge 写下 log.restored，并结束会话、登录链接、等待的确认与幂等键；
    每个令牌按名保留或停用（--keep、--end；在终端里会逐个询问）。

    Where the log is shorter than what was known, nothing is written before --acknowledge, which writes log.restored and ends
    sessions, sign-in links, waiting confirmations and idempotency keys. Each token is kept or ended by name: --keep, --end.

    示例 / example: bitong restore /backup/bitong-2026-05-31.db --verify --acknowledge --keep zhuyuan --end ci
    """
    if file is None and not acknowledge:
        raise UsageError(Message("请给出备份文件，或 --acknowledge。", "Name the backup, or say --acknowledge."))
    settings = given.read(config)
    if file is not None and verify:
        _verify(file)
    folder = DataFolder(settings.data_dir)
    folder.make()
    folder.lock()
    try:
        whole = False if file is None else _place(folder, file)
        if acknowledge and not whole:
            _acknowledge(settings, folder, {**dict.fromkeys(keep or (), True), **dict.fromkeys(end or (), False)})
    finally:
        folder.unlock()
    if not all((settings.data_dir / name).exists() for name in _KEYS):
        showing.say(_KEEP_KEYS)


def _copy(settings: Settings, file: Path) -> None:
    from service.store.backup import snapshot  # noqa: PLC0415 - heavy

    folder = DataFolder(settings.data_dir)
    if not settings.database_path.exists():
        raise Unavailable(Message("data_dir 里没有数据库。", "There is no database in data_dir."))
    folder.lock()
    try:
        snapshot(settings.database_path, file)
    finally:
        folder.unlock()


def _verify(file: Path) -> None:
    from service.verify import VerifyError, lines, verify_database  # noqa: PLC0415 - heavy

    try:
        report = verify_database(file)
    except VerifyError as error:
        raise UsageError(Message(error.zh, error.en)) from None
    sys.stderr.write("\n".join(lines(report)) + "\n")
    if report.findings:
        showing.say(Message("备份不符，没有恢复。", "The backup does not verify; nothing was restored."))
        raise typer.Exit(1)


def _place(folder: DataFolder, file: Path) -> bool:
    from service.store import restoring  # noqa: PLC0415 - heavy

    placed = restoring.place(folder, file)
    _show(placed)
    return placed.whole


def _show(placed: "Placed") -> None:
    known = "-" if placed.known is None else f"{placed.known.size:,}"
    showing.fields([("日志 entries", f"{placed.size:,}"), ("原先已知 known before", known)])
    showing.fields([("原数据库 old database", None if placed.aside is None else str(placed.aside))])
    if not placed.whole:
        showing.say(
            Message(
                "日志可能比已知的短：确认之前什么都不写入（bitong restore --acknowledge）。",
                "The log may be shorter than what was known: nothing is written before bitong restore --acknowledge.",
            )
        )


def _acknowledge(settings: Settings, folder: DataFolder, decided: Mapping[str, bool]) -> None:
    from service.store import restoring  # noqa: PLC0415 - heavy
    from service.store.database import Database  # noqa: PLC0415
    from service.store.migrations import ensure_schema  # noqa: PLC0415
    from service.web.auth import Authority  # noqa: PLC0415
    from service.web.people import Sessions  # noqa: PLC0415

    ensure_schema(settings.database_path)
    database = Database(settings.database_path)
    try:
        sessions = Sessions(database, settings.session_hours)
        authority = Authority(database, sessions)
        live = [token for token in authority.all_tokens() if token.live(now())]
        ending = _ended_ones(live, decided)
        restoring.acknowledge(folder, database)
        for session in sessions.everyone():
            if session.live(now()):
                sessions.close(session.id, OPERATOR)
        for token in ending:
            authority.revoke(token.id, OPERATOR)
        restoring.settle(folder)
    finally:
        database.close()
    showing.say(Message("已确认，服务可以启动。", "Acknowledged; the service can start."))


def _ended_ones(live: Sequence["Token"], decided: Mapping[str, bool]) -> list["Token"]:
    """The tokens to end. Raises UsageError, before anything was written, for one that nobody decided on."""
    names = {token.name for token in live}
    unknown = sorted(decided.keys() - names)
    if unknown:
        raise UsageError(Message(f"没有有效的令牌：{unknown[0]}", f"There is no live token {unknown[0]}."))
    left = [token for token in live if token.name not in decided]
    if left and not sys.stdin.isatty():
        listed = ", ".join(token.name for token in left)
        raise UsageError(
            Message(
                f"请对每个令牌说明保留（--keep）还是停用（--end）：{listed}",
                f"Say of each token whether it is kept (--keep) or ended (--end): {listed}",
            )
        )
    answers = {**decided, **{token.name: _ask(token) for token in left}}
    return [token for token in live if not answers[token.name]]


def _ask(token: "Token") -> bool:
    said = f"{token.name}（{', '.join(token.scopes)}，{token.created_at}）保留吗？ keep it?"
    return bool(typer.confirm(said, default=False, err=True))
