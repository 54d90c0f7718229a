"""Shapes of what the OpenAPI document describes: errors, tools, registrations, tokens (contract/http-api.md, The rest)."""

from typing import Any, Final

from service.domain.actors import SCOPES, TOKEN_NAME
from service.domain.definitions import (
    EFFECTS,
    EXECUTORS,
    MAX_OUTPUT_BYTES,
    MAX_TIMEOUT_MS,
    TYPES,
)
from service.web.openapi_forms import Schema, flag, listing, many, nullable, record, ref, text, texts, whole

ERROR_CODES: Final = (
    "accepted",
    "bad-parameters",
    "bad-request",
    "body-timeout",
    "busy",
    "cancelled",
    "cannot-record",
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
    "store-changed",
    "timed-out",
    "too-large",
    "unauthenticated",
    "unknown",
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
    """Name → schema, beside those of runs and of the log."""
    return _values() | _errors() | _definitions() | _tools() | _registrations() | _tokens() | _operations()


def _values() -> dict[str, Schema]:
    return {
        "Time": text(
            "RFC 3339, UTC, with milliseconds.",
            format="date-time",
            pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$",
        ),
        "CommitTime": text(
            "RFC 3339, UTC, as the commit claims it; git counts whole seconds.",
            format="date-time",
            pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z$",
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


def _definitions() -> dict[str, Schema]:
    whose = {
        "version": whole("The version's number in this registry.", minimum=1),
        "commit": ref("GitId", "The commit that made the tool's folder what it is."),
        "tree": ref("GitId", "The folder's tree at that commit."),
        "blob": ref("GitId", "TOOL.hdlp's blob."),
        "sha256": ref("Sha256", "Of TOOL.hdlp's bytes."),
        "author": text("谁写的：定义中的 author。Who wrote it, as the definition says."),
        "why": text("为什么需要它。Why it is needed, as the definition says."),
        "created": text("The date in the definition.", format="date"),
        "git_author": text("The commit's author as the commit claims: `Name <email>`."),
        "pusher": nullable(text("Who the forge says pushed it; null where that is not known.")),
    }
    registered = {"registered_at": ref("Time")}
    return {
        "RanDefinition": record(whose, said="运行的是哪个定义。Which definition ran: who wrote it, why, and where it is."),
        "RegisteredDefinition": record(whose | registered),
        "Definition": record(_definition_fields(), said="One TOOL.hdlp, every field; what it does not say is null or empty."),
        "Parameter": _parameter(),
        "ParamsSchema": {
            "description": "参数定义。The parameters by name.",
            "type": "object",
            "additionalProperties": ref("Parameter"),
        },
        "Constraints": record(
            {
                "timeout_ms": whole("Milliseconds one run may take.", minimum=1, maximum=MAX_TIMEOUT_MS),
                "max_output_bytes": whole("Bytes kept of each stream.", minimum=1, maximum=MAX_OUTPUT_BYTES),
                "require_confirm": flag("确认后才执行。It runs only after a confirmation."),
            }
        ),
    }


def _definition_fields() -> dict[str, Schema]:
    return {
        "name": ref("ToolName"),
        "display": text("显示名。The name people see."),
        "intent": text("一句话：这个工具做什么。What it does, in one sentence."),
        "method": text("The method; its meaning belongs to the executor."),
        "executor": text("由谁执行。Who runs it.", enum=list(EXECUTORS)),
        "params_schema": ref("ParamsSchema"),
        "constraints": ref("Constraints"),
        "author": text(),
        "created": text(format="date"),
        "why": text(),
        "command": nullable(texts("The argument vector of a fixed program, with {name} of parameters.")),
        "examples": texts("意图的其他说法。Other ways to say the intent.", maxItems=20),
        "node": nullable(text("Which gatekeeper runs it.")),
        "effect": nullable(text("对外界的影响。What it does to the world.", enum=list(EFFECTS))),
        "deprecated": nullable(text("为什么不要再用它。Why not to use it any more.")),
        "address": nullable(text("The file's HLDP:// line.")),
    }


def _parameter() -> Schema:
    count = whole(minimum=0)
    return record(
        {"type": text(enum=list(TYPES)), "required": flag(), "description": text()},
        {
            "default": {},
            "enum": {"type": "array"},
            "pattern": text("RE2; searched, not anchored."),
            "minimum": {"type": "number"},
            "maximum": {"type": "number"},
            "min_length": count,
            "max_length": count,
            "secret": flag("Its values are shown nowhere; a keyed hash stands for them."),
            "items": ref("Parameter"),
        },
    )


def _tools() -> dict[str, Schema]:
    said = _definition_fields()
    names = ("name", "display", "intent", "method", "executor", "params_schema", "constraints", "effect", "deprecated")
    item = {name: said[name] for name in (*names, "author", "why")} | {
        "definition": ref("RegisteredDefinition"),
        "behind": flag("主干上的新定义未通过，仍用旧版。The tip's definition was rejected, and an older one runs."),
        "warnings": many(ref("DefinitionProblem"), "What does not keep it from being registered."),
    }
    removed = nullable(ref("Removed"))
    standing = {"state": text(enum=["active", "removed", "orphaned", "unregistered"]), "removed": removed}
    version = _version_fields()
    return {
        "Tool": record(item),
        "ToolPage": listing("Tool"),
        "ToolInFull": record(item | standing),
        "ToolWithoutVersion": record(
            {"name": text(), "state": standing["state"], "behind": flag(), "removed": removed},
            said="A name that never had a valid definition.",
        ),
        "Removed": record(
            {"at": nullable(ref("Time")), "commit": nullable(ref("GitId")), "by": nullable(text())},
            said="何时、由谁的哪次提交移除。When it was removed, by which commit, and by whom.",
        ),
        "Version": record(version),
        "VersionPage": listing("Version"),
        "VersionInFull": record(version | {"definition": ref("Definition"), "warnings": item["warnings"]}),
        "Difference": record(
            {
                "tool": ref("ToolName"),
                "from": nullable(whole("The version before; null for the first.", minimum=1)),
                "to": whole(minimum=1),
                "same_meaning": version["same_meaning"],
                "files": many(ref("FileChange")),
            }
        ),
        "FileChange": record(
            {
                "path": text("Inside the tool's folder."),
                "change": text(enum=["added", "removed", "modified", "mode"]),
                "diff": nullable(text("Unified; null where the file is no text or too long to show.")),
            }
        ),
    }


def _version_fields() -> dict[str, Schema]:
    return {
        "version": whole(minimum=1),
        "state": text(enum=["active", "superseded", "removed", "orphaned"]),
        "commit": ref("GitId"),
        "tree": ref("GitId"),
        "blob": ref("GitId"),
        "sha256": ref("Sha256"),
        "author": text(),
        "why": text(),
        "created": text(format="date"),
        "git_author": text(),
        "git_committed_at": nullable(ref("CommitTime")),
        "pusher": nullable(text()),
        "registered_at": ref("Time"),
        "same_meaning": flag("Only comments or layout differ from the version before."),
    }


def _registrations() -> dict[str, Schema]:
    names = many(text(), "Only those that the asker may see.")
    looked = {"registered": names, "removed": names, "rejected": names}
    return {
        "Rejection": record(
            {
                "path": text("The file or folder in the repository."),
                "tool": text("The folder's name; it need not be a valid name."),
                "commit": ref("GitId"),
                "pusher": nullable(text()),
                "at": ref("Time"),
                "problems": many(ref("DefinitionProblem"), minItems=1),
                "current": flag("True while the tip still has it."),
            }
        ),
        "RejectionPage": listing("Rejection"),
        "Delivery": record(
            {
                "id": ref("Id"),
                "received_at": ref("Time"),
                "event": text(),
                "ref": nullable(text("The full ref.")),
                "repository": nullable(text("`owner/name`.")),
                "pusher": nullable(text()),
                "body_sha256": ref("Sha256"),
                "count": whole("How often this very body came.", minimum=1),
                "outcome": nullable(
                    text("Null until a look covers it.", enum=["applied", "unchanged", "ignored", "failed"])
                ),
                "reason": nullable(text()),
                **looked,
            }
        ),
        "DeliveryPage": listing("Delivery"),
        "SyncQueued": record({"queued": {"const": True}}),
        "Look": record(
            {
                "outcome": text(enum=["applied", "unchanged", "failed"]),
                "tip": nullable(ref("GitId", "The branch's commit; null where there is none.")),
                **looked,
                "reason": nullable(text("What is wrong, where something is.")),
            }
        ),
    }


def _tokens() -> dict[str, Schema]:
    scopes = many(text(enum=list(SCOPES)), minItems=1, uniqueItems=True)
    patterns = nullable(
        many(text(minLength=1, maxLength=128), "Patterns of tool names, such as `git-*`; null: every tool.", minItems=1)
    )
    name = text(pattern="^" + TOKEN_NAME.pattern.removesuffix(r"\Z") + "$")
    kept = {
        "id": ref("Id"),
        "name": name,
        "actor": ref("Actor"),
        "scopes": scopes,
        "tools": patterns,
        "created_at": ref("Time"),
        "created_by": ref("Actor"),
        "expires_at": nullable(ref("Time")),
        "revoked_at": nullable(ref("Time")),
    }
    expires = nullable(text("A date or an RFC 3339 time; null or left out: never."))
    return {
        "TokenRequest": record({"name": name, "scopes": scopes}, {"tools": patterns, "expires_at": expires}),
        "Token": record(kept),
        "TokenIssued": record(kept | {"token": text("令牌本身，只显示这一次。The token itself, shown this once.")}),
        "TokenPage": listing("Token"),
    }


def _operations() -> dict[str, Schema]:
    part: dict[str, Any] = {
        "type": "object",
        "properties": {
            "state": text("`ok`, or a word for what is wrong."),
            "since": ref("Time"),
            "age_s": whole("Seconds since then.", minimum=0),
            "looked_at": ref("Time"),
            "looked_age_s": whole("Seconds since the last look.", minimum=0),
            "revision": whole(minimum=0),
            "tools": whole(minimum=0),
        },
        "required": ["state"],
    }
    return {
        "Health": record({"ok": {"const": True}}),
        "Readiness": record(
            {"ready": flag(), "parts": {"type": "object", "additionalProperties": part}},
            said="Names of parts, states and ages; no addresses, no errors' texts.",
        ),
        "JsonSchema": {"type": "object", "description": "A JSON Schema, 2020-12.", "required": ["$schema"]},
        "OpenApi": {"type": "object", "description": "This document.", "required": ["openapi", "info", "paths"]},
    }
