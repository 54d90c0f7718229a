"""Whether parameters fit `params_schema` (contract/tool-hdlp.md; cases.md M1, M4, M7, Y32)."""

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.definitions import Parameter
from service.domain.parameters import fit, value_problem

SECRET = "hunter2-which-nobody-may-see"


def found(schema: dict[str, Parameter], given_: dict) -> list[tuple[str, str]]:
    return [(problem.param, problem.code) for problem in fit(schema, given_)[1]]


def one(parameter: Parameter, value) -> list[str]:
    return [code for _, code in found({"p": parameter}, {"p": value})]


def test_defaults_are_filled_in_before_anything_is_checked():
    schema = {
        "cmd": Parameter("string", required=True),
        "n": Parameter("integer", default=5),
        "tags": Parameter("array", default=["a"]),
        "cwd": Parameter("string"),
    }

    fitted, problems = fit(schema, {"cmd": "ls"})

    assert (fitted, problems) == ({"cmd": "ls", "n": 5, "tags": ["a"]}, [])


def test_a_default_is_a_copy_each_time():
    """A run that changes its parameters must not change the definition."""
    schema = {"tags": Parameter("array", default=["a"])}
    fit(schema, {})[0]["tags"].append("b")

    assert fit(schema, {})[0] == {"tags": ["a"]}


def test_missing_extra_wrong_and_null_are_all_reported_together():
    """M1."""
    schema = {
        "cmd": Parameter("string", required=True),
        "n": Parameter("integer"),
        "cwd": Parameter("string", required=True),
    }

    assert found(schema, {"n": "5", "cwd": None, "comd": "ls"}) == [
        ("cmd", "missing"),
        ("n", "wrong-type"),
        ("cwd", "wrong-type"),
        ("comd", "unknown-parameter"),
    ]


def test_an_unknown_parameter_comes_with_a_suggestion():
    """M1."""
    (problem,) = fit({"timeout": Parameter("integer")}, {"timout": 1})[1]

    assert "did you mean timeout?" in problem.en
    assert "timeout" in problem.zh


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", 5.0), ("integer", "5"), ("integer", True), ("integer", None), ("integer", [5]),
        ("number", "5"), ("number", True), ("number", False),
        ("string", 5), ("string", True), ("string", ["a"]), ("string", None),
        ("boolean", 1), ("boolean", 0), ("boolean", "true"),
        ("array", "a b"), ("array", {"0": 1}), ("array", None),
        ("object", []), ("object", "{}"),
    ],
)  # fmt: skip
def test_nothing_is_coerced(kind, value):
    """M1."""
    assert one(Parameter(kind), value) == ["wrong-type"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", 0), ("integer", 2**53 - 1), ("integer", -(2**53) + 1), ("number", 5), ("number", 5.5), ("number", -0.0),
        ("string", ""), ("string", "a\nb\t\x1b\0"), ("boolean", False), ("array", []), ("object", {"a": [None, True, 1.5, "x"]}),
    ],
)  # fmt: skip
def test_values_of_the_type_fit_as_they_are(kind, value):
    """M2: newline, tab and ESC are data and pass untouched."""
    fitted, problems = fit({"p": Parameter(kind)}, {"p": value})

    assert problems == []
    assert fitted["p"] is value


@pytest.mark.parametrize(
    ("parameter", "value", "code"),
    [
        (Parameter("integer", minimum=1), 0, "too-small"),
        (Parameter("number", maximum=1.5), 1.6, "too-large"),
        (Parameter("string", min_length=2), "𠮷", "too-short"),
        (Parameter("string", max_length=1), "𠮷𠮷", "too-long"),
        (Parameter("array", min_length=1), [], "too-short"),
        (Parameter("array", max_length=1), [1, 2], "too-long"),
        (Parameter("string", enum=("a", "b")), "c", "not-in-enum"),
        (Parameter("array", enum=([True],)), [1], "not-in-enum"),
        (Parameter("string", pattern="^a$"), "b", "pattern-mismatch"),
        (Parameter("integer"), 2**53, "out-of-range"),
        (Parameter("integer"), -(10**30), "out-of-range"),
        pytest.param(Parameter("integer"), 10**6000, "out-of-range", id="6000 digits"),
        (Parameter("number"), 2**53, "out-of-range"),
        (Parameter("number"), math.nan, "not-finite"),
        (Parameter("number"), -math.inf, "not-finite"),
        (Parameter("object"), {"a": {"b": [math.inf]}}, "not-finite"),
        (Parameter("object"), {"a": 2**60}, "out-of-range"),
        (Parameter("array", items=Parameter("integer")), [1, "2"], "wrong-type"),
    ],
)
def test_each_limit_has_its_code(parameter, value, code):
    """M1."""
    assert one(parameter, value) == [code]


def test_lengths_count_code_points():
    assert one(Parameter("string", min_length=3, max_length=3), "𠮷野家") == []


def test_an_item_is_named_by_its_place():
    schema = {"ids": Parameter("array", items=Parameter("array", items=Parameter("integer")))}

    assert found(schema, {"ids": [[1], [2, "x"]]}) == [("ids[1][1]", "wrong-type")]


