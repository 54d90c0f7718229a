"""Examples of keeping the record for the OpenAPI document."""

from collections.abc import Mapping
from typing import Any, Final

_AT: Final = "2026-05-31T08:00:00.000Z"
_LATER: Final = "2026-06-02T09:30:00.000Z"
_COMMIT: Final = "9c1f04d2ab7e64b2f3d7c18a90e6b54d2c7f0137"


def keeping_examples(version: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """`version`: an item of a list of versions."""
    then: dict[str, Any] = {
        "tool": "shell-exec",
        "time": "2026-06-01T00:00:00.000Z",
        "state": "active",
        "version": dict(version),
        "why": {
            "zh": f"第 1 版：那之前的最后一次变化使它生效（日志第 3 条（{_AT}））。",
            "en": f"Version 1: the last change before made it the one that runs (entry 3 of {_AT}).",
        },
        "because": {"index": 3, "type": "definition.registered", "at": _AT},
        "following": {"index": 88, "type": "definition.registered", "at": _LATER},
    }
    anchor = {
        "size": 41,
        "at": _AT,
        "repository": "https://forge.example/zhuyuan/records.git",
        "branch": "bitong-audit",
    }
    return {
        "ToolThen": {"between": then},
        "AnchorPage": {"one": {"items": [anchor | {"commit": _COMMIT}], "next": None}},
        "PurgeRequest": {"old": {"older_than": "2026-03-01", "larger_than": 1000000, "dry_run": True}},
        "Purged": {
            "more": {"runs": 1800, "bytes": 73400320, "next": 40000, "folded": None},
            "done": {"runs": 12, "bytes": 48110, "next": None, "folded": True},
        },
    }
