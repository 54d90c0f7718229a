"""Whether a git-forgejo definition names an operation that there is, and parameters that it takes.

Known is what the shipped facts have, and what the instance's own document adds (contract/registration.md).
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Final

from service.domain.definitions import ABSENT, Definition, Problem
from service.domain.methods import secret_in_query, slot_problem
from service.domain.operations import Operation, read_operation, settled, shipped
from service.domain.quoting import quoted, shown_name

OPEN_PREFIX: Final = "unknown-operation"
OPEN: Final = frozenset({OPEN_PREFIX, f"{OPEN_PREFIX}-parameter"})
"""Codes of problems that the instance's document can end; it ends no other."""

CODES: Final = OPEN | {
    "secret-in-path", "secret-in-query", "slot-type", "lacking-operation-parameter", "optional-operation-parameter"
}  # fmt: skip
"""All that `check_operation` says; of a git-forgejo definition nobody else says it."""


def check_operation(
    definition: Definition, *, extra_operations: Collection[str] = ()
) -> tuple[list[Problem], list[Problem]]:
    """Problems and warnings of a git-forgejo definition against the facts.

    `extra_operations`: names of the instance's own document; where it is a mapping from names to facts of the shipped
    files' shape, its parameters are known too. A name in neither is a problem with the nearest one.
    """
    method = definition.method
    known, seen = shipped().get(method, ()), _seen(method, extra_operations)
    if known or seen is not None:
        return _check_parameters(definition, settled(known, seen))
    if method in extra_operations:
        return [], []  # the instance has it; its parameters are checked when it runs
    return [_unknown(method, (*shipped(), *extra_operations))], []


def _seen(method: str, extra_operations: Collection[str]) -> Operation | None:
    if isinstance(extra_operations, Mapping) and method in extra_operations:
        with suppress(ValueError):  # a document that cannot be read adds nothing
            return read_operation(method, extra_operations[method])
    return None


def _unknown(method: str, names: Iterable[str]) -> Problem:
    by_lower = {name.lower(): name for name in names}
    near = get_close_matches(method.lower(), by_lower, 3, 0.7)
    listed = ", ".join(by_lower[name] for name in near)
    return Problem(
        "unknown-operation",
        f"Forgejo没有operationId为{quoted(method)}的接口"
        + (f"，最接近的是{listed}。" if near else "；请看实例的/api/swagger。"),
        f"Forgejo has no operation {quoted(method)}"
        + (f"; the nearest is {listed}." if near else ": see /api/swagger."),
        "method",
    )


def _check_parameters(definition: Definition, operation: Operation) -> tuple[list[Problem], list[Problem]]:
    problems: list[Problem] = []
    warnings: list[Problem] = []
    schema, takes = definition.params_schema, operation.by_name()
    for name, parameter in schema.items():
        place = takes[name].place if name in takes else None
        if place is None:
            problems.append(_unknown_parameter(name, definition.method, list(takes)))
        elif place == "path" and (parameter.secret or parameter.type in ("array", "object")):
            problems.append(slot_problem(name, parameter))
        elif place == "query" and parameter.secret:
            problems.append(secret_in_query(name))
    for name in operation.needed:
        if name not in schema:
            warnings.append(_lacking(name, definition.method))
        elif not schema[name].required and schema[name].default is ABSENT:
            warnings.append(_optional(name, definition.method))
    return problems, warnings


def _unknown_parameter(name: str, method: str, takes: list[str]) -> Problem:
    near = get_close_matches(name.replace("-", "_"), takes, 1)
    zh, en = (f"是不是{near[0]}？", f"did you mean {near[0]}?") if near else (
        f"它有：{', '.join(takes[:30])}。", f"it takes {', '.join(takes[:30]) or 'none'}."
    )  # fmt: skip
    return Problem(
        "unknown-operation-parameter",
        f"接口{method}没有参数{quoted(name)}；{zh}",
        f"The operation {method} has no parameter {quoted(name)}: {en}",
        f"params_schema.{shown_name(name)}",
    )


def _lacking(name: str, method: str) -> Problem:
    return Problem(
        "lacking-operation-parameter",
        f"接口{method}必须有{name}，params_schema里没有它。",
        f"The operation {method} needs {name}, and params_schema does not have it.",
        "params_schema",
    )


def _optional(name: str, method: str) -> Problem:
    return Problem(
        "optional-operation-parameter",
        f"接口{method}必须有{name}；请写required: true或给默认值。",
        f"The operation {method} needs {name}: write required: true, or give a default.",
        f"params_schema.{name}",
    )
