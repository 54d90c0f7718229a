"""Whether parameters fit a `params_schema`: defaults first, then every reason why not (contract/tool-hdlp.md).

Nothing is coerced. Values are what `json.loads` gives. A secret's value, or anything inside it, reaches no message.
"""

import json
import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from difflib import get_close_matches
from typing import Any, Final

from service.domain.definitions import ABSENT, Parameter
from service.domain.executors import ParameterProblem
from service.domain.patterns import PatternError, compile_pattern
from service.domain.quoting import quoted, shown_name

MAX_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 32
MAX_PROBLEMS: Final = 100
_SHOWN_CHOICES: Final = 12

_KINDS: Final = {
    "string": ("字符串", "a string"),
    "integer": ("整数", "an integer"),
    "number": ("数字", "a number"),
    "boolean": ("true或false", "true or false"),
    "array": ("数组", "an array"),
    "object": ("对象", "an object"),
}


def fit(schema: Mapping[str, Parameter], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParameterProblem]]:
    """The parameters with defaults, in the schema's order, and all problems (MAX_PROBLEMS; the last says so)."""
    problems: list[ParameterProblem] = []
    fitted: dict[str, Any] = {}
    for name, parameter in schema.items():
        value = given.get(name, ABSENT)
        if value is ABSENT and parameter.default is not ABSENT:
            value = _own_copy(parameter.default)
        if value is not ABSENT:
            fitted[name] = value
            _check(name, parameter, value, problems, secret=parameter.secret)
        elif parameter.required:
            problems.append(_missing(name, parameter))
    for name in given:
        if name not in schema and len(problems) <= MAX_PROBLEMS:
            problems.append(_unknown(name, schema))
    return fitted, _capped(problems)


def value_problem(parameter: Parameter, value: Any, name: str = "value") -> ParameterProblem | None:
    """The first reason why a value does not fit, or None. Registration checks `default` and `enum` with it."""
    problems: list[ParameterProblem] = []
    _check(name, parameter, value, problems, secret=parameter.secret)
    return problems[0] if problems else None


def _own_copy(value: Any) -> Any:
    return deepcopy(value) if isinstance(value, (list, dict)) else value


def _capped(problems: list[ParameterProblem]) -> list[ParameterProblem]:
    if len(problems) <= MAX_PROBLEMS:
        return problems
    zh, en = "问题太多，其余没有列出。", "There are more problems; the rest are not listed."
    last = ParameterProblem("", "too-many-problems", zh, en)
    return [*problems[: MAX_PROBLEMS - 1], last]


def _missing(name: str, parameter: Parameter) -> ParameterProblem:
    zh, en = _KINDS[parameter.type]
    return ParameterProblem(name, "missing", f"缺少参数{name}（{zh}）。", f"The parameter {name} is missing ({en}).")


def _unknown(name: str, schema: Mapping[str, Parameter]) -> ParameterProblem:
    shown = shown_name(name)
    near = get_close_matches(name, schema, 1) if len(name) <= 80 else []
    if near:
        return ParameterProblem(
            shown,
            "unknown-parameter",
            f"没有参数{quoted(name)}，是不是{near[0]}？",
            f"There is no parameter {quoted(name)}: did you mean {near[0]}?",
        )
    takes = ", ".join(list(schema)[:_SHOWN_CHOICES])
    return ParameterProblem(
        shown,
        "unknown-parameter",
        f"没有参数{quoted(name)}；" + (f"有的是：{takes}。" if takes else "这个工具不要参数。"),
        f"There is no parameter {quoted(name)}; " + (f"there are: {takes}." if takes else "this tool takes none."),
    )


def _check(name: str, parameter: Parameter, value: Any, problems: list[ParameterProblem], *, secret: bool) -> None:
    """Append every reason why `value` does not fit. `secret` is handed down to items."""
    if not _has_type(parameter.type, value):
        problems.append(_wrong_type(name, parameter, value, secret=secret))
        return
    before = len(problems)
    if parameter.type == "string":
        _check_string(name, parameter, value, problems, secret=secret)
    elif parameter.type in ("integer", "number"):
        _check_number(name, parameter, value, problems, secret=secret)
    elif parameter.type in ("array", "object"):
        _check_nested(name, value, problems)
        if parameter.type == "array" and len(problems) == before:
            _check_array(name, parameter, value, problems, secret=secret)
    if parameter.enum is not None and len(problems) == before and not _among(value, parameter.enum):
        problems.append(_not_in_enum(name, parameter, value, secret=secret))


