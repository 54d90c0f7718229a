"""How text or TOML becomes the value of a setting. Each reader raises ValueError that says what it takes, never the value."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit


class Secret:
    """A value that never shows itself; `reveal` is where it is used."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(•••)"

    __str__ = __repr__


def text(value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError("text")
    return value


def secret(value: Any) -> Secret:
    """A text that never shows itself."""
    return Secret(text(value))


def whole(low: int, high: int) -> Callable[[Any], int]:
    """A whole number within bounds; from the environment in decimal digits."""

    def read(value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value, re.ASCII):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return value

    return read


def flag(value: Any) -> bool:
    """`true` or `false`."""
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise ValueError("true or false")


def one_of(*names: str) -> Callable[[Any], str]:
    """One of some words."""

    def read(value: Any) -> str:
        if value not in names:
            raise ValueError(" or ".join(names))
        return str(value)

    return read


def url(value: Any) -> str:
    """An http(s) URL without query or fragment; a slash at its end is dropped.

    Nor with a user name: a password there would pass by every rule on tokens, and show in logs.
    """
    if not _is_address(text(value)):
        raise ValueError("an http(s) URL without user name, password, query or fragment")
    return str(value).rstrip("/")


def repository(value: Any) -> str:
    """Where a repository is: an http(s) URL, its user name and token apart, or a local path; not `user@host:path`."""
    place = text(value)
    is_host = ":" in place.partition("/")[0]  # as git takes it
    if not (_is_address(place) if "://" in place else not is_host):
        raise ValueError(
            "an http(s) URL without user name or password (they have settings of their own), or a local path"
        )
    return place


def _is_address(place: str) -> bool:
    parts = urlsplit(place)
    plain = "@" not in parts.netloc and not parts.query and not parts.fragment
    return parts.scheme in ("http", "https") and bool(parts.hostname) and plain


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts; from the environment as JSON."""
    parsed = _json(value)
    if not isinstance(parsed, list) or not all(isinstance(item, str) for item in parsed):
        raise ValueError("a list of texts")
    return tuple(parsed)


def table(value: Any) -> Mapping[str, Any]:
    """A table; from the environment as JSON."""
    parsed = _json(value)
    if not isinstance(parsed, dict):
        raise ValueError("a table")
    return parsed


def scopes(value: Any) -> Mapping[str, Any]:
    """A table from names to lists of scopes."""
    held = table(value)
    for granted in held.values():
        if not isinstance(granted, list) or not granted or not set(granted) <= {"read", "exec", "confirm", "admin"}:
            raise ValueError("a table of names, each with a list of read, exec, confirm or admin")
    return held


def _json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("JSON") from None


def branch(value: Any) -> str:
    """The name of a branch."""
    name = text(value)
    if name.startswith(("-", "/")) or ".." in name or not name.isprintable() or " " in name:
        raise ValueError("a branch name")
    return name


def folder_path(value: Any) -> str:
    """A folder inside the repository."""
    path = text(value).strip("/")
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError("a folder inside the repository")
    return path
