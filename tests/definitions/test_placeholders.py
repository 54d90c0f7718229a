"""`command:` templates (contract/tool-hdlp.md, Placeholders; cases.md M2, M13)."""

import pytest

from service.domain.definitions import Parameter
from service.domain.placeholders import render
from tests.definitions.written import only, read, tool

SCHEMA = {
    "id": Parameter("string", required=True),
    "n": Parameter("integer"),
    "ratio": Parameter("number"),
    "all": Parameter("boolean"),
}
PARAMETERS = (
    "{ id: { type: string, required: true }, n: { type: integer }, list: { type: array }, map: { type: object },"
    " key: { type: string, secret: true } }"
)


def command(*items: str) -> str:
    return "command:\n" + "".join(f"  - '{item}'\n" for item in items)


@pytest.mark.parametrize(
    ("items", "parameters", "vector"),
    [
        (["echo", "{id}"], {"id": "a b; rm -rf /"}, ["echo", "a b; rm -rf /"]),
        (["echo", "x{id}y{id}"], {"id": "1"}, ["echo", "x1y1"]),
        (["echo", "{id}"], {"id": "{n}", "n": 3}, ["echo", "{n}"]),
        (["echo", "{n}"], {"id": "", "n": -5}, ["echo", "-5"]),
        (["echo", "{ratio}"], {"id": "", "ratio": 1e30}, ["echo", "1e+30"]),
        (["echo", "{ratio}"], {"id": "", "ratio": 2.5}, ["echo", "2.5"]),
        (["echo", "{all}"], {"id": "", "all": True}, ["echo", "true"]),
        (["echo", "{other} ${HOME} {} {{id}}"], {"id": "1"}, ["echo", "{other} ${HOME} {} {1}"]),
        (["echo", "{id}"], {"id": ""}, ["echo", ""]),
        (["echo", "{id}"], {"id": "a\nb\t\x1b"}, ["echo", "a\nb\t\x1b"]),
    ],
)
def test_one_pass_puts_values_in_and_reads_nothing_again(items, parameters, vector):
    """M2: newline, tab and ESC are data."""
    assert render(items, SCHEMA, parameters) == (vector, [])


def test_an_item_of_an_optional_parameter_without_a_value_is_left_out():
    """M13."""
    assert render(["git", "log", "-n{n}", "--ratio={ratio}", "{id}"], SCHEMA, {"id": "x", "ratio": 1}) == (
        ["git", "log", "--ratio=1", "x"],
        [],
    )


def test_a_nul_is_refused_wherever_it_would_stand():
    """M2."""
    _, problems = render(["echo", "a{id}"], SCHEMA, {"id": "x\0y"})

    assert [(problem.param, problem.code) for problem in problems] == [("id", "nul")]


@pytest.mark.parametrize(
    ("items", "refused"),
    [
        (["git", "{id}"], True),
        (["git", "--", "{id}"], False),
        (["git", "--x={id}"], False),
        (["git", "a", "{id}{n}"], False),
    ],
)
def test_a_text_that_looks_like_an_option_is_refused_unless_dashes_stand_before_it(items, refused):
    _, problems = render(items, SCHEMA, {"id": "--upload-pack=x", "n": 1})

    assert [problem.code for problem in problems] == (["looks-like-option"] if refused else [])


def test_a_placeholder_in_the_first_item_is_a_problem():
    """M13."""
    problem = only(read(tool("shell", "run", PARAMETERS, command("{id}"))))

    assert (problem.code, problem.field, problem.line) == ("placeholder-in-program", "command[0]", 12)


@pytest.mark.parametrize(
    ("items", "place"),
    [
        (["sh", "-c", "echo {id}"], 2),
        (["/bin/bash", "-ec", "echo {id}"], 2),
        (["bash", "--norc", "-o", "pipefail", "-c", "echo {id}"], 5),
        (["sudo", "-u", "git", "sh", "-c", "echo {id}"], 5),
        (["env", "A=1", "python3.11", "-I", "-c", "print({id})"], 5),
        (["python3", "-cprint({id})"], 1),
        (["perl", "-e", "1", "-e", "{id}"], 4),
        (["perl", "-lane", "print {id}"], 2),
        (["node", "--eval={id}"], 1),
        (["node", "-p", "{id}"], 2),
        (["ruby", "-e{id}"], 1),
        (["php", "-r", "{id}"], 2),
        (["sh", "-{id}", "x"], 1),
        (["su", "git", "sh", "-c", "{id}"], 4),
        (["su", "-", "git", "-c", "rm {id}"], 4),
        (["flock", "/tmp/lock", "-c", "echo {id}"], 3),
        (["bash", "-ce", "echo {id}"], 2),
        (["bash", "-c", "-e", "--", "echo {id}"], 4),
        (["perl", "-MJSON::PP::Simple", "-e", "print {id}"], 3),
        (["pwsh", "-Command", "{id}"], 2),
    ],
)
def test_a_placeholder_in_a_scripts_text_is_a_problem(items, place):
    """M13: the value would become code."""
    problem = only(read(tool("shell", "run", PARAMETERS, command(*items))))

    assert (problem.code, problem.field) == ("placeholder-in-script", f"command[{place}]")
    assert '"$1"' in problem.en


@pytest.mark.parametrize(
    "items",
    [
        ["sh", "-c", 'echo "$1"', "sh", "{id}"],
        ["bash", "script.sh", "-c", "{id}"],
        ["python3", "tool.py", "-e", "{id}"],
        ["python3", "-m", "json.tool", "--indent", "{n}"],
        ["grep", "-e", "{id}"],
        ["git", "-c", "{id}"],
    ],
)
def test_a_placeholder_as_an_argument_is_fine(items):
    assert read(tool("shell", "run", PARAMETERS, command(*items))).problems == ()


@pytest.mark.parametrize(
    ("name", "code"), [("list", "placeholder-type"), ("map", "placeholder-type"), ("key", "secret-in-command")]
)
def test_an_array_an_object_and_a_secret_cannot_stand_in_a_command(name, code):
    """M13, Y33."""
    problem = only(read(tool("shell", "run", PARAMETERS, command("echo", f"x{{{name}}}"))))

    assert (problem.code, problem.field) == (code, "command[1]")


def test_a_brace_that_looks_like_a_name_nobody_declared_is_a_warning():
    reading = read(
        tool("shell", "run", "{ path: { type: string } }", command("ls", "{pth}", "${HOME}", "{path}", "{1..3}"))
    )

    assert reading.problems == ()
    assert [(warning.code, warning.field) for warning in reading.warnings] == [("undeclared-placeholder", "command[1]")]
    assert "{path}" in reading.warnings[0].en


def test_a_command_keeps_its_items_as_they_are():
    reading = read(tool("shell", "run", "{}", "command: [printf, ' a ', '', 5, true, '-']\n"))

    assert reading.definition.command == ("printf", " a ", "", "5", "true", "-")
