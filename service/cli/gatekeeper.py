"""`bitong gatekeeper`: the reference gatekeeper, on the server whose files and commands it gives out."""

import os
import secrets
from pathlib import Path
from typing import Annotated, Final

import typer

from service.cli import showing
from service.errors import Message, UsageError
from service.gatekeeper.config import METHODS, GatekeeperConfig

PORT: Final = 3911
_TOKEN_BYTES: Final = 32


def register(application: typer.Typer) -> None:
    """The command."""
    application.command("gatekeeper")(gatekeeper)


def gatekeeper(
    token_file: Annotated[
        Path,
        typer.Option("--token-file", metavar="FILE", help="令牌文件，没有就新建（0600） / made, 0600, when absent"),
    ],
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="监听 127.0.0.1 的端口 / port")] = PORT,
    root: Annotated[
        list[Path] | None,
        typer.Option("--root", metavar="DIR", help="可读写的文件夹，可多次 / folders to work in; repeat it"),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option("--methods", help="逗号分隔：exec,file.read,file.write,file.list,http / all unless given"),
    ] = None,
    allow_url: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-url", metavar="PATTERN", help="http 可访问的网址，可多次 / what http may reach; repeat it"
        ),
    ] = None,
    deny: Annotated[
        list[Path] | None,
        typer.Option("--deny", metavar="PATH", help="谁也看不到的文件夹或文件，可多次 / hidden folders and files"),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option("--state-dir", metavar="DIR", help="运行记录，默认 <FILE>.state / its journal of runs"),
    ] = None,
) -> None:
    """参考实现的 gatekeeper：在本机执行命令、读写文件、发送请求。 Runs commands, files and requests on this host.

    示例 / example: bitong gatekeeper --port 3911 --token-file /etc/bitong/gatekeeper.token --root /srv/work
    """
    from service.gatekeeper.server import serve  # noqa: PLC0415 - heavy

    token = _token(token_file)
    state = state_dir or token_file.with_name(token_file.name + ".state")
    config = GatekeeperConfig(
        token=token,
        state_dir=_folder(state, made=True),
        roots=tuple(_folder(folder) for folder in root or ()),
        deny=tuple(_there(path) for path in deny or ()),
        token_file=token_file,
        methods=_methods(methods),
        allow_urls=tuple(allow_url or ()),
    )

    def ready(url: str) -> None:
        showing.say(Message(f"gatekeeper 已就绪：{url}", f"the gatekeeper answers at {url}"))

    try:
        serve(config, port=port, on_ready=ready)
    except ValueError as error:  # a pattern of another form
        raise UsageError(Message(f"--allow-url：{error}", f"--allow-url: {error}")) from None


def _methods(text: str | None) -> frozenset[str]:
    if text is None:
        return METHODS
    asked = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not asked or not asked <= METHODS:
        allowed = ", ".join(sorted(METHODS))
        raise UsageError(Message(f"--methods 可取：{allowed}", f"--methods takes: {allowed}"))
    return asked


def _token(file: Path) -> str:
    """What the file holds; a new random one where there is no file yet."""
    try:
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            token = file.read_text("utf-8").strip()
        else:
            token = secrets.token_urlsafe(_TOKEN_BYTES)
            with os.fdopen(descriptor, "w", encoding="ascii") as written:
                written.write(token + "\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(Message(f"--token-file 用不了：{reason}", f"--token-file cannot be used: {reason}")) from None
    if not token:
        raise UsageError(Message("--token-file 是空的。", "--token-file is empty."))
    return token


def _there(path: Path) -> Path:
    """What is to be hidden must be there: a name mistyped would hide nothing, and nobody would know."""
    try:
        path.stat()
    except PermissionError:
        return path  # nobody reaches through us what we do not reach
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise UsageError(
            Message(
                f"--deny 没有这个文件夹或文件：{path}：{reason}",
                f"--deny names nothing that is there: {path}: {reason}",
            )
        ) from None
    return path


def _folder(path: Path, *, made: bool = False) -> Path:
    try:
        if made:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.is_dir():
            raise UsageError(Message(f"没有这个文件夹：{path}", f"There is no such folder: {path}"))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise UsageError(Message(f"用不了 {path}：{reason}", f"Cannot use {path}: {reason}")) from None
    return path
