"""Confirmations: what waits for a yes, and answering it (contract/http-api.md, Confirmations)."""

from collections.abc import Mapping
from typing import Any, Final

from service.domain import strict_json
from service.domain.confirmations import STATES, Confirmation
from service.errors import Malformed, Message
from service.store import confirmations as rows
from service.store import runs
from service.web.answers import answer_of
from service.web.lists import check_names, page, read_choice
from service.web.parts import Parts
from service.web.routing import Answer, Asked, Pending

LISTED_BYTES: Final = 16 * 1024  # of parameters, in a list


def list_confirmations(parts: Parts, asked: Asked) -> Answer:
    """Newest first: the actor's own, and with `confirm` those of its tools."""
    check_names(asked, ("state",))
    actor = asked.actor
    state = read_choice(asked, "state", STATES)
    own = None if actor.may("confirm") and actor.may("exec") else actor.name
    with parts.database.read() as connection:
        shown = page(
            asked,
            lambda before, limit: rows.listed(
                connection, asker=own, patterns=actor.tools, state=state, before=before, limit=limit
            ),
            lambda row: row[0],
            lambda row: _item(row[1], runs.masked_parameters_of(connection, row[1].run, at_most=LISTED_BYTES)),
        )
    return Answer(shown)


def show_confirmation(parts: Parts, asked: Asked) -> Answer:
    """One, as far as the actor may see it."""
    return Answer(_in_full(parts, parts.execution.confirmations.show(asked.path["id"], asked.actor)))


def answer_confirmation(parts: Parts, asked: Asked) -> Answer | Pending:
    """Approve: it runs, and the answer is `/exec`'s. Reject: the confirmation as it is then."""
    parts.execution.confirmations.show(asked.path["id"], asked.actor)
    approve, reason = _decision(asked.body)
    if not approve:
        rejected = parts.execution.confirmations.reject(asked.path["id"], asked.actor, reason)
        return Answer(_in_full(parts, rejected))
    return answer_of(parts, parts.execution.approve(asked.path["id"], asked.actor, reason), wait=True)


def _decision(body: bytes) -> tuple[bool, str | None]:
    try:
        shape = strict_json.loads(body)
    except strict_json.NotJson:
        raise _malformed() from None
    if not isinstance(shape, dict) or not {"decision"} <= shape.keys() <= {"decision", "reason"}:
        raise _malformed()
    reason = shape.get("reason")
    if shape["decision"] not in ("approve", "reject") or not (reason is None or strict_json.is_text(reason)):
        raise _malformed()
    return shape["decision"] == "approve", reason


def _malformed() -> Malformed:
    return Malformed(
        Message(
            '请求体为 {"decision": "approve" 或 "reject", "reason": 可省略}。',
            'The body is {"decision": "approve" or "reject", "reason": optional}.',
        )
    )


def item_of(parts: Parts, asked: Confirmation) -> dict[str, Any]:
    """An item of the list of confirmations; parameters that are too many for a list are null there."""
    with parts.database.read() as connection:
        return _item(asked, runs.masked_parameters_of(connection, asked.run, at_most=LISTED_BYTES))


def _in_full(parts: Parts, asked: Confirmation) -> dict[str, Any]:
    with parts.database.read() as connection:
        return _item(asked, runs.masked_parameters_of(connection, asked.run))


def _item(asked: Confirmation, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "id": asked.id,
        "state": asked.state,
        "tool": asked.tool,
        "version": asked.version,
        "commit": asked.commit,
        "sha256": asked.sha256,
        "params": parameters,
        "params_digest": asked.params_digest,
        "preview": asked.preview,
        "actor": asked.actor,
        "asked_at": asked.asked_at,
        "expires_at": asked.expires_at,
        "answered_by": asked.answered_by,
        "answered_at": asked.answered_at,
        "reason": asked.reason,
        "self": asked.self_answered,
    }
