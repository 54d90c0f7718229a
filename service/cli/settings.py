"""What the commands know of the settings: read when a command needs them, from the environment and one named file."""

import os
from pathlib import Path
from typing import Annotated

import typer

from service.settings import Settings, load

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="配置文件（TOML） / the settings' file; or BITONG_CONFIG"),
]
Json = Annotated[bool, typer.Option("--json", help="输出 JSON / print JSON")]


def read(config: Path | None = None) -> Settings:
    """The settings as `serve` would read them now. Raises UsageError."""
    return load(os.environ, config)


def named_in_environment() -> Path | None:
    """The file that BITONG_CONFIG names."""
    named = os.environ.get("BITONG_CONFIG")
    return Path(named) if named else None
