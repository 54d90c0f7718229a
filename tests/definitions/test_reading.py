"""Bytes of one TOOL.hdlp to a Definition or problems (contract/tool-hdlp.md, cases.md Y1 to Y34)."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.domain.definitions import MAX_FILE_BYTES, Constraints, Definition, Reading
from tests.definitions.written import CWD, SEED, changed, codes, only, read, read_changed, tool

TOOLS = sorted((Path(__file__).parent.parent / "data" / "native-repo" / "tools").iterdir())


def test_the_seeds_example_is_valid_verbatim():
    """Seed §7 gives it; whoever copies it must not meet a problem."""
    reading = read(SEED)

    assert reading.problems == ()
    assert reading.warnings == ()
    assert reading.definition.name == "shell-exec"
    assert reading.definition.constraints == Constraints(30_000, 65_536, require_confirm=False)
    assert reading.definition.params_schema["cmd"].required
    assert reading.definition.params_schema["cwd"].description == "工作目录"


@pytest.mark.parametrize("folder", TOOLS, ids=lambda folder: folder.name)
def test_every_file_of_the_sample_repository_is_valid(folder):
    """120 files written as people write them."""
    reading = read((folder / "TOOL.hdlp").read_bytes(), folder.name)

    assert reading.problems == ()
    assert Reading.from_json(json.loads(json.dumps(reading.as_json()))).definition == reading.definition


def test_a_key_twice_is_a_problem_that_names_both_lines():
    """Y1."""
    problem = only(read(SEED + "why: 另一个\n"))

    assert (problem.code, problem.line) == ("duplicate-key", 16)
    assert "15" in problem.en
    assert "16" in problem.en


@pytest.mark.parametrize("word", ["no", "on", "Yes", "y", '"false"', "False", "0", "~"])
def test_a_boolean_is_true_or_false_and_no_other_word(word):
    """Y2."""
    problem = only(read_changed(("require_confirm: false", f"require_confirm: {word}")))

    assert (problem.code, problem.field, problem.line) == ("wrong-type", "constraints.require_confirm", 12)


@pytest.mark.parametrize(
    "word", ["no", "on", "Yes", "y", "1.10", "0755", "0123456", "1:30", "2026-05-31", ".nan", "0x10"]
)
def test_a_scalar_stays_text_where_its_field_is_text(word):
    """Y2, Y6: nothing that looks like something else becomes it."""
    reading = read_changed(("display: Shell命令执行", f"display: {word}"))

    assert reading.definition.display == word


def test_a_date_is_kept_as_it_was_written():
    """Y3."""
    reading = read(SEED)

    assert reading.definition.created == "2026-05-31"
    assert json.dumps(reading.definition.as_json())


@pytest.mark.parametrize(
    ("written", "hint"), [("2026-02-30", "no day"), ("2026年5月31日", "2026-05-31"), ("2026/5/31", "2026-05-31")]
)
def test_a_day_that_does_not_exist_or_another_form_is_a_problem(written, hint):
    """Y4."""
    problem = only(read_changed(("2026-05-31", written)))

    assert (problem.code, problem.line, problem.column) == ("bad-date", 14, 10)
    assert hint in problem.en


@pytest.mark.parametrize(
    "written", ["1:30", "1_000", "0x10", "+5", '"30000"', "30000.0", "3e4", "030", ".inf", "1.e+400", "9" * 5000]
)
def test_a_number_is_a_plain_one_in_the_grammar_of_json(written):
    """Y5, Y20, Y34."""
    problem = only(read_changed(("timeout_ms: 30000", f"timeout_ms: {written}")))

    assert (problem.code, problem.field, problem.line) == ("wrong-type", "constraints.timeout_ms", 10)


@pytest.mark.parametrize("written", ["1.e+400", "1e400", ".nan", ".inf", "-.inf", "0b1"])
def test_bounds_are_finite_numbers(written):
    """Y20."""
    problem = only(read_changed((CWD, f"{{ type: number, maximum: {written} }}"), ("cwd", "limit")))

    assert (problem.code, problem.field) == ("wrong-type", "params_schema.limit.maximum")


@pytest.mark.parametrize(
    ("field", "value"), [("timeout_ms", 0), ("timeout_ms", 3_600_001), ("max_output_bytes", 16_777_217)]
)
def test_a_limit_beyond_its_range_is_a_problem(field, value):
    reading = read_changed(("timeout_ms: 30000\n  max_output_bytes: 65536", f"{field}: {value}"))

    assert only(reading).code == "out-of-range"


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


def test_an_anchor_is_a_problem_and_its_alias_another():
    """Y17: the first anchor is named; nothing is expanded."""
    bomb = "x-a: &a [1, 1]\n" + "".join(f"x-{n}: &b{n} [*a, *a, *a]\n" for n in range(50))
    reading = read(SEED + bomb)

    assert (reading.problems[0].code, reading.problems[0].line) == ("anchor", 16)
    assert set(codes(reading)) <= {"anchor", "alias", "too-many-problems"}


def test_a_value_that_holds_itself_is_a_problem():
    """Y17: `&a [*a]`."""
    assert codes(read(SEED + "x-a: &a [*a]\n")) == ["anchor", "alias"]


def test_a_merge_key_is_a_problem():
    """Y18."""
    problem = only(read_changed(("  timeout_ms: 30000", "  <<: { timeout_ms: 1 }")))

    assert (problem.code, problem.line) == ("merge-key", 10)


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object:os.system x",
        "!Ref x",
        "!!binary zz",
        "!!int abc",
        "!!float ''",
        "!!bool maybe",
        "!!timestamp x",
        "!!str x",
        "! x",
    ],
)
def test_a_tag_is_a_problem_whatever_it_names(value):
    """Y19."""
    problem = read_changed(("display: Shell命令执行", f"display: {value}")).problems[0]

    assert (problem.code, problem.line) == ("tag", 2)


@pytest.mark.parametrize(
    "bomb",
    [
        "[" * 2000,
        "[" * 60_000,
        "{a: " * 2000,
        "? " * 3000,
        "- " * 900,
        "\n" + "".join(" " * n + "a:\n" for n in range(300)),
    ],
)
def test_depth_is_refused_at_once(bomb):
    """Y22: at most 50 ms, and no recursion of the parser's or ours."""
    started = time.perf_counter()
    reading = read(bomb)
    took = time.perf_counter() - started

    assert codes(reading) == ["too-deep"]
    assert took < 0.05


