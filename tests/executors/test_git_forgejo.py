"""The git-forgejo executor: what it sends for an operation, and what comes of it (contract/executors.md, git-forgejo)."""

import base64
import email
import email.policy
import hashlib
import json
import re
import time
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.definitions import Definition, Parameter
from service.domain.executors import HIDDEN, Call, Cancel, Executor
from service.domain.parameters import fit
from service.domain.runs import error_of
from service.execution.executors.git_forgejo import GitForgejoExecutor
from service.execution.operations import Operations
from service.intake.definitions.operations import check_operation
from service.intake.definitions.reading import read_definition
from tests.harness.far_side import answer_with, drip, nobody, reset, say
from tests.harness.forgejo_document import NEWEST, OLDEST, Forge, document_of, facts_of

TOKEN = "t0ken-of-tools"
ANYTHING = ("*",)
HERE = ("光湖", "native-repo")
SHIPPED = Path(__file__).parents[2] / "tools"
REPOSITORY = Path(__file__).parents[1] / "data" / "native-repo" / "tools"
FILE = b"\x89PNG\r\n\x1a\n\x00\xff--boundary"
MADE_UP = {
    "string": "某值?&=#%+ 1",
    "integer": 7,
    "number": 1.5,
    "boolean": True,
    "array": ["一&二", "3"],
    "object": {"键": [1, {"b": None}]},
    "file": base64.b64encode(FILE).decode(),
}


def definition_of(operation, **parameters):
    return Definition(
        name="a-tool",
        display="工具",
        intent="做一件事",
        method=operation,
        executor="git-forgejo",
        author="ICE-GL-ZY001",
        created="2026-05-31",
        why="测试需要它",
        params_schema={name: one if isinstance(one, Parameter) else Parameter(one) for name, one in parameters.items()},
    )


def call(parameters, definition, *, timeout_ms=5000, keep=65536, cancel=None, on_output=None):
    return Call("run-1", definition, parameters, timeout_ms, keep, "token:7", cancel or Cancel(), (), on_output)


def executor(url="http://127.0.0.1:9", *, token=TOKEN, allowed=ANYTHING, repository=lambda: HERE, operations=None):
    return GitForgejoExecutor(url + "/api/v1", token, allowed, repository, operations or Operations(None))


class Sent:
    """One request as it arrived."""

    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        line, *headers = head.decode("ascii").split("\r\n")
        self.verb, target, _ = line.split(" ")
        self.path = urlsplit(target).path.removeprefix("/api/v1")
        self.query = parse_qsl(
            urlsplit(target).query, keep_blank_values=True, strict_parsing=bool(urlsplit(target).query)
        )
        self.headers = {name.lower(): value for name, _, value in (header.partition(": ") for header in headers)}

    def json(self):
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)

    def form(self):
        """Name → (file name, bytes) of a multipart body, read by somebody else's parser."""
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        message = email.message_from_bytes(head + self.body, policy=email.policy.HTTP)
        assert message.get_content_type() == "multipart/form-data"
        return {
            part.get_param("name", header="content-disposition"): (part.get_filename(), part.get_payload(decode=True))
            for part in message.iter_parts()
        }


@pytest.fixture
def sent(far_side, answering):
    """The request that a call makes, after the checks that come before it."""

    def send(operation, parameters, schema=None, **how):
        side = far_side(answering(b"{}"))
        runs = executor(side.url, **how)
        definition = definition_of(operation, **(schema or dict.fromkeys(parameters, "string")))
        assert runs.unavailable(definition) is None
        assert runs.refusal(definition) is None
        assert runs.check(definition, parameters) == []
        assert runs.run(call(parameters, definition)).state == "succeeded"
        (raw,) = side.requests
        return Sent(raw)

    return send


@pytest.fixture
def told(far_side):
    """What becomes of an answer to `repoGet`."""

    def tell(behaviour, **limits):
        side = far_side(behaviour)
        outcome = executor(side.url).run(call({}, definition_of("repoGet"), **limits))
        assert side.connections == 1
        return outcome

    return tell


def problems(operation, parameters, schema=None, **how):
    definition = definition_of(operation, **(schema or dict.fromkeys(parameters, "string")))
    found = executor(**how).check(definition, parameters)
    assert all(problem.zh and problem.en for problem in found)
    return [(problem.param, problem.code) for problem in found]


