"""What the tests of this folder write: the seed's example, and changes to it."""

from service.domain.definitions import Problem, Reading
from service.intake.definitions.reading import read_definition

# seed §7, verbatim, indented as contract/tool-hdlp.md shows it.
SEED = """\
name: shell-exec
display: Shell命令执行
intent: 在服务器上执行一条shell命令并返回结果
method: exec
executor: gatekeeper
params_schema:
  cmd: { type: string, required: true, description: "要执行的shell命令" }
  cwd: { type: string, required: false, description: "工作目录" }
constraints:
  timeout_ms: 30000
  max_output_bytes: 65536
  require_confirm: false
author: ICE-GL-ZY001
created: 2026-05-31
why: 铸渊需要通过gatekeeper执行服务器命令。这是所有系统操作的基础工具。
"""
CWD = '{ type: string, required: false, description: "工作目录" }'


def changed(*changes: tuple[str, str]) -> str:
    """The seed's example with texts replaced, each of which must be there."""
    text = SEED
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def read(text: str | bytes, folder: str = "shell-exec", **options) -> Reading:
    return read_definition(text if isinstance(text, bytes) else text.encode(), folder, **options)


def read_changed(*changes: tuple[str, str]) -> Reading:
    return read(changed(*changes))


def codes(reading: Reading) -> list[str]:
    return [problem.code for problem in reading.problems]


def only(reading: Reading) -> Problem:
    """The one problem of a reading, which has a line and both languages."""
    (problem,) = reading.problems
    assert reading.definition is None
    assert problem.zh
    assert problem.en
    return problem


def tool(executor: str, method: str, parameters: str = "{}", more: str = "") -> str:
    """A definition whose rest is in order; `parameters` as one flow mapping, `more` as further lines."""
    return (
        "name: shell-exec\ndisplay: 工具\nintent: 做一件事\n"
        f"method: {method}\nexecutor: {executor}\nparams_schema: {parameters}\nconstraints: {{}}\n"
        f"author: ICE-GL-ZY001\ncreated: 2026-05-31\nwhy: 测试用。\n{more}"
    )
