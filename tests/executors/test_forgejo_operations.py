"""Which operations there are: our own facts, and the instance's document where it can be had (contract/executors.md)."""

import dataclasses
import json
import stat
import threading
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.operations import allows, read_operation, settled, shipped
from service.execution.forgejo_document import MAX_DOCUMENT_BYTES, NotADocument, read_document
from service.execution.operations import DOUBT_S, FILE, FRESH_S, RETRY_S, Operations
from service.store.folder import DataFolder
from tests.harness.far_side import answer_with, drip, nobody, reset, say
from tests.harness.forgejo_document import NEWEST, OLDEST, Forge, document_of, facts_of

PAINT = {
    "repoPaint": {
        "verb": "POST",
        "path": "/repos/{owner}/{repo}/paint",
        "parameters": [{"name": "dry-run", "in": "query", "type": "boolean"}],
        "body": {"colour": {"type": "string", "required": True}},
    }
}


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def forge(far_side):
    return Forge(far_side, facts_of(NEWEST) | PAINT)


@pytest.fixture
def folder(tmp_path):
    folder = DataFolder(tmp_path / "data")
    folder.make()
    return folder


# What our own facts say


def test_our_own_facts_serve_where_no_forge_can_be_reached(clock):
    """R10: all of both versions, with the oldest's route where they differ."""
    operations = Operations(nobody() + "/api/v1", clock=clock)

    assert not operations.refresh()
    assert all(operations.find(name) is not None for version in (OLDEST, NEWEST) for name in facts_of(version))
    assert operations.find("repoGetRunnerRegistrationToken").path == "/repos/{owner}/{repo}/runners/registration-token"
    assert operations.find("repoNoSuchThing") is None
    assert not operations.lacks("repoNoSuchThing")
    assert (operations.facts, operations.revision) == ({}, "")


def test_an_operation_takes_what_either_version_takes():
    releases = settled(shipped()["repoListReleases"]).by_name()
    attachment = settled(shipped()["repoCreateReleaseAttachment"]).by_name()

    assert {"q", "pre_release"} <= set(releases)
    assert (attachment["attachment"].place, attachment["external_url"].place) == ("file", "form")


def test_what_one_version_can_do_without_is_not_needed():
    """7.0.10 wants a login name, 11.0.15 does not."""
    assert settled(shipped()["adminEditUser"]).needed == ("username",)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_each_operation_is_read_whole(version):
    """Nothing that the facts name is lost, and no two things have one name."""
    for name, facts in facts_of(version).items():
        operation = read_operation(name, facts)
        named = {parameter["name"] for parameter in facts["parameters"]} | set(facts.get("body") or {})
        count = len(facts["parameters"]) + len(facts.get("body") or {})

        assert operation.route == (facts["verb"], facts["path"])
        assert {item.sent_as for item in operation.taken} == named, name
        assert len(operation.taken) == len(operation.by_name()) == count, name


# What the instance's document adds


def test_the_document_adds_operations_and_parameters(forge, clock):
    operations = Operations(forge.url, clock=clock)
    forge.describe(facts_of(OLDEST) | PAINT | {"repoGet": _with_query(facts_of(OLDEST)["repoGet"], "lang")})

    assert operations.refresh()

    assert operations.find("repoPaint").route == ("POST", "/repos/{owner}/{repo}/paint")
    assert operations.find("repoPaint").needed == ("colour",)
    assert operations.find("repoGet").by_name()["lang"].place == "query"
    assert operations.lacks("repoCompareDiff")
    assert not operations.lacks("repoGet")


def _with_query(facts, name):
    return facts | {"parameters": [*facts["parameters"], {"name": name, "in": "query", "type": "string"}]}


def test_our_own_verb_and_path_stand_against_the_document(forge, clock):
    """X30: a document that gives `repoGetContents` the verb DELETE and another path changes neither, nor adds a body."""
    hostile = {
        "verb": "DELETE",
        "path": "/repos/{owner}/{repo}/contents/{filepath}/all",
        "parameters": [],
        "body": {"sha": {"type": "string"}},
    }
    operations = Operations(forge.url, clock=clock)
    forge.describe({"repoGetContents": hostile})

    assert operations.refresh()

    found = operations.find("repoGetContents")
    assert found.route == ("GET", "/repos/{owner}/{repo}/contents/{filepath}")
    assert [item.name for item in found.taken] == ["owner", "repo", "filepath", "ref"]
    assert allows(found, None)


def test_the_document_tells_which_of_our_own_routes_it_is(forge, clock):
    operations = Operations(forge.url, clock=clock)
    operations.refresh()

    found = operations.find("repoGetRunnerRegistrationToken")
    assert found.path == "/repos/{owner}/{repo}/actions/runners/registration-token"


