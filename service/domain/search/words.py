"""Text into words to search by: Chinese characters and pairs of them, Latin words lightly stemmed, and the classes both belong to.

Pairs of characters do as well as a segmenter, which would cost 36 to 82 MB (facts: 68 % recall@3 against 64 %).
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from service.domain.search.developers import GROUPS
from service.domain.search.verbs import VERBS

# Longer texts are cut here: NFKC and the scan cost about 1 µs a character, and long intents find less, not more.
MAX_CHARACTERS: Final = 1_000

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CHINESE: Final = "㐀-鿿豈-﫿𠀀-\U0003ffff"
# Kana and Hangul are read as Chinese is: by characters and pairs.
_RUN: Final = re.compile(rf"[{_CHINESE}ぁ-ヿ가-힣]+|[^\W_{_CHINESE}ぁ-ヿ가-힣]+")
_WIDE: Final = re.compile(rf"[{_CHINESE}ぁ-ヿ가-힣]")
_LONGEST_WORD: Final = 40  # letters; what is longer is a digest or a key, and serves no search

STOP_CHARACTERS: Final = frozenset(
    "的了一是在我把下给个吗呢吧啊么这那请帮要能也都就和与及或到从对为被让着过些得地之其你您他她它有里上还"
)
STOP_WORDS: Final = frozenset(
    ["a", "about", "all", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he", "her", "here", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "like", "may", "me", "might", "my", "need", "no", "not", "of", "on", "or", "our", "out", "please", "she", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "too", "up", "us", "very", "want", "was", "we", "were", "what", "when", "where", "which", "who", "whom", "why", "will", "with", "would", "you", "your", "let", "help", "hi", "hello", "thanks", "thank", "im", "ive", "id", "s", "t", "m", "re", "ve", "ll", "d", "also", "there's", "using", "use"]
)


def normal(text: str) -> str:
    """NFKC, cut to MAX_CHARACTERS; letters keep their case, since camelCase is two words."""
    return unicodedata.normalize("NFKC", text[:MAX_CHARACTERS])[:MAX_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch of an intent: the words it is made of, and the classes that say the same in other words.

    It counts once: by its words or by its classes, whichever fit a tool better. Summed, English said twice outweighed the rest.
    """

    text: str
    words: tuple[str, ...]
    classes: tuple[str, ...] = ()
    wide: bool = False


def words(text: str, *, classes: bool = True) -> Iterator[str]:
    """The words of a text, repeats included.

    `重启nginx` gives `重 启 重启 nginx`, and `=restart` for the verb: `=` marks a class of verbs, `#` a developers' group.
    """
    for unit in units(text):
        yield from unit.words
        if classes:
            yield from unit.classes


def units(text: str) -> Iterator[Unit]:
    """The same words as `words` gives, by stretch."""
    before = ""
    for run in _RUN.findall(_CAMEL.sub(" ", normal(text)).lower()):
        if _WIDE.match(run):
            yield from _chinese(run)
            before = ""
        elif run not in STOP_WORDS and len(run) <= _LONGEST_WORD:
            yield latin_unit(run, stem(run))
            if both := _CLASSES_OF_WORDS.get(f"{before} {stem(run)}"):
                yield Unit(f"{before} {run}", (), both)
            before = stem(run)


def latin_unit(text: str, stemmed: str) -> Unit:
    """One Latin word with its classes."""
    return Unit(text, (stemmed,), _CLASSES_OF_WORDS.get(stemmed, ()))


def is_latin(word: str) -> bool:
    """Whether it is a word of letters, neither Chinese nor the mark of a class."""
    return word.isascii() and word.isalpha()


def stem(word: str) -> str:
    """Without the endings of English plurals and verbs. Light on purpose: heavier stemmers join what should stay apart."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        return word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


def _chinese(run: str) -> Iterator[Unit]:
    """Known phrases first, then what reaches over their edges."""
    inside = bytearray(len(run))  # which phrase a character belongs to; 0 is none
    for number, (start, end, classes) in enumerate(_phrases(run), 1):
        own = tuple(_pieces(run, start, end))
        inside[start:end] = bytes([number % 256 or 1]) * (end - start)
        yield Unit(run[start:end], own, classes, wide=True)
    for index, character in enumerate(run):
        if not inside[index] and character not in STOP_CHARACTERS:
            yield Unit(character, (character,), wide=True)
        pair = run[index : index + 2]
        if _says_something(pair) and (not inside[index] or inside[index] != inside[index + 1]):
            yield Unit(pair, (pair,), wide=True)


def _pieces(run: str, start: int, end: int) -> Iterator[str]:
    for index in range(start, end):
        if run[index] not in STOP_CHARACTERS:
            yield run[index]
        if index + 1 < end and _says_something(run[index : index + 2]):
            yield run[index : index + 2]


def _says_something(pair: str) -> bool:
    return len(pair) == 2 and not (pair[0] in STOP_CHARACTERS and pair[1] in STOP_CHARACTERS)


def _phrases(run: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Longest phrase first, no character in two phrases: 重启 is no 启."""
    index = 0
    while index < len(run):
        for length in range(min(_LONGEST_PHRASE, len(run) - index), 0, -1):
            if found := _CLASSES_OF_PHRASES.get(run[index : index + length]):
                yield index, index + length, found
                index += length
                break
        else:
            index += 1


def _read(marked: tuple[tuple[str, str], ...]) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """From the tables' lines to phrases (Chinese) and words (stemmed; two of them joined by a space)."""
    phrases: dict[str, tuple[str, ...]] = {}
    latin: dict[str, tuple[str, ...]] = {}
    for mark, table in marked:
        for line in table.strip().splitlines():
            name, _, members = line.partition(":")
            for member in members.split():
                if _WIDE.match(member):
                    phrases[member] = (*phrases.get(member, ()), mark + name)
                else:
                    key = " ".join(map(stem, member.split("_")))
                    latin[key] = (*latin.get(key, ()), mark + name)
    return phrases, latin


_CLASSES_OF_PHRASES, _CLASSES_OF_WORDS = _read((("=", VERBS), ("#", GROUPS)))
_LONGEST_PHRASE: Final = max(map(len, _CLASSES_OF_PHRASES))


def known_latin() -> Collection[str]:
    """Stems of the Latin words that belong to a class."""
    return _CLASSES_OF_WORDS.keys()
