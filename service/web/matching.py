"""Intents over HTTP: candidates for a call by intent, what tools have learned, and which tools are missing."""

import json
from collections.abc import Mapping
from typing import Any, Final

from service.domain.executors import ParameterProblem
from service.domain.search.matcher import Candidate
from service.domain.tools import ToolVersion
from service.errors import Invalid, Message, NotFound
from service.execution.matching import MissingTool
from service.execution.resolve import SUGGESTION
from service.store.matching import Learned
from service.web.lists import check_names, page, read_text, unfit
from service.web.parts import Parts
from service.web.routing import Answer, Asked, need

MAX_CONTEXT_BYTES: Final = 16 * 1024
_CONTEXT: Final = Message("context 不能超过 16 KiB。", "The context is larger than 16 KiB.")


def answer_intent(parts: Parts, asked: Asked, intent: str, context: Any) -> Answer:
    """One to three candidates, or an honest no; nothing runs (contract/http-api.md, Intent call)."""
    need(asked.actor, ["read"])
    if (
        len(json.dumps(context, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace"))
        > MAX_CONTEXT_BYTES
    ):
        problem = ParameterProblem("context", "too-long", _CONTEXT.zh, _CONTEXT.en)
        raise Invalid(_CONTEXT, facts={"problems": [problem.as_json()]})
    answered = parts.matching.match(intent, asked.actor, context)
    match, versions = answered.match, answered.versions
    if match.found:
        candidates = [_candidate(one, versions[one.tool]) for one in match.candidates]
        return Answer({"found": True, "match_id": answered.id, "candidates": candidates})
    nearest = [
        {"tool": one.tool, "display": versions[one.tool].definition.display, "score": one.score}
        for one in match.nearest
    ]
    return Answer({"found": False, "suggestion": SUGGESTION, "nearest": nearest})


def _candidate(one: Candidate, version: ToolVersion) -> dict[str, Any]:
    """Texts of definitions stand in fields of their own, never among words of ours."""
    definition = version.definition
    shape = definition.as_json()
    return {
        "tool": one.tool,
        "display": definition.display,
        "intent": definition.intent,
        "score": one.score,
        "confidence": one.confidence,
        "matched": list(one.matched),
        "params_schema": shape["params_schema"],
        "constraints": shape["constraints"],
        "effect": definition.effect,
        "deprecated": definition.deprecated,
        "definition": {
            "version": version.number,
            "commit": version.commit,
            "author": definition.author,
            "why": definition.why,
            "git_author": version.git_author,
            "pusher": version.pusher,
        },
    }


def list_intents(parts: Parts, asked: Asked) -> Answer:
    """What one tool has learned, newest first; as words to search by, which nobody is told to follow."""
    check_names(asked, ())
    learned = parts.matching.learned(_tool(parts, asked))

    def fetch(before: int | None, limit: int) -> list[Learned]:
        return [one for one in learned if before is None or one.id < before][:limit]

    return Answer(page(asked, fetch, lambda one: one.id, _learned))


def forget_intents(parts: Parts, asked: Asked) -> Answer:
    """Forget all that a tool has learned, or the one that `intent` names by its id."""
    check_names(asked, ("intent",))
    tool = _tool(parts, asked)
    only = read_text(asked, "intent")
    if only is not None and not (only.isascii() and only.isdigit() and len(only) <= 18):
        raise unfit("intent", "intent 为所学意图的 id。", "It takes the id of a learned intent.")
    return Answer({"forgotten": parts.matching.forget(tool, asked.actor, None if only is None else int(only))})


def missing_tools(parts: Parts, asked: Asked) -> Answer:
    """Intents that found nothing, of one kind together, the most asked for first."""
    check_names(asked, ())
    clusters = parts.matching.missing(asked.actor)
    numbered = list(zip(range(len(clusters), 0, -1), clusters, strict=True))

    def fetch(before: int | None, limit: int) -> list[tuple[int, MissingTool]]:
        return [row for row in numbered if before is None or row[0] < before][:limit]

    return Answer(page(asked, fetch, lambda row: row[0], lambda row: _missing(row[1])))


def _tool(parts: Parts, asked: Asked) -> str:
    tool = parts.index.find(asked.path["name"], asked.actor)
    if tool is None:
        raise NotFound(Message("没有这个工具。", "There is no such tool."), code="unknown-tool")
    return tool.name


def _learned(one: Learned) -> Mapping[str, Any]:
    moment = one.intent.accepted_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "id": one.id,
        "intent": one.intent.text,
        "actor": one.intent.actor,
        "run": one.run,
        "learned_at": moment,
        "audit_index": one.index,
    }


def _missing(one: MissingTool) -> Mapping[str, Any]:
    return {
        "intent": one.intent,
        "count": one.count,
        "actors": one.actors,
        "first_at": one.first_at,
        "last_at": one.last_at,
        "examples": list(one.examples),
        "found_now": one.found_now,
    }
