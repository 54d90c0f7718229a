"""Values that every resource has (times, ids, hashes), and the two shapes of what is wrong."""

from typing import Final

from service.web.described.forms import Schema, many, nullable, record, ref, text, whole

ERROR_CODES: Final = (
    "accepted",
    "bad-parameters",
    "bad-request",
    "body-timeout",
    "busy",
    "cancelled",
    "cannot-record",
    "confirmation-approved",
    "confirmation-dropped",
    "confirmation-expired",
    "confirmation-rejected",
    "conflict",
    "definition-changed",
    "error",
    "failed",
    "forbidden",
    "internal",
    "interrupted",
    "key-reused",
    "method-not-allowed",
    "name-taken",
    "needs-confirmation",
    "no-webhook-secret",
    "not-active",
    "not-allowed",
    "not-available",
    "not-found",
    "not-json",
    "orphaned",
    "range-not-satisfiable",
    "removed-tool",
    "repository-unreachable",
    "rights-ended",
    "run-open",
    "run-over",
    "self-confirmation",
    "store-changed",
    "timed-out",
    "too-large",
    "unauthenticated",
    "unknown",
    "unknown-confirmation",
    "unknown-entry",
    "unknown-host",
    "unknown-run",
    "unknown-tool",
    "unknown-version",
    "unsupported",
)
_KEBAB: Final = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
_TOOL: Final = "^[A-Za-z][A-Za-z0-9_-]{0,63}$"


def schemas() -> dict[str, Schema]:
    """Name → schema."""
    return _values() | _errors()


def _values() -> dict[str, Schema]:
    return {
        "Time": text(
            "RFC 3339, UTC, with milliseconds.",
            format="date-time",
            pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$",
        ),
        "Id": text(
            "A UUIDv7 (RFC 9562): ids sort in the order they were made.",
            format="uuid",
            pattern="^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
        ),
        "GitId": text("The full id of a git object: 40 lower-case hex digits.", pattern="^[0-9a-f]{40}$"),
        "Sha256": text("SHA-256, 64 lower-case hex digits.", pattern="^[0-9a-f]{64}$"),
        "Bytes": whole("A size in bytes.", minimum=0),
        "Milliseconds": whole("A duration in milliseconds.", minimum=0),
        "ToolName": text("工具名。A tool's name, equal to its folder's.", pattern=_TOOL),
        "Actor": text("Who: `token:<id>`, `person:<sub>`, `operator` (commands on the host), `bitong` (by itself)."),
        "Message": record({"zh": text(), "en": text()}, said="一句话，中英文各一。One sentence in both languages."),
        "Base64": text("Bytes, RFC 4648 §4.", contentEncoding="base64"),
    }


def _errors() -> dict[str, Schema]:
    problem = record(
        {"param": text("Which field or parameter; empty where it is none alone."), **_problem_texts()},
        said="参数不合适的一处。One thing that does not fit; a secret's value is never quoted.",
    )
    details = {
        "type": text(format="uri-reference"),
        "title": text("The status in words."),
        "status": whole(minimum=400, maximum=599),
        "detail": text("中英文各一句。What is wrong and what to do, in both languages."),
        "code": ref("ErrorCode"),
        "message": ref("Message", "The sentences of `detail`, apart."),
    }
    return {
        "ErrorCode": text("稳定的代码。Stable, kebab-case; programs decide by it.", enum=list(ERROR_CODES)),
        "Problem": record(
            details,
            {"problems": many(ref("FieldProblem"), "All of them, where several things are wrong.")},
            "RFC 9457 problem details.",
        ),
        "FieldProblem": problem,
        "DefinitionProblem": record(
            {
                "line": nullable(whole(minimum=1)),
                "column": nullable(whole(minimum=1)),
                "field": nullable(text()),
                **_problem_texts(),
            },
            said="定义的一个问题或提醒：在哪里，怎样改。A problem or a warning of a TOOL.hdlp: where, and what to write.",
        ),
    }


def _problem_texts() -> dict[str, Schema]:
    return {"code": text(pattern=_KEBAB), "zh": text(), "en": text()}
