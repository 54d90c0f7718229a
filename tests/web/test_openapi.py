"""The OpenAPI document itself: valid, complete, and true of its own examples."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from service import errors
from service.domain.audit import TYPES
from service.web.openapi import described, document, key_of
from service.web.server import ROUTES
from tests.web.openapi import Described

PUBLIC_URL = "https://bitong.example/desk"
SERVICE = Path(__file__).parents[2] / "service"
SIX = ["ok", "tool", "method", "output", "error", "duration_ms"]

# contract/http-api.md, "What the lists hold".
LISTS = {
    "Tool": "name display intent method executor params_schema constraints effect deprecated author why definition "
    "behind warnings",
    "RegisteredDefinition": "version commit tree blob sha256 author why created git_author pusher registered_at",
    # `same_meaning` is more than the contract names.
    "Version": "version state commit tree blob sha256 author why created git_author git_committed_at pusher registered_at "
    "same_meaning",
    "Run": "id state reason ok tool method version commit actor started_at ended_at duration_ms exit_code error "
    "output_bytes stderr_bytes match_id confirmation_id receipt",
    "Rejection": "path tool commit pusher at problems current",
    "DefinitionProblem": "line column field code zh en",
    "Delivery": "id received_at event ref repository pusher body_sha256 count outcome reason registered removed rejected",
    "Confirmation": "id state tool version commit sha256 params params_digest preview actor asked_at expires_at "
    "answered_by answered_at reason self",
    "AuditEntry": "index type at actor leaf facts",
    "ExecRun": "id state reason exit_code signal status stderr output_bytes output_sha256 stderr_bytes stderr_sha256 "
    "truncated totals output_url stderr_url notes",
    "RanDefinition": "version commit tree blob sha256 author why created git_author pusher",
    "Receipt": "index leaf checkpoint",
    "Candidate": "tool display intent score confidence matched params_schema constraints effect deprecated definition",
    "ConfirmationAsked": "id expires_at tool version commit sha256 params_digest display why preview",
    "InclusionProof": "index size leaf path",
    "ConsistencyProof": "from to path",
}


@pytest.fixture(scope="module")
def api() -> Described:
    return Described(document(PUBLIC_URL))


def test_the_document_is_valid(api: Described) -> None:
    """OpenAPI 3.1, by a validator that is not ours."""
    validate(api.document)

    assert api.document["openapi"].startswith("3.1.")
    assert api.document["servers"] == [{"url": PUBLIC_URL}]


def test_the_document_lists_exactly_the_routes_of_the_table(api: Described) -> None:
    """Neither lacks what the other has; words for a route that is gone are a mistake too."""
    routes = {(route.method, route.path) for route in ROUTES}
    others = {("*", path) for path, verbs in api.document["paths"].items() if "x-other-methods" in verbs}

    assert {*api.operations()} | others == routes
    assert described().keys() == {key_of(route) for route in ROUTES}


def test_each_operation_says_who_may_ask(api: Described) -> None:
    """The rights are the table's, as `x-access` and as scopes of which one suffices."""
    words = {"open": [], "signed": [], "metrics": ["read"]}
    for route in ROUTES:
        if route.method == "*":
            continue
        operation = api.operations()[route.method, route.path]
        scopes = [scope for way in operation["security"] for scope in way.get("bearerAuth", [])]

        assert operation["x-access"] == list(route.access)
        assert scopes == words.get(route.access[0], list(route.access))
        assert ("403" in operation["responses"]) == bool(scopes)


def test_each_operation_is_told_in_both_languages(api: Described) -> None:
    """People here read Chinese, programmers elsewhere English."""
    for key, operation in api.operations().items():
        assert re.search(r"[\u4e00-\u9fff]", operation["description"]), key
        assert re.search(r"[A-Za-z]{2}", operation["summary"]), key


def test_every_operation_has_a_good_answer(api: Described) -> None:
    """A client made from the document knows what it gets."""
    for route in ROUTES:
        if route.method == "*":
            continue
        operation = api.operations()[route.method, route.path]

        assert any(status.startswith("2") for status in operation["responses"]), route.path


