"""The schema: tables.py and the migrations say the same, an upgrade is whole or not at all, newer files are refused."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pysqlite3.dbapi2 as sqlite
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from service.errors import Unavailable
from service.store.database import Database, refuse_affected_sqlite, writer_engine
from service.store.migrations import ensure_schema, migrations_folder, revision
from service.store.tables import SCHEMA_REVISION, metadata
from tests.harness.service import bitong, environment
from tests.store.kept import ROOT, append, leaves, log_of, rows


def _shape(path: Path) -> dict[str, Any]:
    """Everything a schema says, apart from the order and spelling of its statements."""
    shape: dict[str, Any] = {}
    spelled = {name: " ".join((sql or "").split()) for name, sql in rows(path, "SELECT name, sql FROM sqlite_schema")}
    tables = {row[1]: (row[2], row[4], row[5]) for row in rows(path, "PRAGMA table_list") if row[0] == "main"}
    for name, kind in tables.items():
        if name.startswith("sqlite_") or name == "alembic_version":
            continue
        columns = sorted(row[1:] for row in rows(path, f"PRAGMA table_xinfo({name})"))
        keys = sorted(row[2:] for row in rows(path, f"PRAGMA foreign_key_list({name})"))
        indexes = {}
        for _, index, unique, origin, partial in rows(path, f"PRAGMA index_list({name})"):
            of = [row[2:] for row in rows(path, f"PRAGMA index_xinfo({index})")]
            where = re.sub(r".*\bWHERE\b", "", spelled[index], flags=re.IGNORECASE) if partial else None
            indexes[index if origin == "c" else f"{origin} {of}"] = (unique, origin, where, of)
        shape[name] = (kind, columns, keys, indexes)
    return shape


def test_tables_and_migrations_make_the_same_schema(migrated: Path, tmp_path: Path) -> None:
    """design.md, Storage. What Alembic compares, and what it does not: partial indexes, WITHOUT ROWID, key columns."""
    made = tmp_path / "made.db"
    engine = create_engine(f"sqlite:///{made}", module=sqlite)
    metadata.create_all(engine)
    engine.dispose()
    engine = create_engine(f"sqlite:///{migrated}", module=sqlite)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        differences = compare_metadata(context, metadata)
    engine.dispose()

    assert differences == []
    assert _shape(migrated) == _shape(made)


def test_the_revision_in_the_code_is_the_head_of_the_migrations(migrated: Path) -> None:
    """One head, which is what tables.py names and what a new file gets."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))

    heads = ScriptDirectory.from_config(config).get_heads()

    assert list(heads) == [SCHEMA_REVISION] == [revision(migrated)]


NEXT = """
import os, time
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "next", "{head}", None, None


def step(number):
    with open(os.environ["STEPS"], "a") as file:
        file.write(f"{number}\\n")
    if os.environ["STOP_AT"] == str(number):
        time.sleep(120)


def upgrade():
    step(0)
    op.create_table("added", sa.Column("id", sa.Integer(), primary_key=True))
    step(1)
    op.add_column("tools", sa.Column("extra", sa.Text()))
    op.execute("UPDATE log_entries SET actor = 'rewritten'")
    step(2)
    with op.batch_alter_table("registry") as batch:
        batch.drop_column("trouble")
    op.execute("INSERT INTO added SELECT idx FROM log_entries")
    step(3)
"""


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """A checkout one migration ahead of this one, which stops where it is told to."""
    place = tmp_path / "later"
    shutil.copytree(ROOT / "service", place / "service", ignore=shutil.ignore_patterns("_shipped"))
    shutil.copytree(ROOT / "migrations", place / "migrations")
    (place / "migrations" / "versions" / "next_one.py").write_text(NEXT.replace("{head}", SCHEMA_REVISION))
    return place


def _upgrade(checkout: Path, path: Path, stop_at: str = "never") -> "subprocess.Popen[bytes]":
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(checkout)}
    variables |= {"STEPS": str(checkout / "steps"), "STOP_AT": stop_at}
    return subprocess.Popen([sys.executable, "-m", "service.store.migrations", str(path)], env=variables, cwd=checkout)


def _killed_at(checkout: Path, path: Path, step: str) -> None:
    with _upgrade(checkout, path, step) as process:
        while step not in _steps(checkout):
            assert process.poll() is None
        process.kill()


def _steps(checkout: Path) -> list[str]:
    file = checkout / "steps"
    return file.read_text().split() if file.exists() else []


def _content(path: Path) -> list[Any]:
    return [rows(path, "SELECT name, sql FROM sqlite_schema ORDER BY name"), rows(path, "SELECT * FROM log_entries")]


