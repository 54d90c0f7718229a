"""Both parsers give the same answers, so that a host without libyaml registers the same tools (contract/tool-hdlp.md)."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from service.intake.definitions.yaml_parsers import PARSER, PythonParser
from tests.definitions.written import SEED, changed, read, tool

TOOLS = sorted((Path(__file__).parent.parent / "data" / "native-repo" / "tools").glob("*/TOOL.hdlp"))

STRANGE = [
    "",
    "# a\n",
    "a",
    "- a\n",
    SEED + "---\n" + SEED,
    SEED + "why: a\n",
    "a: &x [*x]\n",
    "<<: {}\n",
    "!!str a: b\n",
    "? [a]\n: b\n",
    "a: {b: [c, {d: e}]}\n",
    "a: [b?c, http://d?e=f]\n",
    "a: [b:c]\n",
    "a: [b:]\n",
    "a: {b:? c}\n",
    "a: b: c\n",
    "a:\n\tb: c\n",
    "a: |\n  \tb\n",
    "a: |2\n   b\n",
    "a: >-\n  b\n\n  c\n",
    "a: 'b\n  c'\n",
    'a: "b\\\n  c\\u4e2d"\n',
    'a: "\\q"\n',
    'a: "\\ud800"\n',
    "a: @b\n",
    "a: `b\n",
    "a: %b\n",
    "%YAML 1.1\n---\na: b\n",
    "%TAG ! x\n---\na: b\n",
    "a: b\n...\n",
    "a: b\n...\nc\n",
    "[" * 50,
    "a： b\n",
    "a: b\n c： d\n",
    "\u3000a: b\n",
    "a: b #c\n",
    "a: b#c\n",
    "a: 'b",
    'a: "b',
    "a: {b",
    "a: [b",
    "a: }\n",
    "- a\nb: c\n",
    "a:\n- b\n- c\n",
    "a:\n  - b\n - c\n",
    "a: *\n",
    "a: &\n",
    "a: !\n",
    "key" + "x" * 2000 + ": a\n",
    "? a\n? b\n",
    ": a\n",
    "a: b\rc: d\n",
    "--- a\n",
    "a: ---\n",
    "---a: b\n",
    '"a": b\n',
    "{a: b}\n",
    "{a: b,}\n",
    "{a, b}\n",
    "[a,,b]\n",
    "a: - b\n",
    "a: ? b\n",
    "- - - a\n",
    SEED.replace("string, ", "string， "),
    SEED.replace("'", '"'),
    SEED.replace("  ", "\t"),
    SEED.replace("\n", "\r\n"),
    changed(("type: string", "type: string, pattern: ^https?://[^?]+$")),
    tool("shell", "run", "{}", "command: [a?b, 'c', d:e]\n"),
]


def answers(content: bytes, folder: str, parser) -> tuple:
    reading = read(content, folder, parser=parser)
    return reading.definition, bool(reading.problems), reading.warnings if reading.definition else ()


def test_libyaml_is_used_where_it_is():
    assert PARSER is (yaml.CSafeLoader if yaml.__with_libyaml__ else PythonParser)


@pytest.mark.parametrize("file", TOOLS, ids=lambda file: file.parent.name)
def test_both_parsers_read_the_sample_repository_alike(file):
    content, folder = file.read_bytes(), file.parent.name

    assert answers(content, folder, PARSER) == answers(content, folder, PythonParser)


@pytest.mark.parametrize("text", STRANGE)
def test_both_parsers_answer_strange_files_alike(text):
    """The same lines as well, for all but escapes of surrogates and what follows a tab."""
    c, python = read(text, parser=PARSER), read(text, parser=PythonParser)

    assert (c.definition, bool(c.problems)) == (python.definition, bool(python.problems))
    assert [problem.code for problem in c.problems][:1] == [problem.code for problem in python.problems][
        :1
    ] or "\\ud800" in text


@settings(max_examples=150)
@given(
    st.integers(0, len(SEED)),
    st.sampled_from([*"{}[],:?-|>'\"#&*!%@` \n", "\t", "：", "\\", "- ", ": ", "---\n"]),
    st.integers(0, 3),
)
def test_one_edit_of_a_good_file_is_answered_alike(place, piece, cut):
    text = SEED[:place] + piece + SEED[place + cut :]

    assert answers(text.encode(), "shell-exec", PARSER) == answers(text.encode(), "shell-exec", PythonParser)


@pytest.mark.parametrize(
    "bomb", ["[" * 60_000, "{" * 60_000, "? " * 30_000, "- " * 30_000, "[a, " * 15_000, "{a: " * 15_000]
)
def test_a_bomb_is_refused_by_both(bomb):
    """Y22."""
    for parser in (PARSER, PythonParser):
        assert [problem.code for problem in read(bomb, parser=parser).problems] == ["too-deep"]
