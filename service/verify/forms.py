"""The forms in which things are stored: entries and their facts, hex, numbers, JSON in columns, git's objects."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import contains
from typing import Any, Final, NoReturn

from service.verify.findings import OneOf
from service.verify.tree import sha256

# The facts of an entry: exactly these names. `?`: text or null; `#`: a number; `##`: a number, null, or text for one
# that does not fit; `[]`, `[]?`: a list, or null; `{}`: an object; `!`: true, false or null; else text. Other entries are
# free in their facts.
FACTS: Final = {
    "log.opened": "origin",
    "service.started": "version sandbox? digests{}",
    "run.started": "run tool version# commit tree blob sha256 executor node?"
    " params_digest match? confirmation? key_hash?",
    "run.finished": "run state reason? exit_code## status## duration_ms## stdout{} stderr{}",
    "run.refused": "run tool code problems_digest",
    "definition.registered": "tool version# commit tree blob sha256 author pusher?",
    "definition.rejected": "tool? version#? commit tree? blob? sha256? author? pusher? problems[]",
    **dict.fromkeys(
        ("confirmation.requested", *(f"confirmation.{how}" for how in ("approved", "rejected", "expired", "dropped"))),
        "confirmation run tool version# params_digest asker answerer? self!",
    ),
    "key.created": "key",
    "key.rotated": "key previous",
    "token.issued": "token name scopes[] tools[]? expires? hash",
}
_NULL: Final = type(None)
KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "": (str,),
    "?": (str, _NULL),
    "#": (int,),
    "#?": (int, _NULL),
    "##": (int, str, _NULL),
    "[]": (list,),
    "[]?": (list, _NULL),
    "{}": (dict,),
    "!": (bool, _NULL),
}
SHAPES: Final = {
    type_: {name: KINDS[mark] for name, mark in sorted(re.findall(r"(\w+)(\S*)", names))}
    for type_, names in FACTS.items()
}


@dataclass(slots=True)
class Entry:
    """One entry of the log, whose JSON is in order."""

    index: int
    type: str
    at: str
    actor: str
    facts: dict[str, Any]
    leaf: bytes


def _no_float(text: str) -> NoReturn:
    raise ValueError(f"{text} is no whole number")


_decode: Final = json.JSONDecoder(parse_float=_no_float, parse_constant=_no_float).raw_decode
_encoder: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False)


def canonical(value: object) -> bytes:
    """JSON as entries are written: UTF-8, keys sorted, no spaces."""
    return _encoder.encode(value).encode("utf-8", "replace")


def read_entry(content: bytes) -> dict[str, Any]:
    """The entry's JSON. Raises ValueError unless writing it again gives the same bytes, and its shape is right."""
    shape = parse_entry(content)
    if canonical(shape) != content:
        raise ValueError("written again, it is not the same bytes")
    return shape


def parse_entry(content: bytes) -> dict[str, Any]:
    """The entry's JSON, whose bytes somebody else checks. Raises ValueError unless its shape is right."""
    shape, _ = _decode(content.decode("utf-8"))
    if type(shape) is not dict or list(shape) != ["actor", "at", "facts", "index", "type"]:
        raise ValueError("not of the shape {actor, at, facts, index, type}")
    if type(shape["facts"]) is not dict or type(shape["type"]) is not str:
        raise ValueError("type is no text, or facts no object")
    return shape


def fits(type_: str, facts: Mapping[str, Any]) -> bool:
    """Whether the facts have exactly the names that this type's have, each of one of its types."""
    shape = SHAPES.get(type_)
    if shape is None:
        return True
    return list(facts) == list(shape) and all(map(contains, shape.values(), map(type, facts.values())))


def number(value: int | str | None) -> object:
    """A number as its column holds it; what was too large for one is text in the entry."""
    return OneOf(None, value, float(value)) if isinstance(value, str) else value


def unhex(value: str | None) -> bytes | None:
    """Hex as its column holds it."""
    return None if value is None else bytes.fromhex(value)


def parse(column: object) -> object:
    """What a column holds as JSON text; what is no JSON stays as it is."""
    try:
        return json.loads(column) if isinstance(column, str) else column
    except (ValueError, RecursionError):
        return column


def hash_of(column: object) -> bytes | None:
    """SHA-256 of a column's bytes, or of its text's UTF-8."""
    content = column.encode("utf-8", "surrogateescape") if isinstance(column, str) else column
    return sha256(content) if isinstance(content, bytes) else None


def identity(facts: Mapping[str, str]) -> tuple[bytes, bytes, bytes, bytes]:
    """Commit, tree, blob and sha256: which bytes a version is."""
    commit, tree, blob, digest = (bytes.fromhex(facts[name]) for name in ("commit", "tree", "blob", "sha256"))
    return commit, tree, blob, digest


def git_blob(content: bytes) -> bytes:
    """The id git gives a file's bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).digest()  # noqa: S324 - git's own name for it


def git_tree(files: Iterable[tuple[list[str], bytes, bytes]]) -> bytes:
    """The id git gives a folder: SHA-1 over its sorted entries. `files`: (path's parts, mode, blob) each."""
    entries: dict[bytes, tuple[bytes, bytes]] = {}
    folders: dict[str, list[tuple[list[str], bytes, bytes]]] = {}
    for (name, *below), mode, blob in files:
        if below:
            folders.setdefault(name, []).append((below, mode, blob))
        else:
            entries[name.encode()] = (mode, blob)
    for name, inside in folders.items():
        entries[name.encode() + b"/"] = (b"40000", git_tree(inside))  # git sorts a folder as if its name ended in `/`
    content = b"".join(
        b"%b %b\0%b" % (entries[name][0], name.rstrip(b"/"), entries[name][1]) for name in sorted(entries)
    )
    return hashlib.sha1(b"tree %d\0" % len(content) + content).digest()  # noqa: S324 - git's own name for it
