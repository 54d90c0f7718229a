"""Bytes of one TOOL.hdlp to a Definition or problems (contract/tool-hdlp.md, cases.md Y1 to Y34)."""

import json
from pathlib import Path

import pytest

from service.domain.definitions import MAX_FILE_BYTES, Constraints, Reading
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


@pytest.mark.parametrize(
    ("field", "value"), [("timeout_ms", 0), ("timeout_ms", 3_600_001), ("max_output_bytes", 16_777_217)]
)
def test_a_limit_beyond_its_range_is_a_problem(field, value):
    reading = read_changed(("timeout_ms: 30000\n  max_output_bytes: 65536", f"{field}: {value}"))

    assert only(reading).code == "out-of-range"


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


def test_all_problems_of_a_file_come_together_in_the_order_of_its_lines():
    reading = read_changed(
        ("name: shell-exec", "name: -x"),
        ("30000", '"3"'),
        ("2026-05-31", "2026-13-01"),
        ("type: string", "type: strng"),
    )

    assert codes(reading) == ["bad-name", "not-a-choice", "wrong-type", "bad-date"]
    assert [problem.line for problem in reading.problems] == [1, 7, 10, 14]