def _has_type(kind: str, value: Any) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, list if kind == "array" else dict)


def _wrong_type(name: str, parameter: Parameter, value: Any, *, secret: bool) -> ParameterProblem:
    zh, en = _KINDS[parameter.type]
    if value is None:
        return ParameterProblem(
            name,
            "wrong-type",
            f"{name}要{zh}，null不算；没有值就不要写它。",
            f"{name} takes {en}; null is none: leave it out when there is no value.",
        )
    got = "" if secret else f" {quoted(value)}"
    kind_zh, kind_en = _kind_of(value)
    return ParameterProblem(
        name, "wrong-type", f"{name}要{zh}，给的是{kind_zh}{got}。", f"{name} takes {en}, not {kind_en}{got}."
    )


def _kind_of(value: Any) -> tuple[str, str]:
    """How a JSON value is called; a float that looks like an integer is still a number with a fraction."""
    if isinstance(value, bool):
        return "布尔值", "a boolean"
    if isinstance(value, float):
        return "带小数的数字", "a number with a fraction"
    for kind, python in (("string", str), ("integer", int), ("array", list), ("object", dict)):
        if isinstance(value, python):
            return _KINDS[kind]
    return "别的类型", "another type"


def _check_string(
    name: str, parameter: Parameter, value: str, problems: list[ParameterProblem], *, secret: bool
) -> None:
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        problems.append(_bad_text(name))
        return
    _check_length(name, parameter, len(value), problems)
    if parameter.pattern is not None:
        problems.extend(_pattern_problems(name, parameter.pattern, value, encoded, secret=secret))


def _bad_text(name: str) -> ParameterProblem:
    return ParameterProblem(
        name,
        "bad-text",
        f"{name}里有不成对的代理码位（U+D800–U+DFFF），它不是文字。",
        f"{name} holds a lone surrogate (U+D800 to U+DFFF), which is no text.",
    )


def _pattern_problems(
    name: str, pattern: str, value: str, encoded: bytes, *, secret: bool
) -> Iterator[ParameterProblem]:
    try:
        compiled = compile_pattern(pattern)
    except PatternError as error:  # one that an older version took
        zh, en = f"{name}的pattern不能用：{error.message.zh}。", f"{name}'s pattern cannot be used: {error}."
        yield ParameterProblem(name, "bad-pattern", zh, en)
        return
    if not compiled.affords(encoded):
        yield ParameterProblem(
            name,
            "too-long",
            f"{name}太长（{len(encoded)}字节），没法用它的pattern检查；请缩短，或简化pattern。",
            f"{name} has {len(encoded)} bytes, too many to check by its pattern: shorten it, or simplify the pattern.",
        )
    elif not compiled.found_in(encoded):
        yield _mismatch(name, pattern, value, secret=secret)


def _mismatch(name: str, pattern: str, value: str, *, secret: bool) -> ParameterProblem:
    got = "" if secret else f" {quoted(value)}"
    ending_zh, ending_en = ("，末尾有换行", ", and it ends with a newline") if value.endswith("\n") else ("", "")
    return ParameterProblem(
        name,
        "pattern-mismatch",
        f"{name}的值{got}不符合pattern {quoted(pattern, 100)}{ending_zh}。",
        f"{name}{got} does not match the pattern {quoted(pattern, 100)}{ending_en}.",
    )


def _check_length(name: str, parameter: Parameter, length: int, problems: list[ParameterProblem]) -> None:
    """Code points of a string, items of an array."""
    unit_zh, unit_en = ("个字符", "characters") if parameter.type == "string" else ("项", "items")
    if parameter.min_length is not None and length < parameter.min_length:
        least = parameter.min_length
        problems.append(
            ParameterProblem(
                name,
                "too-short",
                f"{name}至少要{least}{unit_zh}，现在是{length}。",
                f"{name} needs at least {least} {unit_en}, not {length}.",
            )
        )
    if parameter.max_length is not None and length > parameter.max_length:
        most = parameter.max_length
        problems.append(
            ParameterProblem(
                name,
                "too-long",
                f"{name}最多{most}{unit_zh}，现在是{length}。",
                f"{name} takes at most {most} {unit_en}, not {length}.",
            )
        )


