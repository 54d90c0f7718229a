"""The log in the OpenAPI document: the facts of each type of entry (contract/audit.md, Names of facts), and the proofs."""

from collections.abc import Mapping, Sequence
from typing import Any

from service.domain.actors import SCOPES
from service.domain.audit import TYPES
from service.domain.runs import ENDED
from service.web.described import keeping
from service.web.described.forms import Schema, listing, many, nullable, record, ref, text, texts, whole
from service.web.described.words import PLAIN, Body, Text, between, here_is


def schemas() -> dict[str, Schema]:
    """Name → schema: the list, one entry, its facts by type, and the proofs."""
    groups = _groups()
    facts = {name: _of_types(types, shape) for name, (types, shape) in groups.items()}
    return facts | {
        "Stream": record(
            {
                "bytes": ref("Bytes", "Everything that was produced."),
                "sha256": ref("Sha256", "Of everything."),
                "kept": ref("Bytes", "How many of its first bytes are kept."),
                "kept_sha256": ref("Sha256"),
            }
        ),
        "AuditEntry": _entry(groups, {}),
        "AuditEntryInFull": _entry(
            groups, {"entry_b64": ref("Base64", "The exact bytes that were hashed: leaf = SHA-256(0x00 ‖ bytes).")}
        ),
        "AuditPage": listing("AuditEntry"),
        **_proofs(),
    }


def routes() -> dict[str, Text]:
    """Method and path below the API's root → what is said of the route."""
    gone = {404: ("unknown-entry",)}
    filters = {
        "type": text(enum=list(TYPES)),
        "actor": text("Such as `token:<id>`."),
        "tool": text("与这个工具有关的。About this tool, its runs included."),
        "run": text("A run's id."),
        **between(),
        "format": text("全部，作为文件，从最早的起。All of them, as a file, oldest first.", enum=["csv", "ndjson"]),
    }
    size = whole("Of the tree; the newest checkpoint's unless given.", minimum=1)
    return {
        "GET /audit": Text(
            "audit",
            "The log, newest first",
            "只增不改的记录，可以在外部验证。",
            "An append-only log that can be checked from outside, without this server.",
            query=filters,
            pages=True,
            answers=here_is("AuditPage"),
        ),
        "GET /audit/entries/{index}": Text(
            "audit",
            "One entry, with the bytes that were hashed",
            "一条记录，连同被哈希的原始字节。",
            "One entry, with the exact bytes of its leaf.",
            answers=here_is("AuditEntryInFull"),
            problems=gone,
        ),
        "GET /audit/checkpoint": Text(
            "audit",
            "The newest signed note",
            "最新的签名检查点（C2SP tlog-checkpoint）。",
            "The signed note itself (C2SP tlog-checkpoint).",
            answers={200: Body("签名检查点。The note.", None, PLAIN)},
            problems={503: ("not-available",)},
        ),
        "GET /audit/proof/{index}": Text(
            "audit",
            "Proof that an entry is in the log",
            "证明一条记录在日志中（RFC 6962）。",
            "An inclusion proof (RFC 6962).",
            query={"size": size},
            answers=here_is("InclusionProof"),
            problems=gone | {503: ("not-available",)},
        ),
        "GET /audit/consistency": Text(
            "audit",
            "Proof that the log only grew",
            "证明日志只是增长（RFC 6962）。",
            "A consistency proof between two sizes (RFC 6962).",
            query={
                "from": whole("The older size; 0 unless given.", minimum=0),
                "to": whole("The newer size; the newest checkpoint's unless given.", minimum=0),
            },
            answers=here_is("ConsistencyProof"),
            problems={503: ("not-available",)},
        ),
        "POST /audit/verify": Text(
            "audit",
            "Verify the log now",
            "立即验证日志与各表，一次一个，最长十分钟；需要不限工具的令牌。",
            "Checks the log and the tables, one at a time, ten minutes at most; by a token that is not limited to some tools. "
            "`bitong audit verify` does it without a server.",
            answers=here_is("VerifyReport"),
            problems={429: ("busy",), 503: ("not-available",)},
        ),
    }


