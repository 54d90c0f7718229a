"""Encodings, control and invisible characters, full-width punctuation, tabs (cases.md Y7 to Y16)."""

import pytest

from tests.definitions.written import SEED, changed, codes, only, read, read_changed


@pytest.mark.parametrize(
    ("old", "new", "line", "point"),
    [
        ("name: ", "name： ", 1, "U+FF1A"),
        ("display: ", "display：", 2, "U+FF1A"),
        (
            "  timeout_ms: 30000\n  max_output_bytes: 65536\n  require_confirm: false",
            "  timeout_ms： 30000",
            10,
            "U+FF1A",
        ),
        ("{ type: string, required: true", "{ type： string, required: true", 7, "U+FF1A"),
        ("type: string, required: true", "type: string， required: true", 7, "U+FF0C"),
        ("  timeout_ms", "\u3000timeout_ms", 10, "U+3000"),
        ("cmd: { type: string", "cmd: { type: “string”", 7, "U+201C"),
        ("timeout_ms: 30000", "timeout_ms: ３００００", 10, None),
    ],
)
def test_full_width_punctuation_where_yaml_wants_its_own_is_named(old, new, line, point):
    """Y7, Y8: the hint says which character stands where, also when the text is no YAML any more."""
    reading = read_changed((old, new))

    hint = next(problem for problem in reading.problems if problem.code == "full-width")
    assert abs(hint.line - line) <= (1 if "\n" in old else 0)
    assert point is None or point in hint.en
    assert reading.definition is None


def test_a_whole_file_with_full_width_colons_says_so_for_its_lines():
    """Y7: YAML reads it as one single text."""
    reading = read(SEED.replace(": ", "：").replace(":\n", "：\n"))

    assert codes(reading)[:3] == ["full-width"] * 3 or "full-width" in codes(reading)
    assert {problem.line for problem in reading.problems if problem.code == "full-width"} >= {1, 2, 3}


def test_full_width_punctuation_inside_a_text_is_ordinary():
    reading = read_changed(("why: 铸渊", "why: “引号”，冒号：；全角\u3000空格。铸渊"))

    assert reading.problems == ()
    assert "“引号”，冒号：" in reading.definition.why


def test_a_full_width_comma_in_a_flow_list_is_a_warning():
    """`[a，b]` is one item, and hardly meant so."""
    reading = read(SEED + "examples: [查日志，看日志]\n")

    assert reading.problems == ()
    assert [(warning.code, warning.line) for warning in reading.warnings] == [("full-width", 16)]


def test_a_byte_order_mark_at_the_start_is_accepted_and_noted():
    """Y10."""
    reading = read("\ufeff" + SEED)

    assert reading.definition == read(SEED).definition
    assert [warning.code for warning in reading.warnings] == ["byte-order-mark"]


def test_a_byte_order_mark_inside_is_a_problem():
    """Y10: parsers differ about it."""
    reading = read_changed(("author", "\ufeffauthor"))

    assert reading.problems[0].code == "byte-order-mark"
    assert reading.problems[0].line == 13


@pytest.mark.parametrize("encoding", ["gbk", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_file_in_another_encoding_is_called_by_its_name(encoding):
    """Y12."""
    problem = only(read(SEED.encode(encoding)))

    assert problem.code == "not-utf-8"
    assert encoding.upper().split("-", 1)[0] in problem.en.upper()


def test_bytes_that_are_no_known_encoding_are_named_with_their_line():
    """Y12."""
    problem = only(read(SEED.encode() + b"# \xff\n"))

    assert (problem.code, problem.line, problem.column) == ("not-utf-8", 16, 3)
    assert "0xFF" in problem.en


@pytest.mark.parametrize("character", ["\0", "\x1b", "\x7f", "\x9b", "\x85", "\u2028", "\u2029", "\ufffe"])
@pytest.mark.parametrize("place", ["Shell命令执行", "why: "])
def test_control_characters_are_a_problem_where_they_stand(character, place):
    """Y13."""
    reading = read(changed((place, place[:3] + character + place[3:])))

    problem = only(reading)
    assert problem.code == "control-character"
    assert f"U+{ord(character):04X}" in problem.en
    assert problem.line in (2, 15)


@pytest.mark.parametrize("escape", [r"\x1b[31m", r"\0", r"a\u202eb", r"a\u200bb", r"a\rb", r"\U000E0041"])
@pytest.mark.parametrize(
    "field", ["display: Shell命令执行", "why: 铸渊需要通过gatekeeper执行服务器命令。这是所有系统操作的基础工具。"]
)
def test_control_characters_are_a_problem_when_escaped_too(escape, field):
    """Y14, Y16."""
    problem = only(read_changed((field, f'{field.split(":")[0]}: "x{escape}y"')))

    assert problem.code in ("control-character", "invisible-character")
    assert problem.field == field.split(":")[0]


def test_newline_and_tab_may_stand_in_a_text():
    """Y14: and nowhere in the fields of one line."""
    reading = read_changed(("display: Shell命令执行", 'display: "a\\n\\tb"'))

    assert reading.definition.display == "a\n\tb"
    assert only(read_changed(("author: ICE-GL-ZY001", 'author: "a\\nb"'))).code == "control-character"


@pytest.mark.parametrize(
    "character", ["\u202e", "\u2066", "\u200b", "\u200d", "\u00ad", "\U000e0041", "\ufe0f", "\U000e0100", "\u3164"]
)
@pytest.mark.parametrize(("old", "line"), [("执行", 2), ("type", 7), ("created", 14)])
def test_invisible_characters_are_a_problem_in_texts_and_keys(character, old, line):
    """Y16: the code point and the line are named."""
    reading = read_changed((old, old[0] + character + old[1:]))

    named = [problem for problem in reading.problems if problem.code == "invisible-character"]
    assert [problem.line for problem in named] == [line]
    assert f"U+{ord(character):04X}" in named[0].zh


def test_invisible_characters_are_a_problem_in_comments():
    """Y16: what a reviewer reads must be what is registered."""
    problem = only(read(SEED + "# 没有\u202e恶意\n"))

    assert (problem.code, problem.line) == ("invisible-character", 16)


@pytest.mark.parametrize(
    "emoji", ["👩\u200d💻", "⚠\ufe0f", "1\ufe0f\u20e3", "❤\ufe0f\u200d🔥", "👩🏽\u200d🚀", "🏳\ufe0f\u200d🌈"]
)
def test_joiners_inside_an_emoji_are_part_of_it(emoji):
    """Y16."""
    assert read_changed(("display: Shell", f"display: {emoji}Shell")).problems == ()


def test_carriage_returns_alone_are_a_problem():
    """Y13: an old editor's file has nothing else wrong, and says it once."""
    assert only(read(SEED.replace("\n", "\r"))).code == "control-character"


def test_line_endings_of_windows_are_accepted():
    assert read(SEED.replace("\n", "\r\n")).definition == read(SEED).definition


@pytest.mark.parametrize(
    "text",
    [changed(("  timeout_ms", "\ttimeout_ms")), changed(("name: ", "name:\t")), changed(("exec\n", "exec\t# a\n"))],
)
def test_a_tab_as_indentation_or_space_is_a_problem(text):
    assert codes(read(text)) == ["tab"]


def test_a_tab_in_a_comment_or_a_block_text_is_not():
    assert read(SEED.replace("why: ", "why: |  # a\tb\n  x\ty\n  \tz\n  ")).problems == ()
