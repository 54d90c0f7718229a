"""Examples for the OpenAPI document: the seed's own tool and calls (seed §1, §4, §7), answered."""

import base64
import hashlib
import json
from typing import Any, Final

from service.domain.actors import TOKEN_PREFIX
from service.domain.audit import Fact, seal
from service.domain.merkle import leaf_hash
from service.execution.resolve import SUGGESTION
from service.web.described import matched
from service.web.described.keeping_examples import keeping_examples
from service.web.described.proof_examples import proof_examples
from service.web.described.words import SAID
from service.web.errors import problem

_COMMIT: Final = "5e1fb8d0c9a7e64b2f3d7c18a90e6b54d2c7f013"
_TREE: Final = "7b0f1f6c2de94a35b8c1d6e09f4a7325c8b1e9d4"
_BLOB: Final = "c3d2e1f00918273645546372819a0b1c2d3e4f50"
_SHA256: Final = hashlib.sha256(b"TOOL.hdlp").hexdigest()
_RUN: Final = "01970f2b-6c3e-7a41-9b58-3f2d1c0e4a57"
_MATCH: Final = "01970f2b-5a10-7c3d-8e21-0f1e2d3c4b5a"
_CONFIRMATION: Final = "01970f2b-7d11-7b20-8c44-9a0b1c2d3e4f"
_TOKEN: Final = "01970f2a-11d0-7c02-8e3a-5b6c7d8e9f01"  # noqa: S105 - an id
_AT: Final = "2026-05-31T08:00:00.000Z"
_ENDED: Final = "2026-05-31T08:00:00.012Z"
_ACTOR: Final = f"token:{_TOKEN}"
_WHY: Final = "铸渊需要通过gatekeeper执行服务器命令。这是所有系统操作的基础工具。"
_AUTHOR: Final = "ICE-GL-ZY001"
_HELLO: Final = "hello\n"
_NOT_FOUND: Final = "sh: 1: gitt: not found\n"


def examples() -> dict[str, dict[str, Any]]:
    """Name of a schema, with `/status` where a status has its own → name of the example → the example."""
    return _calls() | _answers() | _tools() | _runs() | _confirmations() | _registrations() | _log() | _others()


def problem_example(status: int, code: str) -> dict[str, Any]:
    """Problem details as this service writes them; 422 with what does not fit."""
    message = SAID[status]
    unfit = {"param": "limit", "code": "unfit", "zh": "limit 为 1 至 1000。", "en": "limit is 1 to 1,000."}
    return problem(status, code, message, [unfit] if status == 422 else None)


def _whose() -> dict[str, Any]:
    return {
        "version": 1,
        "commit": _COMMIT,
        "tree": _TREE,
        "blob": _BLOB,
        "sha256": _SHA256,
        "author": _AUTHOR,
        "why": _WHY,
        "created": "2026-05-31",
        "git_author": "铸渊 <zhuyuan@example.org>",
        "pusher": "zhuyuan",
    }


def _calls() -> dict[str, dict[str, Any]]:
    log = {"tool": "shell-exec", "params": {"cmd": "git log --oneline -5"}}
    return {
        "ExecRequest": {
            "exact": log,
            "hello": {"tool": "shell-exec", "params": {"cmd": "echo hello"}, "commit": _COMMIT, "timeout_ms": 5000},
            "intent": {"intent": "查看最近的提交记录", "context": {}},
        },
        "TokenRequest": {"agent": {"name": "zhuyuan", "scopes": ["read", "exec"], "tools": ["git-*", "shell-exec"]}},
        "ConfirmationAnswer": {"approve": {"decision": "approve", "reason": "看过了"}},
    }


def _six(*, ok: bool, output: str = "", error: str | None = None, ms: int = 0) -> dict[str, Any]:
    method = "gatekeeper:exec"
    return {"ok": ok, "tool": "shell-exec", "method": method, "output": output, "error": error, "duration_ms": ms}


