"""A Confirmation: a question bound to (version, parameters, asker, expiry), answered once (contract/http-api.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from service.domain.actors import Actor
from service.domain.definitions import Definition
from service.domain.executors import HIDDEN

STATES: Final = ("waiting", "approved", "rejected", "expired", "dropped")
WAITING_PER_ACTOR: Final = 20  # cases.md C1
PREVIEW_CHARACTERS: Final = 8192  # of a preview in all
REASON_CHARACTERS: Final = 500  # of what a person says beside the answer

# How a run is refused whose confirmation ended so (contract/http-api.md, Run states).
REFUSED_BY: Final = {
    "rejected": "confirmation-rejected",
    "expired": "confirmation-expired",
    "dropped": "confirmation-dropped",
}


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A question as recorded. Times RFC 3339 UTC; hashes hex. `preview`: what will run as the executor will send it.

    `params` are the exact parameters while it waits, None where they hold a secret or once it is answered.
    """

    id: str
    state: str
    run: str
    tool: str
    version_id: int
    version: int
    commit: str
    sha256: str
    params_digest: str
    preview: Mapping[str, Any]
    actor: str
    asked_at: str
    expires_at: str
    params: Mapping[str, Any] | None = None
    timeout_ms: int | None = None
    answered_by: str | None = None
    answered_at: str | None = None
    reason: str | None = None

    @property
    def in_memory(self) -> bool:
        """Whether its parameters hold a secret, so that no disk has them; of one that waits."""
        return self.params is None

    @property
    def self_answered(self) -> bool | None:
        """Whether asker and answerer are one; None until somebody answered."""
        return None if self.answered_by is None else self.answered_by == self.actor


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """What is looked at, several times a second, of one that waits: nothing of what it would run."""

    id: str
    actor: str
    tool: str
    expires_at: str
    in_memory: bool


def bounded(value: Any, limit: int = PREVIEW_CHARACTERS) -> Any:
    """A preview that people can read: what is longer is cut, and says how long it was. Parameters stand elsewhere whole."""
    return _Cut(limit).of(value)


class _Cut:
    """Hands out what is left of one limit, in the order that people read."""

    def __init__(self, left: int) -> None:
        self._left = left

    def of(self, value: Any) -> Any:
        """The value, or as much of it as there is room for."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(name): self.of(item) for name, item in list(value.items())[: self._items(len(value))]}
        if isinstance(value, list | tuple):
            return [self.of(item) for item in value[: self._items(len(value))]]
        self._left -= 8
        return value

    def _items(self, count: int) -> int:
        return min(count, max(1, self._left // 8))

    def _text(self, text: str) -> str:
        room = max(0, self._left)
        self._left -= len(text) + 8
        return text if len(text) <= room else f"{text[:room]}… ({len(text)})"


def needs_confirmation(definition: Definition) -> bool:
    """Whether the tool asks before it runs (seed §7, require_confirm)."""
    return definition.constraints.require_confirm


def may_see(actor: Actor, confirmation: Confirmation) -> bool:
    """Its asker, or who could answer it; for all others it does not exist (cases.md C3)."""
    if not actor.sees(confirmation.tool) or not actor.may("exec"):
        return False
    return confirmation.actor == actor.name or actor.may("confirm")


def may_answer(actor: Actor, confirmation: Confirmation, *, allow_self: bool) -> bool:
    """Whether this actor may answer: `confirm` and `exec` for the tool, and not its own where four eyes are asked for."""
    if not (may_see(actor, confirmation) and actor.may("confirm")):
        return False
    return allow_self or confirmation.actor != actor.name


def holds_secret(definition: Definition, parameters: Mapping[str, Any]) -> bool:
    """Whether any of the values is one that must not reach a disk."""
    return any(_is_secret(definition, name) for name in parameters)


def without_secrets(definition: Definition, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as people may see them."""
    return {name: HIDDEN if _is_secret(definition, name) else value for name, value in parameters.items()}


def _is_secret(definition: Definition, name: str) -> bool:
    parameter = definition.params_schema.get(name)
    return parameter is not None and parameter.secret
