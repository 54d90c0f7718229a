"""`POST /exec` in the OpenAPI document: what it takes, and what it answers in each case."""

from typing import Any, Final

from service.domain.definitions import EFFECTS, MAX_TIMEOUT_MS
from service.domain.runs import CODES, STATES
from service.execution.resolve import SUGGESTION
from service.web.described.forms import Schema, flag, many, nullable, record, ref, text, texts, whole
from service.web.described.words import SAID, Body, Text


def schemas() -> dict[str, Schema]:
    """Name → schema."""
    return _calls() | _answers() | _matches()


def routes() -> dict[str, Text]:
    """Method and path below the API's root → what is said of the route."""
    return {
        "POST /exec": Text(
            "exec",
            "Run a tool, or find one by intent",
            "精确调用：按名字运行一个已注册的工具，原样返回真实回执。意图调用：返回一至三个候选，不运行任何东西。"
            "每个回答都以种子的六个字段开头，什么都没有运行时也是。",
            "An exact call runs one registered tool by name and gives back what really came of it. A call by intent answers one "
            "to three candidates and runs nothing; it needs `read` too. Every answer to a call begins with the seed's six "
            "fields, also when nothing ran. A caller that goes away cancels nothing.",
            headers={
                "Idempotency-Key": text("Makes a repeat safe; belongs to the actor, lives 7 days.", maxLength=200)
            },
            body="ExecRequest",
            answers=_cases(),
        ),
    }


def _cases() -> dict[int, Body]:
    """The contract's table, row by row."""

    def refused(status: int, *codes: str, headers: tuple[str, ...] = ()) -> Body:
        return Body(f"{SAID[status].zh}{SAID[status].en}", "ExecRefused", headers=headers, codes=codes)

    return {
        200: Body(
            "它运行了，成功与否见 ok；或候选。It ran, well or not: see `ok`. Of an intent: candidates.", "ExecAnswer"
        ),
        202: Body(
            "还在进行，或等待确认。It goes on, or waits for a confirmation.",
            "ExecAccepted",
            codes=("accepted", "needs-confirmation"),
        ),
        400: refused(400, "bad-request", "body-timeout"),
        401: refused(401, "unauthenticated", headers=("WWW-Authenticate",)),
        403: refused(403, "forbidden"),
        404: Body("没有这个工具，或已移除。There is no such tool, or it was removed.", "ExecUnknown", codes=_UNKNOWN),
        409: refused(409, *_CONFLICTS),
        413: refused(413, "too-large"),
        422: refused(422, "bad-parameters"),
        429: refused(429, "busy", headers=("Retry-After",)),
        500: refused(500, "internal"),
        503: refused(503, "cannot-record", "not-available"),
    }


_UNKNOWN: Final = ("unknown-tool", "removed-tool")
_CONFLICTS: Final = (
    *("not-active", "orphaned", "definition-changed", "key-reused", "not-allowed", "store-changed"),
    *("cancelled", "rights-ended", "confirmation-rejected", "confirmation-expired", "confirmation-dropped"),
)


def _calls() -> dict[str, Schema]:
    demand = "定义须正是这个，否则拒绝。Demands this definition; the call is refused where it is not the active one."
    return {
        "ExecRequest": {"oneOf": [ref("ExactCall"), ref("IntentCall")]},
        "ExactCall": record(
            {"tool": text("工具名。The tool's name.")},
            {
                "params": {"type": "object", "default": {}, "description": "参数。The parameters by name."},
                "version": nullable(whole(demand, minimum=1)),
                "commit": nullable(ref("GitId", demand)),
                "sha256": nullable(ref("Sha256", demand)),
                "timeout_ms": nullable(
                    whole("May only lower the definition's limit.", minimum=1, maximum=MAX_TIMEOUT_MS)
                ),
                "wait": {
                    "description": "false：立即返回202。False answers 202 with the run at once.",
                    "type": "boolean",
                    "default": True,
                },
                "match_id": nullable(ref("Id", "From a match of the same actor.")),
            },
            "精确调用。An exact call.",
        ),
        "IntentCall": record(
            {"intent": text("要做什么。What is to be done.")},
            {"context": {"description": "Any JSON up to 16 KiB; its texts only break ties."}},
            "意图匹配。A call by intent: answers candidates, runs nothing.",
        ),
    }


def _six(**ok: Any) -> dict[str, Schema]:
    """The seed's six fields (§2, step 5), in its order."""
    return {
        "ok": {
            "description": "true：工具运行了并且成功。True only if the tool ran and succeeded.",
            "type": "boolean",
            **ok,
        },
        "tool": text("所请求的名字。The name that was asked for."),
        "method": text("Executor and method, such as `gatekeeper:exec`; empty when there is no such tool."),
        "output": text("原始输出，不加工。Standard output or the response's body, untouched."),
        "error": nullable(
            text("标准错误，原样；必要时再加一行原因。Standard error, untouched; then why, where that is not said.")
        ),
        "duration_ms": ref("Milliseconds", "From the start of the execution to its end; 0 when nothing ran."),
    }


