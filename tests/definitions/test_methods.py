"""What `method` may be for each executor, and Forgejo's operations (contract/executors.md; cases.md M10, Y33)."""

import json
from importlib.resources import files

import pytest

from service.domain.operations import VERSIONS
from tests.definitions.written import only, read, tool

CMD = "{ cmd: { type: string, required: true } }"
RUN = "command: [df, -h]\n"


@pytest.mark.parametrize(
    ("executor", "method", "parameters", "more"),
    [
        ("shell", "exec", CMD, ""),
        ("shell", "run", "{}", RUN),
        ("gatekeeper", "exec", CMD, ""),
        ("gatekeeper", "exec", "{}", RUN),
        ("gatekeeper", "run", "{}", RUN),
        ("gatekeeper", "file.read", "{ path: { type: string } }", ""),
        ("gatekeeper", "restart-service", "{}", "node: BS-SG-001\n"),
        ("hlpd-api", "getPersona", "{}", ""),
        ("hlpd-api", "GET /", "{}", ""),
        ("hlpd-api", "GET /personas/{id}", "{ id: { type: string, required: true } }", ""),
        ("hlpd-api", "PATCH /a/%E4%BA%BA/{id}.json", "{ id: { type: integer, required: true } }", ""),
        ("git-forgejo", "repoGetContents", "{ filepath: { type: string, required: true } }", ""),
    ],
)
def test_a_method_its_executor_knows_is_fine(executor, method, parameters, more):
    reading = read(tool(executor, method, parameters, more))

    assert reading.problems == ()
    assert reading.warnings == ()


@pytest.mark.parametrize(
    ("executor", "method", "parameters", "more", "code"),
    [
        ("shell", "execute", CMD, "", "bad-method"),
        ("shell", "exec", "{}", "", "cmd-missing"),
        ("shell", "exec", "{ cmd: { type: array } }", "", "parameter-type"),
        ("shell", "exec", "{ cmd: { type: string, secret: true } }", "", "secret-in-command"),
        ("shell", "run", "{}", "", "command-missing"),
        ("shell", "exec", "{}", RUN, "command-not-taken"),
        ("gatekeeper", "exec", "{}", "", "cmd-missing"),
        ("gatekeeper", "Exec", CMD, "", "bad-method"),
        ("gatekeeper", "file.read", "{}", RUN, "command-not-taken"),
        ("hlpd-api", "getPersona", "{}", RUN, "command-not-taken"),
        ("git-forgejo", "repoGetContents", "{ filepath: { type: string, required: true } }", RUN, "command-not-taken"),
        ("shell", "exec", "{ cmd: { type: string }, env: { type: string } }", "", "parameter-type"),
        ("gatekeeper", "exec", "{ cmd: { type: string }, cwd: { type: integer } }", "", "parameter-type"),
        ("shell", "run", "{ stdin: { type: object } }", RUN, "parameter-type"),
        ("hlpd-api", "get persona", "{}", "", "bad-method"),
        ("git-forgejo", "GET /repos", "{}", "", "bad-method"),
    ],
)
def test_a_method_its_executor_does_not_know_is_a_problem(executor, method, parameters, more, code):
    assert only(read(tool(executor, method, parameters, more))).code == code


@pytest.mark.parametrize(
    "method",
    [
        "GET https://evil/x", "GET //evil/x", "GET /../../x", "GET /a?b", "GET  /two-spaces", "get /x", "Get /x", "HEAD /x",
        "GET /a//b", "GET /a/./b", "GET /a/..", "GET /%2e%2e/x", "GET /%2E./x", "GET /%252e%252e/x", "GET /a%2fb", "GET /a%5cb",
        "GET /a@b", "GET /a#b", "GET /a\\b", "GET personas", "GET", "GET ", "GET /a b", "GET /a%zz", "GET /a%00",
        "GET /人格",
        "GET /{a", "GET /a}", "GET @evil/x", "GET /%40evil", "CONNECT /x", "GET /a%253fb", "GETX /x", "/x",
        "GET /{a}{", "GET\t/x",
    ],
)  # fmt: skip
def test_a_route_that_could_lead_elsewhere_is_a_problem(method):
    """M10."""
    text = tool("hlpd-api", "'" + method + "'", "{ a: { type: string, required: true } }")

    assert read(text).problems
    assert {problem.field for problem in read(text).problems} == {"method"}


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ("{}", "undeclared-slot"),
        ("{ id: { type: array } }", "slot-type"),
        ("{ id: { type: object } }", "slot-type"),
        ("{ id: { type: string, secret: true } }", "secret-in-path"),
        ("{ id: { type: string, required: true }, key: { type: string, secret: true } }", "secret-in-query"),
    ],
)
def test_what_cannot_stand_in_a_path_or_a_query_is_a_problem(parameters, code):
    """M10, Y33."""
    assert only(read(tool("hlpd-api", "GET /personas/{id}", parameters))).code == code


def test_a_slot_without_a_certain_value_is_a_warning():
    reading = read(tool("hlpd-api", "GET /personas/{id}", "{ id: { type: string } }"))

    assert [warning.code for warning in reading.warnings] == ["optional-slot"]