# What is sent


def test_it_is_an_executor():
    """The one Protocol."""
    runs: Executor = executor()

    assert (runs.name, runs.uses_files, runs.target(definition_of("repoGet"))) == ("git-forgejo", False, None)


def test_a_files_path_keeps_its_slashes_and_nothing_else(sent):
    """facts/forgejo.md 3.3; the token goes as Bearer, the parameters that are left to the query."""
    request = sent("repoGetContents", {"filepath": "docs/说明 1.md", "ref": "a/b&c"})

    assert (request.verb, request.body) == ("GET", b"")
    assert request.path == "/repos/%E5%85%89%E6%B9%96/native-repo/contents/docs/%E8%AF%B4%E6%98%8E%201.md"
    assert request.query == [("ref", "a/b&c")]
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["accept"] == "application/json"
    assert request.headers["accept-encoding"] == "identity"
    assert "content-type" not in request.headers


def test_the_registered_repository_is_the_default_one_by_one(sent):
    """executors.md: `owner` and `repo`, in paths that begin /repos/{owner}/{repo}."""
    assert sent("repoGet", {}).path == "/repos/%E5%85%89%E6%B9%96/native-repo"
    assert sent("repoGet", {"repo": "other"}).path == "/repos/%E5%85%89%E6%B9%96/other"
    assert sent("repoGet", {"owner": "a", "repo": "b"}).path == "/repos/a/b"
    assert sent("repoGet", {"owner": "a", "repo": "b"}, repository=lambda: None).path == "/repos/a/b"


def test_two_slots_of_one_segment_are_filled(sent):
    request = sent("repoDownloadCommitDiffOrPatch", {"sha": "abc", "diffType": "patch"})

    assert request.path.endswith("/git/commits/abc.patch")
    assert request.headers["accept"] == "text/plain"


def test_an_array_in_the_query_repeats_its_name_where_the_operation_says_multi(sent):
    """And `-` is written `_` by the definition only."""
    request = sent(
        "notifyGetList",
        {"status_types": ["unread", "read,x"], "all": True},
        {"status_types": "array", "all": "boolean"},
    )

    assert request.query == [("all", "true"), ("status-types", "unread"), ("status-types", "read,x")]


@pytest.mark.parametrize(
    ("joined", "query"),
    [
        ("csv", [("tag", "a,b c")]),
        (None, [("tag", "a,b c")]),
        ("ssv", [("tag", "a b|c")]),
        ("tsv", [("tag", "a\tb c")]),
        ("pipes", [("tag", "a|b c")]),
        ("multi", [("tag", "a"), ("tag", "b c")]),
    ],
)
def test_an_array_goes_as_its_collection_format_says(sent, far_side, joined, query):
    """Swagger 2.0's five; csv unless said."""
    items = {"ssv": ["a", "b|c"]}.get(joined, ["a", "b c"])
    tag = {"name": "tag", "in": "query", "type": "array"} | ({"collectionFormat": joined} if joined else {})
    facts = {"repoPaint": {"verb": "GET", "path": "/repos/{owner}/{repo}/paint", "parameters": [tag]}}
    operations = Operations(far_side(answer_with(document_of(facts))).url + "/api/v1")
    assert operations.refresh()

    assert sent("repoPaint", {"tag": items}, {"tag": "array"}, operations=operations).query == query


def test_an_empty_array_is_not_sent(sent):
    assert sent("notifyGetList", {"status_types": []}, {"status_types": "array"}).query == []
    assert sent("issueListIssues", {"labels": []}, {"labels": "array"}).query == []


def test_the_rest_of_a_write_is_a_json_body(sent):
    """As JSON: numbers stay numbers, and what is not given is not sent."""
    parameters = {"title": "第一\n\0", "labels": [1, 2], "closed": False}
    request = sent("issueCreateIssue", parameters, {"title": "string", "labels": "array", "closed": "boolean"})

    assert (request.verb, request.path) == ("POST", "/repos/%E5%85%89%E6%B9%96/native-repo/issues")
    assert (request.json(), request.query) == (parameters, [])