def _answers() -> dict[str, Schema]:
    code, message = ref("ErrorCode"), ref("Message")
    found = {"found": {"const": True}, "definition": ref("RanDefinition")}
    ran = {"run": ref("ExecRun"), "receipt": nullable(ref("Receipt"))}
    said = {"code": code, "message": message}
    why: dict[str, Any] = {
        "if": {"properties": {"ok": {"const": False}}},
        "then": {"required": ["code", "message"], "properties": {"code": {"enum": [*CODES.values()]}}},
        "else": {"not": {"anyOf": [{"required": ["code"]}, {"required": ["message"]}]}},
    }
    return {
        "ExecAnswer": {"oneOf": [ref("ExecEnded"), ref("MatchFound"), ref("MatchNothing")]},
        "ExecEnded": record(_six() | found | ran, said, "它运行了。The tool ran, well or not.", **why),
        "ExecAccepted": record(
            _six(const=False) | found | ran | said,
            {"confirmation": ref("ConfirmationAsked")},
            "It goes on, or waits for a confirmation.",
        ),
        "ExecUnknown": record(
            _six(const=False) | {"found": {"const": False}, "suggestion": {"const": SUGGESTION}} | said,
            {"removed": ref("Removed")},
            "没有这个工具。There is no such tool, or none for this token.",
        ),
        "ExecRefused": record(
            _six(const=False) | said,
            found | ran | {"problems": many(ref("FieldProblem"), "All of them.")},
            "没有运行。It did not run. Where a definition was found the refusal is a run of its own.",
            dependentRequired={"run": ["receipt", "definition"], "definition": ["found"]},
        ),
        "ExecRun": record(run_fields(), exact_bytes(), "How it ran."),
        "Receipt": record(
            {
                "index": whole("The log's entry that ended the run.", minimum=0),
                "leaf": ref("Sha256", "That entry's leaf hash."),
                "checkpoint": nullable(text("The newest signed note that covers it; null until there is one.")),
            },
            said="回执。What proves it.",
        ),
    }


def run_fields() -> dict[str, Schema]:
    """`run` of an answer."""
    return {
        "id": ref("Id"),
        "state": text(enum=list(STATES)),
        "reason": nullable(text("`exit-code`, `signal`, `deadline` …; of a refused run its code.")),
        "exit_code": nullable(whole()),
        "signal": nullable(text("Such as SIGKILL.")),
        "status": nullable(whole("The far side's HTTP status.")),
        "stderr": text("Standard error, untouched up to max_output_bytes."),
        "output_bytes": ref("Bytes", "Everything that was produced, past the cap too."),
        "output_sha256": nullable(ref("Sha256", "Of everything; null when nothing ran.")),
        "stderr_bytes": ref("Bytes"),
        "stderr_sha256": nullable(ref("Sha256")),
        "truncated": flag("More came than is kept."),
        "totals": nullable(text("`received`, where a far side did not say.", enum=["produced", "received"])),
        "output_url": nullable(text("The kept bytes.", format="uri")),
        "stderr_url": nullable(text(format="uri")),
        "notes": many(ref("Message"), "What was cut, and other things to know."),
    }


def exact_bytes() -> dict[str, Schema]:
    """What `run` has where its texts are not exact."""
    return {
        "output_b64": ref("Base64", "The exact bytes, where they are not UTF-8."),
        "stderr_b64": ref("Base64", "The exact bytes, where they are not UTF-8."),
    }


def _matches() -> dict[str, Schema]:
    number = {"type": "number", "description": "Unrelated wishes seldom reach 1."}
    whose = {
        "version": whole(minimum=1),
        "commit": ref("GitId"),
        "author": text(),
        "why": text(),
        "git_author": text(),
        "pusher": nullable(text()),
    }
    candidate = {
        "tool": ref("ToolName"),
        "display": text(),
        "intent": text(),
        "score": number,
        "confidence": text(enum=["high", "medium", "low"]),
        "matched": nullable(texts("What of the intent was found.")),
        "params_schema": ref("ParamsSchema"),
        "constraints": ref("Constraints"),
        "effect": nullable(text(enum=list(EFFECTS))),
        "deprecated": nullable(text()),
        "definition": record(whose),
    }
    near = record({"tool": ref("ToolName"), "display": text(), "score": number})
    candidates = many(ref("Candidate"), "最好的在前。The best first; deprecated ones last.", minItems=1, maxItems=3)
    match_id = nullable(ref("Id", "For the exact call that follows; null where it could not be written down."))
    nothing: dict[str, Schema] = {"found": {"const": False}, "suggestion": {"const": SUGGESTION}}
    return {
        "Candidate": record(candidate),
        "MatchFound": record({"found": {"const": True}, "match_id": match_id, "candidates": candidates}),
        "MatchNothing": record(nothing | {"nearest": many(near, "并不推荐。Not recommended.", maxItems=3)}),
    }
