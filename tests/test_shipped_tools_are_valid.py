"""The starter set in `tools/` is what a stranger sees first: it registers without complaint, and speaks Chinese."""

import re
import subprocess
from pathlib import Path

import pytest

from service.domain.definitions import Definition
from service.domain.operations import allows, settled, shipped
from service.execution.executors.commands import command_argv, command_problems
from service.intake.definitions.reading import read_definition

TOOLS = Path(__file__).parent.parent / "tools"
FILES = sorted(TOOLS.glob("*/TOOL.hdlp"))
CHINESE = re.compile(r"[\u4e00-\u9fff]")

each_tool = pytest.mark.parametrize("file", FILES, ids=[file.parent.name for file in FILES])


def definition_in(file: Path) -> Definition:
    reading = read_definition(file.read_bytes(), file.parent.name)
    assert reading.definition is not None, reading.problems
    return reading.definition


def test_the_five_tools_of_the_seed_are_shipped():
    """Seed §2 draws them by name."""
    names = {file.parent.name for file in FILES}

    assert names >= {"shell-exec", "git-ops", "file-read", "file-write", "http-request"}


def test_the_persona_database_has_an_example_too():
    """executors.md, Shipped tools: every executor has a working one."""
    definition = definition_in(TOOLS / "persona-read" / "TOOL.hdlp")

    assert (definition.executor, definition.method) == ("hlpd-api", "GET /personas/{personaId}")


def test_forgejo_has_an_example_too():
    """executors.md, Shipped tools; what it does is allowed without the operator saying so."""
    definition = definition_in(TOOLS / "repo-issues" / "TOOL.hdlp")

    assert (definition.executor, definition.method) == ("git-forgejo", "issueListIssues")
    assert allows(settled(shipped()[definition.method]), None)


@each_tool
def test_a_shipped_tool_registers_without_problem_or_warning(file: Path):
    reading = read_definition(file.read_bytes(), file.parent.name)

    assert [*reading.problems] == []
    assert [*reading.warnings] == []
    assert reading.definition is not None


@each_tool
def test_a_shipped_tool_says_in_chinese_what_it_does_and_why(file: Path):
    definition = definition_in(file)
    texts = {"display": definition.display, "intent": definition.intent, "why": definition.why}
    texts |= {name: parameter.description for name, parameter in definition.params_schema.items()}

    assert [name for name, text in texts.items() if not CHINESE.search(text)] == []


@each_tool
def test_a_shipped_tool_gives_three_to_six_other_ways_to_ask_for_it(file: Path):
    examples = definition_in(file).examples

    assert 3 <= len(examples) <= 6
    assert any(CHINESE.search(example) for example in examples)


def test_shell_exec_says_what_the_seed_says():
    """Seed §7 gives this definition in full; only the examples are ours."""
    definition = definition_in(TOOLS / "shell-exec" / "TOOL.hdlp").as_json()

    assert definition["display"] == "Shell命令执行"
    assert definition["intent"] == "在服务器上执行一条shell命令并返回结果"
    assert (definition["executor"], definition["method"]) == ("gatekeeper", "exec")
    assert definition["params_schema"] == {
        "cmd": {"type": "string", "required": True, "description": "要执行的shell命令"},
        "cwd": {"type": "string", "required": False, "description": "工作目录"},
    }
    assert definition["constraints"] == {"timeout_ms": 30000, "max_output_bytes": 65536, "require_confirm": False}
    assert definition["author"] == "ICE-GL-ZY001"
    assert definition["created"] == "2026-05-31"
    assert definition["why"] == "铸渊需要通过gatekeeper执行服务器命令。这是所有系统操作的基础工具。"


def git_ops(**values: str | int) -> tuple[str, ...]:
    """The argument vector that a gatekeeper gets."""
    return command_argv(definition_in(TOOLS / "git-ops" / "TOOL.hdlp"), values)


def git(*words: str, cwd: Path) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", *identity, *words], cwd=cwd, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git("init", "--quiet", cwd=tmp_path)
    (tmp_path / "pen").write_text("墨\n", encoding="utf-8")
    git("add", "pen", cwd=tmp_path)
    git("commit", "--quiet", "--message", "first stroke", cwd=tmp_path)
    git("tag", "v1", cwd=tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"operation": "log", "count": 1}, "first stroke"),
        ({"operation": "log", "revision": "v1", "path": "pen"}, "first stroke"),
        ({"operation": "status"}, "main"),
        ({"operation": "diff"}, ""),
        ({"operation": "show", "revision": "HEAD:pen"}, "墨"),
        ({"operation": "blame", "path": "pen"}, "墨"),
        ({"operation": "ls-files"}, "pen"),
        ({"operation": "branches"}, "main"),
        ({"operation": "tags"}, "v1"),
    ],
)
def test_git_ops_runs_with_real_git(repository: Path, values: dict[str, str | int], shown: str):
    done = subprocess.run(git_ops(repository=str(repository), **values), capture_output=True, check=False, timeout=30)

    assert done.returncode == 0, done.stderr
    assert shown in done.stdout.decode()


def test_git_ops_only_looks(repository: Path):
    """Its effect is `read`: a revision given to an operation that lists branches or tags must not make one."""
    before = git("for-each-ref", cwd=repository)

    for operation in ("branches", "tags"):
        subprocess.run(git_ops(repository=str(repository), operation=operation, revision="new"), check=True, timeout=30)

    assert git("for-each-ref", cwd=repository) == before


@pytest.mark.parametrize("name", ["repository", "operation", "revision"])
def test_git_ops_takes_no_option_for_a_value(name: str):
    """`--output=FILE` and its like would write; a path is safe behind `--`."""
    definition = definition_in(TOOLS / "git-ops" / "TOOL.hdlp")
    values = {"repository": "/srv/repo", "operation": "log", name: "--output=/etc/passwd"}

    assert [problem.param for problem in command_problems(definition, values)] == [name]
