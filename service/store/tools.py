"""Tools, their versions and their rejections, as rows and as nouns."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from service.domain.definitions import Definition, Problem
from service.domain.tools import Tool, ToolVersion
from service.store.database import Transaction, compiled
from service.store.tables import commits, folder_changes, folder_trees, registry, rejections, tool_versions, tools

ColumnMap = Mapping[str, Any]


# Built once: to build a statement costs more than to run one of these.
_ACTIVE: Final = compiled(
    select(tools.c.version_id).where(tools.c.name == bindparam("name"), tools.c.state == bindparam("state"))
)
_TOOL: Final = select(tools).where(tools.c.name == bindparam("name"))
_HAS_VERSION: Final = select(tool_versions.c.id).where(
    tool_versions.c.tool == bindparam("name"), tool_versions.c.commit_id == bindparam("commit")
)


def version_of(row: Any) -> ToolVersion:
    """The noun behind a row of `tool_versions`."""
    return ToolVersion(
        id=row["id"],
        tool=row["tool"],
        number=row["number"],
        state=row["state"],
        commit=row["commit_id"].hex(),
        tree=row["tree"].hex(),
        blob=row["blob"].hex(),
        sha256=row["sha256"].hex(),
        definition=Definition.from_json(json.loads(row["definition"])),
        git_author=row["git_author"],
        git_committer=row["git_committer"],
        git_committed_at=row["git_committed_at"],
        pusher=row["pusher"],
        registered_at=row["registered_at"],
        warnings=tuple(Problem.from_json(item) for item in json.loads(row["warnings"])),
        same_meaning=bool(row["same_meaning"]),
    )


def version_row(version: ToolVersion) -> dict[str, Any]:
    """The inverse of `version_of`, without the row's id."""
    return {
        "tool": version.tool,
        "number": version.number,
        "state": version.state,
        "commit_id": bytes.fromhex(version.commit),
        "tree": bytes.fromhex(version.tree),
        "blob": bytes.fromhex(version.blob),
        "sha256": bytes.fromhex(version.sha256),
        "definition": _dump(version.definition.as_json()),
        "warnings": _dump([warning.as_json() for warning in version.warnings]),
        "same_meaning": version.same_meaning,
        "git_author": version.git_author,
        "git_committer": version.git_committer,
        "git_committed_at": version.git_committed_at,
        "pusher": version.pusher,
        "registered_at": version.registered_at,
    }


def add_versions(connection: Connection, versions: Sequence[ToolVersion]) -> None:
    """Insert versions; their ids are given by the database."""
    if versions:
        connection.execute(insert(tool_versions), [version_row(version) for version in versions])


def versions(
    connection: Connection, name: str, *, before: int | None = None, limit: int | None = None
) -> list[ToolVersion]:
    """A tool's versions, newest number first."""
    statement = select(tool_versions).where(tool_versions.c.tool == name).order_by(tool_versions.c.number.desc())
    if before is not None:
        statement = statement.where(tool_versions.c.number < before)
    if limit is not None:
        statement = statement.limit(limit)
    return [version_of(row) for row in connection.execute(statement).mappings()]


def version(connection: Connection, name: str, number: int) -> ToolVersion | None:
    """One version by its number."""
    where = (tool_versions.c.tool == name, tool_versions.c.number == number)
    row = connection.execute(select(tool_versions).where(*where)).mappings().first()
    return None if row is None else version_of(row)


def version_at(connection: Connection, name: str, commit: str) -> ToolVersion | None:
    """One version by its identity."""
    where = (tool_versions.c.tool == name, tool_versions.c.commit_id == bytes.fromhex(commit))
    row = connection.execute(select(tool_versions).where(*where)).mappings().first()
    return None if row is None else version_of(row)


def has_version(connection: Connection, name: str, commit: str) -> bool:
    """Whether this commit made a version of this tool."""
    return connection.execute(_HAS_VERSION, {"name": name, "commit": bytes.fromhex(commit)}).first() is not None


def version_by_id(connection: Connection, row_id: int) -> ToolVersion:
    """One version by its row; raises LookupError where there is none."""
    row = connection.execute(select(tool_versions).where(tool_versions.c.id == row_id)).mappings().first()
    if row is None:
        raise LookupError(row_id)
    return version_of(row)


