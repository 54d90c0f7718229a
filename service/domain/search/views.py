"""The registry as one asker sees it: scores, their threshold, and nothing of the tools that do not exist for the asker."""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
# A verb helps to tell tools apart, and says little about whether any fits: unrelated wishes have the same ones (查一下快递).
# Half in the threshold gives AUROC .986 against those instead of .980; half in the order, too, would cost it 1 to 3 points.
VERB_IN_THRESHOLD: Final = 0.5


@dataclass(frozen=True, slots=True)
class Scored:
    """A tool's number, its score in thresholds, and how much of what the intent says it covers: 0 is nothing, 1 plainly all."""

    number: int
    score: float
    covers: float


@dataclass(slots=True)
class _Sums:
    """What the terms of one intent give: by tool, verbs apart, and what a tool could get that fits every term."""

    scores: dict[int, float] = field(default_factory=dict)
    of_verbs: dict[int, float] = field(default_factory=dict)
    attainable: float = 0.0
    attainable_of_verbs: float = 0.0

    def worth(self) -> float:
        """What the best score is worth, to be compared with a threshold; 0 where no tool holds a word.

        Raw sums favour long intents, shares of what could be reached short ones; the root lies between (facts/matching.md).
        """
        if not self.scores:
            return 0.0
        best = max(self.scores, key=lambda number: (self.scores[number], -number))
        less = 1 - VERB_IN_THRESHOLD
        reached = self.scores[best] - less * self.of_verbs.get(best, 0.0)
        return reached / math.sqrt(self.attainable - less * self.attainable_of_verbs)


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
        return queries.terms(intent, self._scorer.knows, self._spelling, self._dictionary)

    def best(self, terms: Sequence[Term], most: int) -> list[Scored]:
        """The best tools first, equal ones in the order of their numbers."""
        sums = self._sums(terms)
        found = heapq.nlargest(most, sums.scores.items(), key=lambda item: (item[1], -item[0]))
        if not found:
            return []
        unit = found[0][1] * self.threshold(wide=any(term.unit.wide for term in terms)) / sums.worth()
        return [Scored(number, score / unit, score / sums.attainable) for number, score in found]

    def scores(self, terms: Sequence[Term]) -> Mapping[int, float]:
        """Every tool's score by number, to be compared with each other only."""
        return self._sums(terms).scores

    def gave(self, unit: Unit, number: int) -> bool:
        """Whether the unit found this tool, by its words or by a class."""
        return any(self._scorer.holds(word, number) for word in (*unit.words, *unit.classes))

    def _worth(self, intent: str) -> float:
        return self._sums(self.terms(intent)).worth()

    def _sums(self, terms: Sequence[Term]) -> _Sums:
        sums = _Sums()
        scores, of_verbs = sums.scores, sums.of_verbs
        for term in terms:
            most, given = self._of_unit(term.unit)
            weight = term.weight
            sums.attainable += weight * most
            for number, score in given.items():
                scores[number] = scores.get(number, 0.0) + weight * score
            if term.is_verb:
                sums.attainable_of_verbs += weight * most
                for number, score in given.items():
                    of_verbs[number] = of_verbs.get(number, 0.0) + weight * score
        return sums

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
