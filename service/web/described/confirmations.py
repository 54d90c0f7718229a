"""Confirmations in the OpenAPI document."""

from service.domain.confirmations import REASON_CHARACTERS, STATES
from service.web.described.forms import Schema, listing, nullable, record, ref, text, whole
from service.web.described.words import Body, Text, here_is

OVER = (*(f"confirmation-{state}" for state in STATES if state != "waiting"), "definition-changed", "rights-ended")


def schemas() -> dict[str, Schema]:
    """Name → schema."""
    preview: Schema = {"description": "What will run, as the executor will send it; secrets as •••, long texts cut."}
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
        "params": {"type": ["object", "null"], "description": "Null where purged, or too long for a list."},
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
        "ConfirmationAsked": record(asked | {"display": text(), "why": text(), "preview": preview}),
        "Confirmation": record(item),
        "ConfirmationOrRun": {"oneOf": [ref("Confirmation"), ref("ExecEnded")]},
        "ConfirmationPage": listing("Confirmation"),
        "ConfirmationAnswer": record(
            {"decision": decision}, {"reason": nullable(text(f"Its first {REASON_CHARACTERS} characters are kept."))}
        ),
    }


def routes() -> dict[str, Text]:
    """Method and path below the API's root → what is said of the route."""
    gone = {404: ("unknown-confirmation",)}
    return {
        "GET /confirmations": Text(
            "confirmations",
            "What waits for a confirmation, and what was answered",
            "等待确认的与已经答复的。",
            "Asked by this actor, or such as it may answer.",
            query={"state": text(enum=list(STATES))},
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
            answers={
                200: Body(
                    "拒绝：这次确认；批准：同 /exec。Rejected: the confirmation; approved: as `/exec`.",
                    "ConfirmationOrRun",
                ),
                202: Body("已批准，仍在进行。Approved; it goes on.", "ExecAccepted"),
                503: Body("没有执行。It did not run.", "ExecRefused", codes=("not-available", "cannot-record")),
            },
            problems=gone | {403: ("forbidden", "self-confirmation"), 409: OVER, 429: ("busy",)},
        ),
    }