def _run(state: str, reason: str | None, exit_code: int | None, output: str, stderr: str) -> dict[str, Any]:
    return {
        "id": _RUN,
        "state": state,
        "reason": reason,
        "exit_code": exit_code,
        "signal": None,
        "status": None,
        "stderr": stderr,
        "output_bytes": len(output),
        "output_sha256": hashlib.sha256(output.encode()).hexdigest(),
        "stderr_bytes": len(stderr),
        "stderr_sha256": hashlib.sha256(stderr.encode()).hexdigest(),
        "truncated": False,
        "totals": "produced",
        "output_url": f"https://bitong.example/api/v1/runs/{_RUN}/stdout",
        "stderr_url": f"https://bitong.example/api/v1/runs/{_RUN}/stderr",
        "notes": [],
    }


def _receipt() -> dict[str, Any]:
    return {"index": 42, "leaf": leaf_hash(_finished()).hex(), "checkpoint": None}


def _answers() -> dict[str, dict[str, Any]]:
    found = {"found": True, "definition": _whose()}
    failed = {
        "code": "failed",
        "message": {"zh": "工具运行失败，原因见 error。", "en": "The tool failed; error says why."},
    }
    hello = _six(ok=True, output=_HELLO, ms=12) | found
    broken = _six(ok=False, error=_NOT_FOUND, ms=9) | found
    nothing = {"found": False, "suggestion": SUGGESTION}
    unknown = _six(ok=False) | {"tool": "weather", "method": "", "error": _both(404)} | nothing
    return {
        "ExecAnswer": {
            "hello": hello | {"run": _run("succeeded", None, 0, _HELLO, ""), "receipt": _receipt()},
            "failed": broken
            | {"run": _run("failed", "exit-code", 127, "", _NOT_FOUND), "receipt": _receipt()}
            | failed,
            **matched.answers(_MATCH, _whose()),
        },
        "ExecUnknown": {"unknown": unknown | {"code": "unknown-tool", "message": SAID[404].as_json()}},
    } | {f"ExecRefused/{status}": {code: _refused(status, code)} for status, code in _REFUSALS.items()}


_REFUSALS: Final = {
    400: "bad-request",
    401: "unauthenticated",
    403: "forbidden",
    409: "not-active",
    413: "too-large",
    422: "bad-parameters",
    429: "busy",
    500: "internal",
    503: "not-available",
}


def _refused(status: int, code: str) -> dict[str, Any]:
    shape = _six(ok=False, error=_both(status))
    if status in (400, 401, 403, 413):
        shape |= {"tool": "", "method": ""}
    shape |= {"code": code, "message": SAID[status].as_json()}
    if status == 422:
        missing = {"param": "cmd", "code": "missing", "zh": "缺少参数cmd。", "en": "The parameter cmd is missing."}
        shape["problems"] = [missing]
    return shape


def _both(status: int) -> str:
    return f"{SAID[status].zh} / {SAID[status].en}"


def _tools() -> dict[str, dict[str, Any]]:
    limits = {"timeout_ms": 30000, "max_output_bytes": 65536, "require_confirm": False}
    said = {
        "name": "shell-exec",
        "display": "Shell命令执行",
        "intent": "在服务器上执行一条shell命令并返回结果",
        "method": "exec",
        "executor": "gatekeeper",
        "params_schema": {
            "cmd": {"type": "string", "required": True, "description": "要执行的shell命令"},
            "cwd": {"type": "string", "required": False, "description": "工作目录"},
        },
        "constraints": limits,
        "effect": None,
        "deprecated": None,
        "author": _AUTHOR,
        "why": _WHY,
    }
    tool = said | {"definition": _whose() | {"registered_at": _AT}, "behind": False, "warnings": []}
    version = {"version": 1, "state": "active", **_whose()} | {
        "git_committed_at": "2026-05-31T07:59:58.000Z",
        "registered_at": _AT,
        "same_meaning": False,
    }
    rest: dict[str, Any] = {"created": "2026-05-31", "command": None, "examples": [], "node": None, "address": None}
    change = {
        "path": "TOOL.hdlp",
        "change": "added",
        "diff": "--- a/TOOL.hdlp\n+++ b/TOOL.hdlp\n@@ -0,0 +1 @@\n+name: shell-exec\n",
    }
    compared = {"tool": "shell-exec", "from": None, "to": 1, "same_meaning": False, "files": [change]}
    return {
        "ToolPage": {"seed": {"items": [tool], "next": None}},
        "ToolStanding": {"seed": tool | {"state": "active", "removed": None, "rejection": None}},
        "VersionPage": {"seed": {"items": [version], "next": None}},
        "VersionInFull": {"seed": version | {"definition": said | rest, "warnings": []}},
        "Difference": {"first": compared},
        **keeping_examples(version),
    }