def test_a_parameter_that_we_know_stays_where_we_know_it(forge, clock):
    """A document cannot move what a definition was registered with, nor give its name to something else."""
    changed = {
        "verb": "POST",
        "path": "/repos/{owner}/{repo}/issues",
        "parameters": [{"name": "title", "in": "query", "type": "string"}],
        "body": {"title": {"type": "string"}, "colour": {"type": "string"}},
    }
    operations = Operations(forge.url, clock=clock)
    forge.describe({"issueCreateIssue": changed})
    operations.refresh()

    taken = operations.find("issueCreateIssue").by_name()
    assert (taken["title"].place, taken["title"].sent_as) == ("body", "title")
    assert taken["colour"].place == "body"


def test_an_instance_that_hides_its_document_gets_the_services_own_token(forge, clock):
    """facts/forgejo.md 3.6: behind sign-in it is open, but a proxy may think otherwise. Strangers are asked as first."""
    document = document_of(PAINT)

    def guard(connection, request):
        known = b"authorization: bearer own-t0ken" in request.lower()
        (answer_with(document) if known else answer_with(b"{}", "403 Forbidden"))(connection, request)

    forge.answer = guard
    operations = Operations(forge.url, "own-t0ken", clock=clock)

    assert operations.refresh()
    assert operations.find("repoPaint") is not None
    assert [b"authorization" in request.lower() for request in forge.side.requests] == [False, True]


def test_the_document_stands_above_the_api(forge, clock):
    operations = Operations(forge.side.url + "/git/api/v1/", clock=clock)

    assert operations.refresh()
    assert forge.side.requests[0].startswith(b"GET /git/swagger.v1.json HTTP/1.1\r\n")


# When it is fetched, and kept


def test_it_is_fetched_once_an_hour(forge, clock):
    operations = Operations(forge.url, clock=clock)

    assert operations.refresh()
    clock.now += FRESH_S - 1
    assert not operations.refresh()
    assert forge.asked() == 1
    forge.describe(PAINT)
    clock.now += 2
    assert operations.refresh()
    assert forge.asked() == 2


def test_a_document_that_says_the_same_is_no_change(forge, clock):
    operations = Operations(forge.url, clock=clock)
    operations.refresh()
    before = operations.revision
    clock.now += FRESH_S + 1

    assert not operations.refresh()
    assert (forge.asked(), operations.revision) == (2, before)


def test_an_operation_that_is_not_there_has_it_fetched_sooner(forge, clock):
    operations = Operations(forge.url, clock=clock)
    operations.refresh()
    clock.now += DOUBT_S + 1
    assert not operations.refresh()

    assert operations.find("repoNoSuchThing") is None
    operations.refresh()
    assert operations.lacks("repoNoSuchThing")
    operations.refresh()

    assert forge.asked() == 2  # and no sooner than that


def test_a_forge_that_is_away_is_asked_again_after_a_while_and_what_was_seen_stays(forge, clock):
    """R10."""
    operations = Operations(forge.url, clock=clock)
    operations.refresh()
    forge.answer = reset
    clock.now += FRESH_S + 1

    assert not operations.refresh()
    assert not operations.refresh()
    assert operations.find("repoPaint") is not None
    clock.now += RETRY_S + 1
    assert not operations.refresh()
    assert forge.asked() == 3


def test_what_was_seen_outlives_a_restart(forge, folder, clock):
    Operations(forge.url, folder=folder, clock=clock).refresh()
    file = folder.path / FILE

    again = Operations(forge.url, folder=folder, clock=clock)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert again.find("repoPaint").route == ("POST", "/repos/{owner}/{repo}/paint")
    assert again.revision != ""
    assert again.refresh() is False  # asked, and it says the same
    assert forge.asked() == 2


def test_what_another_instance_said_is_not_this_ones(forge, folder, clock):
    Operations(forge.url, folder=folder, clock=clock).refresh()

    assert Operations(nobody() + "/api/v1", folder=folder, clock=clock).find("repoPaint") is None


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"\xff", b'{"source": "%s", "operations": 7}', b'{"source": "%s", "operations": {"repoPaint": {}}}'],
)
def test_a_kept_file_that_cannot_be_read_is_no_trouble(forge, folder, clock, content):
    (folder.path / FILE).write_bytes(content.replace(b"%s", forge.url.encode()))
    operations = Operations(forge.url, folder=folder, clock=clock)

    assert operations.find("repoPaint") is None
    assert operations.find("repoGet") is not None
    assert operations.refresh()


