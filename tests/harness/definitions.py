"""Texts of TOOL.hdlp for tests: a valid definition of which each test changes what it is about."""

import json
from typing import Any

FIELDS: dict[str, Any] = {
    "display": "试验工具",
    "intent": "为一条规则而写的工具",
    "method": "run",
    "executor": "shell",
    "params_schema": {},
    "constraints": {},
    "author": "ICE-GL-ZY001",
    "created": "2026-05-31",
    "why": "测试需要它。",
}

SHELL_EXEC: dict[str, Any] = {
    "display": "Shell命令执行",
    "intent": "在服务器上执行一条shell命令并返回结果",
    "method": "exec",
    "params_schema": {
        "cmd": {"type": "string", "required": True, "description": "要执行的shell命令"},
        "cwd": {"type": "string", "required": False, "description": "工作目录"},
    },
    "constraints": {"timeout_ms": 30000, "max_output_bytes": 65536, "require_confirm": False},
}


def tool_text(name: str, *, without: tuple[str, ...] = (), **fields: Any) -> str:
    """A TOOL.hdlp in YAML, one field a line, values in JSON's grammar (which YAML reads the same).

    A shell tool without a `command` prints its name. `without` leaves fields out, required ones too.
    """
    merged = {"name": name, **FIELDS, **fields}
    if merged["executor"] == "shell" and merged["method"] == "run":
        merged.setdefault("command", ["echo", name])
    lines = [f"{key}: {_value(key, value)}" for key, value in merged.items() if key not in without]
    return "\n".join(lines) + "\n"


def shell_exec_text(name: str = "shell-exec", **fields: Any) -> str:
    """The seed's own example (section 7), on this host's shell unless `executor` says otherwise."""
    return tool_text(name, **{**SHELL_EXEC, **fields})


def _value(key: str, value: Any) -> str:
    if key == "created":
        return str(value)
    return json.dumps(value, ensure_ascii=False)
