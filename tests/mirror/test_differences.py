"""Comparing two trees by the few bytes in which they differ says what reading both in full says."""

import random

import pytest

from service.intake.mirror import trees

MODES = [b"40000"] * 12 + [b"100644"] * 3 + [b"100755", b"120000", b"160000", b"040000", b"100666"]
NAMES = [b"a", b"a.b", b"a0", b"aa", b"b", b"b-c", b"b c", b"c", b"d\xc3\xa9", b"..", b"\xff", b"zz"]
NAMES += [b"tool-%02d" % number for number in range(20)]


def _entry(chance: random.Random) -> trees.Entry:
    # Few different bytes: ids that look like entries, and neighbours that begin and end alike.
    id = bytes(chance.choice(b"\0 40a") for _ in range(20)) if chance.random() < 0.5 else chance.randbytes(20)
    return trees.Entry(chance.choice(MODES), chance.choice(NAMES), id)


def _clean(chance: random.Random) -> list[trees.Entry]:
    kept: dict[bytes, trees.Entry] = {}
    for _ in range(chance.randrange(25)):
        entry = _entry(chance)
        if not trees.flaws([entry]):
            kept[entry.name] = entry
    return sorted(kept.values(), key=lambda entry: entry.key)


def _changed(chance: random.Random, rows: list[trees.Entry]) -> list[trees.Entry]:
    rows = list(rows)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(rows) + 1)
        match chance.randrange(4):
            case 0:
                rows.insert(at, _entry(chance))
            case 1 if rows:
                del rows[at % len(rows)]
            case 2 if rows:
                rows[at % len(rows)] = rows[at % len(rows)]._replace(id=chance.randbytes(20))
            case _:
                rows.append(_entry(chance))
    return sorted(rows, key=lambda entry: entry.key) if chance.random() < 0.7 else rows


def _raw(rows: list[trees.Entry]) -> bytes:
    return b"".join(row.raw for row in rows)


@pytest.mark.parametrize("seed", range(20))
def test_the_quick_way_agrees_with_the_full_one(seed: int) -> None:
    """Where it answers, the answer is the same and the new tree is clean; where it does not, nothing is lost."""
    chance = random.Random(seed)  # noqa: S311 - made again from the seed, which is the point
    answered = 0
    for _ in range(500):
        before = _clean(chance)
        after = _changed(chance, before)
        old, new = _raw(before), _raw(after)

        quick = trees.quick_difference(old, new)

        if quick is not None:
            answered += 1
            assert trees.flaws(after) == {}
            assert quick == trees.difference(trees.folders(before), trees.folders(after))
    assert answered > 50


def test_a_tree_that_is_cut_short_is_none() -> None:
    """Also where the missing bytes are in the middle that is compared."""
    rows = [trees.Entry(b"40000", b"tool-%02d" % number, bytes([number]) * 20) for number in range(10)]
    raw = _raw(rows)

    for length in range(1, len(raw)):
        if length % len(rows[0].raw):
            with pytest.raises(trees.Undecodable):
                trees.entries(raw[:length])