def test_a_property_named_like_a_slot_has_a_name_of_its_own(sent):
    """executors.md: `body_<name>`; `body` itself is an ordinary property here."""
    assert sent("adminCreateOrg", {"username": "铸渊", "body_username": "org"}).json() == {"username": "org"}
    parameters = {"index": 3, "body_index": 4, "body_owner": "a", "body_repo": "b"}
    request = sent("issueCreateIssueDependencies", parameters)
    assert request.path.endswith("/native-repo/issues/3/dependencies")
    assert request.json() == {"index": 4, "owner": "a", "repo": "b"}
    assert sent("issueCreateComment", {"index": 1, "body": "好"}).json() == {"body": "好"}


def test_a_body_that_is_no_object_goes_as_it_is(sent):
    """Text as text; anything else as JSON."""
    request = sent("renderMarkdownRaw", {"body": "# 题\r\n"})
    assert (request.body.decode(), request.headers["content-type"]) == ("# 题\r\n", "text/plain; charset=utf-8")
    assert request.headers["accept"] == "text/html"
    schema = {"repository_id": "integer", "body": "object"}
    assert sent("activitypubRepositoryInbox", {"repository_id": 1, "body": {"a": [1]}}, schema).json() == {"a": [1]}


def test_a_delete_carries_its_body(sent):
    """facts/forgejo.md 3.6: ten operations want one."""
    request = sent("repoDeleteFile", {"filepath": "a/b", "sha": "abc", "message": "删"})

    assert (request.verb, request.path[-13:]) == ("DELETE", "/contents/a/b")
    assert request.json() == {"sha": "abc", "message": "删"}


def test_a_delete_without_anything_to_say_has_no_body(sent):
    request = sent("issueClearLabels", {"index": 1})

    assert (request.verb, request.body, "content-type" in request.headers) == ("DELETE", b"", False)


def test_a_write_without_anything_to_say_has_an_empty_object(sent):
    assert sent("repoEdit", {}).json() == {}
    assert sent("acceptRepoTransfer", {}).body == b""  # that one takes no body at all


def test_a_file_is_base64_text_that_goes_out_as_the_bytes_it_means(sent):
    """executors.md; the rest goes where the operation says."""
    parameters = {"index": 1, "name": "图.png", "attachment": MADE_UP["file"]}
    request = sent("issueCreateIssueAttachment", parameters)

    assert request.form() == {"attachment": ("attachment", FILE)}
    assert request.query == [("name", "图.png")]


def test_a_form_without_its_file_is_still_that_form(sent):
    """A release's asset that stands elsewhere."""
    request = sent("repoCreateReleaseAttachment", {"id": 1, "external_url": "https://例.example/a&b"})

    assert request.form() == {"external_url": (None, "https://例.example/a&b".encode())}


def test_a_form_without_files_is_written_as_forms_are(sent, far_side):
    fields = [{"name": name, "in": "formData", "type": kind} for name, kind in (("a", "string"), ("tags", "array"))]
    facts = {"repoPaint": {"verb": "POST", "path": "/repos/{owner}/{repo}/paint", "parameters": fields}}
    operations = Operations(far_side(answer_with(document_of(facts))).url + "/api/v1")
    assert operations.refresh()

    request = sent("repoPaint", {"a": "值&", "tags": [1, 2]}, {"a": "string", "tags": "array"}, operations=operations)

    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert parse_qsl(request.body.decode()) == [("a", "值&"), ("tags", "1,2")]


@pytest.mark.parametrize("below", ["", "/git"])
def test_a_path_of_the_address_is_kept(far_side, answering, below):
    """A reverse proxy may have put it anywhere; what the document says of it is not looked at."""
    side = far_side(answering(document_of(facts_of(NEWEST))))
    operations = Operations(side.url + "/api/v1")
    assert operations.refresh()

    executor(side.url + below, operations=operations).run(call({}, definition_of("userGetCurrent")))

    assert side.requests[-1].startswith(f"GET {below}/api/v1/user HTTP/1.1".encode())


# Every operation there is


def flat_names(facts):
    """The rule of executors.md once more, from the facts alone: flat name → (place, its own name, type)."""
    named = {}
    for one in facts["parameters"]:
        named[one["name"].replace("-", "_")] = (one["in"], one["name"], one["type"])
    taken = {one["name"] for one in facts["parameters"] if one["in"] in ("path", "query")}
    for name, value in (facts.get("body") or {}).items():
        flat = "body" if name == "*" else f"body_{name}" if name in taken else name
        assert flat not in named
        named[flat] = ("whole" if name == "*" else "body", name, value["type"])
    return named


