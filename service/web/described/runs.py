"""Runs in the OpenAPI document: the list, one run, its bytes."""

from typing import Final

from service.domain.runs import ERROR_CHARACTERS, STATES
from service.web.described.exec import exact_bytes, run_fields
from service.web.described.forms import Schema, flag, listing, many, nullable, record, ref, text, whole, whole_text
from service.web.described.words import EVENTS, Body, Text, between, here_is
from service.web.lists import COMMIT

BYTES: Final = "application/octet-stream"


def schemas() -> dict[str, Schema]:
    """Name → schema."""
    item = {
        "id": ref("Id"),
        "state": text(enum=list(STATES)),
        "reason": nullable(text()),
        "ok": flag(),
        "tool": ref("ToolName"),
        "method": text("Executor and method, such as `shell:exec`."),
        "version": whole(minimum=1),
        "commit": ref("GitId"),
        "actor": ref("Actor"),
        "started_at": nullable(ref("Time")),
        "ended_at": nullable(ref("Time")),
        "duration_ms": ref("Milliseconds"),
        "exit_code": nullable(whole()),
        "error": nullable(text(f"Its first {ERROR_CHARACTERS} characters.", maxLength=ERROR_CHARACTERS)),
        "output_bytes": ref("Bytes"),
        "stderr_bytes": ref("Bytes"),
        "match_id": nullable(ref("Id")),
        "confirmation_id": nullable(ref("Id")),
        "receipt": nullable(ref("Receipt")),
    }
    params: Schema = {
        "description": "参数，密钥已遮蔽；null：已清除或未保留。The parameters, secrets masked; null where purged or never kept.",
        "type": ["object", "null"],
    }
    more = {
        "error": nullable(text("Standard error, untouched; then why.")),
        "params": params,
        "params_digest": ref("Sha256", "The commitment that stands in the log."),
        "output": text("The kept output as text."),
        "definition": ref("RanDefinition"),
        "intent": text("The definition's."),
        "node": nullable(text("The gatekeeper's name; null: this host.")),
        "problems": many(ref("FieldProblem"), "Why it was refused."),
    }
    return {
        "Run": record(item),
        "RunPage": listing("Run"),
        "RunInFull": record(run_fields() | item | more, exact_bytes()),
    }


def routes() -> dict[str, Text]:
    """Method and path below the API's root → what is said of the route."""
    gone = {404: ("unknown-run",)}
    filters = {
        "tool": text("工具名。A tool's name."),
        "state": text(enum=list(STATES)),
        "ok": flag("是否成功。Whether it succeeded."),
        "actor": text("Such as `token:<id>`."),
        "commit": text(
            "定义的提交，至少四位。The definition's commit, 4 digits or more.",
            pattern=whole_text(COMMIT.pattern),
        ),
        **between(),
        "q": text("在工具名、错误和意图中查找。Searches tool, error and intent."),
        "format": text("全部，作为文件。All of them, as a file.", enum=["csv", "ndjson"]),
    }
    ranged = {"Range": text("One range, such as `bytes=0-1023`.", pattern=r"^bytes=\d{0,18}-\d{0,18}$")}
    kept = {
        200: Body("保留的字节。The kept bytes, exactly.", None, BYTES, ("Accept-Ranges",)),
        206: Body("其中一段。The range that was asked for.", None, BYTES, ("Accept-Ranges", "Content-Range")),
    }
    partly = gone | {416: ("range-not-satisfiable",)}
    see = "只有 exec 权限的令牌只看得到自己的运行。"
    return {
        "GET /runs": Text(
            "runs",
            "The runs, newest first",
            see,
            "With `exec` alone: its own.",
            query=filters,
            pages=True,
            answers=here_is("RunPage"),
        ),
        "GET /runs/{id}": Text(
            "runs",
            "One run in full",
            "参数、输出、回执，以及运行的定义。" + see,
            "Its parameters as kept, its output, its receipt, and the definition that ran.",
            answers=here_is("RunInFull"),
            problems=gone,
        ),
        "GET /runs/{id}/stdout": Text(
            "runs",
            "Kept standard output",
            "标准输出的字节。",
            "One range at a time.",
            headers=ranged,
            answers=kept,
            problems=partly,
        ),
        "GET /runs/{id}/stderr": Text(
            "runs",
            "Kept standard error",
            "标准错误的字节。",
            "One range at a time.",
            headers=ranged,
            answers=kept,
            problems=partly,
        ),
        "GET /runs/{id}/proof": Text(
            "runs",
            "A file that proves a run",
            "可以交给陌生人的证明文件：日志里关于它的记录、它们在树中的路径和签名的检查点。",
            "Its entries in the log, their paths in the tree, and the signed checkpoint: whoever has the log's key can check it "
            "with `bitong audit verify --proof FILE`, without this server.",
            answers=here_is("RunProof"),
            problems=gone | {409: ("run-open",), 503: ("not-available",)},
        ),
        "GET /runs/{id}/events": Text(
            "runs",
            "A run as it goes",
            "状态与输出，随到随发。",
            "Server-sent events: `state` {id, state}; `output` {stream, offset, text, b64?}, where a jump in `offset` says what "
            "was skipped; `end` with the run's item, the last one. Last-Event-ID resumes.",
            headers={"Last-Event-ID": text("The id of the last event that was read.")},
            answers={200: Body("事件流。The stream.", None, EVENTS)},
            problems=gone | {429: ("busy",)},
        ),
        "POST /runs/{id}/cancel": Text(
            "runs",
            "End a run",
            "终止整个进程树。exec：自己的运行；admin：任何运行。",
            "Kills the whole process tree. `exec`: its own run; `admin`: any. Answers with the run as it is then.",
            answers=here_is("Run"),
            problems=gone | {409: ("run-over",)},
        ),
    }
