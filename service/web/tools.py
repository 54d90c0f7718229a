"""Tools and their versions, as lists and one by one (contract/http-api.md, The rest)."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from service.domain.actors import Actor
from service.domain.definitions import EXECUTORS, Problem
from service.domain.difference import difference
from service.domain.tools import Tool, ToolVersion
from service.errors import Message, NotFound
from service.store import history, tools
from service.web.answers import definition_of
from service.web.formats import FORMATS
from service.web.lists import check_names, page, read_choice, read_cursor_text, read_limit, unfit, write_cursor
from service.web.parts import Parts, etag
from service.web.registrations import rejection_of
from service.web.routing import Answer, Asked

_STATES: Final = ("active", "removed", "orphaned", "unregistered")
_FORMATS: Final = ("bitong", *FORMATS)
_FILTERS: Final = ("q", "executor", "author", "state", "format")


def list_tools(parts: Parts, asked: Asked) -> Answer:
    """Active tools, or those in `state`; an ETag over all that the answer depends on."""
    check_names(asked, _FILTERS)
    form = read_choice(asked, "format", _FORMATS) or "bitong"
    wanted = _filter(asked)
    index = parts.index
    found = [tool for tool in index.named(asked.actor) if wanted(tool)]
    tag = etag(index.revision, parts.matching.revision, sorted(asked.query.items()), asked.actor.tools)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if tag in [item.strip().removeprefix("W/") for item in asked.headers.get("if-none-match", "").split(",")]:
        return Answer(b"", 304, headers)
    return Answer(_page(asked, found, partial(_item, parts, form, asked.actor)), headers=headers)


def show_tool(parts: Parts, asked: Asked) -> Answer:
    """One tool as the list shows it, and how its name stands."""
    tool = _visible(parts, asked)
    removed = None
    if tool.state == "removed":
        removed = {"at": tool.removed_at, "commit": tool.removed_commit, "by": tool.removed_by}
    stands = {"state": tool.state, "removed": removed, "rejection": _rejection(parts, asked, tool)}
    if tool.version is None:
        return Answer({"name": tool.name, "behind": tool.behind, **stands})
    return Answer(item_of(parts, tool, asked.actor) | stands)


def _rejection(parts: Parts, asked: Asked, tool: Tool) -> dict[str, Any] | None:
    """Why what the tip holds of this name is not registered, for whoever may read rejections; None where it is."""
    if not asked.actor.may("read"):
        return None
    with parts.database.read() as connection:
        rows = tools.list_rejections(connection, before=None, limit=1, tool=tool.name, current=True)
    return rejection_of(rows[0]) if rows else None


def list_versions(parts: Parts, asked: Asked) -> Answer:
    """A tool's history, newest number first."""
    check_names(asked, ())
    tool = _visible(parts, asked)
    with parts.database.read() as connection:
        shown = page(
            asked,
            lambda before, limit: tools.versions(connection, tool.name, before=before, limit=limit),
            lambda version: version.number,
            version_of,
        )
    return Answer(shown)


def show_version(parts: Parts, asked: Asked) -> Answer:
    """One version with its whole definition."""
    version = _version(parts, asked)
    return Answer(version_of(version) | {"definition": version.definition.as_json(), "warnings": _warnings(version)})


def show_source(parts: Parts, asked: Asked) -> Answer:
    """The bytes of one version's TOOL.hdlp, as the commit holds them."""
    version = _version(parts, asked)
    content = history.blob(parts.database, version.blob)
    if content is None:
        raise _no_version()
    headers = {"Content-Disposition": f'attachment; filename="{version.tool}-{version.number}.TOOL.hdlp"'}
    return Answer(content, headers=headers, media_type="text/plain; charset=utf-8")


def show_diff(parts: Parts, asked: Asked) -> Answer:
    """What changed since the version before, file by file."""
    version = _version(parts, asked)
    with parts.database.read() as connection:
        before = tools.version(connection, version.tool, version.number - 1)
    folder = version.tool.encode()
    new = history.files(parts.database, folder, version.tree)
    old = history.files(parts.database, folder, before.tree) if before is not None else []
    return Answer(
        {
            "tool": version.tool,
            "from": before.number if before is not None else None,
            "to": version.number,
            "same_meaning": version.same_meaning,
            "files": difference(old, new),
        }
    )