def latest_numbers(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """The highest number given so far to each of these tools."""
    found: dict[str, int] = {}
    statement = select(func.max(tool_versions.c.number)).where(tool_versions.c.tool == bindparam("name"))
    for name in names:
        newest = connection.execute(statement, {"name": name}).scalar()
        if newest is not None:
            found[name] = newest
    return found


class VersionState(NamedTuple):
    """How one version stands, without its definition."""

    id: int
    tool: str
    commit: str
    state: str


def version_states(connection: Connection, names: Iterable[str] | None = None) -> list[VersionState]:
    """How all versions stand, or these tools'."""
    columns = (tool_versions.c.id, tool_versions.c.tool, tool_versions.c.commit_id, tool_versions.c.state)
    if names is None:
        rows = list(connection.execute(select(*columns)))
    else:
        statement = select(*columns).where(tool_versions.c.tool == bindparam("name"))
        rows = [row for name in names for row in connection.execute(statement, {"name": name})]
    return [VersionState(row.id, row.tool, row.commit_id.hex(), row.state) for row in rows]


def any_orphaned(connection: Connection) -> bool:
    """Whether some version's commit was no longer reachable at the last look."""
    return (
        connection.execute(select(tool_versions.c.id).where(tool_versions.c.state == "orphaned").limit(1)).first()
        is not None
    )


def orphaned_commits(connection: Connection) -> list[str]:
    """The commits of orphaned versions, whose objects are to outlive their branch."""
    found = select(tool_versions.c.commit_id).where(tool_versions.c.state == "orphaned").distinct()
    return [commit.hex() for commit in connection.execute(found).scalars()]


def set_version_states(connection: Connection, states: Mapping[int, str]) -> None:
    """Change the state of versions by row id."""
    if states:
        statement = update(tool_versions).where(tool_versions.c.id == bindparam("row")).values(state=bindparam("to"))
        connection.execute(statement, [{"row": row, "to": state} for row, state in states.items()])


def commits_without_pusher(connection: Connection) -> set[str]:
    """The commits that made a version or a rejection of which it is not known who pushed it."""
    unknown = [select(table.c.commit_id).where(table.c.pusher.is_(None)) for table in (tool_versions, rejections)]
    return {commit.hex() for statement in unknown for commit in connection.execute(statement).scalars()}


def set_pushers(connection: Connection, pushers: Mapping[str, str]) -> set[str]:
    """Commit → who pushed it, where that was not known; a known one never changes (cases.md W24). Answers the tools."""
    if not pushers:
        return set()
    values = [{"commit": bytes.fromhex(commit), "who": who} for commit, who in pushers.items()]
    for table in (tool_versions, rejections):
        statement = update(table).where(table.c.commit_id == bindparam("commit"), table.c.pusher.is_(None))
        connection.execute(statement.values(pusher=bindparam("who")), values)
    of_commit = select(tool_versions.c.tool).where(tool_versions.c.commit_id == bindparam("commit"))
    return {tool for value in values for tool in connection.execute(of_commit, {"commit": value["commit"]}).scalars()}


def removed_by(connection: Connection) -> dict[str, str]:
    """Name → the commit that removed it, of those that stand removed."""
    rows = connection.execute(select(tools.c.name, tools.c.removed_commit).where(tools.c.state == "removed"))
    return {row.name: row.removed_commit.hex() for row in rows if row.removed_commit}


def put_tools(connection: Connection, rows: Sequence[ColumnMap]) -> None:
    """Write how names stand: `{name, state, version_id, behind, removed_commit, removed_at, removed_by}`."""
    if rows:
        statement = upsert(tools)
        columns = ("state", "version_id", "behind", "removed_commit", "removed_at", "removed_by")
        statement = statement.on_conflict_do_update(
            index_elements=["name"], set_={column: statement.excluded[column] for column in columns}
        )
        connection.execute(statement, rows)


def forget_tools(connection: Connection, names: Sequence[str]) -> None:
    """Names that never had a version and that the tip does not hold any more."""
    if names:
        connection.execute(delete(tools).where(tools.c.name == bindparam("gone")), [{"gone": name} for name in names])


def tool(connection: Connection, name: str) -> Tool | None:
    """How one name stands; None when it never had a definition."""
    row = connection.execute(select(tools).where(tools.c.name == name)).mappings().first()
    return None if row is None else _tool(connection, row)


def active_version_id(transaction: Transaction, name: str) -> int | None:
    """The row of the version that runs now; None when none does."""
    row = transaction.cursor.execute(_ACTIVE, {"name": name, "state": "active"}).fetchone()
    return None if row is None else row[0]


def all_tools(connection: Connection, *, state: str | None = None) -> list[Tool]:
    """Every name, by name; with `state`, only those standing so."""
    statement = select(tools).order_by(tools.c.name)
    if state is not None:
        statement = statement.where(tools.c.state == state)
    rows = list(connection.execute(statement).mappings())
    wanted = {row["version_id"] for row in rows if row["version_id"] is not None}
    found = _versions_by_id(connection, wanted)
    return [_tool_noun(row, found.get(row["version_id"])) for row in rows]


def _versions_by_id(connection: Connection, ids: set[int]) -> dict[int, ToolVersion]:
    joined = select(tool_versions).join(tools, tools.c.version_id == tool_versions.c.id)
    rows = connection.execute(joined).mappings()
    return {row["id"]: version_of(row) for row in rows if row["id"] in ids}


def _tool(connection: Connection, row: Any) -> Tool:
    return _tool_noun(row, None if row["version_id"] is None else version_by_id(connection, row["version_id"]))


def _tool_noun(row: Any, runs: ToolVersion | None) -> Tool:
    return Tool(
        name=row["name"],
        state=row["state"],
        version=runs,
        behind=bool(row["behind"]),
        removed_commit=row["removed_commit"].hex() if row["removed_commit"] else None,
        removed_at=row["removed_at"],
        removed_by=row["removed_by"],
    )


def tool_states(connection: Connection, names: Iterable[str]) -> dict[str, ColumnMap]:
    """The rows of `tools` of these names, by name."""
    found: dict[str, ColumnMap] = {}
    for name in names:
        row = connection.execute(_TOOL, {"name": name}).mappings().first()
        if row is not None:
            found[name] = dict(row)
    return found


# Rejections.


def add_rejections(connection: Connection, rows: Sequence[ColumnMap]) -> None:
    """Keep what could not be registered; one seen before is current again."""
    if rows:
        statement = upsert(rejections)
        statement = statement.on_conflict_do_update(
            index_elements=["folder", "commit_id", "kind"],
            set_={"current": statement.excluded.current, "problems": statement.excluded.problems},
        )
        connection.execute(statement, rows)


class RejectedDefinition(NamedTuple):
    """A definition that was rejected: where it stands in git, who pushed it, and its problems as JSON."""

    folder: bytes
    commit: str
    tree: str
    pusher: str | None
    problems: str


def rejected_definitions(connection: Connection, code: str) -> list[RejectedDefinition]:
    """Those without a version to this day, as read with a problem whose code begins so; parents before their children."""
    where = (
        rejections.c.kind == "definition",
        folder_trees.c.reading.contains(f'"code":"{code}', autoescape=True),
        tool_versions.c.id.is_(None),
    )
    made = (tool_versions.c.tool == rejections.c.tool) & (tool_versions.c.commit_id == rejections.c.commit_id)
    brought = (folder_changes.c.commit_id == rejections.c.commit_id) & (folder_changes.c.folder == rejections.c.folder)
    held = (folder_trees.c.folder == folder_changes.c.folder) & (folder_trees.c.tree == folder_changes.c.tree)
    rows = connection.execute(
        select(rejections, folder_changes.c.tree)
        .join(folder_changes, brought)
        .join(folder_trees, held)
        .join(commits, commits.c.id == rejections.c.commit_id)
        .outerjoin(tool_versions, made)
        .where(*where)
        .order_by(commits.c.seq, rejections.c.folder)
    )
    return [
        RejectedDefinition(row.folder, row.commit_id.hex(), row.tree.hex(), row.pusher, row.problems) for row in rows
    ]


def has_rejection(connection: Connection, row: ColumnMap) -> bool:
    """Whether one of the same folder, commit and kind was kept before."""
    where = [rejections.c[name] == row[name] for name in ("folder", "commit_id", "kind")]
    return connection.execute(select(rejections.c.id).where(*where)).first() is not None


def set_current_rejections(
    connection: Connection, folders: Iterable[bytes], current: set[tuple[bytes, bytes, str]]
) -> None:
    """Of these folders' rejections, mark exactly these (folder, commit, kind) as what the tip still has."""
    columns = (rejections.c.id, rejections.c.commit_id, rejections.c.kind, rejections.c.current)
    of_folder = select(*columns).where(rejections.c.folder == bindparam("name"))
    changed = []
    for name in folders:
        for row in connection.execute(of_folder, {"name": name}):
            is_current = (name, row.commit_id, row.kind) in current
            if bool(row.current) != is_current:
                changed.append({"row": row.id, "to": is_current})
    if changed:
        statement = update(rejections).where(rejections.c.id == bindparam("row")).values(current=bindparam("to"))
        connection.execute(statement, changed)


def colliding_folders(connection: Connection) -> list[bytes]:
    """The folders that a name collision keeps from running now."""
    where = (rejections.c.current.is_(True), rejections.c.kind == "name-collision")
    return list(connection.execute(select(rejections.c.folder).where(*where)).scalars())


def list_rejections(
    connection: Connection,
    *,
    before: int | None,
    limit: int,
    tool: str | None = None,
    current: bool | None = None,
    patterns: Sequence[str] | None = None,
) -> list[ColumnMap]:
    """Rows of `rejections`, newest first; `patterns`: only of tools that these cover."""
    statement = select(rejections).order_by(rejections.c.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(rejections.c.id < before)
    if tool is not None:
        statement = statement.where(rejections.c.tool == tool)
    if current is not None:
        statement = statement.where(rejections.c.current.is_(current))
    if patterns is not None:
        statement = statement.where(or_(*(rejections.c.tool.op("GLOB")(pattern) for pattern in patterns)))
    return [dict(row) for row in connection.execute(statement).mappings()]


# The registry's one row.


def registry_row(connection: Connection) -> ColumnMap | None:
    """What the last look saw: `{tip, revision, looked_at, outcome, trouble, trouble_since}`."""
    row = connection.execute(select(registry).where(registry.c.id == 1)).mappings().first()
    return None if row is None else dict(row)


def put_registry(connection: Connection, **values: Any) -> None:
    """Change columns of the registry's row."""
    if connection.execute(update(registry).where(registry.c.id == 1).values(**values)).rowcount == 0:
        connection.execute(insert(registry), {"id": 1, "revision": 0} | values)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
