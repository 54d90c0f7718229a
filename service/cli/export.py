"""`bitong audit export`: the log as a file, to be kept elsewhere and verified there."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO, Final
from urllib.parse import urlencode

import typer

from service.cli import calling
from service.cli import settings as given
from service.errors import Message, UsageError

_STEP: Final = 10_000  # entries between two words on how far it is


class Format(StrEnum):
    """How the file is written."""

    ndjson = "ndjson"
    csv = "csv"


def export(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="写到新文件 / to a new file; else standard output"),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="ndjson 可以核对 / ndjson can be verified")] = Format.ndjson,
    kind: Annotated[str | None, typer.Option("--type", help="类型，如 run.finished / the type")] = None,
    tool: Annotated[str | None, typer.Option(help="工具名 / the tool")] = None,
    actor: Annotated[str | None, typer.Option(help="谁 / who")] = None,
    run: Annotated[str | None, typer.Option(help="运行的 id / a run's id")] = None,
    since: Annotated[str | None, typer.Option(help="从何时起 / from this time on")] = None,
    until: Annotated[str | None, typer.Option(help="到何时止 / up to this time")] = None,
    config: given.Config = None,
) -> None:
    """导出日志，从最早的起；全部或筛选后的。 The log as a file, oldest first, whole or filtered.

    ndjson：每行一条，entry_b64 是被哈希的字节；导出全部时最后一行是签名的检查点。

    ndjson: an entry a line, entry_b64 the bytes that were hashed; of the whole log the last line is the signed checkpoint.

    示例 / example: bitong audit export -o audit.ndjson
    """
    wanted = {"type": kind, "tool": tool, "actor": actor, "run": run, "since": since, "until": until}
    query = urlencode({"format": form.value} | {name: value for name, value in wanted.items() if value is not None})
    with calling.reading(config) as service, new_file(output) as target, service.stream(f"/audit?{query}") as answer:
        if not answer.is_success:
            answer.read()
            raise calling.failure_of(answer)
        lines = told = 0
        for piece in answer.iter_raw():
            target.write(piece)
            lines += piece.count(b"\n")
            if lines - told >= _STEP and sys.stderr.isatty():
                told = lines
                sys.stderr.write(f"\r{lines:,}")
        target.flush()
    sys.stderr.write(f"\r{lines:,} 行 lines\n")


@contextmanager
def new_file(file: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that is there whole or not at all, readable by its owner alone."""
    if file is None:
        yield sys.stdout.buffer
        return
    if file.exists():
        raise UsageError(Message(f"{file} 已存在。", f"{file} is there already."))
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with open(part, "xb", opener=_private) as target:
            yield target
            os.fsync(target.fileno())
        os.link(part, file)  # unlike a rename, it never replaces what came meanwhile
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UsageError(Message(f"无法写入 {file}：{why}", f"Cannot write {file}: {why}")) from None
    finally:
        part.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