def _runs() -> dict[str, dict[str, Any]]:
    ran = _run("succeeded", None, 0, _HELLO, "")
    item = {name: ran[name] for name in ("id", "state", "reason")} | {
        "ok": True,
        "tool": "shell-exec",
        "method": "gatekeeper:exec",
        "version": 1,
        "commit": _COMMIT,
        "actor": _ACTOR,
        "started_at": _AT,
        "ended_at": _ENDED,
        "duration_ms": 12,
        "exit_code": 0,
        "error": None,
        "output_bytes": len(_HELLO),
        "stderr_bytes": 0,
        "match_id": None,
        "confirmation_id": None,
        "receipt": _receipt(),
    }
    more = {
        "params": {"cmd": "echo hello"},
        "params_digest": hashlib.sha256(b"salt and parameters").hexdigest(),
        "output": _HELLO,
        "definition": _whose(),
        "intent": "在服务器上执行一条shell命令并返回结果",
        "node": "BS-SG-001",
        "problems": [],
    }
    ended = item | {"state": "cancelled", "reason": "cancelled", "ok": False, "exit_code": None, "error": None}
    return {
        "Run": {"cancelled": ended},
        "RunPage": {"hello": {"items": [item], "next": None}},
        "RunInFull": {"hello": ran | item | more},
    }


def _confirmations() -> dict[str, dict[str, Any]]:
    asked = {
        "id": _CONFIRMATION,
        "state": "waiting",
        "tool": "shell-exec",
        "version": 1,
        "commit": _COMMIT,
        "sha256": _SHA256,
        "params": {"cmd": "systemctl restart nginx"},
        "params_digest": hashlib.sha256(b"salt and parameters").hexdigest(),
        "preview": {"node": "BS-SG-001", "method": "exec", "argv": ["/bin/sh", "-c", "systemctl restart nginx"]},
        "actor": _ACTOR,
        "asked_at": _AT,
        "expires_at": "2026-05-31T08:15:00.000Z",
        "answered_by": None,
        "answered_at": None,
        "reason": None,
        "self": None,
    }
    rejected = {"state": "rejected", "answered_by": _ACTOR, "answered_at": _ENDED, "reason": "现在不行", "self": True}
    return {
        "Confirmation": {"waiting": asked},
        "ConfirmationOrRun": {"rejected": asked | rejected},
        "ConfirmationPage": {"waiting": {"items": [asked], "next": None}},
    }


def _registrations() -> dict[str, dict[str, Any]]:
    misspelt = {
        "line": 11,
        "column": 3,
        "field": "constraints.timout_ms",
        "code": "unknown-key",
        "zh": "没有 timout_ms 这一项；是否想写 timeout_ms？",
        "en": "There is no timout_ms; did you mean timeout_ms?",
    }
    rejection = {
        "path": "tools/shell-exec/TOOL.hdlp",
        "tool": "shell-exec",
        "commit": _COMMIT,
        "pusher": "zhuyuan",
        "at": _AT,
        "problems": [misspelt],
        "current": True,
    }
    looked = {"registered": ["shell-exec"], "removed": [], "rejected": []}
    delivery = {
        "id": _RUN,
        "received_at": _AT,
        "event": "push",
        "ref": "refs/heads/main",
        "repository": "zhuyuan/native-repo",
        "pusher": "zhuyuan",
        "body_sha256": hashlib.sha256(b"body").hexdigest(),
        "count": 1,
        "outcome": "applied",
        "reason": None,
        **looked,
    }
    return {
        "RejectionPage": {"misspelt": {"items": [rejection], "next": None}},
        "DeliveryPage": {"push": {"items": [delivery], "next": None}},
        "SyncQueued": {"queued": {"queued": True}},
        "Look": {"applied": {"outcome": "applied", "tip": _COMMIT, **looked, "reason": None}},
    }