def test_a_folder_that_takes_nothing_costs_only_the_keeping(forge, folder, clock):
    (folder.path / FILE).mkdir()
    operations = Operations(forge.url, folder=folder, clock=clock)

    assert operations.refresh()
    assert operations.find("repoPaint") is not None
    assert [entry.name for entry in folder.path.iterdir()] == [FILE]  # nothing half-written stays


def test_without_an_address_nothing_is_fetched(folder, clock):
    operations = Operations(None, folder=folder, clock=clock)

    assert not operations.refresh()
    assert operations.find("repoGet") is not None


def test_the_end_of_the_service_ends_a_fetch(forge, clock):
    asked = threading.Event()

    def wait(connection, _):
        asked.set()
        connection.recv(1)  # until the other side hangs up

    forge.answer = wait
    operations = Operations(forge.url, clock=clock)
    fetching = threading.Thread(target=operations.refresh)
    fetching.start()
    assert asked.wait(5)

    operations.stop()
    fetching.join(5)

    assert not fetching.is_alive()
    clock.now += RETRY_S + 1
    assert not operations.refresh()
    assert forge.asked() == 1


# A document that is none


@pytest.mark.parametrize(
    "behaviour",
    [
        reset,
        say(b"not HTTP at all\r\n\r\n"),
        answer_with(b"", "302 Found", headers="Location: /user/login\r\n"),
        answer_with(b"404 page not found", "404 Not Found", "text/plain"),
        answer_with(b"", "500 Internal Server Error"),
        answer_with(b"<html>", content_type="text/html"),
        answer_with(b"[" * 100_000),
        answer_with(b'{"swagger": "2.0", "swagger": "2.0"}'),
        answer_with(document_of({})),
        answer_with(document_of(PAINT, swagger="3.0")),
        answer_with(document_of(PAINT, basePath="/api/v2")),
        answer_with(document_of(PAINT, basePath=None)),
        answer_with(document_of(PAINT, paths=[PAINT])),
        answer_with(document_of(PAINT) + b" " * MAX_DOCUMENT_BYTES),
        say(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + document_of(PAINT)),
    ],
)
def test_what_is_no_document_changes_nothing(forge, clock, behaviour):
    """R1: and raises nothing."""
    operations = Operations(forge.url, clock=clock)
    operations.refresh()
    before = operations.revision
    forge.answer = behaviour
    clock.now += FRESH_S + 1

    assert not operations.refresh()
    assert operations.revision == before
    assert forge.asked() == 2


def test_a_dripping_document_is_not_waited_for_beyond_the_limit(forge, clock, monkeypatch):
    monkeypatch.setattr("service.execution.operations.FETCH_S", 0.2)
    forge.answer = drip(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b" ")

    assert not Operations(forge.url, clock=clock).refresh()


@pytest.mark.parametrize(
    "change",
    [
        {"verb": "TRACE"},
        {"path": "/repos/{owner}/{repo}/../../admin"},
        {"path": "//elsewhere.example/x"},
        {"path": "/x?admin=true"},
        {"path": "/x/%2e%2e/y"},
        {"path": "/x/{a b}"},
        {"path": "x"},
        {"path": "/" + "x" * 600},
        {"parameters": [7]},
        {"parameters": [{"in": "query"}]},
        {"parameters": [{"name": ["x"], "in": "query"}]},
        {"parameters": [{"name": "x", "in": "query"}] * 501},
        {"body": {f"p{n}": {"type": "string"} for n in range(600)}},
    ],
)
def test_one_operation_that_cannot_be_read_costs_only_itself(change):
    document = document_of(PAINT | {"repoOdd": PAINT["repoPaint"] | {"path": "/repos/{owner}/{repo}/odd"} | change})

    assert list(read_document(document)) == ["repoPaint"]


