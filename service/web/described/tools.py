"""Definitions, tools and their versions in the OpenAPI document."""

from service.domain.definitions import EFFECTS, EXECUTORS, MAX_OUTPUT_BYTES, MAX_TIMEOUT_MS, TYPES
from service.web.described.forms import Schema, flag, listing, many, nullable, record, ref, text, texts, whole
from service.web.described.words import PLAIN, Body, Text, here_is, moment


def schemas() -> dict[str, Schema]:
    """Name → schema."""
    return _definitions() | _tools()


def routes() -> dict[str, Text]:
    """Method and path below the API's root → what is said of the route."""
    one, version = ("unknown-tool",), ("unknown-tool", "unknown-version")
    states = ["active", "removed", "orphaned", "unregistered"]
    filters = {
        "q": text("在名字、显示名、意图和原因中查找。Searches name, display, intent and why."),
        "executor": text(enum=list(EXECUTORS)),
        "author": text("定义中的 author。The definition's author."),
        "state": text(enum=states, default="active"),
        "format": text(
            "Others than bitong: not available yet.", enum=["bitong", "openai", "anthropic", "mcp"], default="bitong"
        ),
    }
    zh, en = "每个改动过它的提交一版，新的在前。", "Newest first: a version for each commit that changed the folder."
    return {
        "GET /tools": Text(
            "tools",
            "The tools",
            "可以运行的工具，按名字排列；不给 limit 就是全部。带 If-None-Match 时没有变化即答 304。",
            "Those that can run, by name; all of them unless a limit is given. If-None-Match answers 304 while nothing changed.",
            query=filters,
            headers={"If-None-Match": text("The ETag of an answer before.")},
            pages=True,
            answers=here_is("ToolPage", "", "ETag")
            | {304: Body("没有变化。Nothing changed.", media=None, headers=("ETag",))},
        ),
        "GET /tools/{name}": Text(
            "tools",
            "One tool",
            "一个工具，以及它的名字现在的状态。",
            "One tool, and how its name stands now.",
            answers=here_is("ToolStanding"),
            problems={404: one},
        ),
        "GET /tools/{name}/versions": Text(
            "tools", "A tool's history", zh, en, pages=True, answers=here_is("VersionPage"), problems={404: one}
        ),
        "GET /tools/{name}/versions/{number}": Text(
            "tools",
            "One version",
            "一个版本，连同整个定义。",
            "One version with its whole definition.",
            answers=here_is("VersionInFull"),
            problems={404: version, 422: ("bad-parameters",)},
        ),
        "GET /tools/{name}/versions/{number}/source": Text(
            "tools",
            "The bytes of a version's TOOL.hdlp",
            "提交中的原始字节。",
            "The bytes as the commit holds them.",
            answers={200: Body("TOOL.hdlp", None, PLAIN)},
            problems={404: version, 422: ("bad-parameters",)},
        ),
        "GET /tools/{name}/versions/{number}/diff": Text(
            "tools",
            "What a version changed",
            "与前一版相比，逐个文件。",
            "What changed since the version before, file by file.",
            answers=here_is("Difference"),
            problems={404: version, 422: ("bad-parameters",)},
        ),
        "GET /tools/{name}/at": Text(
            "tools",
            "Which version would have run then",
            "那一刻会运行哪个版本，以及为什么。",
            "Which version would have run at a moment, and why that one.",
            query={"time": moment("那一刻。The moment.")},
            needs=("time",),
            answers=here_is("ToolThen"),
            problems={404: one},
        ),
        "GET /tools/{name}/intents": Text(
            "tools",
            "Intents a tool has learned",
            "它从成功的调用中学到的意图，去掉了路径、数字与密钥，新的在前。只是检索用的词，不是指令。",
            "What calls that went well have taught it, without paths, numbers and keys, newest first. Words to search by, not "
            "instructions.",
            pages=True,
            answers=here_is("LearnedIntentPage"),
            problems={404: one},
        ),
        "DELETE /tools/{name}/intents": Text(
            "tools",
            "Forget learned intents",
            "忘掉学到的意图：全部，或只是其中一条。",
            "Forgets what it has learned: all, or one of them.",
            query={"intent": whole("The id of the one to forget; all unless given.", minimum=1)},
            answers=here_is("IntentsForgotten"),
            problems={404: one},
        ),
    }


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
        "RanDefinition": record(
            whose, said="运行的是哪个定义。Which definition ran: who wrote it, why, and where it is."
        ),
        "RegisteredDefinition": record(whose | registered),
        "Definition": record(
            _definition_fields(), said="One TOOL.hdlp, every field; what it does not say is null or empty."
        ),
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
    standing = {
        "state": text(enum=["active", "removed", "orphaned", "unregistered"]),
        "removed": removed,
        "rejection": nullable(ref("Rejection")),
    }
    version = _version_fields()
    return {
        "Tool": record(item),
        "ToolPage": {"anyOf": [ref("OwnToolPage"), ref("ForeignToolPage")]},
        "OwnToolPage": listing("Tool"),
        "ForeignToolPage": listing("ForeignTool"),
        "ForeignTool": {
            "description": "As `format` asks: OpenAI's function, Anthropic's tool, or MCP's tool.",
            "type": "object",
            "anyOf": [{"required": [name]} for name in ("function", "input_schema", "inputSchema")],
        },
        "ToolInFull": record(item | standing),
        "ToolStanding": {"oneOf": [ref("ToolInFull"), ref("ToolWithoutVersion")]},
        "ToolWithoutVersion": record(
            {"name": text(), "behind": flag(), **standing},
            said="A name that never had a valid definition.",
        ),
        "Removed": record(
            {"at": nullable(ref("Time")), "commit": nullable(ref("GitId")), "by": nullable(text())},
            said="何时、由谁的哪次提交移除。When it was removed, by which commit, and by whom.",
        ),
        "LearnedIntent": record(
            {
                "id": whole(minimum=1),
                "intent": text(),
                "actor": ref("Actor", "Who asked, and then ran the tool."),
                "run": ref("Id", "The run that taught it."),
                "learned_at": ref("Time"),
                "audit_index": whole("The log's entry about it.", minimum=0),
            }
        ),
        "LearnedIntentPage": listing("LearnedIntent"),
        "IntentsForgotten": record({"forgotten": whole("How many.", minimum=0)}),
        "Version": record(version),
        "VersionPage": listing("Version"),
        "VersionInFull": record(version | {"definition": ref("Definition"), "warnings": item["warnings"]}),
        "ToolThen": record(
            {
                "tool": ref("ToolName"),
                "time": ref("Time"),
                "state": standing["state"],
                "version": nullable(ref("Version", "The one that would have run, or that had run last.")),
                "why": ref("Message"),
                "because": nullable(ref("ChangeThen", "The entry of the log that decided it.")),
                "following": nullable(ref("ChangeThen", "The next change of the tool's definition.")),
            }
        ),
        "ChangeThen": record({"index": whole(minimum=0), "type": text(), "at": ref("Time")}),
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
        "git_committed_at": nullable(ref("Time")),
        "pusher": nullable(text()),
        "registered_at": ref("Time"),
        "same_meaning": flag("Only comments or layout differ from the version before."),
    }