def _entry(groups: Mapping[str, tuple[Sequence[str], Schema]], more: Mapping[str, Schema]) -> Schema:
    fields: dict[str, Schema] = {
        "index": whole("Its place in the log, from 0.", minimum=0),
        "type": text(enum=list(TYPES)),
        "at": ref("Time"),
        "actor": ref("Actor"),
        "leaf": ref("Sha256", "Its leaf hash (RFC 6962)."),
        "facts": {"type": "object", "description": "What happened; its names follow from `type`."},
    }
    mapping = {kind: f"#/components/schemas/{name}" for name, (types, _) in groups.items() for kind in types}
    return record(
        {**fields, **more},
        oneOf=[ref(name) for name in groups],
        discriminator={"propertyName": "type", "mapping": mapping},
    )


def _of_types(types: Sequence[str], facts: Schema) -> Schema:
    which: Schema = {"const": types[0]} if len(types) == 1 else text(enum=list(types))
    return {"type": "object", "properties": {"type": which, "facts": facts}, "required": ["type", "facts"]}


def _groups() -> dict[str, tuple[Sequence[str], Schema]]:
    """Name of the schema → the types it holds for, and the shape of their facts."""
    return {
        "AuditLogOpened": (["log.opened"], record({"origin": text("The log's name, also its key's.")})),
        "AuditServiceStarted": (["service.started"], _service_started()),
        "AuditDefinition": (_named("definition.", without="rejected"), record(_definition())),
        "AuditDefinitionRejected": (["definition.rejected"], _rejected()),
        "AuditRunStarted": (["run.started"], _run_started()),
        "AuditRunFinished": (["run.finished"], _run_finished()),
        "AuditRunRefused": (
            ["run.refused"],
            record(
                {
                    "run": ref("Id"),
                    "tool": ref("ToolName"),
                    "code": ref("ErrorCode"),
                    "problems_digest": ref("Sha256", "Of the problems as kept: JSON without spaces."),
                }
            ),
        ),
        "AuditConfirmation": (_named("confirmation."), _confirmation()),
        "AuditToken": (_named("token."), _token()),
        "AuditSession": (_named("session."), _session()),
        "AuditKey": (
            _named("key."),
            record({"key": ref("VerifierKey")}, {"previous": ref("VerifierKey", "The one that it takes over from.")}),
        ),
        **keeping.groups(),
        "AuditIntentLearned": (["intent.learned"], _learned()),
        "AuditIntentForgotten": (["intent.forgotten"], _forgotten()),
    }


def _named(prefix: str, without: str = "") -> list[str]:
    return [kind for kind in TYPES if kind.startswith(prefix) and kind != prefix + without]


def _learned() -> Schema:
    digest = ref("Sha256", "Of the intent's text as kept, which may be purged.")
    return record({"tool": ref("ToolName"), "run": ref("Id"), "match": ref("Id"), "digest": digest})


def _forgotten() -> Schema:
    why = text("The tool is gone, or does something else; newer ones took the place; an admin asked.")
    reasons = {**why, "enum": ["removed", "changed", "replaced", "asked"]}
    return record({"tool": ref("ToolName"), "digests": many(ref("Sha256")), "reason": reasons})


def _session() -> Schema:
    return record(
        {
            "session": ref("Id"),
            "who": text("The actor's name without `person:`."),
            "name": text("As the forge calls the person."),
            "scopes": many(text(enum=list(SCOPES))),
            "via": text(enum=["link", "forgejo"]),
            "expires": ref("Time"),
            "hash": ref("Sha256", "Of what the cookie holds."),
        }
    )


def _service_started() -> Schema:
    digests = {
        "type": "object",
        "description": "SHA-256 of each allow-list.",
        "additionalProperties": ref("Sha256"),
    }
    return record({"version": text(), "sandbox": nullable(text()), "digests": digests})


def _definition() -> dict[str, Schema]:
    return {
        "tool": ref("ToolName"),
        "version": whole(minimum=1),
        "commit": ref("GitId"),
        "tree": ref("GitId"),
        "blob": ref("GitId"),
        "sha256": ref("Sha256"),
        "author": text(),
        "pusher": nullable(text()),
    }


def _rejected() -> Schema:
    known = {name: nullable(shape) for name, shape in _definition().items()}
    named = {"tool": nullable(text("The folder's name.")), "commit": ref("GitId")}
    return record(known | named | {"problems": many(ref("DefinitionProblem"))})