def test_the_slots_of_a_path_are_its_parameters(api: Described) -> None:
    """And nothing is named twice."""
    for (method, path), operation in api.operations().items():
        parameters = [(one["in"], one["name"]) for one in operation.get("parameters", [])]

        assert [name for place, name in parameters if place == "path"] == re.findall(r"{(\w+)}", path), method
        assert len(set(parameters)) == len(parameters)


@pytest.mark.parametrize("name", LISTS)
def test_an_item_has_the_fields_of_the_contract(api: Described, name: str) -> None:
    """Exactly these, all of them always there (contract/http-api.md, What the lists hold)."""
    shape = api.document["components"]["schemas"][name]

    assert sorted(shape["required"]) == sorted(LISTS[name].split())
    assert shape["additionalProperties"] is False


@pytest.mark.parametrize("name", ["ExecEnded", "ExecAccepted", "ExecUnknown", "ExecRefused"])
def test_every_answer_of_exec_has_the_seeds_six_fields_first(api: Described, name: str) -> None:
    """Seed §2, step 5: in this order, and first."""
    shape = api.document["components"]["schemas"][name]

    assert list(shape["properties"])[:6] == SIX
    assert shape["required"][:6] == SIX


def test_every_example_fits_its_schema(api: Described) -> None:
    """What people copy works."""
    seen = 0
    for content in contents(api.document):
        for name, example in content.get("examples", {}).items():
            assert api.unfit(content["schema"], example["value"]) == [], name
            seen += 1

    assert seen > len(ROUTES)


def contents(shape: Any) -> list[dict[str, Any]]:
    """Every body that the document describes, whether asked or answered."""
    if isinstance(shape, list):
        return [found for item in shape for found in contents(item)]
    if not isinstance(shape, dict):
        return []
    here = list(shape["content"].values()) if isinstance(shape.get("content"), dict) else []
    return here + [found for key, item in shape.items() if key != "examples" for found in contents(item)]


def test_every_built_json_answer_has_an_example(api: Described) -> None:
    """A schema alone is slow to read."""
    for (method, path), operation in api.operations().items():
        if path.endswith((".json", "/schema")):
            continue
        for status, response in operation["responses"].items():
            content = api.follow(response).get("content", {})
            if status in {"default", "202"} or not any(media.endswith("json") for media in content):
                continue
            assert any("examples" in body for body in content.values()), (method, path, status)


def test_each_type_of_entry_has_its_facts(api: Described) -> None:
    """contract/audit.md lists the types; each leads to one shape of facts."""
    schemas = api.document["components"]["schemas"]
    mapping = schemas["AuditEntry"]["discriminator"]["mapping"]

    assert mapping.keys() == set(TYPES)
    for kind, where in mapping.items():
        named = api.follow({"$ref": where})["properties"]["type"]
        assert kind in named.get("enum", [named.get("const")])


def test_each_stable_code_is_in_the_list(api: Described) -> None:
    """Programs decide by codes: one that the source raises and the list lacks would be unknown to them."""
    listed = set(api.document["components"]["schemas"]["ErrorCode"]["enum"])
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.BitongError)]
    own = {kind.code for kind in kinds if kind is not errors.UsageError}
    places = [
        *(SERVICE / "web").rglob("*.py"),
        *(SERVICE / "execution").glob("*.py"),
        SERVICE / "intake" / "receive.py",
    ]
    raised = {code for place in places for code in codes_in(place, {kind.__name__ for kind in kinds})}

    assert (own | raised) - listed == set()


def codes_in(place: Path, kinds: set[str]) -> set[str]:
    """`code="…"` of every error made in one file, and the second argument of `problem(…)`."""
    found = set()
    for node in ast.walk(ast.parse(place.read_bytes())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        given = [word.value for word in node.keywords if word.arg == "code"] if node.func.id in kinds else []
        given += node.args[1:2] if node.func.id == "problem" else []
        found |= {value.value for value in given if isinstance(value, ast.Constant) and isinstance(value.value, str)}
    return found