@pytest.mark.parametrize("value", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_is_no_text_anywhere(value):
    """M4: in a value, inside one, in a key, in a parameter's name; and the answer can be encoded."""
    assert one(Parameter("string", pattern="^a"), value) == ["bad-text"]
    assert one(Parameter("array"), [[value]]) == ["bad-text"]
    assert one(Parameter("object"), {"a": {value: 1}}) == ["bad-text"]
    problems = fit({}, {value: 1})[1]
    assert [problem.code for problem in problems] == ["unknown-parameter"]
    assert json.dumps(problems[0].as_json(), ensure_ascii=False).encode()


def nested(depth: int, kind: type) -> object:
    value: object = kind()
    for _ in range(depth - 1):
        value = [value] if kind is list else {"a": value}
    return value


def test_nesting_beyond_32_is_a_problem_and_never_an_error():
    """M4: depth 100, and 100,000, which no recursion survives."""
    assert one(Parameter("array"), nested(32, list)) == []
    assert one(Parameter("object"), nested(32, dict)) == []
    assert one(Parameter("array"), nested(33, list)) == ["too-deep"]
    assert one(Parameter("object"), nested(100, dict)) == ["too-deep"]
    assert one(Parameter("array"), nested(100_000, list)) == ["too-deep"]


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        (Parameter("integer", secret=True), SECRET),
        (Parameter("string", secret=True, pattern="^x$"), SECRET),
        (Parameter("string", secret=True, enum=(SECRET + "1",)), SECRET),
        (Parameter("string", secret=True, max_length=3), SECRET),
        (Parameter("number", secret=True, maximum=3), 4242424242),
        (Parameter("array", secret=True, items=Parameter("integer")), [SECRET]),
        (Parameter("array", secret=True, items=Parameter("string", enum=("a",))), [SECRET]),
        (Parameter("array", items=Parameter("integer", secret=True)), [SECRET]),
        (Parameter("object", secret=True), {SECRET: "\ud800", "a": [math.nan]}),
        (Parameter("string", secret=True), {SECRET: SECRET}),
    ],
)
def test_a_secrets_value_is_never_quoted(parameter, value):
    """M7."""
    problems = fit({"key": parameter}, {"key": value})[1]

    assert problems
    said = json.dumps([problem.as_json() for problem in problems], ensure_ascii=False)
    assert "hunter2" not in said
    assert "424242" not in said


def test_values_of_others_are_cut_and_escaped():
    (problem,) = fit({"p": Parameter("string", pattern="^x")}, {"p": "\x1b[31m\u202e" + "长" * 500})[1]

    assert problem.en.isprintable()
    assert problem.zh.isprintable()
    assert "长" * 40 not in problem.en


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [("b", "abc", True), ("^b", "abc", False), ("^a$", "a\n", False), ("^.$", "𠮷", True), ("^a$", "b\na\nb", False)],
)
def test_a_pattern_is_searched_and_its_end_is_the_very_end(pattern, value, fits):
    """`re` lets a final newline through; this must not."""
    assert one(Parameter("string", pattern=pattern), value) == ([] if fits else ["pattern-mismatch"])


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "(.*)*x", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$", "a{1000}b"]
)
def test_no_pattern_holds_the_interpreter(pattern):
    """Y32: a value of 1 MB."""
    value = "a" * 1_000_000 + "!"
    one(Parameter("string", pattern=pattern), "a")
    started = time.perf_counter()
    one(Parameter("string", pattern=pattern), value)
    took = time.perf_counter() - started

    assert took < 0.25  # 50 ms, five times the slack


def test_a_value_too_long_for_its_pattern_is_refused():
    """Y32: where RE2 itself would need seconds, the answer is a problem, not a wait."""
    started = time.perf_counter()
    assert one(Parameter("string", pattern="a[ab]{1000}c"), "ab" * 500_000) == ["too-long"]
    assert time.perf_counter() - started < 0.25


def test_a_hundred_problems_are_the_most():
    problems = fit({}, {f"p{n}": 1 for n in range(5000)})[1]

    assert len(problems) == 100
    assert problems[-1].code == "too-many-problems"


def test_one_value_is_checked_as_registration_does():
    assert value_problem(Parameter("integer", maximum=3), 4).code == "too-large"
    assert value_problem(Parameter("integer", maximum=3), 3) is None


def test_a_call_costs_microseconds():
    """It stands on the way of every run."""
    schema = {
        "cmd": Parameter("string", required=True, pattern="^[a-z ]+$", max_length=100),
        "n": Parameter("integer", default=3),
    }
    fit(schema, {"cmd": "git log"})
    started = time.perf_counter()
    for _ in range(1000):
        fit(schema, {"cmd": "git log"})
    took = time.perf_counter() - started

    assert took / 1000 < 0.001


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec=None), max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON)
def test_whatever_fits_can_be_written_as_json_and_nothing_raises(value):
    for kind in ("string", "integer", "number", "boolean", "array", "object"):
        fitted, problems = fit({"p": Parameter(kind, enum=("a",) if kind == "string" else None)}, {"p": value})
        if not problems:
            assert json.dumps(fitted, allow_nan=False, ensure_ascii=False).encode()
        assert all(problem.en.isprintable() and problem.zh.isprintable() for problem in problems)