def _check_number(
    name: str, parameter: Parameter, value: float, problems: list[ParameterProblem], *, secret: bool
) -> None:
    if problem := _range_problem(name, value):
        problems.append(problem)
        return
    got_zh, got_en = ("", "") if secret else (f"，现在是{quoted(value)}", f", not {quoted(value)}")
    if parameter.minimum is not None and value < parameter.minimum:
        least = quoted(parameter.minimum)
        zh, en = f"{name}不能小于{least}{got_zh}。", f"{name} must be at least {least}{got_en}."
        problems.append(ParameterProblem(name, "too-small", zh, en))
    if parameter.maximum is not None and value > parameter.maximum:
        most = quoted(parameter.maximum)
        zh, en = f"{name}不能大于{most}{got_zh}。", f"{name} must be at most {most}{got_en}."
        problems.append(ParameterProblem(name, "too-large", zh, en))


def _range_problem(name: str, value: float) -> ParameterProblem | None:
    """Numbers that JSON cannot carry from one side to the other without change."""
    if isinstance(value, float):
        if math.isfinite(value):
            return None
        zh, en = f"{name}里有NaN或无穷大，JSON没有这样的数。", f"{name} holds NaN or an infinity; JSON has none."
        return ParameterProblem(name, "not-finite", zh, en)
    if -MAX_INTEGER <= value <= MAX_INTEGER:
        return None
    return ParameterProblem(
        name,
        "out-of-range",
        f"{name}里的整数超出±(2^53−1)；更大的请用字符串。",
        f"{name} holds an integer beyond ±(2^53 − 1): hand larger ones over as a string.",
    )


def _check_nested(name: str, value: Any, problems: list[ParameterProblem]) -> None:
    """Texts, numbers and depth of everything inside, one problem of a kind. Iterative: depth is what it checks."""
    found: dict[str, ParameterProblem] = {}
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, (list, dict)):
            if depth > MAX_DEPTH:
                found.setdefault("too-deep", _too_deep(name))
                continue
            if isinstance(item, dict):
                waiting.extend((key, depth + 1) for key in item)
                item = item.values()
            waiting.extend((inner, depth + 1) for inner in item)
        elif isinstance(item, str):
            if not item.isascii() and _has_surrogate(item):
                found.setdefault("bad-text", _bad_text(name))
        elif isinstance(item, (int, float)) and (problem := _range_problem(name, item)):
            found.setdefault(problem.code, problem)
    problems.extend(found.values())


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _too_deep(name: str) -> ParameterProblem:
    return ParameterProblem(
        name,
        "too-deep",
        f"{name}里的数组和对象嵌套超过{MAX_DEPTH}层。",
        f"{name} nests arrays and objects more than {MAX_DEPTH} deep.",
    )


def _check_array(
    name: str, parameter: Parameter, value: list[Any], problems: list[ParameterProblem], *, secret: bool
) -> None:
    _check_length(name, parameter, len(value), problems)
    if parameter.items is None:
        return
    for index, item in enumerate(value):
        _check(f"{name}[{index}]", parameter.items, item, problems, secret=secret or parameter.items.secret)
        if len(problems) > MAX_PROBLEMS:
            return


def _among(value: Any, choices: tuple[Any, ...]) -> bool:
    if isinstance(value, (list, dict)):
        wanted = _canonical(value)
        return any(_canonical(choice) == wanted for choice in choices)
    return value in choices


def _canonical(value: Any) -> str:
    """Text by which two JSON values are the same; Python alone says `[True] == [1]`."""
    return json.dumps(value, sort_keys=True)


def _not_in_enum(name: str, parameter: Parameter, value: Any, *, secret: bool) -> ParameterProblem:
    if secret:  # the choices may be the secrets
        return ParameterProblem(name, "not-in-enum", f"{name}不是允许的值。", f"{name} is none of the values it takes.")
    choices = parameter.enum or ()
    more = " …" if len(choices) > _SHOWN_CHOICES else ""
    listed = ", ".join(quoted(choice) for choice in choices[:_SHOWN_CHOICES]) + more
    return ParameterProblem(
        name,
        "not-in-enum",
        f"{name}只能是{listed}之一，不是{quoted(value)}。",
        f"{name} must be one of {listed}, not {quoted(value)}.",
    )
