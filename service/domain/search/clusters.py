"""Intents that say the same in other words, put together: what the report of missing tools counts."""

from collections.abc import Sequence
from typing import Final

from service.domain.search.classes import VERB
from service.domain.search.words import words

ALIKE: Final = 0.34  # of the words of the shorter one, found in the other


def clustered(texts: Sequence[str]) -> list[list[int]]:
    """Places of the texts by cluster, the largest first, each in the order given; a cluster is known by its first text.

    Verbs do not join (查天气 and 查快递 ask for two tools). Costs about a tenth of a millisecond a text.
    """
    leaders: list[frozenset[str]] = []
    members: list[list[int]] = []
    holding: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        said = _said(text)
        found = _nearest(said, leaders, holding)
        if found is None:
            for word in said:
                holding.setdefault(word, []).append(len(leaders))
            leaders.append(said)
            members.append([place])
        else:
            members[found].append(place)
    return sorted(members, key=lambda places: (-len(places), places[0]))


def _nearest(said: frozenset[str], leaders: Sequence[frozenset[str]], holding: dict[str, list[int]]) -> int | None:
    common: dict[int, int] = {}
    for word in said:
        for number in holding.get(word, ()):
            common[number] = common.get(number, 0) + 1
    shares = {number: count / min(len(said), len(leaders[number])) for number, count in common.items()}
    best = max(shares, key=lambda number: (shares[number], -number), default=None)
    return best if best is not None and shares[best] >= ALIKE else None


def _said(text: str) -> frozenset[str]:
    """Pairs of characters, Latin stems and developers' groups; where there are none, whatever there is."""
    everything = frozenset(words(text))
    telling = frozenset(word for word in everything if len(word) > 1 and not word.startswith(VERB))
    return telling or everything
