"""What an exec call asks for, once its shape is known to be right (contract/http-api.md, `POST /exec`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service.domain.executors import ParameterProblem


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """An exact call. `version`, `commit`, `sha256` demand a definition; `timeout_ms` may only lower the definition's.

    `key`: the Idempotency-Key, which belongs to the actor. `size`: bytes it came in, for what a queue may hold.
    """

    tool: str
    params: Mapping[str, Any] = field(default_factory=dict)
    version: int | None = None
    commit: str | None = None
    sha256: str | None = None
    timeout_ms: int | None = None
    match_id: str | None = None
    wait: bool = True
    key: str | None = None
    size: int = 0
    problems: tuple[ParameterProblem, ...] = ()  # what is wrong beside the parameters, such as an unknown field