def _run_started() -> Schema:
    return record(
        {
            "run": ref("Id"),
            **{name: shape for name, shape in _definition().items() if name not in ("author", "pusher")},
            "executor": text(),
            "node": nullable(text("The gatekeeper's name; null: this host.")),
            "params_digest": ref("Sha256", "SHA-256(salt ‖ parameters as RFC 8785 JSON, secrets as keyed hashes)."),
            "match": nullable(ref("Id")),
            "confirmation": nullable(ref("Id")),
            "key_hash": nullable(ref("Sha256", "Of the Idempotency-Key.")),
        }
    )


def _run_finished() -> Schema:
    number: dict[str, Any] = {"type": ["integer", "string", "null"], "description": "As text where it does not fit."}
    return record(
        {
            "run": ref("Id"),
            "state": text(enum=list(ENDED)),
            "reason": nullable(text()),
            "exit_code": number,
            "status": number,
            "duration_ms": ref("Milliseconds"),
            "stdout": ref("Stream"),
            "stderr": ref("Stream"),
        }
    )


def _confirmation() -> Schema:
    return record(
        {
            "confirmation": ref("Id"),
            "run": ref("Id"),
            "tool": ref("ToolName"),
            "version": whole(minimum=1),
            "params_digest": ref("Sha256"),
            "asker": ref("Actor"),
            "answerer": nullable(ref("Actor")),
            "self": {"type": ["boolean", "null"], "description": "True when asker and answerer are one."},
        },
    )


def _token() -> Schema:
    return record(
        {
            "token": ref("Id"),
            "name": text(),
            "scopes": many(text(enum=list(SCOPES))),
            "tools": nullable(texts()),
            "expires": nullable(ref("Time")),
            "hash": ref("Sha256", "Of the token, so that a row of the table cannot be changed unnoticed."),
        }
    )


def _proofs() -> dict[str, Schema]:
    path = many(ref("Sha256"), "Nodes of the tree, as RFC 6962 orders them.")
    size = whole(minimum=0)
    return {
        "VerifierKey": text("A C2SP vkey: `<name>+<key id>+<base64>`."),
        "RunProof": _run_proof(path),
        **_report(),
        "InclusionProof": record({"index": size, "size": size, "leaf": ref("Sha256"), "path": path}),
        "ConsistencyProof": record({"from": size, "to": size, "path": path}),
    }


def _run_proof(path: Schema) -> Schema:
    identity = {name: shape for name, shape in _definition().items() if name not in ("author", "pusher")}
    entry = {
        "index": whole(minimum=0),
        "type": text(enum=list(TYPES)),
        "leaf": ref("Sha256"),
        "entry_b64": ref("Base64", "The exact bytes that were hashed."),
        "path": path,
    }
    return record(
        {
            "format": {"const": "bitong-run-proof/1"},
            "run": ref("Id"),
            "definition": nullable(record(identity, said="What ran; null of a run that never started.")),
            "keys": many(
                ref("VerifierKey"), "The log's keys as it says itself; trust those that you have from elsewhere."
            ),
            "checkpoint": text("The signed note (C2SP tlog-checkpoint) that the paths lead to."),
            "entries": many(record(entry), "All that name the run, oldest first."),
        }
    )


def _report() -> dict[str, Schema]:
    said = {name: text() for name in ("what", "where", "found", "expected", "zh", "en")}
    return {
        "VerifyFinding": record({"index": nullable(whole("Of the entry where it shows.", minimum=0)), **said}),
        "VerifyReport": record(
            {
                "ok": {"type": "boolean", "description": "True exactly if nothing was found."},
                "size": whole("Entries up to a gap.", minimum=0),
                "root": ref("Sha256", "The tree's root over them."),
                "checkpoints": whole("How many checkpoints were compared.", minimum=0),
                "open_runs": many(text("A run's id."), "Started and not ended."),
                "entries": {
                    "type": "object",
                    "description": "How many of each type.",
                    "additionalProperties": {"type": "integer"},
                },
                "findings": many(ref("VerifyFinding"), "The first hundred, by index."),
                "seconds": {"type": "number"},
                "notes": many(ref("Message"), "What was not checked."),
            }
        ),
    }
