"""An intent as it is scored: each word once, misspelt ones read as what was meant, Chinese ones also in English."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from service.domain.search.classes import VERB
from service.domain.search.fields import Dictionary
from service.domain.search.spelling import Spelling
from service.domain.search.words import Unit, latin_unit, units, words

MAX_READ: Final = 400  # terms, the first; what a longer intent adds costs time and finds nothing better
MAX_TERMS: Final = 120  # of them that are scored
# A longer intent goes by its pairs of characters: single ones stand in most tools, and take most of the time. Both together
# halve the slowest answers, and recall@3 of acebench_zh stays within .001.
SINGLE_UP_TO: Final = 80
MAX_MISSPELT: Final = 8  # words that are looked for one by one

CORRECTED: Final = 0.8
GLOSSED: Final = 0.3  # flat between .2 and .5
INSTEAD: Final = 1.0  # where no tool has the word in Chinese
# Among Chinese, where a word of two characters is three words to search by, a Latin one would drown.
AMONG_CHINESE: Final = 2.0

Known = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Term:
    """A unit of the intent, how much it counts, and whether it says only what to do, not to what."""

    unit: Unit
    weight: float = 1.0
    is_verb: bool = False


def terms(intent: str, known: Known, spelling: Spelling, dictionary: Dictionary | None = None) -> Sequence[Term]:
    """The terms of an intent. `known`: whether any tool that the asker sees holds the word."""
    found: list[Term] = []
    seen: set[str] = set()
    for term in _all(intent, known, spelling, dictionary):
        if len(found) == MAX_READ:
            break
        if (fresh := _unseen(term.unit, seen)) is not None:
            found.append(term if fresh is term.unit else replace(term, unit=fresh))
    if len(found) > SINGLE_UP_TO:
        found = [term for term in found if not (term.unit.wide and len(term.unit.text) == 1)]
    return found[:MAX_TERMS]


def _all(intent: str, known: Known, spelling: Spelling, dictionary: Dictionary | None) -> Iterator[Term]:
    read = list(islice(units(intent), MAX_READ))
    latin = AMONG_CHINESE if any(unit.wide for unit in read) else 1.0
    tries = MAX_MISSPELT
    for unit in read:
        if unit.wide:
            yield Term(unit, is_verb=_is_verb(unit))
        elif tries and not unit.classes and not known(unit.words[0]):
            tries -= 1
            meant = spelling.meant(unit.words[0], known)
            yield Term(latin_unit(unit.text, meant), latin * CORRECTED) if meant else Term(unit, latin)
        else:
            yield Term(unit, latin, is_verb=_is_verb(unit))
    if dictionary is not None:
        for entry, gloss in dictionary.glosses(intent):
            weight = GLOSSED if any(map(known, words(entry))) else INSTEAD
            yield from (
                Term(Unit(entry, (word,)), weight) for word in words(" ".join(gloss), classes=False) if known(word)
            )


def _is_verb(unit: Unit) -> bool:
    return bool(unit.classes) and all(name.startswith(VERB) for name in unit.classes)


def _unseen(unit: Unit, seen: set[str]) -> Unit | None:
    """The unit without what counted before; None where nothing is left. Marks the rest as seen."""
    fresh = tuple(word for word in unit.words if word not in seen)
    classes = tuple(name for name in unit.classes if name not in seen)
    seen.update(fresh, classes)
    if not fresh and not classes:
        return None
    if len(fresh) == len(unit.words) and len(classes) == len(unit.classes):
        return unit
    return replace(unit, words=fresh, classes=classes)
