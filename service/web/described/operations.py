"""Health, numbers, documents and reports in the OpenAPI document."""

from typing import Any

from service.web.described.forms import Schema, flag, listing, many, nullable, record, ref, text, texts, whole
from service.web.described.words import EVENTS, PLAIN, Body, Text, between, here_is


def schemas() -> dict[str, Schema]:
    """Name → schema."""
    part: dict[str, Any] = {
        "type": "object",
        "properties": {
            "state": text("`ok`, or a word for what is wrong."),
            "since": ref("Time"),
            "age_s": whole("Seconds since then.", minimum=0),
            "looked_at": ref("Time"),
            "looked_age_s": whole("Seconds since the last look.", minimum=0),
            "phase": text("What a look that runs is doing.", enum=["fetch", "walk"]),
            "done": whole(minimum=0),
            "total": nullable(whole(minimum=0)),
        },
        "required": ["state"],
    }
    states = {
        "type": "object",
        "description": "A run's state → how many.",
        "additionalProperties": whole(minimum=1),
    }
    milliseconds = whole("Milliseconds; from a second on its first three digits.", minimum=0)
    tool = {"tool": ref("ToolName"), "runs": whole(minimum=1), "failed": whole(minimum=0)}
    return {
        "Stats": record(
            {
                "since": ref("Time"),
                "until": ref("Time"),
                "by": text(enum=["hour", "day"]),
                "states": states,
                "times": many(record({"at": ref("Time", "When the hour or day begins, UTC."), "states": states})),
                "tools": many(
                    record(tool | {"p50_ms": milliseconds, "p95_ms": milliseconds}),
                    "Of the newest 100,000 runs that ended: the hundred tools with the most.",
                ),
                "waiting": states | {"description": "Runs that are open now, by state."},
                "sync": part,
            }
        ),
        "MissingTool": record(
            {
                "intent": text("最近一次的说法。The newest wording, without paths, numbers and keys."),
                "count": whole("How often.", minimum=1),
                "actors": whole("By how many.", minimum=1),
                "first_at": ref("Time"),
                "last_at": ref("Time"),
                "examples": texts("Up to five other wordings.", maxItems=5),
                "found_now": nullable(ref("ToolName", "A tool that serves it by now.")),
            }
        ),
        "MissingToolPage": listing("MissingTool"),
        "Health": record({"ok": {"const": True}}),
        "Readiness": record(
            {"ready": flag(), "parts": {"type": "object", "additionalProperties": part}},
            said="Names of parts, states and ages; no addresses, no errors' texts.",
        ),
        "JsonSchema": {"type": "object", "description": "A JSON Schema, 2020-12.", "required": ["$schema"]},
        "OpenApi": {"type": "object", "description": "This document.", "required": ["openapi", "info", "paths"]},
    }


def routes() -> dict[str, Text]:
    """Method and path below the API's root → what is said of the route."""
    by = text("每一格。How wide a step is.", enum=["hour", "day"])
    waiting = Body("尚未看过仓库。The first look has not ended.", "Readiness")
    last = text("The id of the last event that was read; resumes after it.")
    return {
        "GET /stats": Text(
            "reports",
            "Numbers of runs",
            "按状态与时间的运行数、各工具耗时、等待中的与上次查看。",
            "Runs by state and time, durations by tool (p50, p95), what waits, the last sync.",
            query={**between(), "by": by, "tool": text("工具名。A tool's name.")},
            answers=here_is("Stats"),
        ),
        "GET /reports/missing-tools": Text(
            "reports",
            "Intents that found nothing",
            "没有找到工具的意图，说法相近的归在一起，问得多的在前。限于部分工具的令牌只看到自己的。",
            "Intents that found nothing, those alike together, the most asked for first. Of the last 30 days. A token that is "
            "limited to some tools is told of its own.",
            pages=True,
            answers=here_is("MissingToolPage"),
        ),
        "GET /events": Text(
            "reports",
            "All that happens, as it happens",
            "index、run、confirmation、registration、sync，每个带着列表里的那一项。",
            "Server-sent events: `index` {revision}; `registration`, a tool as the list shows it, {name, state} of one gone, "
            "or a rejection; `run` and `confirmation`, the list's item; `sync` {outcome, looked_at, trouble}; `reset` when what "
            "was missed is no longer known. Last-Event-ID resumes.",
            headers={"Last-Event-ID": last},
            answers={200: Body("事件流，不会结束。The stream, without an end.", None, EVENTS)},
            problems={429: ("busy",)},
        ),
        "GET /healthz": Text(
            "operations", "Is it up", "是否在服务。", "200 as long as requests are served.", answers=here_is("Health")
        ),
        "GET /readyz": Text(
            "operations",
            "Is it ready",
            "第一次看过仓库后即为 200，无论结果。",
            "200 once the first look ended, well or not.",
            answers={200: Body("就绪。Ready.", "Readiness"), 503: waiting},
        ),
        "GET /metrics": Text(
            "operations",
            "Numbers for Prometheus",
            "Prometheus 文本格式。",
            "Text format 0.0.4. Open where the operator says `metrics_public`.",
            answers={200: Body("Metrics.", None, PLAIN)},
        ),
        "GET /schema": Text(
            "operations",
            "JSON Schema of TOOL.hdlp",
            "编辑器检查 TOOL.hdlp 用。",
            "For editors' YAML plugins.",
            answers={200: Body("The schema.", "JsonSchema", "application/schema+json")},
        ),
        "GET /openapi.json": Text(
            "operations", "This document", "本文档。", "OpenAPI 3.1.", answers=here_is("OpenApi")
        ),
    }
