"""The registry as one asker sees it: scores, their threshold, and nothing of the tools that do not exist for the asker."""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.domain.search import calibration, queries
from service.domain.search.bm25 import Scorer
from service.domain.search.fields import Dictionary
from service.domain.search.queries import Term
from service.domain.search.spelling import Spelling
from service.domain.search.words import Unit

# What a class counts beside the words themselves. Chinese has more ways to say a thing, and characters by chance.
VERB: Final = {True: 1.0, False: 0.5}  # by whether the unit is Chinese
GROUP: Final = {True: 1.5, False: 1.0}
# A verb helps to tell tools apart, and says little about whether any fits: unrelated wishes have the same verbs (查一下快递).
# Counted half in the threshold and whole in the order: AUROC .986 instead of .980 against those; half in both costs 1 to 3 points.
VERB_IN_THRESHOLD: Final = 0.5


@dataclass(frozen=True, slots=True)
class Scored:
    """A tool's number and its score in thresholds."""

    number: int
    score: float


class View:
    """Scores over the tools that one asker sees."""

    def __init__(self, scorer: Scorer, spelling: Spelling, dictionary: Dictionary | None) -> None:
        self._scorer, self._spelling, self._dictionary = scorer, spelling, dictionary
        self._thresholds: dict[bool, float] = {}

    def threshold(self, *, wide: bool) -> float:
        """What unrelated intents seldom reach, of Chinese ones (`wide`) or others.

        Computed when first asked for, at the cost of a hundred matches; two threads may both do it, to the same end.
        """
        if wide not in self._thresholds:
            self._thresholds[wide] = calibration.threshold(self._worth, calibration.unrelated(wide=wide))
        return self._thresholds[wide]

    def terms(self, intent: str) -> Sequence[Term]:
        """The intent as this asker's registry reads it."""
        return queries.terms(intent, self._known, self._spelling, self._dictionary)

    def best(self, terms: Sequence[Term], most: int) -> list[Scored]:
        """The best tools first, equal ones in the order of their numbers."""
        scores, worth = self._scores(terms)
        found = heapq.nlargest(most, scores.items(), key=lambda item: (item[1], -item[0]))
        if not found:
            return []
        unit = found[0][1] * self.threshold(wide=any(term.unit.wide for term in terms)) / worth
        return [Scored(number, score / unit) for number, score in found]

    def gave(self, unit: Unit, number: int) -> bool:
        """Whether the unit found this tool, by its words or by a class."""
        return any(number in self._scorer.of(word)[1] for word in (*unit.words, *unit.classes))

    def _known(self, word: str) -> bool:
        return bool(self._scorer.of(word)[1])

    def _worth(self, intent: str) -> float:
        return self._scores(self.terms(intent))[1]

    def _scores(self, terms: Sequence[Term]) -> tuple[dict[int, float], float]:
        """Scores by number, and what the best of them is worth, to be compared with a threshold.

        Raw sums favour long intents, shares of what could be reached short ones; the root lies between (facts §4).
        """
        total: dict[int, float] = {}
        verbs: dict[int, float] = {}  # of it, what verbs gave
        attainable = 0.0
        for term in terms:
            most, given = self._of_unit(term.unit)
            attainable += term.weight * most * (VERB_IN_THRESHOLD if term.is_verb else 1)
            for number, score in given.items():
                total[number] = total.get(number, 0.0) + term.weight * score
                if term.is_verb:
                    verbs[number] = verbs.get(number, 0.0) + term.weight * score
        if not total:
            return total, 0.0
        best = max(total, key=lambda number: (total[number], -number))
        worth = total[best] - (1 - VERB_IN_THRESHOLD) * verbs.get(best, 0.0)
        return total, worth / math.sqrt(attainable)

    def _of_unit(self, unit: Unit) -> tuple[float, dict[int, float]]:
        """By its words or by one of its classes, whichever gives a tool more."""
        if len(unit.words) == 1 and not unit.classes:
            return self._scorer.of(unit.words[0])
        most = 0.0
        given: dict[int, float] = {}
        for word in unit.words:
            weight, gives = self._scorer.of(word)
            most += weight
            for number, score in gives.items():
                given[number] = given.get(number, 0.0) + score
        for name in unit.classes:
            factor = (VERB if name[0] == "=" else GROUP)[unit.wide]
            weight, gives = self._scorer.of(name)
            most = max(most, factor * weight)
            for number, score in gives.items():
                if factor * score > given.get(number, 0.0):
                    given[number] = factor * score
        return most, given