def test_too_many_nodes_are_a_problem():
    """Y22."""
    started = time.perf_counter()
    reading = read(SEED + "x-a:\n" + "- a\n" * 15_000)
    took = time.perf_counter() - started

    assert codes(reading) == ["too-many-nodes"]
    assert took < 0.05


def test_one_byte_above_the_cap_is_refused():
    """Y23: the size alone says no."""
    full = SEED + "#" * (MAX_FILE_BYTES - len(SEED.encode()))

    assert read(full).problems == ()
    assert only(read(full + "#")).code == "too-large"


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("", "empty-file", "file is empty"),
        ("# 注释\n\n", "empty-file", "file is empty"),
        ("---\n", "empty-file", "document is empty"),
        ("hello", "not-a-mapping", "a text"),
        ("- a\n- b\n", "not-a-mapping", "a list"),
        (SEED + "---\n" + SEED, "second-document", "one document"),
        ("%YAML 1.1\n---\n" + SEED, "directive", "Directives"),
    ],
)
def test_a_file_that_is_no_mapping_has_a_message_of_its_own(text, code, word):
    """Y24."""
    problem = only(read(text))

    assert problem.code == code
    assert word in problem.en


def test_a_document_may_be_marked_with_its_dashes_and_dots():
    assert read("---\n" + SEED + "...\n").problems == ()


@pytest.mark.parametrize(
    ("old", "new", "suggested"),
    [
        ("  timeout_ms", "  timout_ms", "timeout_ms"),
        ("  timeout_ms", "  timeout", "timeout_ms"),
        ("intent", "intnt", "intent"),
        ("name", "名称", "name"),
        ("params_schema", "params", "params_schema"),
        ("required", "requird", "required"),
        ("description", "d\u0435scription", "description"),
    ],
)
def test_an_unknown_field_is_a_problem_with_a_suggestion(old, new, suggested):
    """Y26: and the field it stands for is not reported as missing too."""
    problem = only(read_changed((old, new)))

    assert problem.code == "unknown-field"
    assert f"did you mean {suggested}?" in problem.en


