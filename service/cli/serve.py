"""`bitong serve`: the service, in this process's place."""

import os
import sys

import typer

from service.cli import settings as given
from service.cli.processes import own
from service.settings import refuse_open_file, refuse_unsafe


def register(application: typer.Typer) -> None:
    """The command."""
    application.command("serve")(serve)


def serve(config: given.Config = None) -> None:
    """启动服务，直到 SIGTERM 或 Ctrl-C。 Run the service until SIGTERM or Ctrl-C.

    示例 / example: BITONG_DATA_DIR=./data BITONG_REPOSITORY_URL=/srv/native-repo.git bitong serve --config bitong.toml
    """
    named = config or (given.named_in_environment())
    settings = given.read(named)
    if named is not None:
        refuse_open_file(named)
    refuse_unsafe(settings)
    # The service shall not carry the command line's libraries in its memory.
    arguments = own("service.app", *([] if named is None else [str(named)]))
    sys.stdout.flush()
    os.execve(sys.executable, arguments, dict(os.environ))  # noqa: S606 - our own interpreter and module
