"""The published JSON Schema: what editors say agrees with what registration does (contract/tool-hdlp.md)."""

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from service.intake.definitions.schema import tool_schema
from tests.definitions.written import CWD, SEED, changed, read, tool

TOOLS = sorted((Path(__file__).parent.parent / "data" / "native-repo" / "tools").glob("*/TOOL.hdlp"))


class EditorsLoader(yaml.SafeLoader):
    """YAML 1.2's core types, as editors' plugins read them: no dates, and true and false alone are booleans."""


EditorsLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(("timestamp", "bool"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
EditorsLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))


def valid(text: str) -> bool:
    validator = jsonschema.Draft202012Validator(tool_schema())
    return validator.is_valid(yaml.load(text, Loader=EditorsLoader))  # noqa: S506 - a SafeLoader


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(tool_schema())


def test_every_field_is_described_in_both_languages():
    for name, shape in tool_schema()["properties"].items():
        assert shape["description"].isascii() is False, name
        assert any(word.isascii() and word.isalpha() for word in shape["description"].split()), name


@pytest.mark.parametrize("file", TOOLS, ids=lambda file: file.parent.name)
def test_every_valid_file_passes(file):
    assert valid(file.read_text(encoding="utf-8-sig"))


def test_the_seeds_example_passes():
    assert valid(SEED)
    assert valid(SEED + "x-schedule: daily\ncommand: [head, -n, 5, '{cmd}']\n")
    assert valid(tool("hldp-api", "GET /personas/{id}/timeline", "{ id: { type: string, required: true } }"))


@pytest.mark.parametrize(
    "text",
    [
        SEED.replace("intent", "intnt"),
        SEED + "extra: 1\n",
        changed(("name: shell-exec", "name: -rf")),
        changed(("name: shell-exec", "name: con")),
        changed(("executor: gatekeeper", "executor: bash")),
        changed(("timeout_ms: 30000", 'timeout_ms: "30000"')),
        changed(("timeout_ms: 30000", "timeout_ms: 0")),
        changed(("require_confirm: false", "require_confirm: no")),
        changed(("timeout_ms", "timout_ms")),
        changed(("2026-05-31", "2026-13-31")),
        changed((CWD, "string")),
        changed((CWD, "{ required: true }")),
        changed((CWD, "{ type: text }")),
        changed((CWD, "{ type: string, minimum: 1 }")),
        changed((CWD, "{ type: integer, default: x }")),
        changed((CWD, "{ type: string, secret: true, default: x }")),
        changed((CWD, "{ type: string, enum: [] }")),
        changed(("cwd:", "c-wd:")),
        SEED + "command: a b\n",
        SEED + "effect: none\n",
        tool("shell", "execute"),
        tool("hlpd-api", "get /x"),
        tool("hlpd-api", "getX", "{}", "command: [a]\n"),
        changed(("display: Shell命令执行", "display: ''")),
    ],
)
def test_what_registration_rejects_the_schema_rejects_too(text):
    assert read(text).problems
    assert not valid(text)
