"""The shell tools of a year-old repository, run as they would run after a push: read, fitted, checked, in the sandbox.

`tests/data/native-repo` was written for this project by nobody who knew this executor; eleven tools bring a script.
"""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from service.domain.definitions import Definition
from service.domain.executors import Call, Cancel, Outcome, ToolFile
from service.domain.parameters import fit
from service.domain.runs import error_of
from service.execution.executors.sandbox import Sandbox
from service.execution.executors.shell import ShellExecutor
from service.intake.definitions.reading import read_definition

TOOLS = Path(__file__).parents[1] / "data" / "native-repo" / "tools"
LOG = """2026-11-03 10:00:00 ERROR [gate] connection 17 refused
2026-11-03 10:00:01 ERROR [gate] connection 18 refused
2026-11-03 10:00:02 WARNING [gate] slow answer
stack trace follows
"""
# Tool, parameters, and the whole of its output.
EXACT = [
    ("base64-encode", {"stdin": "神笔马良"}, "56We56yU6ams6Imv"),
    ("base64-decode", {"stdin": "56We56yU\n6ams6Imv\n"}, "神笔马良"),
    (
        "corpus-clean",
        {"stdin": "[2026-05-31 08:00] <b>早&amp;安</b>\n\n[2026-05-31 08:01] 早&安\n嗯\n再见。\n"},
        "早&安\n再见。\n",
    ),
    ("cron-explain", {"expression": "*/5 9 * * 1-5"}, "周一到五　9点　每5分钟\n"),
    ("day-number", {"value": "2026-05-31"}, "D118 2026-05-31\n"),
    ("day-number", {"value": "d1"}, "D1 2026-02-03\n"),
    ("json-format", {"stdin": '{"笔":[1]}', "indent": 3}, '{\n   "笔": [\n      1\n   ]\n}\n'),
    ("json-query", {"stdin": '{"items": [{"name": "笔"}, {"name": "墨"}]}', "filter": ".items[].name"}, "笔\n墨\n"),
    (
        "log-summarize",
        {"stdin": LOG, "top": 1},
        "2 ERROR\n1 WARN\n1 其他\n--\n2 [gate] connection # refused\n",
    ),
    ("markdown-to-text", {"stdin": "# 标题\n\n- **笔** 与 [墨](http://x)\n> 引文\n"}, "标题\n笔 与 墨\n引文\n"),
    ("python-run", {"stdin": "import sys\nprint(6 * 7, sys.flags.isolated)\n"}, "42 1\n"),
    ("regex-extract", {"stdin": "工单 ZY-12，见 ZY-7。", "pattern": r"[A-Z]+-\d+"}, "ZY-12\nZY-7\n"),
    (
        "sandbox-run",
        {"cmd": 'cat; printf "%s" "$WHO"; pwd', "stdin": "in\n", "env": {"WHO": "铸渊\n"}, "cwd": "/tmp"},
        "in\n铸渊\n/tmp\n",
    ),
    ("sha256-sum", {"stdin": "墨"}, hashlib.sha256("墨".encode()).hexdigest() + "  -\n"),
    (
        "template-render",
        {"stdin": "你好，$名字。第$n 天\n", "vars": '{"名字": "铸渊", "n": 118}'},
        "你好，铸渊。第118 天\n",
    ),
    ("text-dedupe", {"stdin": "笔\n墨\n笔\n纸\n"}, "笔\n墨\n纸\n"),
    ("text-diff", {"left": "一\n二\n", "right": "一\n三\n"}, "--- 旧\n+++ 新\n@@ -1,2 +1,2 @@\n 一\n-二\n+三\n"),
    ("text-diff", {"left": "--right=x", "right": "--right=x"}, "两段文本相同\n"),
    (
        "text-stats",
        {"stdin": "神笔 magic pen\n马良\n"},
        "字数（中文字＋英文词） 6\n中文字 4\n英文词 2\n行数 2\n字节（UTF-8） 24\n",
    ),
    ("timestamp-convert", {"epoch": 1780185600}, "2026-05-31 08:00:00 CST\n"),
    ("timestamp-convert", {"epoch": 0, "tz": "UTC"}, "1970-01-01 00:00:00 UTC\n"),
]
# What it says on standard error, and which it ends with: a tool's own words come back.
FAILING = [
    ("json-format", {"stdin": '{"a": 1,}\n'}, 1, "line 1"),
    ("json-query", {"stdin": "{}", "filter": "]"}, 3, "syntax error"),
    ("cron-explain", {"expression": "* * *"}, 1, "要正好五段"),
    ("corpus-split", {"stdin": "字", "size": 100, "overlap": 100}, 1, "重叠的字数必须小于每段的字数"),
    ("template-render", {"stdin": "$谁", "vars": "{}"}, 1, "没有给值的占位符：谁"),
    ("day-number", {"value": "昨天"}, 1, "ValueError"),
    ("base64-decode", {"stdin": "abc"}, 1, "base64"),
    ("python-run", {"stdin": "raise SystemExit('不行')"}, 1, "不行"),
    ("sandbox-run", {"cmd": "exit 7"}, 7, "7"),
]
ELSEWHERE = {"corpus-split", "csv-to-json", "password-generate", "tool-draft", "uuid-generate"}  # a test of their own