def test_own_keys_are_ignored_at_every_level():
    text = SEED.replace("  cmd: {", "  x-note: hi\n  cmd: { x-a: [1],").replace(
        "  timeout_ms", "  x-b: {c: d}\n  timeout_ms"
    )

    assert read(text + "x-schedule: daily\n").definition == read(SEED).definition


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("name: shell-exec", "name: shell-exec\ncommand: a b", "command"),
        ("name: shell-exec", "name: shell-exec\nexamples: a, b", "examples"),
        (CWD, "string", "params_schema.cwd"),
        ("display: Shell命令执行", "display: [Shell, 命令]", "display"),
        ("author: ICE-GL-ZY001", "author: { name: x }", "author"),
        (CWD, "{ type: string, enum: abc }", "params_schema.cwd.enum"),
        (CWD, "{ type: [string], required: false }", "params_schema.cwd.type"),
    ],
)
def test_the_right_field_with_a_wrong_type_is_a_problem(old, new, field):
    """Y27: nothing is split, nothing is wrapped."""
    problem = only(read_changed((old, new)))

    assert (problem.code, problem.field) == ("wrong-type", field)


def test_a_name_other_than_the_folders_is_a_problem():
    """Y28."""
    problem = only(read(SEED, "shell_exec"))

    assert (problem.code, problem.line) == ("name-mismatch", 1)
    assert "shell_exec" in problem.en


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("d\u0435ploy", "U+0435"),
        ("\uff44eploy", "U+FF44"),
        ("de\u200bploy", "U+200B"),
        ("部署", "U+90E8"),
        ("“deploy”", "U+201C"),
    ],
)
def test_a_name_with_a_letter_that_only_looks_right_names_the_code_point(name, point):
    """Y29."""
    problem = only(read_changed(("name: shell-exec", f"name: {name}")))

    assert point in problem.en
    assert problem.line == 1


@pytest.mark.parametrize("name", ["-rf", '"deploy "', "deploy.", "a" * 65, "1a", "_a", "a b", "a/b", "..", '"a\\nb"'])
def test_a_name_outside_the_rule_says_the_rule(name):
    """Y30."""
    problem = only(read_changed(("name: shell-exec", f"name: {name}")))

    assert problem.code == "bad-name"
    assert "a letter" in problem.en


@pytest.mark.parametrize("name", ["con", "CON", "nul", "com1", "LPT9"])
def test_a_reserved_name_is_a_problem(name):
    """Y30."""
    assert only(read(changed(("name: shell-exec", f"name: {name}")), name)).code == "reserved-name"


def test_a_change_of_comments_alone_gives_the_same_definition():
    """Y31: which is how "no semantic change" is told."""
    assert (
        read("# 头\n" + SEED.replace("timeout_ms: 30000", "timeout_ms: 30000  # 半分钟")).definition
        == read(SEED).definition
    )


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


@pytest.mark.parametrize("field", ["name", "display", "intent", "method", "executor", "author", "created", "why"])
@pytest.mark.parametrize("value", ["", " ''"])
def test_any_other_empty_value_is_a_problem(field, value):
    lines = [f"{field}:{value}" if line.startswith(f"{field}:") else line for line in SEED.splitlines()]
    reading = read("\n".join(lines) + "\n")

    assert [problem.field for problem in reading.problems] == [field]


@pytest.mark.parametrize(
    "field",
    ["name", "display", "intent", "method", "executor", "params_schema", "constraints", "author", "created", "why"],
)
def test_each_required_field_is_missed(field):
    """Seed §7: 每个工具必须包含."""
    document = tool("hlpd-api", "listPersonas")
    reading = read("".join(line for line in document.splitlines(keepends=True) if not line.startswith(f"{field}:")))

    assert [(problem.code, problem.field) for problem in reading.problems] == [("missing", field)]


