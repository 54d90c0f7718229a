"""Text into words to search by: Chinese characters and pairs of them, stemmed Latin words, and the classes of both.

Pairs of characters do as well as a segmenter, which would cost 36 to 82 MB (facts/matching.md: 68 % recall@3 against 64 %).
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from service.domain.search import classes as known
from service.domain.search.stems import stem

# Longer texts are cut: reading costs about 2 µs a character, and long intents find less, not more.
MAX_CHARACTERS: Final = 1_000

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Kana and Hangul are read as Chinese is: by characters and pairs.
_WIDE: Final = "㐀-鿿豈-﫿\U00020000-\U0003ffffぁ-ヿ가-힣"
_RUN: Final = re.compile(rf"[{_WIDE}]+|[^\W_{_WIDE}]+")
_IS_WIDE: Final = re.compile(rf"[{_WIDE}]")
_LONGEST_WORD: Final = 40  # letters; what is longer is a digest or a key, and serves no search

STOP_CHARACTERS: Final = frozenset(
    "的了一是在我把下给个吗呢吧啊么这那请帮要能也都就和与及或到从对为被让着过些得地之其你您他她它有里上还"
)
_STOPPED: Final = (
    "a about all am an and any are as at be been but by can could did do does for from had has have he her here his how i if in"
    " into is it its just like may me might my need no not of on or our out please she should so some such than that the their"
    " them then there these they this those to too up us very want was we were what when where which who whom why will with"
    " would you your let help hi hello thanks thank im ive id s t m re ve ll d also using use"
)
STOP_WORDS: Final = frozenset(_STOPPED.split())


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch of text: the words it is made of, and the classes that say the same in other words.

    Of an intent it counts once, by its words or by its classes, whichever fit a tool better: added up, what is said twice in
    one language would outweigh the rest. `wide`: Chinese.
    """

    text: str
    words: tuple[str, ...]
    classes: known.Classes = ()
    wide: bool = False


def words(text: str, *, classes: bool = True) -> Iterator[str]:
    """The words of a text, repeats included: `重启nginx` gives `重 启 重启 =restart nginx #proxy`."""
    for unit in units(text):
        yield from unit.words
        if classes:
            yield from unit.classes


def units(text: str) -> Iterator[Unit]:
    """The same words as `words` gives, by stretch."""
    before = ""
    for run in _RUN.findall(_CAMEL.sub(" ", _normal(text)).lower()):
        if _IS_WIDE.match(run):
            yield from _chinese(run)
            before = ""
        elif run not in STOP_WORDS and len(run) <= _LONGEST_WORD:
            stemmed = stem(run)
            yield latin_unit(run, stemmed)
            if both := known.of_latin(f"{before} {stemmed}"):
                yield Unit(f"{before} {run}", (), both)
            before = stemmed


def latin_unit(text: str, stemmed: str) -> Unit:
    """One Latin word with its classes."""
    return Unit(text, (stemmed,), known.of_latin(stemmed))


def is_latin(word: str) -> bool:
    """Whether it is a word of plain letters, neither Chinese nor a class."""
    return word.isascii() and word.isalpha()


def _normal(text: str) -> str:
    """NFKC, cut before and after, since one character may become eighteen. Case stays: camelCase is two words."""
    return unicodedata.normalize("NFKC", text[:MAX_CHARACTERS])[:MAX_CHARACTERS]


def _chinese(run: str) -> Iterator[Unit]:
    """Known phrases first, then what stands between them and reaches over their edges."""
    owner = [0] * len(run)  # which phrase a character belongs to; 0 is none
    for number, (start, end, classes) in enumerate(known.in_chinese(run), 1):
        owner[start:end] = [number] * (end - start)
        yield Unit(run[start:end], tuple(_pieces(run[start:end])), classes, wide=True)
    for index, character in enumerate(run):
        if not owner[index] and character not in STOP_CHARACTERS:
            yield Unit(character, (character,), wide=True)
        pair = run[index : index + 2]
        if _says_something(pair) and not owner[index] == owner[index + 1] != 0:
            yield Unit(pair, (pair,), wide=True)


def _pieces(phrase: str) -> Iterator[str]:
    for index, character in enumerate(phrase):
        if character not in STOP_CHARACTERS:
            yield character
        if _says_something(phrase[index : index + 2]):
            yield phrase[index : index + 2]


def _says_something(pair: str) -> bool:
    return len(pair) == 2 and not (pair[0] in STOP_CHARACTERS and pair[1] in STOP_CHARACTERS)
