"""Random bits in every column that follows from the log, and rows deleted, doubled or put in another's place (S5, S6)."""

import random
import shutil
from contextlib import closing

import pysqlite3.dbapi2 as sqlite
import pytest

from service.verify import verify_database
from tests.verify.builder import BIT_COLUMNS, KEY_COLUMNS

NORMAL, SLOW = 60, 1000
TOLD = {  # rows of which something says all: a refusal's entry says less, and only an active name points at its version
    "runs": " WHERE start_index IS NOT NULL",
    "tools": " WHERE state = 'active'",
}


def bits(path, tmp_path, seed: int, count: int) -> None:
    """Flip one bit at a time in a copy; each is found, and its row named. What was not is listed with its seed."""
    chance = random.Random(seed)  # noqa: S311 - the same bits each time
    copy = tmp_path / "flip.db"
    missed = []
    for number in range(count):
        shutil.copy(path, copy)
        table, column, key = flip(copy, chance)
        report = verify_database(copy)
        if not names(report, table, column, key):
            missed.append((number, table, column, key, [one.where for one in report.findings]))
    assert missed == [], "\n".join(map(repr, missed))


def flip(path, chance: random.Random) -> tuple[str, str, str]:
    """One bit of one value; table, column, and how findings name the row."""
    with closing(sqlite.connect(path)) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        while True:
            table = chance.choice(sorted(BIT_COLUMNS))
            column = chance.choice(BIT_COLUMNS[table])
            keys = KEY_COLUMNS[table]
            told = TOLD.get(table, "")
            rows = db.execute(f"SELECT {', '.join(keys)}, {column} FROM {table}{told}").fetchall()  # noqa: S608
            *where, value = chance.choice(rows)
            if value in (None, "", b""):
                continue
            clause = " AND ".join(f"{name} IS ?" for name in keys)
            cast = "CAST(? AS TEXT)" if isinstance(value, str) else "?"
            try:
                db.execute(
                    f"UPDATE {table} SET {column} = {cast} WHERE {clause}",  # noqa: S608 - SQL of our own
                    (one_bit(value, chance), *where),
                )
            except sqlite.IntegrityError:
                continue  # that value is another row's key: the table itself refuses
            db.commit()
            if table in {"run_parameters", "run_output"}:
                where = db.execute("SELECT id FROM runs WHERE seq = ?", where[:1]).fetchone()
            return table, column, "/".join(one.hex() if isinstance(one, bytes) else str(one) for one in where)


def one_bit(value, chance: random.Random):
    if isinstance(value, int):
        return value ^ 1 << chance.randrange(40)
    content = bytearray(value if isinstance(value, bytes) else value.encode())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(content)


def names(report, table: str, column: str, key: str) -> bool:
    """A finding about this table's row; a key that changed is missed where it belongs, and found where it does not."""
    wheres = [one.where for one in report.findings]
    parts = [part for part in key.split("/") if part]
    if column in KEY_COLUMNS[table]:
        return bool(wheres)
    return any(
        where.startswith(table) and (not parts or any(_about(part, where) for part in parts)) for where in wheres
    )


def _about(part: str, where: str) -> bool:
    try:
        text = bytes.fromhex(part).decode()
    except ValueError:
        text = part
    return part in where or text in where


def test_random_bits_are_found_and_their_rows_named(whole_record, tmp_path):
    """S5: sixty of them; the slow set flips a thousand more."""
    bits(whole_record[0].path, tmp_path, 1, NORMAL)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_thousand_random_bits_are_found_and_their_rows_named(whole_record, tmp_path):
    """S5."""
    bits(whole_record[0].path, tmp_path, 2, SLOW)


@pytest.mark.parametrize("table", ["log_entries", "log_tiles", "runs", "run_parameters", "run_output", "tool_versions"])
@pytest.mark.parametrize("seed", range(3))
def test_a_deleted_row_is_found(record, table, seed):
    """S6."""
    chance = random.Random(seed)  # noqa: S311 - the same rows each time
    with closing(sqlite.connect(record)) as db:
        key = KEY_COLUMNS[table][0]
        logged = "" if table != "runs" else " WHERE start_index IS NOT NULL OR end_index IS NOT NULL"
        keys = [row[0] for row in db.execute(f"SELECT {key} FROM {table}{logged}")]  # noqa: S608 - SQL of our own
        if table == "log_entries":
            keys = keys[:-1]  # the last one's is a cut tail: only a checkpoint tells, and there is one
        db.execute(f"DELETE FROM {table} WHERE {key} = ?", (chance.choice(keys),))  # noqa: S608 - SQL of our own
        db.commit()

    assert verify_database(record).findings


@pytest.mark.parametrize("seed", range(5))
def test_two_entries_in_each_others_place_are_found_at_the_first(record, seed):
    """S6: their indexes stand in their bytes."""
    chance = random.Random(seed)  # noqa: S311 - the same rows each time
    with closing(sqlite.connect(record)) as db:
        (count,) = db.execute("SELECT count(*) FROM log_entries").fetchone()
        first, second = sorted(chance.sample(range(count), 2))
        for new, old in ((-1, first), (first, second), (second, -1)):
            db.execute("UPDATE log_entries SET idx = ? WHERE idx = ?", (new, old))
        db.commit()

    assert verify_database(record).findings[0].index == first