def item_of(parts: Parts, tool: Tool, actor: Actor | None = None) -> dict[str, Any]:
    """An item of the list of tools. Of other tools it tells only `actor`, and nothing where there is none."""
    version = tool.version
    assert version is not None
    definition = version.definition
    notes = [*parts.warn(definition), *_resembles(parts, tool, actor)]
    shape = definition.as_json()
    return {
        "name": tool.name,
        "display": definition.display,
        "intent": definition.intent,
        "method": definition.method,
        "executor": definition.executor,
        "params_schema": shape["params_schema"],
        "constraints": shape["constraints"],
        "effect": definition.effect,
        "deprecated": definition.deprecated,
        "author": definition.author,
        "why": definition.why,
        "definition": definition_of(version) | {"registered_at": version.registered_at},
        "behind": tool.behind,
        "warnings": _warnings(version) + [problem.as_json() for problem in notes],
    }


def _resembles(parts: Parts, tool: Tool, actor: Actor | None) -> list[Problem]:
    """A tool whose own intent finds an older one is hard to tell from it (issue 5)."""
    other = None if actor is None else parts.matching.resembles(tool.name, actor)
    if other is None:
        return []
    zh = f"这个工具的意图以高置信度匹配到 {other}；请写清两者的区别，或改用它。"
    en = f"The intent of this tool finds {other} with high confidence: say how they differ, or use that one."
    return [Problem("resembles-another", zh, en, field="intent")]


def _item(parts: Parts, form: str, actor: Actor, tool: Tool) -> dict[str, Any]:
    if form == "bitong":
        return item_of(parts, tool, actor)
    assert tool.version is not None
    return FORMATS[form](tool.version.definition)


def version_of(version: ToolVersion) -> dict[str, Any]:
    """An item of the list of versions."""
    return {
        "version": version.number,
        "state": version.state,
        "commit": version.commit,
        "tree": version.tree,
        "blob": version.blob,
        "sha256": version.sha256,
        "author": version.definition.author,
        "why": version.definition.why,
        "created": version.definition.created,
        "git_author": version.git_author,
        "git_committed_at": version.git_committed_at,
        "pusher": version.pusher,
        "registered_at": version.registered_at,
        "same_meaning": version.same_meaning,
    }


def _page(asked: Asked, found: list[Tool], item: Callable[[Tool], dict[str, Any]]) -> dict[str, Any]:
    """All of them unless a limit is given; the next page goes on after the last name, whatever comes or goes meanwhile."""
    after = read_cursor_text(asked)
    rest = found if after is None else [tool for tool in found if tool.name > after]
    shown = rest[: read_limit(asked, default=len(rest) or 1)]
    following = write_cursor(shown[-1].name) if len(rest) > len(shown) else None
    return {"items": [item(tool) for tool in shown], "next": following}


def _filter(asked: Asked) -> Callable[[Tool], bool]:
    state = read_choice(asked, "state", _STATES) or "active"
    executor = read_choice(asked, "executor", EXECUTORS)
    author, said = asked.query.get("author"), asked.query.get("q", "").casefold()

    def wanted(tool: Tool) -> bool:
        if tool.state != state or tool.version is None:
            return False
        definition = tool.version.definition
        texts = (definition.name, definition.display, definition.intent, definition.why)
        return (
            (executor is None or definition.executor == executor)
            and (author is None or definition.author == author)
            and (not said or any(said in text.casefold() for text in texts))
        )

    return wanted


def _visible(parts: Parts, asked: Asked) -> Tool:
    tool = parts.index.find(asked.path["name"], asked.actor)
    if tool is None:
        raise NotFound(Message("没有这个工具。", "There is no such tool."), code="unknown-tool")
    return tool


def _version(parts: Parts, asked: Asked) -> ToolVersion:
    tool = _visible(parts, asked)
    number = asked.path["number"]
    if not number.isascii() or not number.isdigit() or len(number) > 9:
        raise unfit("number", "版本号为正整数。", "A version is a positive number.")
    with parts.database.read() as connection:
        version = tools.version(connection, tool.name, int(number))
    if version is None:
        raise _no_version()
    return version


def _no_version() -> NotFound:
    return NotFound(Message("没有这个版本。", "There is no such version."), code="unknown-version")


def _warnings(version: ToolVersion) -> list[dict[str, Any]]:
    return [warning.as_json() for warning in version.warnings]