def made_up(place, name, kind):
    if name == "filepath":
        return "文 档/a.md"
    return MADE_UP["string" if place == "path" else kind]


def in_a_query(value):
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_each_operation_can_be_named_by_a_definition_and_becomes_the_request_it_means(far_side, version):
    """Every parameter and property that the facts name, in the place they name, of an instance of that version."""
    every = facts_of(version)
    forge = Forge(far_side, every)
    operations = Operations(forge.url)
    assert operations.refresh()
    forge.answer = answer_with(b"{}")
    runs = executor(forge.side.url, operations=operations)

    for name, facts in every.items():
        named = flat_names(facts)
        values = {flat: made_up(*what) for flat, what in named.items()}
        kinds = {flat: "string" if what[2] == "file" else what[2] for flat, what in named.items()}
        definition = definition_of(name, **{flat: Parameter(kind, required=True) for flat, kind in kinds.items()})

        assert check_operation(definition) == ([], []), name
        assert check_operation(definition, extra_operations=operations.facts) == ([], []), name
        assert runs.unavailable(definition) is None, name
        assert runs.check(definition, values) == [], name
        assert runs.run(call(values, definition)).state == "succeeded", name
        check_request(name, facts, values, named, Sent(forge.side.requests[-1]))
    assert forge.asked() == 1 + len(every)


def check_request(name, facts, values, named, request):
    by_place = {}
    for flat, (place, own, _) in named.items():
        by_place.setdefault(place, {})[own] = values[flat]
    template = re.escape(facts["path"]).replace(r"\{", "{").replace(r"\}", "}")
    pattern = re.sub(r"\{[^{}]*\}", lambda slot: "(.+)" if slot.group() == "{filepath}" else "([^/]+)", template)
    slots = re.findall(r"\{([^{}]*)\}", facts["path"])

    assert request.verb == facts["verb"], name
    match = re.fullmatch(pattern, request.path)
    assert match is not None, name
    if ".{" not in facts["path"]:
        assert [unquote(part) for part in match.groups()] == [by_place["path"][slot] for slot in slots], name
    expected = [
        (own, in_a_query(item))
        for own, value in by_place.get("query", {}).items()
        for item in (value if isinstance(value, list) else [value])
    ]
    assert sorted(request.query) == sorted(expected), name  # in whatever order
    if "formData" in by_place:
        form = {
            own: FILE if own == "attachment" else str(value).encode() for own, value in by_place["formData"].items()
        }
        assert {own: content for own, (_, content) in request.form().items()} == form, name
    elif "whole" in by_place:
        assert (
            request.body.decode() == by_place["whole"]["*"]
            if isinstance(values["body"], str)
            else request.json() == values["body"]
        )
    elif "body" in by_place:
        assert request.json() == by_place["body"], name
    else:
        assert request.body == b"", name


def test_every_tool_of_a_year_old_repository_becomes_the_request_it_means(far_side, answering):
    """Definitions written by nobody who knew this executor: all parameters arrive."""
    side, count = far_side(answering(b"{}")), 0
    runs = executor(side.url)

    for file in sorted(REPOSITORY.glob("*/TOOL.hdlp")):
        definition = read_definition(file.read_bytes(), file.parent.name).definition
        if definition is None or definition.executor != "git-forgejo":
            continue
        schema = definition.params_schema
        values = {name: "a/b" if name == "filepath" else MADE_UP[one.type] for name, one in schema.items()}
        assert runs.check(definition, values) == [], definition.name
        assert runs.run(call(values, definition)).state == "succeeded", definition.name
        request = Sent(side.requests[-1])
        arrived = unquote(request.path) + str(request.query) + (str(request.json()) if request.body else "")
        lost = [
            name for name, value in values.items() if in_a_query(value) not in arrived and str(value) not in arrived
        ]
        assert lost == [], definition.name
        count += 1
    assert count == 25


# What is refused


