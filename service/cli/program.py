"""All commands under one name, and the one table from kinds of failure to exit codes (contract/cli.md, Commands)."""

import os
import sys
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Final

import typer

from service import __version__, errors
from service.cli import (
    audit,
    backup,
    confirmations,
    db,
    demo,
    exec,
    gatekeeper,
    hook,
    lint,
    login,
    matching,
    report,
    runs,
    serve,
    showing,
    sync,
    tokens,
    tools,
)
from service.errors import BitongError

EXIT: Final[Mapping[type[BitongError], int]] = {
    errors.NotFound: 1,
    errors.Conflict: 1,
    errors.Malformed: 2,
    errors.Unauthenticated: 2,
    errors.Forbidden: 2,
    errors.TooLarge: 2,
    errors.Unsupported: 2,
    errors.Invalid: 2,
    errors.UsageError: 2,
    errors.Busy: 3,
    errors.Unavailable: 3,
}

application = typer.Typer(
    name="bitong",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="笔筒：git 原生的工具注册与执行服务。 Bitong: a git-native registry of tools, and a service that runs them.\n\n"
    "示例 / example: bitong demo · bitong tools list · bitong exec shell-exec cmd='git log --oneline -5'\n\n"
    "退出码 / exit codes: 0 完成 done · 1 所问之事不好 not well · 2 用法不对 used wrongly · 3 连不上 cannot be reached",
)


def _say_version(value: bool) -> None:
    if value:
        sys.stdout.write(f"bitong {__version__}\n")
        raise typer.Exit


@application.callback()
def options(
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="配置文件（TOML） / the settings' file; or BITONG_CONFIG"),
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="版本 / the version")
    ] = False,
) -> None:
    """What stands before the command."""
    if config is not None:
        os.environ["BITONG_CONFIG"] = str(config)


for group in (serve, demo, login, sync, lint, exec, matching, backup, gatekeeper):
    group.register(application)
for name, group in (
    ("hook", hook),
    ("tools", tools),
    ("runs", runs),
    ("confirm", confirmations),
    ("audit", audit),
    ("token", tokens),
    ("report", report),
    ("db", db),
):
    application.add_typer(group.application(), name=name)


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments say; its exit code. What can be expected to fail ends in a sentence, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        application(list(arguments), prog_name="bitong")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except BitongError as error:
        showing.failure(error)
        return exit_code(error)
    return 0


def exit_code(error: BitongError) -> int:
    """By the nearest kind; a failure of no kind is one of ours."""
    return next((EXIT[kind] for kind in type(error).__mro__ if kind in EXIT), 3)
