"""`bitong db`: the database's schema, brought to this version or compared with it."""

from typing import Any

import typer

from service.cli import settings as given
from service.cli import showing
from service.errors import Message, Unavailable
from service.settings import Settings
from service.store.folder import DataFolder


def application() -> typer.Typer:
    """The group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="数据库结构。 The database's schema.")
    group.command("upgrade")(upgrade)
    group.command("check")(check)
    return group


def upgrade(json: given.Json = False, config: given.Config = None) -> None:
    """升级到本版本的结构；服务启动时也会做。 Bring it to this version's schema; serve does so as well.

    示例 / example: bitong db upgrade
    """
    from service.store.migrations import ensure_schema  # noqa: PLC0415 - only this command needs it

    settings = given.read(config)
    folder = DataFolder(settings.data_dir)
    folder.make()
    folder.lock()
    try:
        _revision(settings)
        ensure_schema(settings.database_path)
        state = _state(settings)
    finally:
        folder.unlock()
    _show(state, json=json)


def check(json: given.Json = False, config: given.Config = None) -> None:
    """与本版本的结构比较；不同则退出码为 1。 Compare with this version's schema; exit 1 when it differs.

    示例 / example: bitong db check
    """
    state = _state(given.read(config))
    _show(state, json=json)
    if not state["current"]:
        raise typer.Exit(1)


def _state(settings: Settings) -> dict[str, Any]:
    from service.store.tables import SCHEMA_REVISION  # noqa: PLC0415 - heavy

    found = _revision(settings)
    return {"revision": found, "wanted": SCHEMA_REVISION, "current": found == SCHEMA_REVISION}


def _revision(settings: Settings) -> str | None:
    """The file's revision. Raises Unavailable for what is no database."""
    import pysqlite3.dbapi2 as sqlite  # noqa: PLC0415 - heavy

    from service.store.migrations import revision  # noqa: PLC0415

    try:
        return revision(settings.database_path)
    except sqlite.Error:
        file = settings.database_path
        raise Unavailable(
            Message(f"{file} 不是能读的数据库。", f"{file} is no readable database."), code="schema"
        ) from None


def _show(state: dict[str, Any], *, json: bool) -> None:
    if json:
        showing.as_json(state)
        return
    showing.fields([("现有 found", state["revision"] or "-"), ("本版本 wanted", state["wanted"])])
