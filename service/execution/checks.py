"""What is looked at before a call may run: an executor that can, the operator's leave, demands, parameters, the folder."""

from collections.abc import Mapping
from typing import Any, Final

import structlog

from service.domain.calls import ExecRequest
from service.domain.executors import Executor, ToolFile
from service.domain.parameters import fit
from service.domain.tools import ToolVersion
from service.errors import CannotRecord, Conflict, Invalid, Message, Unavailable
from service.execution.resolve import check_demand
from service.store import history
from service.store.database import Database

logger = structlog.get_logger(__name__)

_UNFIT: Final = Message("参数不符合定义，见 problems。", "The parameters do not fit the definition; see problems.")
_CHANGED: Final = Message(
    "保存的工具文件与提交不一致，拒绝执行。请用 bitong audit verify 检查。",
    "A stored file of the tool is not what the commit holds; it does not run. Check with bitong audit verify.",
)


class Checks:
    """The executors by name, and the stored files."""

    def __init__(self, database: Database, executors: Mapping[str, Executor]) -> None:
        self._database = database
        self._executors = executors

    def executor(self, version: ToolVersion) -> Executor:
        """What runs this version here. Raises Unavailable, or CannotRecord at a bound of the database: no run is made."""
        if (full := self._database.refusing) is not None:
            raise CannotRecord(full, facts={"version": version})
        definition = version.definition
        executor = self._executors[definition.executor]
        if (why := executor.unavailable(definition)) is not None:
            raise Unavailable(why, facts={"version": version})
        return executor

    def parameters(self, request: ExecRequest, version: ToolVersion, executor: Executor) -> dict[str, Any]:
        """The parameters after defaults. Raises Conflict or Invalid, which make a refused run."""
        if (why := executor.refusal(version.definition)) is not None:
            raise Conflict(why, code="not-allowed")
        check_demand(version, request)
        parameters, problems = fit(version.definition.params_schema, request.params)
        problems = problems or executor.check(version.definition, parameters)
        if problems:
            raise Invalid(_UNFIT, facts={"problems": [problem.as_json() for problem in problems]})
        return parameters

    def files(self, version: ToolVersion, executor: Executor) -> list[ToolFile]:
        """The folder as the commit holds it, for an executor that lays it out.

        Raises Conflict where the store has other bytes, which do not run (X40), or history.FilesAbsent where a look is
        just replacing them.
        """
        if not executor.uses_files:
            return []
        try:
            return history.files(self._database, version.tool.encode(), version.tree)
        except history.FilesAbsent:
            raise
        except history.FilesChanged:
            logger.exception("a stored file was changed", tool=version.tool, commit=version.commit)
            raise Conflict(_CHANGED, code="store-changed") from None
