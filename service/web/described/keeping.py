"""Keeping the record in the OpenAPI document: purging, backup, anchors, and the entries that they write."""

from collections.abc import Sequence

from service.web.described.forms import Schema, flag, listing, nullable, record, ref, text, whole
from service.web.described.words import Body, Text, here_is

SQLITE = "application/vnd.sqlite3"


def groups() -> dict[str, tuple[Sequence[str], Schema]]:
    """Name of the schema → the types of entries it holds for, and the shape of their facts."""
    return {
        "AuditLogRestored": (["log.restored"], _restored()),
        "AuditOutputPurged": (
            ["output.purged"],
            record({"run": ref("Id"), "bytes": ref("Bytes"), "why": text("A setting's name, or `purge-output`.")}),
        ),
        "AuditCheckpointAnchored": (["checkpoint.anchored"], record(_anchor() | {"root": ref("Sha256")})),
    }


def schemas() -> dict[str, Schema]:
    """Name → schema."""
    row = whole("Where the next step goes on.", minimum=0)
    return {
        "Anchor": record(_anchor() | {"at": ref("Time")}),
        "AnchorPage": listing("Anchor"),
        "PurgeRequest": record(
            {},
            {
                "older_than": text("结束于此刻之前的。Those that ended before this time."),
                "larger_than": ref("Bytes", "保留的字节多于此的。Those of which more than so many bytes are kept."),
                "tool": ref("ToolName"),
                "run": ref("Id"),
                "dry_run": flag("只数，不清除。Only count them."),
                "after": row,
            },
            said="All of what is given; one of the first four at least.",
        ),
        "Purged": record(
            {
                "runs": whole("How many.", minimum=0),
                "bytes": ref("Bytes", "Of output and parameters."),
                "next": nullable(row | {"description": "Ask again with it as `after`; null: that was all."}),
                "folded": nullable(flag("Whether nothing of it is left on the disk; null until the last step.")),
            }
        ),
    }


def routes() -> dict[str, Text]:
    """Method and path below the API's root → what is said of the route."""
    return {
        "GET /audit/anchors": Text(
            "audit",
            "Where checkpoints were committed",
            "检查点提交到了哪里，新的在前。",
            "Checkpoints committed to a repository, newest first.",
            pages=True,
            answers=here_is("AnchorPage"),
        ),
        "POST /audit/purge-output": Text(
            "audit",
            "Purge output and parameters of runs",
            "清除输出与参数，每个运行一条记录；一切证明仍然成立。一次做几秒，按 next 继续。",
            "An entry for each run; every proof stays whole. It works for a few seconds; go on with `next`.",
            body="PurgeRequest",
            answers=here_is("Purged"),
            problems={503: ("cannot-record",)},
        ),
        "GET /backup": Text(
            "operations",
            "A copy of the database",
            "整个数据库的一份一致的副本；只给本机的操作者（bitong backup）。",
            "One consistent copy, for the operator on this host alone (`bitong backup`). Keys are not in it.",
            answers={200: Body("SQLite 数据库。The database.", None, SQLITE, ())},
            problems={503: ("not-available",)},
        ),
    }


def _anchor() -> dict[str, Schema]:
    return {
        "size": whole("Entries that the checkpoint covers.", minimum=1),
        "repository": text("Without credentials."),
        "branch": text(),
        "commit": ref("GitId"),
    }


def _restored() -> Schema:
    return record(
        {
            "size": whole("Entries that were left: this one's index.", minimum=1),
            "known_size": nullable(
                whole("Entries of the newest checkpoint known then; null where none was.", minimum=1)
            ),
            "known_root": nullable(ref("Sha256")),
        }
    )
