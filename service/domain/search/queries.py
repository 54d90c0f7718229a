"""An intent as it is scored: each word once, misspelt ones read as what was meant, Chinese ones also in English."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.domain.search.fields import Dictionary
from service.domain.search.spelling import Spelling
from service.domain.search.words import Unit, is_latin, latin_unit, units, words

MAX_TERMS: Final = 400  # the first; what a longer intent adds costs time and finds nothing better
MAX_MISSPELT: Final = 8  # words looked up one by one

CORRECTED: Final = 0.8
GLOSSED: Final = 0.3  # flat between .2 and .5
# Among Chinese, where a word of two characters is three words to search by, a Latin one would drown.
AMONG_CHINESE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Term:
    """A unit of the intent, how much it counts, and whether it says only what to do, not to what."""

    unit: Unit
    weight: float = 1.0
    is_verb: bool = False


def terms(
    intent: str, known: Callable[[str], bool], spelling: Spelling | None = None, dictionary: Dictionary | None = None
) -> Sequence[Term]:
    """The terms of an intent. `known`: whether any tool that the asker sees holds the word."""
    seen: set[str] = set()
    found = []
    for term in _all(intent, known, spelling, dictionary):
        if len(found) == MAX_TERMS:
            break
        if fresh := _without(term.unit, seen):
            found.append(replace(term, unit=fresh))
    return found


def _all(
    intent: str, known: Callable[[str], bool], spelling: Spelling | None, dictionary: Dictionary | None
) -> Iterator[Term]:
    misspelt = 0
    read = list(units(intent))
    latin = AMONG_CHINESE if any(unit.wide for unit in read) else 1.0
    for unit in read:
        meant = None
        if spelling and misspelt < MAX_MISSPELT and not unit.classes and len(unit.words) == 1 and is_latin(unit.words[0]):
            if not known(unit.words[0]):
                misspelt += 1
                meant = spelling.meant(unit.words[0], known)
        if meant:
            yield Term(latin_unit(unit.text, meant), latin * CORRECTED)
        else:
            yield Term(unit, 1.0 if unit.wide else latin, is_verb=_is_verb(unit))
    if dictionary is not None:
        for gloss in dictionary.glosses(intent):
            for word in words(gloss, classes=False):
                if known(word):
                    yield Term(Unit(gloss, (word,)), GLOSSED)


def _is_verb(unit: Unit) -> bool:
    return bool(unit.classes) and all(name[0] == "=" for name in unit.classes)


def _without(unit: Unit, seen: set[str]) -> Unit | None:
    """The unit without the words that counted before; None where none is left. Marks the rest as seen."""
    fresh = tuple(word for word in unit.words if word not in seen)
    classes = tuple(name for name in unit.classes if name not in seen)
    seen.update(fresh, classes)
    if not fresh and not classes:
        return None
    return unit if len(fresh) == len(unit.words) and len(classes) == len(unit.classes) else replace(unit, words=fresh, classes=classes)
