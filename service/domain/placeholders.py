"""`command:` templates: argument vectors whose items may hold `{name}` of a declared parameter (contract/tool-hdlp.md).

Nothing is split, quoted or handed to a shell; what was put in is not read again.
"""

import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Final

from service.domain.definitions import ABSENT, Definition, Parameter, Problem
from service.domain.executors import ParameterProblem
from service.domain.quoting import quoted
from service.domain.scripts import script_items

_SLOT: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]{0,63})\}")


def slots(item: str, schema: Mapping[str, Parameter]) -> list[str]:
    """Names of the declared parameters that an item holds, in order; other braces are literal."""
    return [name for name in _SLOT.findall(item) if name in schema]


def check_command(definition: Definition) -> tuple[list[Problem], list[Problem]]:
    """Problems and warnings of a definition's `command`; fields are `command[0]` and so on."""
    command, schema = definition.command or (), definition.params_schema
    problems: list[Problem] = []
    warnings: list[Problem] = []
    scripts = script_items(command)
    for index, item in enumerate(command):
        field = f"command[{index}]"
        held = slots(item, schema)
        if held and index == 0:
            problems.append(_in_program(held[0], field))
        elif held and index in scripts:
            problems.append(_in_script(held[0], field))
        problems.extend(
            _not_an_argument(name, schema[name], field) for name in dict.fromkeys(held) if _unfit(schema[name])
        )
        warnings.extend(_undeclared(name, field, schema) for name in _looks_meant(item) if name not in schema)
    return problems, warnings


def _unfit(parameter: Parameter) -> bool:
    return parameter.secret or parameter.type in ("array", "object")


def _in_program(name: str, field: str) -> Problem:
    return Problem(
        "placeholder-in-program",
        f"command的第一项是程序，不能含参数{{{name}}}。",
        f"The first item of command is the program; it cannot hold {{{name}}}.",
        field,
    )


def _in_script(name: str, field: str) -> Problem:
    return Problem(
        "placeholder-in-script",
        f"脚本文本里不能放{{{name}}}：它的值会被当成代码；请作为参数传，例如 sh -c '… \"$1\"' sh {{{name}}}。",
        f"A script's text cannot hold {{{name}}}, whose value would become code: "
        f"hand it over as an argument, such as sh -c '… \"$1\"' sh {{{name}}}.",
        field,
    )


def _not_an_argument(name: str, parameter: Parameter, field: str) -> Problem:
    if parameter.secret:
        return Problem(
            "secret-in-command",
            f"secret参数{name}不能放进command：别的进程看得到参数表；请用stdin或env传。",
            f"The secret {name} cannot stand in command, where other processes see it: hand it over by stdin or env.",
            field,
        )
    return Problem(
        "placeholder-type",
        f"{name}是{parameter.type}，不能放进command；只有string、integer、number、boolean可以。",
        f"{name} is {parameter.type} and cannot stand in command: only string, integer, number and boolean can.",
        field,
    )


def _looks_meant(item: str) -> list[str]:
    """Names in braces that are neither a shell's `${name}` nor doubled, as templates elsewhere have them."""
    return [match.group(1) for match in _SLOT.finditer(item) if not item[: match.start()].endswith(("$", "{"))]


def _undeclared(name: str, field: str, schema: Mapping[str, Parameter]) -> Problem:
    near = get_close_matches(name, schema, 1)
    zh, en = (f"是不是{{{near[0]}}}？", f"did you mean {{{near[0]}}}?") if near else (
        "要用参数请先在params_schema里声明。", "declare the parameter in params_schema if one was meant."
    )  # fmt: skip
    return Problem(
        "undeclared-placeholder",
        f"没有声明参数{quoted(name)}，{{{name}}}会原样传给程序；{zh}",
        f"No parameter {quoted(name)} is declared, so {{{name}}} is handed over as it stands: {en}",
        field,
    )


def render(
    command: Sequence[str], schema: Mapping[str, Parameter], parameters: Mapping[str, Any]
) -> tuple[list[str], list[ParameterProblem]]:
    """The argument vector for parameters that fit the schema, and what of them cannot stand in one."""
    vector: list[str] = []
    problems: list[ParameterProblem] = []
    for before, item in pairwise(("", *command)):
        if "{" not in item:
            vector.append(item)
            continue
        held = slots(item, schema)
        if any(parameters.get(name, ABSENT) is ABSENT for name in held):
            continue
        vector.append(_SLOT.sub(lambda match: _put_in(match, schema, parameters), item))
        for name in held:
            whole = item == f"{{{name}}}" and before != "--"
            problems.extend(_unusable(name, parameters[name], whole_item=whole))
    return vector, problems


def _put_in(match: re.Match[str], schema: Mapping[str, Parameter], parameters: Mapping[str, Any]) -> str:
    name = match.group(1)
    if name not in schema:
        return match.group()
    value = parameters[name]
    return value if isinstance(value, str) else json.dumps(value)


def _unusable(name: str, value: Any, *, whole_item: bool) -> list[ParameterProblem]:
    problems = []
    if isinstance(value, str) and "\0" in value:
        problems.append(
            ParameterProblem(
                name,
                "nul",
                f"{name}里有NUL字符（U+0000），不能作为命令的参数。",
                f"{name} holds a NUL character (U+0000), which no argument of a command can.",
            )
        )
    if isinstance(value, str) and whole_item and value.startswith("-"):
        problems.append(
            ParameterProblem(
                name,
                "looks-like-option",
                f"{name}以-开头，程序会把它当成选项；要允许它，请在command里它前面加一项--。",
                f"{name} begins with `-` and would be read as an option; if meant, put an item `--` before it.",
            )
        )
    return problems