@pytest.mark.parametrize(("field", "most"), [("display", 80), ("intent", 500), ("why", 2000), ("author", 64)])
def test_texts_are_counted_in_code_points_after_trimming(field, most):
    lines = {line.split(":")[0]: line for line in SEED.splitlines()}
    fits = SEED.replace(lines[field], f'{field}: "  {"𠮷" * most}  "')
    exceeds = SEED.replace(lines[field], f"{field}: {'𠮷' * (most + 1)}")

    assert getattr(read(fits).definition, field) == "𠮷" * most
    assert only(read(exceeds)).code == "too-long"


def test_the_other_spelling_of_the_api_is_read_with_a_note():
    reading = read(tool("hldp-api", "getPersona"))

    assert reading.definition.executor == "hlpd-api"
    assert [(warning.code, warning.line) for warning in reading.warnings] == [("spelling", 5)]


def test_the_address_line_of_hldp_documents_is_kept():
    reading = read("HLDP://zhuyuan/module/L4-TOOL-003\n" + SEED)

    assert reading.definition.address == "HLDP://zhuyuan/module/L4-TOOL-003"
    assert only(read("HLDP://x\n" + SEED + "why: a\n")).line == 17


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


def test_all_problems_of_a_file_come_together_in_the_order_of_its_lines():
    reading = read_changed(
        ("name: shell-exec", "name: -x"),
        ("30000", '"3"'),
        ("2026-05-31", "2026-13-01"),
        ("type: string", "type: strng"),
    )

    assert codes(reading) == ["bad-name", "not-a-choice", "wrong-type", "bad-date"]
    assert [problem.line for problem in reading.problems] == [1, 7, 10, 14]


def test_at_most_a_hundred_problems_are_listed_and_the_last_says_so():
    reading = read(SEED + "".join(f"key{n}: a\n" for n in range(900)))

    assert len(reading.problems) == 100
    assert reading.problems[-1].code == "too-many-problems"
    assert "801" in reading.problems[-1].en


def test_messages_hold_nothing_that_moves_a_terminal():
    """Whatever a file holds, its problems are safe to print."""
    reading = read_changed(("name: shell-exec", 'name: "\\e[31m\\u202e"'), ("intent", '"\\e]0;x\\a"'))

    assert reading.problems
    assert all((problem.zh + problem.en + problem.field).isprintable() for problem in reading.problems)


def test_reading_a_file_costs_little():
    """10,000 tools in one push are read within seconds (contract/registration.md, G20)."""
    contents = [((folder / "TOOL.hdlp").read_bytes(), folder.name) for folder in TOOLS]
    started = time.perf_counter()
    for content, folder in contents:
        read(content, folder)
    took = time.perf_counter() - started

    assert took / len(contents) < 0.01


@given(st.binary(max_size=400))
@example(b"\xef\xbb\xbf")
@example(b'"\\UFFFFFFFF"')
@example(b'a: "\\ud800"')
@example(b"? |\n")
def test_no_bytes_make_the_reader_raise(content):
    reading = read(content)

    assert reading.problems
    assert json.dumps(reading.as_json()).encode()


_PIECES = ["name", ": ", "：", "\n", "  ", "- ", "[", "]", "{", "}", ", ", "，", '"', "'", "|", ">", "&a ", "*a", "!t ", "? ", "#", "\t", "<<",
           "\\u200b", "\u3000", "\ufeff", "%", "---\n", "x-", "1", "params_schema:\n  a: {type: string, enum: [", "constraints", "\ud7ff", "\0"]  # fmt: skip


@given(st.lists(st.sampled_from([*_PIECES, *SEED.splitlines(keepends=True)]), max_size=40))
def test_no_mixture_of_yaml_makes_the_reader_raise(pieces):
    reading = read("".join(pieces))

    assert (reading.definition is None) == bool(reading.problems)
    assert all(problem.zh and problem.en and problem.code for problem in reading.problems)
    assert reading.definition is None or isinstance(reading.definition, Definition)
    assert json.dumps(reading.as_json(), ensure_ascii=False).encode()
