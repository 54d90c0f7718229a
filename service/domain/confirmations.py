"""A Confirmation: a question bound to (version, parameters, asker, expiry), answered once (contract/http-api.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from service.domain.actors import Actor
from service.domain.definitions import Definition
from service.domain.executors import HIDDEN

STATES: Final = ("waiting", "approved", "rejected", "expired", "dropped")
WAITING_PER_ACTOR: Final = 20  # cases.md C1
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
    def self_answered(self) -> bool | None:
        """Whether asker and answerer are one; None until somebody answered."""
        return None if self.answered_by is None else self.answered_by == self.actor


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