@pytest.mark.parametrize(
    ("operation", "parameters", "expected"),
    [
        ("repoGetContents", {}, [("filepath", "missing")]),
        ("repoGetContents", {"filepath": ""}, [("filepath", "empty")]),
        ("repoGetContents", {"filepath": "a/../../b"}, [("filepath", "bad-segment")]),
        ("repoGetContents", {"filepath": "a//b"}, [("filepath", "bad-segment")]),
        ("repoGetContents", {"filepath": "/etc/passwd"}, [("filepath", "bad-segment")]),
        ("repoGetContents", {"filepath": "a%2fb"}, [("filepath", "bad-segment")]),
        ("repoGetContents", {"filepath": "a", "repo": "../../user/tokens"}, [("repo", "bad-segment")]),
        ("repoGetContents", {"filepath": "a", "repo": "%252e%252e"}, [("repo", "bad-segment")]),
        ("repoGetContents", {"filepath": "a\0b"}, [("filepath", "control-character")]),
        ("repoGetBranch", {"branch": "feature/x"}, [("branch", "bad-segment")]),
        ("repoDownloadCommitDiffOrPatch", {"sha": ".", "diffType": "x"}, [("sha", "bad-segment")]),
        ("repoGetContents", {"filepath": "a", "ref": {"a": 1}}, [("ref", "wrong-type")]),
        ("notifyGetList", {"status_types": ["a", ["b"]]}, [("status_types", "wrong-type")]),
        ("issueListIssues", {"labels": ["a,b"]}, [("labels", "separator-in-item")]),
        ("issueCreateIssue", {"body": "x"}, [("title", "missing")]),
        ("issueCreateIssueAttachment", {"index": 1}, [("attachment", "missing")]),
        ("issueCreateIssueAttachment", {"index": 1, "attachment": "not base64!"}, [("attachment", "bad-base64")]),
        ("issueCreateIssueAttachment", {"index": 1, "attachment": "YQ==\n"}, [("attachment", "bad-base64")]),
        ("issueCreateIssueAttachment", {"index": 1, "attachment": "图"}, [("attachment", "bad-base64")]),
        ("issueCreateIssueAttachment", {"index": 1, "attachment": 7}, [("attachment", "bad-base64")]),
        ("repoGet", {"colour": "red"}, [("colour", "unknown-operation-parameter")]),
        (
            "issueCreateIssue",
            {"repo": "", "colour": 1},
            [("colour", "unknown-operation-parameter"), ("repo", "empty"), ("title", "missing")],
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_as_the_operation_says_is_refused(operation, parameters, expected):
    """M1, M2, M6: 422, all together, before anything is sent."""
    assert problems(operation, parameters) == expected


def test_without_a_known_repository_it_has_to_be_named():
    assert problems("repoGet", {}, repository=lambda: None) == [("owner", "missing"), ("repo", "missing")]
    assert problems("repoGet", {"repo": "x"}, repository=lambda: None) == [("owner", "missing")]


def test_no_problem_quotes_a_secret():
    schema = {"index": "integer", "attachment": Parameter("string", secret=True)}
    definition = definition_of("issueCreateIssueAttachment", **schema)

    found = executor().check(definition, {"index": 1, "attachment": "s3cret!"})

    assert [problem.code for problem in found] == ["bad-base64"]
    assert "s3cret" not in repr(found)


def test_a_secret_that_the_instances_document_moved_into_the_url_is_refused(far_side):
    """tool-hdlp.md: never into a URL, also when the operation changed after the tool was registered."""
    facts = {
        "verb": "POST",
        "path": "/repos/{owner}/{repo}/paint",
        "parameters": [],
        "body": {"key": {"type": "string"}},
    }
    forge = Forge(far_side, {"repoPaint": facts})
    now = [0.0]
    operations = Operations(forge.url, clock=lambda: now[0])
    runs = executor(forge.side.url, operations=operations)
    definition = definition_of("repoPaint", key=Parameter("string", secret=True))
    assert operations.refresh()
    assert runs.check(definition, {"key": "s3cret"}) == []

    moved = facts | {"body": {}, "parameters": [{"name": "key", "in": "query", "type": "string"}]}
    forge.describe({"repoPaint": moved})
    now[0] = 4000.0
    assert operations.refresh()
    outcome = runs.run(call({"key": "s3cret"}, definition))

    assert [problem.code for problem in runs.check(definition, {"key": "s3cret"})] == ["secret-in-url"]
    assert (outcome.state, outcome.reason) == ("failed", "did-not-start")
    assert forge.asked() == 2
    assert "s3cret" not in error_of(outcome)


@given(st.one_of(st.text(), st.text(alphabet="./%2eE5cCfF\\0?#@:[]{}")))
def test_no_parameter_leads_to_another_operation(value):
    """X30, M6: a slot is one segment, a file's path stays below `contents`."""
    runs, definition = executor("http://127.0.0.1:9/git"), definition_of("repoGetContents")
    parameters = {"filepath": value, "repo": value, "ref": value}
    if runs.check(definition, parameters):
        return

    path, _, query = runs.preview(definition, parameters)["url"].partition("?")
    segments = path.removeprefix("http://127.0.0.1:9/git/api/v1/repos/%E5%85%89%E6%B9%96/").split("/")

    assert segments[1] == "contents"
    assert all(unquote(unquote(segment)) not in ("", ".", "..") for segment in segments)
    assert query.startswith("ref=")


@pytest.mark.parametrize(
    ("url", "token", "setting"),
    [(None, TOKEN, "forgejo_url"), ("http://127.0.0.1:9/api/v1", None, "forgejo_tools_token")],
)
def test_it_says_which_setting_is_missing(url, token, setting):
    """Tools never hold what the service itself may do: its own token does not stand in."""
    runs = GitForgejoExecutor(url, token, None, lambda: HERE, Operations(url, "own-t0ken"))

    message = runs.unavailable(definition_of("repoGet"))
    outcome = runs.run(call({}, definition_of("repoGet")))

    assert setting in message.zh
    assert setting in message.en
    assert (outcome.state, outcome.reason) == ("failed", "did-not-start")


def test_what_this_instance_lacks_is_said_once_its_document_was_seen(far_side):
    """registration.md: known to our facts, so registered; refused at exec."""
    side = far_side(answer_with(document_of(facts_of(OLDEST))))
    operations = Operations(side.url + "/api/v1")
    runs, newer = executor(side.url, operations=operations), definition_of("repoCompareDiff", basehead="string")
    assert runs.unavailable(newer) is None

    assert operations.refresh()

    assert "repoCompareDiff" in runs.unavailable(newer).zh
    assert "repoCompareDiff" in runs.unavailable(newer).en
    assert runs.run(call({"basehead": "a...b"}, newer)).reason == "did-not-start"
    assert len(side.requests) == 1
    assert runs.unavailable(definition_of("repoGet")) is None


def test_what_nobody_knows_does_not_run():
    """A definition that was registered by a document which is not to be had any more."""
    runs, definition = executor(), definition_of("repoPaint")

    assert "repoPaint" in runs.unavailable(definition).en
    assert "forgejo_operations" in runs.refusal(definition).en
    assert (runs.check(definition, {}), runs.preview(definition, {})) == ([], {})
    assert runs.run(call({}, definition)).reason == "did-not-start"


@pytest.mark.parametrize(
    ("allowed", "operation"),
    [
        (None, "repoGetRunnerRegistrationToken"),
        (None, "repoDelete"),
        (None, "issueCreateIssue"),
        ([], "repoGet"),
        (["issue*"], "repoGet"),
        (["repoGet"], "repoGetContents"),
    ],
)
def test_what_the_operator_does_not_allow_is_refused_and_not_sent(far_side, answering, allowed, operation):
    """X30: with the setting's name."""
    side = far_side(answering(b"{}"))
    runs, definition = executor(side.url, allowed=allowed), definition_of(operation)

    message = runs.refusal(definition)
    outcome = runs.run(call({}, definition))

    assert "forgejo_operations" in message.zh
    assert "forgejo_operations" in message.en
    assert (outcome.state, outcome.reason, side.connections) == ("failed", "did-not-start", 0)


def test_what_the_operator_allows_is_not_refused():
    assert executor(allowed=None).refusal(definition_of("repoGetContents")) is None
    assert executor(allowed=["repo[DE]*"]).refusal(definition_of("repoDelete")) is None


def test_a_document_cannot_make_an_allowed_operation_another_one(far_side):
    """X30: `repoGetContents` is a GET, whatever the instance says."""
    hostile = {"repoGetContents": {"verb": "DELETE", "path": "/repos/{owner}/{repo}", "parameters": []}}
    forge = Forge(far_side, hostile)
    operations = Operations(forge.url)
    assert operations.refresh()
    forge.answer = answer_with(b"[]")

    executor(forge.side.url, allowed=None, operations=operations).run(
        call({"filepath": "a"}, definition_of("repoGetContents"))
    )

    line = forge.side.requests[-1].split(b"\r\n")[0]
    assert line == b"GET /api/v1/repos/%E5%85%89%E6%B9%96/native-repo/contents/a HTTP/1.1"


# What is shown before


def test_what_is_shown_before_is_what_is_sent():
    """http-api.md, Confirmations: verb and URL, secrets hidden already."""
    runs = executor("http://127.0.0.1:9/git")
    base = "http://127.0.0.1:9/git/api/v1/repos/%E5%85%89%E6%B9%96/native-repo"

    assert runs.preview(definition_of("repoGetContents"), {"filepath": "a/b c", "ref": "x"}) == {
        "verb": "GET",
        "url": f"{base}/contents/a/b%20c?ref=x",
    }
    assert runs.preview(definition_of("issueCreateIssue"), {"title": "题", "labels": [1]}) == {
        "verb": "POST",
        "url": f"{base}/issues",
        "body": {"title": "题", "labels": [1]},
    }
    assert runs.preview(definition_of("repoDeleteFile"), {"filepath": "a", "sha": HIDDEN})["body"] == {"sha": HIDDEN}
    assert "body" not in runs.preview(definition_of("issueClearLabels"), {"index": 1})
    assert runs.preview(definition_of("renderMarkdownRaw"), {"body": "# 题"})["body"] == "# 题"


def test_a_file_is_shown_by_its_size_and_hash():
    shown = executor().preview(definition_of("issueCreateIssueAttachment"), {"index": 1, "attachment": MADE_UP["file"]})
    hidden = executor().preview(definition_of("issueCreateIssueAttachment"), {"index": 1, "attachment": HIDDEN})

    assert shown["body"] == {"attachment": {"bytes": len(FILE), "sha256": hashlib.sha256(FILE).hexdigest()}}
    assert hidden["body"] == {"attachment": HIDDEN}


# What an answer means


@pytest.mark.parametrize(
    "content",
    [b'[{"sha": "abc"}]', "<h1>题</h1>".encode(), b"PK\x03\x04\x00\xff\xfe", b"null", b"diff --git a/x b/x\n", b""],
)
def test_an_answer_is_the_output_as_it_came(told, content):
    """U3: JSON, text and archives alike, untouched."""
    outcome = told(answer_with(content, content_type="application/octet-stream"))

    assert (outcome.state, outcome.status, outcome.totals) == ("succeeded", 200, "produced")
    assert outcome.stdout.kept == content
    assert outcome.stdout.sha256 == hashlib.sha256(content).hexdigest()
    assert error_of(outcome) is None


def test_no_content_is_a_success(told):
    """facts/forgejo.md 3.6: many operations answer 204."""
    outcome = told(say(b"HTTP/1.1 204 No Content\r\n\r\n"))

    assert (outcome.state, outcome.status, outcome.stdout.total) == ("succeeded", 204, 0)


def test_an_answer_is_cut_at_the_limit_and_counted_whole(told):
    """U1."""
    outcome = told(answer_with(b"x" * 100_000), keep=1000)

    assert (len(outcome.stdout.kept), outcome.stdout.total, outcome.stdout.truncated) == (1000, 100_000, True)


@pytest.mark.parametrize(
    "status", ["307 Temporary Redirect", "401 Unauthorized", "403 Forbidden", "404 Not Found", "422 X", "500 X"]
)
def test_a_failure_stands_in_output_and_error_in_forgejos_own_words(told, status):
    """R3 and executors.md: the body and the status; a redirect is not followed."""
    body = b'{"message":"token does not have at least one of required scope(s)","url":"/api/swagger"}'
    outcome = told(answer_with(body, status, headers="Location: http://127.0.0.1:1/\r\n"))

    assert (outcome.state, outcome.reason, outcome.status) == ("failed", "far-side-status", int(status[:3]))
    assert outcome.stdout.kept == body
    assert status[:3] in error_of(outcome)
    assert "required scope" in error_of(outcome)
    assert TOKEN not in error_of(outcome)


def test_a_service_that_is_not_there_was_not_asked():
    """R1."""
    outcome = executor(nobody()).run(call({}, definition_of("repoGet")))

    assert (outcome.state, outcome.reason) == ("failed", "did-not-start")
    assert "Connection refused" in error_of(outcome)


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (reset, "lost-answer"),
        (say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), "lost-answer"),
        (say(b"SSH-2.0-OpenSSH\r\n\r\n"), "bad-answer"),
        (answer_with(b"", "502 Bad Gateway"), "lost-answer"),
        (answer_with(b"", "504 Gateway Timeout"), "lost-answer"),
    ],
)
def test_what_may_have_happened_is_unknown_and_not_tried_again(told, behaviour, reason):
    """R1: `told` sees one connection."""
    outcome = told(behaviour)

    assert (outcome.state, outcome.reason) == ("unknown", reason)
    assert error_of(outcome)


