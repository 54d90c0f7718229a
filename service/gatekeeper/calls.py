"""What a caller may ask for: the shape of a request's body, checked field by field before anything is begun.

`{"method", "params", "timeout_ms"?, "max_output_bytes"?, "run_id"?}`; other fields are ignored. Parameters of a method
are strict: a misspelt one would silently do something else.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from service.domain.definitions import DEFAULT_OUTPUT_BYTES, DEFAULT_TIMEOUT_MS
from service.errors import Invalid, Malformed, Message
from service.gatekeeper.answers import json_bytes
from service.gatekeeper.config import METHODS, GatekeeperConfig

_RUN_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
# Method → its parameters, each with its type; `!` marks those that must be there.
_PARAMS: Final[Mapping[str, Mapping[str, str]]] = {
    "exec": {"cmd": "text", "argv": "a list of texts", "cwd": "text", "env": "an object of texts", "stdin": "text"},
    "file.read": {"path": "text!", "offset": "a count", "limit": "a count", "encoding": "utf-8 or base64"},
    "file.write": {
        "path": "text!",
        "content": "text!",
        "encoding": "utf-8 or base64",
        "mode": "create, overwrite or append",
    },
    "file.list": {"path": "text!"},
    "http": {"method": "text", "url": "text!", "headers": "an object of texts", "body": "text"},
    "status": {"run_id": "a run's id!"},
    "cancel": {"run_id": "a run's id!"},
}
# A NUL ends an argument, a path or a header; in these it is data (M2).
_DATA: Final = ("stdin", "content", "body")


@dataclass(frozen=True, slots=True)
class GatekeeperCall:
    """One checked request; `params` fit the method."""

    method: str
    params: Mapping[str, Any]
    timeout_ms: int
    max_output_bytes: int
    run_id: str | None

    def digest(self, key: bytes) -> str:
        """HMAC-SHA-256 over method and parameters: tells two calls with one run_id apart.

        Keyed, since it is kept and a short secret among the parameters could be found by trying.
        """
        return hmac.new(key, json_bytes([self.method, sorted(self.params.items())]), hashlib.sha256).hexdigest()


def read_call(document: Any, config: GatekeeperConfig) -> GatekeeperCall:
    """Raises Malformed for a wrong shape, Invalid for a method or parameters that are none."""
    if not isinstance(document, dict) or not isinstance(document.get("method"), str):
        raise Malformed(_message('要 {"method": …, "params": {…}}', 'give {"method": …, "params": {…}}'))
    method, params = document["method"], document.get("params", {})
    if not isinstance(params, dict):
        raise Malformed(_message("params 要是对象", "params is an object"))
    if method not in _PARAMS:
        raise Invalid(
            _message(f"没有方法 {method[:64]!a}", f"there is no method {method[:64]!a}"), code="unknown-method"
        )
    if method in METHODS and method not in config.methods:
        raise Invalid(
            _message(f"这个网关不开放 {method}", f"this gatekeeper does not offer {method}"), code="not-allowed"
        )
    problems = _problems(method, params)
    if problems:
        raise Invalid(_message("参数不对：" + "；".join(problems), "bad parameters: " + "; ".join(problems)))
    return GatekeeperCall(
        method,
        {name: value for name, value in params.items() if value is not None},
        min(_count(document, "timeout_ms", DEFAULT_TIMEOUT_MS), config.max_timeout_ms),
        min(_count(document, "max_output_bytes", DEFAULT_OUTPUT_BYTES), config.max_output_bytes),
        _run_id(document),
    )


def content_of(params: Mapping[str, Any]) -> bytes:
    """The bytes `content` stands for. Raises Invalid."""
    if params.get("encoding") != "base64":
        return bytes(params["content"].encode())
    try:
        return base64.b64decode(params["content"], validate=True)
    except (ValueError, binascii.Error):
        raise Invalid(_message("content 不是 base64", "content is not base64")) from None


def _run_id(document: Mapping[str, Any]) -> str | None:
    run_id = document.get("run_id")
    if run_id is not None and (not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id)):
        raise Malformed(_message("run_id 不对", "run_id is up to 128 letters, digits and . _ : -"))
    return run_id


def _count(document: Mapping[str, Any], name: str, default: int) -> int:
    value = document.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Malformed(_message(f"{name} 要是正整数", f"{name} is a positive integer"))
    return value


def _problems(method: str, params: Mapping[str, Any]) -> list[str]:
    known = _PARAMS[method]
    problems = [f"{name[:64]!a}: unknown" for name in params if name not in known]
    for name, kind in known.items():
        value = params.get(name)
        if value is None:
            problems += [f"{name}: missing"] if kind.endswith("!") else []
        elif not _KINDS[kind.rstrip("!")](value):
            problems.append(f"{name}: not {kind.rstrip('!')}")
        elif name not in _DATA and _has_nul(value):
            problems.append(f"{name}: holds a NUL")
    if method == "exec" and params.get("cmd") is None and params.get("argv") is None:
        problems.append("cmd or argv: one of them is needed")
    return problems


def _is_text(value: Any) -> bool:
    """A string that is Unicode: a lone surrogate has no bytes."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any("\0" in item for pair in value.items() for item in pair)
    if isinstance(value, list):
        return any("\0" in item for item in value)
    return isinstance(value, str) and "\0" in value


def _message(zh: str, en: str) -> Message:
    return Message(zh, en)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


def _is_pairs(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_text(item) for pair in value.items() for item in pair)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


_KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "text": _is_text,
    "a list of texts": _is_texts,
    "an object of texts": _is_pairs,
    "a count": _is_count,
    "a run's id": lambda value: isinstance(value, str) and _RUN_ID.fullmatch(value) is not None,
    "utf-8 or base64": lambda value: value in ("utf-8", "base64"),
    "create, overwrite or append": lambda value: value in ("create", "overwrite", "append"),
}
