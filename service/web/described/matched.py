"""Examples of matching for the OpenAPI document: the seed's intent (seed §2, step 3), answered both ways."""

from collections.abc import Mapping
from typing import Any

from service.execution.resolve import SUGGESTION


def answers(match_id: str, whose: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What `/exec` says to an intent. `whose`: which definition it is, and who wrote it."""
    definition = {name: whose[name] for name in ("version", "commit", "author", "why", "git_author", "pusher")}
    log = {
        "tool": "git-ops",
        "display": "Git操作",
        "intent": "在代码仓库里查看提交记录、状态和差异",
        "score": 3.52,
        "confidence": "high",
        "matched": ["提交记录", "查看"],
        "params_schema": {"args": {"type": "array", "required": True, "description": "git的参数"}},
        "constraints": {"timeout_ms": 30000, "max_output_bytes": 65536, "require_confirm": False},
        "effect": None,
        "deprecated": None,
        "definition": definition | {"why": "铸渊需要查看和操作自己的代码仓库。"},
    }
    near = {"tool": "http-request", "display": "HTTP请求", "score": 0.41}
    return {
        "candidates": {"found": True, "match_id": match_id, "candidates": [log]},
        "none": {"found": False, "suggestion": SUGGESTION, "nearest": [near]},
    }


def learned(actor: str, run: str, at: str) -> dict[str, dict[str, Any]]:
    """What a tool has learned, and what is missing."""
    intent = {
        "id": 7,
        "intent": "翻翻最近提交了什么",
        "actor": actor,
        "run": run,
        "learned_at": at,
        "audit_index": 43,
    }
    missing = {
        "intent": "查一下明天的天气",
        "count": 3,
        "actors": 2,
        "first_at": at,
        "last_at": at,
        "examples": ["天气预报"],
        "found_now": None,
    }
    return {
        "LearnedIntentPage": {"one": {"items": [intent], "next": None}},
        "IntentsForgotten": {"one": {"forgotten": 1}},
        "MissingToolPage": {"weather": {"items": [missing], "next": None}},
    }
