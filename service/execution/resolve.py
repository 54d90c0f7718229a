"""From a name and what a caller demands to the one ToolVersion that may run (contract/http-api.md, `POST /exec`)."""

from typing import Final

from service.domain.actors import Actor
from service.domain.calls import ExecRequest
from service.domain.executors import ParameterProblem
from service.domain.index import Index
from service.domain.tools import ToolVersion
from service.errors import Conflict, Invalid, Message, NotFound

SUGGESTION: Final = "此工具尚不在仓库中，需铸渊新建"  # seed §2, step 3

_FULL_ID: Final = 40


def resolve(index: Index, request: ExecRequest, actor: Actor) -> ToolVersion:
    """The active version of this tool. Raises NotFound (`unknown-tool`, `removed-tool`) or Conflict (`orphaned`)."""
    tool = index.find(request.tool, actor)
    if tool is None:
        raise unknown_tool()
    if tool.state == "unregistered":
        raise NotFound(
            Message(
                "仓库中的定义没有通过登记，原因见 bitong tools show 或 GET /api/v1/rejections。",
                "The repository's definition was not registered; bitong tools show and GET /api/v1/rejections say why.",
            ),
            code="unknown-tool",
            facts={"found": False, "suggestion": SUGGESTION},
        )
    if tool.state == "removed":
        facts = {"at": tool.removed_at, "commit": tool.removed_commit, "by": tool.removed_by}
        raise NotFound(
            Message(
                f"工具已从仓库移除（{tool.removed_at}，{tool.removed_by}）。需要时请重新加入仓库。",
                f"The tool was removed from the repository ({tool.removed_at}, {tool.removed_by}). Add it again to use it.",
            ),
            code="removed-tool",
            facts={"found": False, "suggestion": SUGGESTION, "removed": facts},
        )
    if tool.version is None:
        raise unknown_tool()
    if tool.state == "orphaned":
        raise Conflict(
            Message(
                "定义所在的提交已不在跟踪分支上，拒绝执行。请重新推送该提交。",
                "The commit of the definition is no longer on the tracked branch; it does not run. Push that commit again.",
            ),
            code="orphaned",
            facts={"version": tool.version},
        )
    return tool.version


def unknown_tool() -> NotFound:
    """The one answer for a name that does not exist, or does not for this actor."""
    return NotFound(
        Message("没有这个工具。" + SUGGESTION + "。", "There is no such tool; it has to be written and pushed first."),
        code="unknown-tool",
        facts={"found": False, "suggestion": SUGGESTION},
    )


def check_demand(version: ToolVersion, request: ExecRequest) -> None:
    """Raise Invalid for a demand that is no full id or a time limit above the definition's, Conflict for another version."""
    problems = [*request.problems, *_commit_problem(version, request), *_timeout_problem(version, request)]
    if problems:
        raise Invalid(
            Message("请求中有不合适的要求，见 problems。", "The call demands what it cannot; see problems."),
            facts={"problems": [problem.as_json() for problem in problems]},
        )
    demands = ((request.version, version.number), (request.commit, version.commit), (request.sha256, version.sha256))
    if any(wanted is not None and wanted != active for wanted, active in demands):
        raise Conflict(
            Message(
                f"所要求的定义不是当前生效的版本（当前：第 {version.number} 版，提交 {version.commit}）。",
                f"The demanded definition is not the active one (now: version {version.number}, commit {version.commit}).",
            ),
            code="not-active",
        )


def _commit_problem(version: ToolVersion, request: ExecRequest) -> list[ParameterProblem]:
    if request.commit is None or len(request.commit) >= _FULL_ID:
        return []
    full = version.commit
    return [
        ParameterProblem(
            "commit",
            "shortened-commit",
            f"提交号须写全 40 位；当前生效的是 {full}。",
            f"Give all 40 digits of the commit; the active one is {full}.",
        )
    ]


def _timeout_problem(version: ToolVersion, request: ExecRequest) -> list[ParameterProblem]:
    limit = version.definition.constraints.timeout_ms
    if request.timeout_ms is None or 1 <= request.timeout_ms <= limit:
        return []
    return [
        ParameterProblem(
            "timeout_ms",
            "timeout-out-of-range",
            f"timeout_ms 只能降低定义的限制：1 至 {limit}。",
            f"timeout_ms may only lower the definition's limit: 1 to {limit}.",
        )
    ]
