"""What the shipped facts know of Forgejo's operations: names and parameters (contract/executors.md, git-forgejo).

Two versions are shipped, the oldest supported and the newest; a name or parameter in either is known.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from sys import intern
from typing import Any, Final

from service.domain.definitions import ABSENT, Definition, Problem
from service.domain.methods import secret_in_query, slot_problem
from service.domain.quoting import quoted, shown_name

VERSIONS: Final = ("7.0.10", "11.0.15")
_REPOSITORY_PATH: Final = "/repos/{owner}/{repo}"


@dataclass(frozen=True, slots=True)
class OperationNames:
    """Flat parameter names of one operation, by where they go; `needed` are those a call cannot do without."""

    path: tuple[str, ...]
    query: tuple[str, ...]
    body: tuple[str, ...]  # form fields and files too
    needed: tuple[str, ...]

    def all(self) -> tuple[str, ...]:
        """Every name."""
        return self.path + self.query + self.body


def names_of(facts: Mapping[str, Any]) -> OperationNames:
    """Flat names of an operation: `-` becomes `_`; a body property named like a parameter is `body_<name>`."""
    places: dict[str, list[str]] = {"path": [], "query": [], "body": []}
    needed: list[str] = []
    for parameter in facts.get("parameters", ()):
        name = intern(parameter["name"].replace("-", "_"))
        places[parameter["in"] if parameter["in"] in ("path", "query") else "body"].append(name)
        if parameter.get("required"):
            needed.append(name)
    taken = {*places["path"], *places["query"]}
    for name, property_facts in (facts.get("body") or {}).items():
        flat = "body" if name == "*" else f"body_{name}" if name in taken else intern(name)
        places["body"].append(flat)
        if property_facts.get("required"):
            needed.append(flat)
    if facts["path"].startswith(_REPOSITORY_PATH):  # these two default to the registered repository
        needed = [name for name in needed if name not in ("owner", "repo")]
    return OperationNames(tuple(places["path"]), tuple(places["query"]), tuple(places["body"]), tuple(needed))


@cache
def shipped() -> Mapping[str, tuple[OperationNames, ...]]:
    """Each known operation with its names in each version that has it, the oldest first. Read on first use (5 ms)."""
    known: dict[str, tuple[OperationNames, ...]] = {}
    for version in VERSIONS:
        text = files("service.intake.definitions").joinpath("forgejo_operations", f"{version}.json").read_bytes()
        for name, facts in json.loads(text).items():
            names, before = names_of(facts), known.get(name, ())
            known[name] = before if names in before else (*before, names)
    return known


def check_operation(
    definition: Definition, *, extra_operations: Collection[str] = ()
) -> tuple[list[Problem], list[Problem]]:
    """Problems and warnings of a git-forgejo definition against the facts.

    `extra_operations`: names of the instance's own document; where it is a mapping from names to facts of the shipped
    files' shape, its parameters are known too. A name in neither is a problem with the nearest one.
    """
    method = definition.method
    known = shipped().get(method, ())
    if isinstance(extra_operations, Mapping) and isinstance(facts := extra_operations.get(method), Mapping):
        known = (*known, names_of(facts))
    if known:
        return _check_parameters(definition, known)
    if method in extra_operations:
        return [], []  # the instance has it; its parameters are checked when it runs
    return [_unknown(method, (*shipped(), *extra_operations))], []


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


def _check_parameters(definition: Definition, known: tuple[OperationNames, ...]) -> tuple[list[Problem], list[Problem]]:
    problems: list[Problem] = []
    warnings: list[Problem] = []
    schema = definition.params_schema
    paths = {name for names in known for name in names.path}
    queries = {name for names in known for name in names.query}
    takes = dict.fromkeys(name for names in known for name in names.all())
    for name, parameter in schema.items():
        if name not in takes:
            problems.append(_unknown_parameter(name, definition.method, list(takes)))
        elif name in paths and (parameter.secret or parameter.type in ("array", "object")):
            problems.append(slot_problem(name, parameter))
        elif name in queries and parameter.secret:
            problems.append(secret_in_query(name))
    for name in known[-1].needed:
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
