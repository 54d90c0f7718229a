"""What a score is worth in the registry as it is now.

A fixed threshold cannot work: the right one moves from .43 to 1.50 with the size (facts/matching.md, section 4).

Chinese and Latin intents have a threshold each: in a registry written in Chinese an unrelated English wish meets next to nothing,
and would lower the line for Chinese ones.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

from service.domain.search.nulls import CHINESE, LATIN

SHARE: Final = 0.95  # of the unrelated wishes that a threshold turns away
LEAST: Final = 0.3  # where unrelated wishes share no word with any tool, a tool still needs more than a chance one


def threshold(best_score: Callable[[str], float], unrelated: Sequence[str]) -> float:
    """The score that unrelated wishes seldom reach. `best_score`: the best tool's score for an intent, 0 where none fits.

    Costs a match for each line: both lists take 20 ms for 120 tools, 60 ms for 1,000.
    """
    scores = sorted(best_score(intent) for intent in unrelated)
    return max(scores[math.floor(SHARE * (len(scores) - 1))], LEAST)


def unrelated(*, wide: bool) -> Sequence[str]:
    """The shipped wishes in Chinese (`wide`) or English."""
    return CHINESE if wide else LATIN