def _finished() -> bytes:
    facts = {
        "run": _RUN,
        "state": "succeeded",
        "reason": None,
        "exit_code": 0,
        "status": 200,
        "duration_ms": 12,
        "stdout": _stream(_HELLO),
        "stderr": _stream(""),
    }
    return seal(Fact("run.finished", _ACTOR, facts), 42, _ENDED).content


def _stream(content: str) -> dict[str, Any]:
    digest = hashlib.sha256(content.encode()).hexdigest()
    return {"bytes": len(content), "sha256": digest, "kept": len(content), "kept_sha256": digest}


def _log() -> dict[str, dict[str, Any]]:
    content = _finished()
    entry = json.loads(content) | {"leaf": leaf_hash(content).hex()}
    return {
        "AuditPage": {"finished": {"items": [entry], "next": None}},
        "AuditEntryInFull": {"finished": entry | {"entry_b64": base64.b64encode(content).decode("ascii")}},
        **proof_examples(content, _RUN, _whose()),
    }


def _others() -> dict[str, dict[str, Any]]:
    token = {
        "id": _TOKEN,
        "name": "zhuyuan",
        "actor": _ACTOR,
        "scopes": ["read", "exec"],
        "tools": ["git-*", "shell-exec"],
        "created_at": _AT,
        "created_by": "operator",
        "expires_at": None,
        "revoked_at": None,
    }
    repository = {"state": "ok", "revision": 3, "tools": 5, "looked_at": _AT, "looked_age_s": 12}
    parts: dict[str, Any] = {
        "database": {"state": "ok"},
        "checkpoints": {"state": "ok"},
        "repository": repository,
        "shell": {"state": "bubblewrap"},
    }
    first = {"ready": False, "parts": parts | {"repository": {"state": "first-look"}}}
    shown: dict[str, dict[str, Any]] = {
        "Health": {"up": {"ok": True}},
        "Readiness": {"ready": {"ready": True, "parts": parts}},
        "Readiness/503": {"first-look": first},
        "TokenPage": {"one": {"items": [token], "next": None}},
        "TokenIssued": {"once": token | {"token": f"{TOKEN_PREFIX}…"}},
        "Token/200": {"ended": token | {"revoked_at": _ENDED}},
    }
    return shown | _people()


def _people() -> dict[str, dict[str, Any]]:
    session = {
        "id": _TOKEN,
        "name": "bingshuo",
        "actor": "person:2",
        "scopes": ["read", "confirm"],
        "via": "forgejo",
        "opened_at": _AT,
        "expires_at": "2026-05-31T20:00:00.000Z",
        "closed_at": None,
    }
    link = {"url": "https://bitong.example/sign-in/link?token=…", "expires_at": "2026-05-31T08:10:00.000Z"}
    stats: dict[str, Any] = {
        "since": "2026-05-30T08:00:00.000Z",
        "until": _AT,
        "by": "hour",
        "states": {"succeeded": 41, "failed": 1},
        "times": [{"at": "2026-05-31T07:00:00.000Z", "states": {"succeeded": 41, "failed": 1}}],
        "tools": [{"tool": "shell-exec", "runs": 42, "failed": 1, "p50_ms": 12, "p95_ms": 1040}],
        "waiting": {"started": 1},
        "sync": {"state": "ok", "looked_at": _AT, "looked_age_s": 12},
    }
    return {
        **matched.learned(_ACTOR, _RUN, _ENDED),
        "Stats": {"a-day": stats},
        "SessionPage": {"one": {"items": [session], "next": None}},
        "Session/200": {"ended": session | {"closed_at": _ENDED}},
        "SignInLink": {"new": link},
    }
