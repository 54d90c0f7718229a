"""The tables of verbs and developers' words, read: which phrase belongs to which classes.

A class is a word of its own to search by: `=` marks one of verbs, `#` a developers' group.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final

from service.domain.search.developers import GROUPS
from service.domain.search.stems import stem
from service.domain.search.verbs import VERBS

Classes = tuple[str, ...]

VERB: Final = "="
GROUP: Final = "#"


def in_chinese(run: str) -> Iterator[tuple[int, int, Classes]]:
    """Where the known phrases stand in a run of Chinese. The longest first, no character in two of them: 重启 is no 启."""
    index = 0
    while index < len(run):
        for length in range(min(_LONGEST, len(run) - index), 0, -1):
            if found := _CHINESE.get(run[index : index + length]):
                yield index, index + length, found
                index += length
                break
        else:
            index += 1


def of_latin(stemmed: str) -> Classes:
    """Of one stem, or of two joined by a space."""
    return _LATIN.get(stemmed, ())


def known_latin() -> Collection[str]:
    """The stems that belong to a class."""
    return _LATIN.keys()


def _read() -> tuple[dict[str, Classes], dict[str, Classes]]:
    """Phrases in Chinese, and stems."""
    chinese: dict[str, Classes] = {}
    latin: dict[str, Classes] = {}
    for mark, table in ((VERB, VERBS), (GROUP, GROUPS)):
        for line in re.sub(r"\n +", " ", table).strip().splitlines():
            name, _, members = line.partition(":")
            for member in members.split():
                into, key = (latin, " ".join(map(stem, member.split("_")))) if member.isascii() else (chinese, member)
                into[key] = (*into.get(key, ()), mark + name)
    return chinese, latin


_CHINESE, _LATIN = _read()
_LONGEST: Final = max(map(len, _CHINESE))
