"""English words without the endings of plurals and verbs. Light on purpose: heavier stemmers join what should stay apart."""

from typing import Final

_ENDINGS: Final = (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", ""), ("s", ""))
_SHORTEST: Final = 3  # letters that are left


def stem(word: str) -> str:
    """`running` gives `run`, `queries` `query`, `file` and `files` `fil`; what is not all ASCII letters stays as it is."""
    if len(word) <= _SHORTEST or not (word.isascii() and word.isalpha()):
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)] + instead
            break
    if len(word) > _SHORTEST and word[-1] == word[-2] and word[-1] not in "aeiouls":
        return word[:-1]
    return word.removesuffix("e") if len(word) > _SHORTEST else word