@pytest.mark.parametrize("name", ["", "repo-paint", "repo/paint", "x" * 201, "名"])
def test_a_name_that_no_definition_could_write_is_left_out(name):
    assert list(read_document(document_of(PAINT | {name: PAINT["repoPaint"] | {"path": "/x"}}))) == ["repoPaint"]


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ({"type": "string"}, {"*": {"type": "string", "required": False}}),
        ({"$ref": "#/definitions/Loop"}, {"*": {"type": "object", "required": False}}),
        ({"$ref": "#/definitions/Nowhere"}, {"*": {"type": "object", "required": False}}),
        ({"$ref": "https://elsewhere.example/#/definitions/Two"}, {"a": {"type": "string"}}),
        ({"$ref": "#/definitions/Two"}, {"a": {"type": "string"}}),
        (
            {"allOf": [{"$ref": "#/definitions/Two"}, {"properties": {"b": {"$ref": "#/definitions/Word"}}}]},
            {"a": {"type": "string"}, "b": {"type": "string"}},
        ),
        (
            {"required": ["a", 7], "properties": {"a": {"type": "array"}, "b": {}}},
            {"a": {"type": "array", "required": True}, "b": {"type": "object"}},
        ),
    ],
)
def test_a_bodys_properties_are_found_behind_references(schema, body):
    document = json.loads(document_of(PAINT))
    document["paths"]["/repos/{owner}/{repo}/paint"]["post"]["parameters"] = [{"in": "body", "schema": schema}]
    document["definitions"] = {
        "Loop": {"$ref": "#/definitions/Loop"},
        "Two": {"$ref": "#/definitions/One"},
        "One": {"type": "object", "properties": {"a": {"type": "string"}}},
        "Word": {"type": "string", "enum": ["x"]},
    }

    assert read_document(json.dumps(document).encode())["repoPaint"]["body"] == body


def test_too_many_operations_are_no_document():
    many = {f"op{n}": PAINT["repoPaint"] | {"path": f"/x{n}"} for n in range(2001)}

    with pytest.raises(NotADocument, match="too many"):
        read_document(document_of(many))


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_a_forges_whole_document_is_read_as_the_shipped_facts_have_it(version):
    """The shipped files were made from such documents."""
    facts, read = facts_of(version), read_document(document_of(facts_of(version)))

    assert set(read) == set(facts)
    for name in facts:
        own, seen = read_operation(name, facts[name]), read_operation(name, read[name])
        assert dataclasses.replace(seen, produces=own.produces) == own


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["2.0", "query", "#/definitions/X"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "operationId",
                    "parameters",
                    "get",
                    "post",
                    "name",
                    "in",
                    "schema",
                    "$ref",
                    "properties",
                    "allOf",
                    "/x",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@given(paths=json_values, definitions=json_values)
def test_nothing_that_a_document_says_raises(paths, definitions):
    content = document_of({}, paths=paths, definitions=definitions)

    try:
        read = read_document(content)
    except NotADocument:
        return
    assert all(read_operation(name, facts).name == name for name, facts in read.items())


# What the operator allows

CREDENTIALS = ("token", "hook", "key", "secret", "variable", "runner")
READING = ("repo*", "issue*", "GetTree", "GetBlob", "userGetCurrent", "orgGet*")


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_reading_is_allowed_unless_told_otherwise_but_nothing_about_credentials(version):
    """executors.md, git-forgejo; X30: over every operation there is."""
    for name, facts in facts_of(version).items():
        about = (name + facts["path"]).lower()
        expected = (
            facts["verb"] == "GET"
            and any(fnmatchcase(name, glob) for glob in READING)
            and not any(word in about for word in CREDENTIALS)
        )

        assert allows(settled(shipped()[name], read_operation(name, facts)), None) == expected, name


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("repoGetContents", True),
        ("repoGetAllCommits", True),
        ("issueListIssues", True),
        ("GetTree", True),
        ("GetBlob", True),
        ("userGetCurrent", True),
        ("orgGet", True),
        ("repoGetRunnerRegistrationToken", False),
        ("orgGetRunnerRegistrationToken", False),
        ("repoListHooks", False),
        ("repoGetGitHook", False),
        ("repoListKeys", False),
        ("repoGetKey", False),
        ("userCurrentListKeys", False),
        ("repoListActionsSecrets", False),
        ("orgGetHook", False),
        ("getRepoVariable", False),
        ("userGetTokens", False),
        ("adminSearchUsers", False),
        ("GetAnnotatedTag", False),
        ("repoCreateFile", False),
        ("repoDelete", False),
        ("issueCreateIssue", False),
    ],
)
def test_the_default_by_example(name, allowed):
    assert allows(settled(shipped()[name]), None) is allowed


@pytest.mark.parametrize(
    ("globs", "name", "allowed"),
    [
        ([], "repoGet", False),
        (["repo*"], "repoDelete", True),
        (["repoGet"], "repoGetContents", False),
        (["repoget"], "repoGet", False),
        (["issue[CE]*"], "issueCreateIssue", True),
        (["Get?ree", "x"], "GetTree", True),
        (["*"], "repoGetRunnerRegistrationToken", True),
        (["*"], "adminDeleteUser", True),
    ],
)
def test_the_operators_globs_are_matched_on_the_whole_name(globs, name, allowed):
    """They say all of it: nothing of the default is added."""
    assert allows(settled(shipped()[name]), globs) is allowed
