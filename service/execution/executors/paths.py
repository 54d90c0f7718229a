"""Parameters in a URL: a value fills its slot and can never be more than that (contract/executors.md, Common).

A path is compared as it is sent. Whatever stands at the far side may decode it once more than it should, and fold what
it then takes for `..`, so a value is looked at decoded twice as well.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from service.domain.executors import ParameterProblem
from service.domain.methods import path_slots
from service.execution.executors.http import DEFAULT_PORTS, split_url

_PIECES: Final = re.compile(r"\{([^{}]*)\}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SENT: Final = r"(?:[A-Za-z0-9_.~-]|%[0-9A-F]{2})+"  # what `quote` makes of any text
_DECODINGS: Final = 2

_ABSENT: Final = object()
_MISSING: Final = ("missing", "路径需要它的值", "the path needs a value for it")
_NOT_SCALAR: Final = (
    "wrong-type",
    "只有文本、数字和真假值能放进路径",
    "only text, numbers, true and false can stand in a path",
)
_NO_TEXT: Final = ("bad-text", "含有单独的代理字符，不是文本", "holds a lone surrogate, which is no text")
_EMPTY: Final = ("empty", "放进路径的值不能为空", "cannot be empty in a path")
_NOT_ONE: Final = (
    "bad-segment",
    "放进路径的值正好是一段：不能是 . 或 ..，不能含有 / 或 \\（百分号编码过的也不行）",
    "is exactly one segment of a path: not . or .., and without / or \\, percent-encoded ones too",
)
_NO_FILE: Final = (
    "bad-segment",
    "不是这里能用的文件路径：各段不能为空、. 或 ..，不能含有 \\ 或编码过的 /",
    "is no file path that can be used here: no segment may be empty, . or .., nor hold \\ or an encoded /",
)
_HOLDS_CONTROL: Final = (
    "control-character",
    "含有控制字符，不能放进路径",
    "holds a control character, which no path can",
)


def slot_problems(template: str, values: Mapping[str, Any], *, deep: Collection[str] = ()) -> list[ParameterProblem]:
    """Every reason why `values` cannot fill the template's slots, one a slot at most; never quotes a value (422).

    A slot's value is one segment. `deep` names the slots that are a file path: segments joined by `/`.
    """
    names = list(dict.fromkeys(path_slots(template)))
    found = {name: _value_fault(values.get(name, _ABSENT), deep=name in deep) for name in names}
    problems = [ParameterProblem(name, code, f"{name}：{zh}", f"{name}: {en}") for name, (code, zh, en) in _only(found)]
    return problems or _joined_problems(template, values, deep)


def fill(template: str, values: Mapping[str, Any], *, deep: Collection[str] = ()) -> str:
    """The path as it is sent, for values without `slot_problems`: each percent-encoded, numbers as JSON has them."""

    def put(match: re.Match[str]) -> str:
        return quote(scalar_text(values[match.group(1)]), safe="/" if match.group(1) in deep else "")

    return _PIECES.sub(put, template)


def within(url: str, base: str, template: str, *, deep: Collection[str] = ()) -> bool:
    """Whether `url` goes to `base`'s origin and to a path that `template` below it allows, exactly as it is sent.

    The query may be any. Where this is false nothing is sent (422).
    """
    try:
        sent, allowed = split_url(url), split_url(base)
        ports = [parts.port or DEFAULT_PORTS[parts.scheme] for parts in (sent, allowed)]
    except ValueError:
        return False
    if (sent.scheme, sent.hostname, ports[0]) != (allowed.scheme, allowed.hostname, ports[1]) or "#" in url:
        return False
    below = allowed.path.rstrip("/")
    path = sent.path.removeprefix(below)
    if not sent.path.startswith(f"{below}/") or re.fullmatch(_pattern(template, deep), path) is None:
        return False
    _, *segments, last = path.split("/")
    return not any(is_unfit(unquote(segment)) for segment in segments) and not (last and is_unfit(unquote(last)))


def query_string(pairs: Iterable[tuple[str, Any]]) -> str:
    """`name=value&…`, percent-encoded; an array repeats its name. Raises ValueError for an object or a nested array."""
    return "&".join(
        f"{quote(name, safe='')}={quote(scalar_text(item), safe='')}"
        for name, value in pairs
        for item in (value if isinstance(value, list | tuple) else (value,))
    )


def scalar_text(value: Any) -> str:
    """A text as it is; numbers and booleans as JSON writes them. Raises ValueError for whatever is neither."""
    if isinstance(value, str):
        return value
    if not isinstance(value, bool | int | float):
        raise ValueError("only text, numbers, true and false can stand in a URL")
    return json.dumps(value, allow_nan=False)


def is_unfit(segment: str) -> bool:
    """Whether what is meant as one segment is none, as it is or decoded once or twice.

    What follows a `;` belongs to the segment for some far sides (Java's path parameters) and is left out by them.
    """
    return any(
        form == "" or form.partition(";")[0] in (".", "..") or "/" in form or "\\" in form or _CONTROL.search(form)
        for form in _decoded(segment)
    )


def _only(found: Mapping[str, tuple[str, str, str] | None]) -> Iterator[tuple[str, tuple[str, str, str]]]:
    return ((name, fault) for name, fault in found.items() if fault is not None)


def _value_fault(value: Any, *, deep: bool) -> tuple[str, str, str] | None:
    """What is wrong with one slot's value: code and words in zh and en."""
    if value is _ABSENT:
        return _MISSING
    try:
        text = scalar_text(value)
        text.encode()
    except UnicodeEncodeError:
        return _NO_TEXT
    except ValueError:
        return _NOT_SCALAR
    if text == "":
        return _EMPTY
    if any(_CONTROL.search(form) for form in _decoded(text)):
        return _HOLDS_CONTROL
    if any(is_unfit(segment) for segment in (text.split("/") if deep else (text,))):
        return _NO_FILE if deep else _NOT_ONE
    return None


def _joined_problems(template: str, values: Mapping[str, Any], deep: Collection[str]) -> list[ParameterProblem]:
    """Values that are fit one by one and make something else together, such as `%2` and `e` in `{a}{b}`."""
    code, zh, en = _NOT_ONE
    problems = []
    for segment in template.split("/")[1:]:
        names = path_slots(segment)
        plain = [""]
        for literal, name in zip(_PIECES.split(segment)[::2], [*names, None], strict=True):
            plain[-1] += unquote(literal)
            if name is not None:
                first, *rest = scalar_text(values[name]).split("/") if name in deep else [scalar_text(values[name])]
                plain[-1] += first
                plain += rest
        if names and any(is_unfit(part) for part in plain):
            problems.append(ParameterProblem(names[0], code, f"{names[0]}：{zh}", f"{names[0]}: {en}"))
    return problems


def _pattern(template: str, deep: Collection[str]) -> str:
    pieces = _PIECES.split(template)
    slots = (f"{_SENT}(?:/{_SENT})*" if name in deep else _SENT for name in pieces[1::2])
    return re.escape(pieces[0]) + "".join(
        slot + re.escape(literal) for slot, literal in zip(slots, pieces[2::2], strict=True)
    )


def _decoded(text: str) -> list[str]:
    """The text, and decoded once and twice."""
    forms = [text]
    for _ in range(_DECODINGS):
        forms.append(unquote(forms[-1]))
    return forms