def test_a_parameter_that_goes_nowhere_is_a_warning():
    reading = read(tool("shell", "run", "{ path: { type: string }, cwd: { type: string } }", RUN))

    assert [(warning.code, warning.field) for warning in reading.warnings] == [
        ("unused-parameter", "params_schema.path")
    ]


def test_a_node_without_a_gatekeeper_is_a_warning():
    assert [warning.code for warning in read(tool("shell", "run", "{}", RUN + "node: BS-SG-001\n")).warnings] == [
        "no-effect"
    ]


def test_an_unknown_operation_is_a_problem_with_the_nearest_name():
    problem = only(read(tool("git-forgejo", "repoGetAllCommit")))

    assert (problem.code, problem.field, problem.line) == ("unknown-operation", "method", 4)
    assert "repoGetAllCommits" in problem.en


def test_an_operation_of_either_shipped_version_is_known():
    """An absent forge never rejects anything (contract/registration.md)."""
    facts = files("service.domain") / "forgejo_operations"
    older, newer = (json.loads((facts / f"{version}.json").read_bytes()) for version in VERSIONS)
    only_newer = next(name for name in newer if name not in older)

    assert read(tool("git-forgejo", only_newer)).problems == ()
    assert read(tool("git-forgejo", next(iter(older)))).problems == ()


def test_an_operation_of_the_instances_own_document_is_known():
    assert only(read(tool("git-forgejo", "repoPaint"))).code == "unknown-operation"
    assert read(tool("git-forgejo", "repoPaint"), extra_operations={"repoPaint"}).problems == ()
    facts = {
        "repoPaint": {"verb": "POST", "path": "/repos/{owner}/{repo}/paint", "parameters": [], "body": {"colour": {}}}
    }
    painted = tool("git-forgejo", "repoPaint", "{ color: { type: string } }")
    assert "colour" in only(read(painted, extra_operations=facts)).en


def test_what_the_instances_document_adds_to_a_known_operation_can_be_named():
    """registration.md: by the same rule that execution has, so that what is registered can be sent."""
    instance = {
        "issueCreateIssue": {
            "verb": "DELETE",
            "path": "/repos/{owner}/{repo}/elsewhere",
            "parameters": [{"name": "dry-run", "in": "query"}, {"name": "title", "in": "query"}],
            "body": {"colour": {}},
        }
    }

    def codes_of(parameters):
        reading = read(tool("git-forgejo", "issueCreateIssue", parameters), extra_operations=instance)
        return [problem.code for problem in reading.problems]

    assert codes_of("{ title: { type: string, required: true }, colour: { type: string } }") == []
    assert codes_of("{ dry_run: { type: boolean, secret: true } }") == ["secret-in-query"]
    assert codes_of("{ title: { type: string, secret: true } }") == []  # a property of the body, as we know it
    assert codes_of("{ body_title: { type: string } }") == ["unknown-operation-parameter"]


def test_facts_of_an_instance_that_cannot_be_read_reject_nothing():
    """An absent forge never rejects anything, and a strange one neither."""
    strange = {"repoGet": {"verb": 7}, "repoPaint": None}

    assert read(tool("git-forgejo", "repoGet"), extra_operations=strange).problems == ()
    assert (
        read(tool("git-forgejo", "repoPaint", "{ colour: { type: string } }"), extra_operations=strange).problems == ()
    )


@pytest.mark.parametrize(
    ("method", "parameters", "codes"),
    [
        (
            "issueCreateComment",
            "{ index: { type: integer, required: true }, body: { type: string, required: true } }",
            [],
        ),
        (
            "issueCreateComment",
            "{ index: { type: integer, required: true }, bdy: { type: string } }",
            ["unknown-operation-parameter"],
        ),
        ("activitypubPerson", "{ user_id: { type: integer, required: true } }", []),
        ("renderMarkdownRaw", "{ body: { type: string, required: true } }", []),
        (
            "adminCreateOrg",
            "{ username: { type: string, required: true }, body_username: { type: string, required: true } }",
            [],
        ),
        ("repoGetContents", "{ filepath: { type: string, secret: true, required: true } }", ["secret-in-path"]),
        ("repoGetContents", "{ filepath: { type: array, required: true } }", ["slot-type"]),
        (
            "repoGetContents",
            "{ filepath: { type: string, required: true }, ref: { type: string, secret: true } }",
            ["secret-in-query"],
        ),
        (
            "repoCreateFile",
            "{ filepath: { type: string, required: true }, content: { type: string, required: true, secret: true } }",
            [],
        ),
    ],
)
def test_an_operations_parameters_are_flat_and_known(method, parameters, codes):
    """Y33, and executors.md: `-` becomes `_`, a body that is no object is `body`, a clash is `body_<name>`."""
    assert [problem.code for problem in read(tool("git-forgejo", method, parameters)).problems] == codes


def test_what_an_operation_cannot_do_without_is_a_warning_where_nothing_gives_it():
    reading = read(tool("git-forgejo", "repoGetContents", "{ ref: { type: string } }"))

    assert [warning.code for warning in reading.warnings] == ["lacking-operation-parameter"]
    assert "filepath" in reading.warnings[0].en
