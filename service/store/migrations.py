"""Brings a database to the schema that this version works with. Run as its own process: Alembic would stay in memory.

`python -m service.store.migrations FILE` upgrades FILE in one transaction and exits 0, or says why not and exits 1.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pysqlite3.dbapi2 as sqlite

from service.errors import Message, Unavailable
from service.store.tables import SCHEMA_REVISION

TIMEOUT_S: Final = 600.0


def migrations_folder() -> Path:
    """Where the migrations stand: beside the package in a checkout, inside it when installed from a wheel."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "_shipped" / "migrations"
    return shipped if shipped.is_dir() else package.parent / "migrations"


def known_revisions() -> set[str]:
    """The revisions that this version's migrations lead to, as their files' names begin."""
    return {file.name.partition("_")[0] for file in (migrations_folder() / "versions").glob("*_*.py")}


def revision(path: Path) -> str | None:
    """The schema's revision in this file; None when the file is absent or has no schema yet.

    Raises sqlite.Error for a file that cannot be read, which is not one without a schema.
    """
    if not path.exists():
        return None
    connection = sqlite.connect(f"file:{path}?mode=ro", uri=True)
    try:
        found = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'alembic_version'").fetchone()
        if found is None:
            return None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    finally:
        connection.close()
    return None if row is None else str(row[0])


def ensure_schema(path: Path) -> None:
    """Upgrade the file when it is older than this version; refuse one that is newer or that cannot be upgraded."""
    try:
        found = revision(path)
    except sqlite.Error as error:
        raise Unavailable(
            Message(
                f"读不到数据库 {path}（{error}）。请检查 data_dir 所在磁盘的空间与状态。",
                f"Cannot read the database {path} ({error}). Check the space and health of the disk that holds data_dir.",
            ),
            code="schema",
        ) from None
    if found == SCHEMA_REVISION:
        return
    if found is not None and found not in known_revisions():
        raise Unavailable(
            Message(
                f"数据库是更新的版本写的（{found}，本版本为 {SCHEMA_REVISION}）。请装回那个版本，或恢复升级前的备份；不能降级。",
                f"A newer version wrote this database ({found}; this one knows {SCHEMA_REVISION}). Install that version again, "
                "or restore the backup from before the upgrade; there is no downgrade.",
            ),
            code="schema",
        )
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "service.store.migrations", str(path)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env=environment | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(
            Message(
                f"数据库升级超过 {TIMEOUT_S:g} 秒，已停止；数据未改动。请用 bitong db upgrade 再试。",
                f"Upgrading the database took over {TIMEOUT_S:g} s and was stopped; nothing changed. Try bitong db upgrade.",
            ),
            code="schema",
        ) from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        raise Unavailable(
            Message(
                f"数据库无法升级到版本 {SCHEMA_REVISION}：{last}",
                f"The database could not be brought to revision {SCHEMA_REVISION}: {last}",
            ),
            code="schema",
        )


def upgrade(path: Path, target: str = "head") -> None:
    """Run the migrations on this file, in this process, in one transaction."""
    from alembic import command  # noqa: PLC0415 - twenty megabytes that only this process pays for
    from alembic.config import Config  # noqa: PLC0415

    from service.store.sqlite import writer_engine  # noqa: PLC0415

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    engine = writer_engine(path)
    old = os.umask(0o077)
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, target)
    finally:
        os.umask(old)
        engine.dispose()


def main(arguments: list[str]) -> int:
    """The process's entry; see the module's docstring."""
    try:
        upgrade(Path(arguments[0]))
    except Exception as error:  # noqa: BLE001 - the parent shows the last line
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
