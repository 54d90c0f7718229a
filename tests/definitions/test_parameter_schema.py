"""`params_schema` as it is read: types, limits, defaults, patterns, secrets (cases.md Y20, Y32, Y33)."""

import pytest

from service.domain.definitions import Constraints
from tests.definitions.written import CWD, only, read, read_changed, tool


@pytest.mark.parametrize("written", ["1.e+400", "1e400", ".nan", ".inf", "-.inf", "0b1"])
def test_bounds_are_finite_numbers(written):
    """Y20."""
    problem = only(read_changed((CWD, f"{{ type: number, maximum: {written} }}"), ("cwd", "limit")))

    assert (problem.code, problem.field) == ("wrong-type", "params_schema.limit.maximum")


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?<!a)b", r"(a)\1", "a{1000}{1000}", "(a{1000}){1000}", "(", "[z-a]", "*a", "a**"]
)
def test_a_pattern_beyond_linear_time_or_broken_is_a_problem(pattern):
    """Y32."""
    quoted = pattern.replace("'", "''")
    problem = only(read_changed((CWD, f"{{ type: string, pattern: '{quoted}' }}")))

    assert (problem.code, problem.field, problem.line) == ("bad-pattern", "params_schema.cwd.pattern", 8)


def test_a_secret_with_a_default_is_a_problem():
    """Y33: it would stand in the repository; its value is not quoted."""
    problem = only(read_changed((CWD, "{ type: string, secret: true, default: hunter2 }")))

    assert problem.code == "secret-default"
    assert "hunter2" not in problem.zh + problem.en


def test_a_secret_in_a_command_a_path_or_a_query_is_a_problem():
    """Y33."""
    key = "{ key: { type: string, required: true, secret: true } }"

    assert only(read(tool("shell", "run", key, 'command: [curl, "{key}"]\n'))).code == "secret-in-command"
    assert only(read(tool("hlpd-api", "GET /a/{key}", key))).code == "secret-in-path"
    assert only(read(tool("hlpd-api", "DELETE /a", key))).code == "secret-in-query"
    assert read(tool("hlpd-api", "POST /a", key)).problems == ()


@pytest.mark.parametrize("field", ["constraints:", "params_schema:"])
def test_constraints_and_parameters_left_empty_are_none(field):
    """Y34."""
    text = tool("hlpd-api", "listPersonas").replace(f"{field} {{}}", field)
    reading = read(text)

    assert reading.problems == ()
    assert reading.definition.constraints == Constraints()
    assert reading.definition.params_schema == {}


@pytest.mark.parametrize(
    ("schema", "default", "value"),
    [
        ("type: string", "30", "30"),
        ("type: integer", "-3", -3),
        ("type: number", "2.5e3", 2500.0),
        ("type: boolean", "true", True),
        ("type: array, items: { type: integer }", "[1, 2]", [1, 2]),
        ("type: array", '[1, a, "2"]', [1, "a", "2"]),
        ("type: object", "{ a: 1, b: [x, null], x-c: true }", {"a": 1, "b": ["x", None], "x-c": True}),
        ("type: string", "''", ""),
        ("type: string, enum: [a, b]", "b", "b"),
    ],
)
def test_a_default_takes_the_parameters_type(schema, default, value):
    reading = read(tool("hlpd-api", "setOption", f"{{ option: {{ {schema}, default: {default} }} }}"))

    assert reading.problems == ()
    assert reading.definition.params_schema["option"].default == value
    assert type(reading.definition.params_schema["option"].default) is type(value)


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ("type: integer, default: '5'", "wrong-type"),
        ("type: integer, default: 5.0", "wrong-type"),
        ("type: integer, default: 9007199254740992", "out-of-range"),
        ("type: boolean, default: yes", "wrong-type"),
        ("type: string, enum: [a, b], default: c", "bad-default"),
        ("type: string, pattern: ^a$, default: b", "bad-default"),
        ("type: integer, minimum: 3, default: 2", "bad-default"),
        ("type: integer, enum: [1, x]", "wrong-type"),
        ("type: integer, minimum: 2, enum: [1, 3]", "bad-choice"),
        ("type: string, enum: [a, a]", "duplicate-choice"),
        ("type: integer, minimum: 3, maximum: 2", "out-of-range"),
        ("type: string, minimum: 3", "not-for-type"),
        ("type: integer, pattern: a", "not-for-type"),
        ("type: object, items: { type: string }", "not-for-type"),
        ("type: strng", "not-a-choice"),
        ("description: x", "missing"),
        ("type: array, items: { description: x }", "missing"),
    ],
)
def test_a_parameter_that_cannot_be_met_is_a_problem(schema, code):
    problem = only(read(tool("hlpd-api", "setOption", f"{{ option: {{ {schema} }} }}")))

    assert problem.code == code
    assert problem.field.startswith("params_schema.option")


def test_what_is_secret_inside_an_array_is_secret_outside():
    reading = read(tool("hlpd-api", "setKeys", "{ keys: { type: array, items: { type: string, secret: true } } }"))

    assert reading.definition.params_schema["keys"].secret


@pytest.mark.parametrize("name", ["1a", "a-b", "参数", '"a b"', "a" * 65])
def test_a_parameters_name_outside_the_rule_is_a_problem(name):
    assert only(read(tool("hlpd-api", "setOption", f"{{ {name}: {{ type: string }} }}"))).code == "bad-name"