@pytest.mark.parametrize(
    "step", [pytest.param("0", marks=pytest.mark.slow), "2", pytest.param("3", marks=pytest.mark.slow)]
)
def test_an_upgrade_that_is_killed_leaves_the_old_schema_whole(path: Path, later: Path, step: str) -> None:
    """R11: killed before, between and after its statements; old to the byte, and the next try gets to the new one."""
    database = Database(path)
    for number in range(5):
        database.write(append(f"before-{number}"))
    log = database.log
    database.close()
    before = _content(path)

    _killed_at(later, path, step)

    assert revision(path) == SCHEMA_REVISION
    assert _content(path) == before
    again = Database(path)
    again.close()
    assert again.log == log == log_of(leaves(path))
    assert _upgrade(later, path).wait() == 0
    assert revision(path) == "next"
    assert len(rows(path, "SELECT * FROM added")) == 5
    assert again.log == log_of(leaves(path))


def test_a_first_start_that_is_killed_leaves_a_file_without_a_schema(tmp_path: Path, later: Path) -> None:
    """R11: the first migration too is all or nothing; the next start makes the file as if it were the first."""
    path = tmp_path / "new" / "bitong.db"

    _killed_at(later, path, "1")

    assert revision(path) is None
    assert rows(path, "SELECT name FROM sqlite_schema") == []
    ensure_schema(path)
    assert revision(path) == SCHEMA_REVISION


def test_two_upgrades_at_once_are_one(path: Path, later: Path) -> None:
    """R11: a service that was killed leaves its upgrade running; the one that starts after it waits for it."""
    first, second = _upgrade(later, path), _upgrade(later, path)

    assert (first.wait(), second.wait()) == (0, 0)
    assert revision(path) == "next"
    assert _steps(later).count("3") == 1


def test_a_database_from_a_newer_version_is_refused_and_left_alone(path: Path, tmp_path: Path) -> None:
    """R11: a sentence that names both revisions and says what to do; there is no way down, and nothing is written."""
    engine = writer_engine(path)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0999'")
    engine.dispose()
    before = path.read_bytes()

    with pytest.raises(Unavailable, match=rf"newer version.*0999.*{SCHEMA_REVISION}"):
        ensure_schema(path)
    done = bitong("serve", env=environment({"data_dir": path.parent, "port": 0}), cwd=tmp_path)

    assert path.read_bytes() == before
    assert done.returncode == 3, done.stderr
    assert "0999" in done.stderr
    assert "更新的版本" in done.stderr
    assert "Traceback" not in done.stderr


def test_there_is_no_way_down(tmp_path: Path) -> None:
    """R11: `bitong db` upgrades and checks; an older schema comes from a backup, never from a migration backwards."""
    shown = bitong("db", "--help", env=environment({}), cwd=tmp_path).stdout
    tried = bitong("db", "downgrade", env=environment({"data_dir": tmp_path}), cwd=tmp_path)

    assert "upgrade" in shown
    assert "check" in shown
    assert "downgrade" not in shown
    assert tried.returncode != 0


@pytest.mark.parametrize("content", [b"not a database, but long enough to be looked at" * 20, b"SQLite format 3\0" * 9])
def test_a_file_that_is_no_database_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    """S3: the sentence says which file, which is left as it is for whoever can save it."""
    file = tmp_path / "bitong.db"
    file.write_bytes(content)

    with pytest.raises(Unavailable, match="Cannot read the database") as refused:
        ensure_schema(file)

    assert str(file) in refused.value.message.zh
    assert file.read_bytes() == content


AFFECTED = [(3, 7, 0), (3, 40, 1), (3, 44, 5), (3, 45, 0), (3, 46, 1), (3, 50, 6), (3, 51, 0), (3, 51, 2)]
SOUND = [(3, 44, 6), (3, 44, 9), (3, 50, 7), (3, 50, 8), (3, 51, 3), (3, 52, 0), (3, 53, 4), (4, 0, 0)]


@pytest.mark.parametrize("version", AFFECTED)
def test_an_affected_sqlite_is_refused_with_what_to_do(version: tuple[int, ...]) -> None:
    """S11: the WAL-reset race of 3.7.0 to 3.51.2 (facts/platform.md), named with the version found."""
    with pytest.raises(Unavailable, match=r"3\.\d+\.\d+ can lose acknowledged writes.*pysqlite3") as refused:
        refuse_affected_sqlite(version)

    assert refused.value.code == "affected-sqlite"
    assert ".".join(map(str, version)) in refused.value.message.zh


@pytest.mark.parametrize("version", SOUND)
def test_a_sound_sqlite_is_taken(version: tuple[int, ...]) -> None:
    """S11: fixed in 3.51.3, and in 3.44.6 and 3.50.7 of the older branches."""
    assert refuse_affected_sqlite(version) is None


def test_an_affected_sqlite_opens_no_database(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S11: asked before anything is opened; nothing is made beside the file."""
    monkeypatch.setattr(sqlite, "sqlite_version_info", (3, 46, 1))

    with pytest.raises(Unavailable, match="refusing to start"):
        Database(path)

    assert [file.name for file in path.parent.iterdir()] == [path.name]
