"""Forgejo's API operations: verb, path, and what each takes under which name (contract/executors.md, git-forgejo).

Registration and execution read the same Operation, so a name that one accepts the other can send.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache, reduce
from importlib.resources import files
from sys import intern
from typing import Any, Final

from service.domain.methods import VERBS, path_slots

VERSIONS: Final = ("7.0.10", "11.0.15")  # shipped: the oldest supported and the newest, the oldest first
REPOSITORY: Final = ("owner", "repo")
MAX_TAKEN: Final = 500

_REPOSITORY_PATH: Final = "/repos/{owner}/{repo}"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_PARAMETER_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")  # contract/tool-hdlp.md
_PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|$))(?:[A-Za-z0-9._~-]|\{[A-Za-z0-9_-]+\})+){1,32}")
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+*-]+")
_JOINS: Final = ("csv", "ssv", "tsv", "pipes", "multi")
# Bodies of different kinds cannot be one request.
_BODY_KINDS: Final = {"body": "properties", "whole": "whole", "form": "form", "file": "form"}

# What the operator allows unless told otherwise: reading, and nothing that gives a credential or leads to one.
_DEFAULT_NAMES: Final = ("repo*", "issue*", "GetTree", "GetBlob", "userGetCurrent", "orgGet*")
_DEFAULT_WITHOUT: Final = re.compile(r"token|key|hook|secret|variable|runner", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Taken:
    """One thing that an operation takes.

    `name`: flat, as a definition's parameter has it; `sent_as`: as the request has it. `place`: path, query, form, file
    (a form's), body (a property of the JSON body) or whole (the body itself). `type` as Swagger names it; `joined`: how
    an array goes into a query or form (csv, ssv, tsv, pipes, or multi, which repeats the name).
    """

    name: str
    sent_as: str
    place: str
    type: str
    required: bool = False
    joined: str = "csv"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operationId. `path` as the document has it, with the slots' own names; `produces`: media types of its answer."""

    name: str
    verb: str
    path: str
    taken: tuple[Taken, ...]
    produces: tuple[str, ...] = ()

    @property
    def route(self) -> tuple[str, str]:
        """Verb and path."""
        return self.verb, self.path

    @property
    def template(self) -> str:
        """The path with its slots named as a definition names them."""
        return re.sub(r"\{[^{}]*\}", lambda slot: slot.group().replace("-", "_"), self.path)

    @property
    def is_repository(self) -> bool:
        """Whether `owner` and `repo` default to the registered repository."""
        return self.path == _REPOSITORY_PATH or self.path.startswith(_REPOSITORY_PATH + "/")

    @property
    def needed(self) -> tuple[str, ...]:
        """Names that a call cannot do without."""
        defaults = REPOSITORY if self.is_repository else ()
        return tuple(item.name for item in self.taken if item.required and item.name not in defaults)

    def by_name(self) -> dict[str, Taken]:
        """Everything it takes, by flat name."""
        return {item.name: item for item in self.taken}


def read_operation(name: str, facts: Any) -> Operation:
    """An Operation from facts of the shipped files' shape; a ValueError says why none can be made of them.

    `facts`: `{verb, path, parameters: [{name, in, type, required, collectionFormat}], body: {property: {type, required}}
    | {"*": …}, produces}`. What a definition could not name, or goes neither into path, query nor form, is left out.
    """
    if not isinstance(facts, Mapping) or not _NAME.fullmatch(name) or facts.get("verb") not in VERBS:
        raise ValueError("no operation's name or verb")
    path = facts.get("path")
    if not isinstance(path, str) or len(path) > 500 or not _PATH.fullmatch(path):
        raise ValueError("no path of an operation")
    parameters, body = facts.get("parameters") or [], facts.get("body") or {}
    if not isinstance(parameters, list) or not isinstance(body, Mapping) or len(parameters) + len(body) > MAX_TAKEN:
        raise ValueError("its parameters cannot be read, or are too many")
    taken: dict[str, Taken] = {}
    for item in (*_slots(path), *map(_parameter, parameters)):
        if item is not None:
            taken.setdefault(item.name, item)
    clashing = {item.name for item in taken.values() if item.place in ("path", "query")}
    for item in filter(None, (_property(key, value, clashing) for key, value in body.items())):
        taken.setdefault(item.name, item)
    items = [item for item in taken.values() if facts["verb"] != "GET" or item.place not in _BODY_KINDS]
    return Operation(intern(name), intern(facts["verb"]), intern(path), tuple(items), _media_types(facts))


def settled(known: Sequence[Operation], seen: Operation | None = None) -> Operation:
    """One Operation out of our own facts, a version each, and what the instance's document says.

    Where we know it, verb and path are ours: the document may tell which of ours, never another (X30). What we know that
    it takes stays as we know it; versions and document add to that. `known` may be empty when `seen` is given.
    """
    if not known and seen is not None:
        return seen
    base = next((one for one in known if seen is not None and one.route == seen.route), known[0])
    return reduce(_with, [one for one in (*known, seen) if one is not None and one is not base], base)


def allows(operation: Operation, allowed: Sequence[str] | None) -> bool:
    """Whether the operator lets tools do it: by globs on its whole name, or, without any, the default of executors.md."""
    if allowed is not None:
        return any(fnmatchcase(operation.name, glob) for glob in allowed)
    return (
        operation.verb == "GET"
        and any(fnmatchcase(operation.name, glob) for glob in _DEFAULT_NAMES)
        and not _DEFAULT_WITHOUT.search(operation.name + operation.path)
    )


@cache
def shipped() -> Mapping[str, tuple[Operation, ...]]:
    """Each operation of the shipped facts, a version each where they differ, the oldest first. Read on first use (16 ms)."""
    known: dict[str, tuple[Operation, ...]] = {}
    latest: dict[str, Any] = {}
    for version in VERSIONS:
        text = files("service.domain").joinpath("forgejo_operations", f"{version}.json").read_bytes()
        for name, facts in json.loads(text).items():
            if latest.get(name) != facts:
                known[name] = (*known.get(name, ()), read_operation(name, facts))
                latest[name] = facts
    return known


def _slots(path: str) -> Iterator[Taken]:
    """What fills the path. Whatever a document says of a slot, a value in a path is one text."""
    for slot in path_slots(path):
        item = _taken(slot.replace("-", "_"), slot, "path", "string", required=True)
        if item is None:
            raise ValueError("a slot of its path has a name that no parameter can have")
        yield item


def _parameter(facts: Any) -> Taken | None:
    """None for a slot, for what goes elsewhere, and for what no definition could name."""
    if not isinstance(facts, Mapping) or not isinstance(sent_as := facts.get("name"), str):
        raise ValueError("a parameter without a name")
    where, type_, joined = facts.get("in"), _type(facts), facts.get("collectionFormat")
    if where == "formData":
        place = "file" if type_ == "file" else "form"
    elif where == "query":
        place = "query"
    else:
        return None  # a slot is known from the path already; nothing here sends a header
    return _taken(
        sent_as.replace("-", "_"),
        sent_as,
        place,
        type_,
        required=facts.get("required") is True,
        joined=joined if joined in _JOINS else "csv",
    )


def _property(sent_as: str, facts: Any, clashing: set[str]) -> Taken | None:
    if not isinstance(facts, Mapping):
        raise ValueError("a property without facts")
    required = facts.get("required") is True
    if sent_as == "*":
        return _taken("body", "*", "whole", _type(facts), required=required)
    flat = sent_as.replace("-", "_")
    return _taken(f"body_{flat}" if flat in clashing else flat, sent_as, "body", _type(facts), required=required)


def _type(facts: Mapping[str, Any]) -> str:
    named = facts.get("type")
    return named if isinstance(named, str) else "string"


@lru_cache(maxsize=4096)
def _taken(name: str, sent_as: str, place: str, type_: str, *, required: bool, joined: str = "csv") -> Taken | None:
    """One object for all that are equal: `owner` and `repo` alone stand in hundreds of operations."""
    if not _PARAMETER_NAME.fullmatch(name):
        return None
    return Taken(intern(name), intern(sent_as), place, intern(type_), required, joined)


def _media_types(facts: Mapping[str, Any]) -> tuple[str, ...]:
    named = facts.get("produces")
    if not isinstance(named, list):
        return ()
    return tuple(intern(name) for name in named[:10] if isinstance(name, str) and _MEDIA_TYPE.fullmatch(name))


def _with(base: Operation, other: Operation) -> Operation:
    """`base`, and what `other` takes besides. What one of the two can do without is not required."""
    theirs = {(item.place, item.sent_as): item for item in other.taken}
    taken = [
        item if item.place == "path" or (twin := theirs.get((item.place, item.sent_as))) is None
        else replace(item, required=item.required and twin.required)
        for item in base.taken
    ]  # fmt: skip
    names = {item.name for item in taken}
    places = {(item.place, item.sent_as) for item in taken}
    kinds = {_BODY_KINDS[item.place] for item in taken if item.place in _BODY_KINDS}
    for item in other.taken:
        kind = _BODY_KINDS.get(item.place)
        fits = kind is None or (base.verb != "GET" and (not kinds or kind in kinds))
        if item.place != "path" and item.name not in names and (item.place, item.sent_as) not in places and fits:
            taken.append(item)
    return replace(base, taken=tuple(taken))
