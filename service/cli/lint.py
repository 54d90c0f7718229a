"""`bitong lint` and `bitong schema`: definitions checked before they are pushed. Neither reads any settings (R17)."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from service.cli import showing
from service.errors import Message, UsageError


class Format(StrEnum):
    """How `lint` says it."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


class Language(StrEnum):
    """Which language `lint` says it in; JSON has both."""

    ZH = "zh"
    EN = "en"


def register(application: typer.Typer) -> None:
    """The commands."""
    application.command("lint")(lint)
    application.command("schema")(schema)


def lint(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="TOOL.hdlp 或文件夹 / files or folders")],
    form: Annotated[Format, typer.Option("--format", help="输出形式 / how to say it")] = Format.TEXT,
    json: Annotated[bool, typer.Option("--json", help="同 --format json / the same as --format json")] = False,
    language: Annotated[
        Language, typer.Option("--language", envvar="BITONG_LANGUAGE", help="语言 / language")
    ] = Language.ZH,
) -> None:
    """检查工具定义，与登记时相同；有问题则退出码为 1。 Check definitions as registration does; exit 1 on problems.

    示例 / example: bitong lint tools/ --format sarif
    """
    from service.intake.definitions import lint as checks  # noqa: PLC0415 - the parsers load slowly

    for path in paths:
        if not os.path.lexists(path):
            shown = showing.cell(str(path))
            raise UsageError(Message(f"没有这个文件或文件夹：{shown}", f"There is no such file or folder: {shown}"))
    results = checks.lint(paths)
    if json or form is Format.JSON:
        text = checks.as_json(results)
    elif form is Format.SARIF:
        text = checks.as_sarif(results, language.value)
    else:
        text = checks.as_text(results, language.value)
    sys.stdout.write(text)
    if any(reading.problems for _, reading in results):
        raise typer.Exit(1)


def schema(
    json: Annotated[bool, typer.Option("--json", help="本来就是 JSON / it is JSON anyway")] = True,  # noqa: ARG001
) -> None:
    """TOOL.hdlp 的 JSON Schema，供编辑器使用。 The JSON Schema of TOOL.hdlp, for editors.

    示例 / example: bitong schema > tool-hdlp.schema.json
    """
    from service.intake.definitions.schema import tool_schema  # noqa: PLC0415 - the parsers load slowly

    showing.as_json(tool_schema())