def definition_of(name: str) -> Definition:
    reading = read_definition((TOOLS / name / "TOOL.hdlp").read_bytes(), name)
    assert reading.definition is not None, reading.problems
    return reading.definition


def shell_tools() -> set[str]:
    names = {file.parent.name for file in TOOLS.glob("*/TOOL.hdlp")}
    return {name for name in names if definition_of(name).executor == "shell"}


@pytest.fixture(scope="module")
def shell():
    executor = ShellExecutor(Sandbox("bubblewrap"))
    if (reason := executor.unavailable(definition_of("sha256-sum"))) is not None:
        pytest.skip(reason.en)
    return executor


def run(shell: ShellExecutor, name: str, given: dict) -> Outcome:
    """As a call would: defaults filled in, everything checked, the folder laid out."""
    definition = definition_of(name)
    program = (definition.command or ("sh",))[0]
    if shutil.which(program, path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip(f"{program} is not installed here")
    parameters, problems = fit(definition.params_schema, given)
    assert problems == []
    assert shell.check(definition, parameters) == []
    files = [ToolFile(file.name, executable=False, content=file.read_bytes()) for file in (TOOLS / name).iterdir()]
    limits = definition.constraints
    return shell.run(
        Call(
            run_id="0190",
            definition=definition,
            parameters=parameters,
            timeout_ms=max(limits.timeout_ms, 20_000),
            max_output_bytes=limits.max_output_bytes,
            actor="token:1",
            cancel=Cancel(),
            files=files,
        )
    )


def output(outcome: Outcome) -> str:
    assert outcome.state == "succeeded", error_of(outcome)
    assert not outcome.stdout.truncated
    return outcome.stdout.kept.decode()


@pytest.mark.parametrize(("name", "given", "shown"), EXACT, ids=[name for name, _, _ in EXACT])
def test_a_tool_of_the_repository_gives_its_real_output(shell, name, given, shown):
    """Seed §4: what comes back is what the program printed."""
    if name == "timestamp-convert" and not Path("/usr/share/zoneinfo/Asia/Shanghai").exists():
        pytest.skip("no time zones are installed here")

    assert output(run(shell, name, given)) == shown


@pytest.mark.parametrize(("name", "given", "code", "said"), FAILING, ids=[name for name, *_ in FAILING])
def test_a_tool_that_fails_says_so_in_its_own_words(shell, name, given, code, said):
    """No error is swallowed (U7)."""
    outcome = run(shell, name, given)

    assert (outcome.state, outcome.reason, outcome.exit_code) == ("failed", "exit-code", code)
    assert said in error_of(outcome)


def test_a_corpus_is_cut_at_sentences_and_overlaps(shell):
    """One JSON line a piece; together they are the whole text."""
    text = "".join(f"这是第{number}句话，讲一支笔。" for number in range(60))

    lines = output(run(shell, "corpus-split", {"stdin": text, "size": 200, "overlap": 20})).splitlines()

    pieces = [json.loads(line) for line in lines]
    assert [piece["n"] for piece in pieces] == list(range(1, len(pieces) + 1))
    assert all(piece["text"].endswith("。") and len(piece["text"]) <= 200 for piece in pieces)
    assert pieces[0]["text"] + "".join(piece["text"][20:] for piece in pieces[1:]) == text


@pytest.mark.parametrize(("delimiter", "given"), [(",", {}), (";", {"delimiter": ";"})])
def test_a_table_becomes_json(shell, delimiter, given):
    """A parameter with a default is filled in before the command is made."""
    table = f"名{delimiter}数\n笔{delimiter}3\n墨{delimiter}\n"

    assert json.loads(output(run(shell, "csv-to-json", {"stdin": table, **given}))) == [
        {"名": "笔", "数": "3"},
        {"名": "墨", "数": ""},
    ]


def test_a_draft_is_a_definition_but_for_what_is_left_to_fill_in(shell):
    """A tool about tools: its texts are data, quotes and line breaks too."""
    given = {"name": "draw", "display": '画"笔"', "intent": "画：一支\n笔"}

    draft = output(run(shell, "tool-draft", given))

    reading = read_definition(draft.encode(), "draw")
    assert {problem.field for problem in reading.problems} <= {"method", "command"}
    assert json.dumps('画"笔"', ensure_ascii=False) in draft


def test_random_values_differ_from_run_to_run(shell):
    """No run is ever answered from an earlier one."""
    first, second = (output(run(shell, "password-generate", {"bytes": 24})) for _ in range(2))
    ids = output(run(shell, "uuid-generate", {"count": 3})).split()

    assert len(first.strip()) == len(second.strip()) == 32
    assert first != second
    assert len(set(ids)) == 3
    assert all(len(one) == 36 for one in ids)


def test_every_shell_tool_of_the_repository_was_run_here():
    """A tool that is added there needs a row here."""
    assert shell_tools() == {name for name, *_ in (*EXACT, *FAILING)} | ELSEWHERE
