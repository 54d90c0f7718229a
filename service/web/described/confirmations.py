"""Confirmations in the OpenAPI document."""

from typing import Final

from service.web.described.forms import Schema, listing, nullable, record, ref, text, whole
from service.web.described.words import LATER, Text, here_is

STATES: Final = ("waiting", "approved", "rejected", "expired", "dropped")


def schemas() -> dict[str, Schema]:
    """Name → schema."""
    preview: Schema = {"description": "What will run, as the executor will send it; secrets as •••."}
    about = {
        "tool": ref("ToolName"),
        "version": whole(minimum=1),
        "commit": ref("GitId"),
        "sha256": ref("Sha256"),
    }
    asked = {"id": ref("Id"), "expires_at": ref("Time"), **about, "params_digest": ref("Sha256")}
    item = {
        "id": ref("Id"),
        "state": text(enum=list(STATES)),
        **about,
        "params": {"type": ["object", "null"]},
        "params_digest": ref("Sha256"),
        "preview": preview,
        "actor": ref("Actor", "Who asked."),
        "asked_at": ref("Time"),
        "expires_at": ref("Time"),
        "answered_by": nullable(ref("Actor")),
        "answered_at": nullable(ref("Time")),
        "reason": nullable(text()),
        "self": {"type": ["boolean", "null"], "description": "True when asker and answerer are one."},
    }
    decision = text("approve：执行；reject：不执行。", enum=["approve", "reject"])
    return {
        "ConfirmationAsked": record(asked | {"display": text(), "why": text(), "preview": preview}, **LATER),
        "Confirmation": record(item, **LATER),
        "ConfirmationPage": listing("Confirmation"),
        "ConfirmationAnswer": record({"decision": decision}, {"reason": nullable(text())}, **LATER),
    }


def routes() -> dict[str, Text]:
    """Method and path below the API's root → what is said of the route."""
    gone = {404: ("not-found",)}
    return {
        "GET /confirmations": Text(
            "confirmations",
            "What waits for a confirmation, and what was answered",
            "等待确认的与已经答复的。",
            "Asked by this actor, or such as it may answer.",
            pages=True,
            answers=here_is("ConfirmationPage"),
        ),
        "GET /confirmations/{id}": Text(
            "confirmations",
            "One confirmation",
            "一次确认。",
            "One confirmation.",
            answers=here_is("Confirmation"),
            problems=gone,
        ),
        "POST /confirmations/{id}": Text(
            "confirmations",
            "Approve or reject",
            "approve：执行，回答与 /exec 相同；reject：200 与这次确认。需要 confirm，以及对该工具的 exec。",
            "Approve runs it and answers as `/exec` does; reject answers with the confirmation. Needs `confirm`, and `exec` for "
            "that tool.",
            body="ConfirmationAnswer",
            answers=here_is("Confirmation", "It was rejected; an approved one answers as `/exec` does."),
            problems=gone | {409: ("conflict",)},
        ),
    }