def test_a_dripping_answer_ends_at_the_limit(told):
    """R1: the limit is for all of it."""
    began = time.monotonic()
    outcome = told(drip(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"."), timeout_ms=200)

    assert (outcome.state, outcome.reason) == ("unknown", "lost-answer")
    assert outcome.stdout.total > 0
    assert time.monotonic() - began < 1.5


def test_cancelled_before_it_was_sent_it_was_not_sent(far_side, answering):
    side, cancel = far_side(answering(b"{}")), Cancel()
    cancel.ask()

    outcome = executor(side.url).run(call({}, definition_of("repoGet"), cancel=cancel))

    assert (outcome.state, side.requests) == ("cancelled", [])


def test_output_is_heard_as_it_comes(told):
    heard = []
    told(answer_with(b"abc"), on_output=lambda stream, data: heard.append((stream, data)))

    assert b"".join(data for stream, data in heard if stream == "stdout") == b"abc"


@pytest.mark.parametrize(
    ("behaviour", "asks"),
    [
        (answer_with(b"404 page not found\n", "404 Not Found", "text/plain; charset=utf-8"), True),
        (answer_with(b"", "405 Method Not Allowed", "text/plain"), True),
        (answer_with(b'{"message": "GetContents"}', "404 Not Found"), False),
        (answer_with(b"{}"), False),
    ],
)
def test_a_route_that_is_not_there_has_the_document_fetched_sooner(far_side, behaviour, asks):
    """facts/forgejo.md 3.1: a 404 about a thing is JSON, one about a route is text."""
    now = [0.0]
    document = answer_with(document_of(facts_of(NEWEST)))

    def behave(connection, request):
        (document if request.startswith(b"GET /swagger") else behaviour)(connection, request)

    side = far_side(behave)
    operations = Operations(side.url + "/api/v1", clock=lambda: now[0])
    operations.refresh()
    executor(side.url, operations=operations).run(call({"filepath": "a"}, definition_of("repoGetContents")))

    now[0] = 600.0
    operations.refresh()

    assert sum(request.startswith(b"GET /swagger") for request in side.requests) == 1 + asks


def test_defaults_are_sent_and_what_has_no_value_is_left_out(sent):
    """tool-hdlp.md: defaults are filled in before anything is run."""
    schema = {
        "limit": Parameter("integer", default=20),
        "sha": Parameter("string"),
        "stat": Parameter("boolean", default=False),
    }
    parameters, _ = fit(schema, {})

    assert sent("repoGetAllCommits", parameters, schema).query == [("stat", "false"), ("limit", "20")]


def test_the_shipped_example_asks_for_open_issues(sent):
    """tools/repo-issues: what a call without parameters becomes, and one with labels."""
    file = SHIPPED / "repo-issues" / "TOOL.hdlp"
    definition = read_definition(file.read_bytes(), "repo-issues").definition
    schema = dict(definition.params_schema)
    parameters, _ = fit(schema, {"labels": ["bug", "急"]})

    request = sent(definition.method, parameters, schema, allowed=None)

    assert request.path == "/repos/%E5%85%89%E6%B9%96/native-repo/issues"
    assert sorted(request.query) == [
        ("labels", "bug,急"),
        ("limit", "20"),
        ("page", "1"),
        ("state", "open"),
        ("type", "issues"),
    ]
