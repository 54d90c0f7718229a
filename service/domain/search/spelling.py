"""Latin words with one slip: a letter too many, too few, wrong, or two swapped. The first letter is taken as right."""

from collections.abc import Callable, Iterable
from typing import Final

from service.domain.search.classes import known_latin
from service.domain.search.words import is_latin

SHORTEST: Final = 4  # letters of a stem; shorter words are one slip from too many others


class Spelling:
    """The words that a registry and the tables of classes know, by first letter and length."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._groups: dict[tuple[str, int], list[str]] = {}
        for word in {*vocabulary, *known_latin()}:
            if len(word) >= SHORTEST and is_latin(word):
                self._groups.setdefault((word[0], len(word)), []).append(word)
        for group in self._groups.values():
            group.sort()

    def meant(self, word: str, known: Callable[[str], bool]) -> str | None:
        """The one word that is one slip away and that the registry or a class knows; None where there is none, or a choice."""
        if len(word) < SHORTEST:
            return None
        near = {
            other
            for length in (len(word) - 1, len(word), len(word) + 1)
            for other in self._groups.get((word[0], length), ())
            if one_slip(word, other) and (known(other) or other in known_latin())
        }
        return near.pop() if len(near) == 1 else None


def one_slip(left: str, right: str) -> bool:
    """Whether one insertion, deletion, substitution or swap of neighbours makes one of the other."""
    if len(left) > len(right):
        left, right = right, left
    start = 0
    while start < len(left) and left[start] == right[start]:
        start += 1
    if len(left) < len(right):
        return left[start:] == right[start + 1 :]
    swapped = left[start + 1 : start + 2] + left[start : start + 1] + left[start + 2 :]
    return left != right and (left[start + 1 :] == right[start + 1 :] or swapped == right[start:])
