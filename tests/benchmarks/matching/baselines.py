"""The obvious ways, for comparison: SQLite's full-text search as it comes and with trigrams, and plain BM25."""

import re
from collections import Counter
from collections.abc import Iterator

import pysqlite3.dbapi2 as sqlite

from service.domain.definitions import Definition
from service.domain.search.bm25 import Postings, Scorer
from service.domain.search.words import words


def texts(tool: Definition) -> tuple[str, str, str]:
    """Name and display, intent, parameters: the fields that each baseline has too."""
    parameters = " ".join(f"{name} {one.description}" for name, one in tool.params_schema.items())
    return f"{re.sub(r'[-_]', ' ', tool.name)} {tool.display}", f"{tool.intent} {' '.join(tool.examples)}", parameters


class FullText:
    """FTS5 with one of its tokenizers, every word of the query joined by OR, its own bm25() with the same weights."""

    def __init__(self, tools: tuple[Definition, ...], tokenizer: str) -> None:
        self._trigrams = tokenizer == "trigram"
        self._names = [tool.name for tool in tools]
        self._connection = sqlite.connect(":memory:")
        self._connection.execute(
            f"CREATE VIRTUAL TABLE tools USING fts5(name, intent, params, tokenize = '{tokenizer}')"
        )
        self._connection.executemany("INSERT INTO tools VALUES (?, ?, ?)", map(texts, tools))

    def rank(self, intent: str) -> list[str]:
        """The best three."""
        parts = dict.fromkeys(self._parts(intent))
        if not parts:
            return []
        asked = " OR ".join(f'"{part}"' for part in parts)
        query = "SELECT rowid FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, 2.0, 1.0, 0.5) LIMIT 3"
        return [self._names[row - 1] for (row,) in self._connection.execute(query, (asked,))]

    def _parts(self, intent: str) -> Iterator[str]:
        for word in re.findall(r"\w+", intent.lower()):
            if self._trigrams:
                yield from (word[at : at + 3] for at in range(len(word) - 2))
            else:
                yield word


class PlainBm25:
    """BM25 over the same characters, pairs and stems: no classes, no second look at Latin words, no spelling."""

    def __init__(self, tools: tuple[Definition, ...]) -> None:
        self._names = [tool.name for tool in tools]
        self._scorer = Scorer(Postings(self._document(tool) for tool in tools))

    def rank(self, intent: str) -> list[str]:
        """The best three."""
        total: Counter[int] = Counter()
        for word in dict.fromkeys(words(intent, classes=False)):
            total.update(self._scorer.of(word)[1])
        return [self._names[number] for number, _ in total.most_common(3)]

    @staticmethod
    def _document(tool: Definition) -> Counter[str]:
        found: Counter[str] = Counter()
        for weight, text in zip((2.0, 1.0, 0.5), texts(tool), strict=True):
            for word in words(text, classes=False):
                found[word] += weight
        return found
