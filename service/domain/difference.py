"""What changed between two versions of a tool's folder, file by file."""

import difflib
from collections.abc import Sequence
from typing import Any, Final

from service.domain.executors import ToolFile

MAX_LINES: Final = 4000  # of one file; a longer one is said to have changed, without its lines


def difference(old: Sequence[ToolFile], new: Sequence[ToolFile]) -> list[dict[str, Any]]:
    """`[{path, change: added|removed|modified|mode, diff}]` by path; `diff` is a unified one, or null for what is no text."""
    before = {file.path: file for file in old}
    after = {file.path: file for file in new}
    changes = []
    for path in sorted(before.keys() | after.keys()):
        change = _change(before.get(path), after.get(path))
        if change is not None:
            changes.append({"path": path, "change": change, "diff": _unified(path, before.get(path), after.get(path))})
    return changes


def _change(old: ToolFile | None, new: ToolFile | None) -> str | None:
    if old is None:
        return "added"
    if new is None:
        return "removed"
    if old.content != new.content:
        return "modified"
    return "mode" if old.executable != new.executable else None


def _unified(path: str, old: ToolFile | None, new: ToolFile | None) -> str | None:
    texts = [_lines(file) for file in (old, new)]
    if any(lines is None or len(lines) > MAX_LINES for lines in texts):
        return None
    before, after = texts
    return "".join(difflib.unified_diff(before or [], after or [], f"a/{path}", f"b/{path}"))


def _lines(file: ToolFile | None) -> list[str] | None:
    if file is None:
        return []
    try:
        return file.content.decode("utf-8").splitlines(keepends=True)
    except UnicodeDecodeError:
        return None
