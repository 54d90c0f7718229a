"""Registries for these tests: a made-up tool with only what matters, and the native-repo of tests/data."""

from pathlib import Path
from typing import Any

from service.domain.actors import Actor
from service.domain.definitions import Definition, Parameter
from service.intake.definitions.reading import read_definition

NATIVE = Path(__file__).parents[1] / "data" / "native-repo" / "tools"

ANYONE = Actor("token:anyone", frozenset({"read", "exec"}))


def tool(name: str, display: str = "", intent: str = "", **fields: Any) -> Definition:
    """A definition with empty texts where none is given; `params` maps names to descriptions."""
    params = {key: Parameter("string", description=says) for key, says in fields.pop("params", {}).items()}
    given = {"method": "exec", "executor": "gatekeeper", "author": "", "created": "", "why": ""} | fields
    return Definition(name, display, intent, params_schema=params, **given)


def starter() -> list[Definition]:
    """A few unlike tools in both languages."""
    return [
        tool("file-read", "读取文件", "读取服务器上一个文件的内容", effect="read"),
        tool("file-write", "写入文件", "把一段内容写进服务器上的文件", effect="write"),
        tool("git-log", "查看提交记录", "查看仓库最近的提交记录", effect="read"),
        tool("disk-usage", "查看磁盘空间", "显示服务器各分区的容量和剩余空间", effect="read"),
        tool("service-restart", "重启服务", "重启服务器上的一个系统服务", effect="write"),
        tool("cert-renew", "续签证书", "续签指定域名的HTTPS证书", effect="write"),
        tool("backup-delete", "删除备份", "删除一份数据库备份", effect="destructive"),
    ]


def native() -> list[Definition]:
    """The definitions of tests/data/native-repo, read as the service reads them."""
    readings = [read_definition(path.read_bytes(), path.parent.name) for path in sorted(NATIVE.glob("*/TOOL.hdlp"))]
    return [reading.definition for reading in readings if reading.definition is not None]
