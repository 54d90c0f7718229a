"""From an intent to the one to three tools that serve it, or an honest no (seed §2 step 3, contract/http-api.md, Intent call)."""

import heapq
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Final

from service.domain.actors import Actor
from service.domain.definitions import Definition
from service.domain.search import fields
from service.domain.search.bm25 import Postings, Scorer
from service.domain.search.classes import VERB
from service.domain.search.fields import Dictionary
from service.domain.search.learned import LearnedIntent
from service.domain.search.lessons import Lessons
from service.domain.search.queries import Term
from service.domain.search.spelling import Spelling
from service.domain.search.views import Scored, View
from service.domain.search.words import units

MOST: Final = 3  # candidates (seed §2 step 3: the best one to three)
WINDOW: Final = 12  # of the best, in which ties are broken
DEPRECATED: Final = 0.8  # of its score counts when the three are picked; among the three it goes last in any case
MATCHED: Final = 8  # words shown for a tool
CUT: Final = 0.4  # of the best score: what lies lower is not offered
LIKENESS: Final = (
    2.0  # what a cosine above the mean counts where the share of an intent that is covered counts 1 (facts)
)
ALIKE: Final = 0.5  # of the verbs of two tools that do the same
MAX_VIEWS: Final = 32  # kinds of asker whose view is kept; each holds a number a tool, and took a calibration

# What a confidence takes: score in thresholds, how much of the intent is covered, margin to the next tool as a share.
# Among 120 tools, with one intent in six that none serves: 95 in 100 highs are right, and 99 of those that any tool serves.
HIGH: Final = (1.5, 0.7, 0.25)
MEDIUM: Final = (1.5, 0.4, 0.1)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One tool. `score` is in thresholds: unrelated wishes seldom reach 1. `confidence`: high, medium, low.

    `matched`: the intent's own words that found it, lower-case, longest first.
    """

    tool: str
    score: float
    confidence: str
    matched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """The answer: one to three `candidates` where found, else up to three `nearest`, which are not recommended.

    Scores fall, except that deprecated tools stand last whatever they score.
    """

    found: bool
    candidates: tuple[Candidate, ...] = ()
    nearest: tuple[Candidate, ...] = ()


class Matcher:
    """Immutable over one registry, and swapped whole with the index. Threads may share it."""

    def __init__(
        self,
        definitions: Iterable[Definition],
        *,
        learned: Mapping[str, Sequence[LearnedIntent]] | None = None,
        now: datetime | None = None,
        dictionary: Dictionary | None = None,
    ) -> None:
        """`definitions`: of the active versions. `learned`: by tool; what no longer holds is left out. `now`: for their age."""
        self._tools = tuple(sorted(definitions, key=lambda tool: tool.name))
        self._dictionary = dictionary
        self._postings = Postings(fields.document(tool, dictionary) for tool in self._tools)
        self._spelling = Spelling(self._postings)
        self._lessons = Lessons(self._tools, learned or {}, now or datetime.now(UTC))
        self._views: dict[Any, View] = {}
        self._making = Lock()

    def relearned(self, learned: Mapping[str, Sequence[LearnedIntent]], now: datetime | None = None) -> "Matcher":
        """The same registry with other lessons: a new matcher, which shares all that no lesson changes."""
        fresh = copy(self)
        fresh._lessons = Lessons(self._tools, learned, now or datetime.now(UTC))  # noqa: SLF001 - one of us
        fresh._views = {key: view for key, view in self._views.copy().items() if key[1] is None}  # noqa: SLF001 - one of us
        fresh._making = Lock()  # noqa: SLF001 - one of us
        return fresh

    def match(
        self, intent: str, actor: Actor, context: Any = None, likeness: Mapping[str, float] | None = None
    ) -> Match:
        """What `actor` may be offered for an intent of any length. `context`: any JSON; its texts only break ties.

        A tool outside the actor's patterns does not exist: frequencies, lengths and the threshold are those of the tools it
        sees. Nothing learned turns a no into a tool that may change something. `likeness`: by tool, how near its meaning is
        (a cosine); it orders what is found, and whether anything is found stays a question of words.
        """
        view = self._view(actor, lessons=True)
        terms = view.terms(intent)
        best = view.best(terms, len(self._tools) if likeness else WINDOW)
        ranked = self._fused(best, likeness, actor) if best and likeness else best
        offered, taught = self._offered(best, ranked, intent, actor)
        if not offered:
            return Match(found=False, nearest=self._shown(view, terms, ranked, context))
        shown = self._shown(view, terms, offered, context)
        # What was learned alone carries it: one call that happened to follow may have taught it.
        return Match(found=True, candidates=tuple(replace(one, confidence="low") for one in shown) if taught else shown)

    def resembling(self, name: str, actor: Actor) -> str | None:
        """The other tool that this one's own intent finds with high confidence, among those that the actor sees.

        Siblings do so too (encode and decode, list and create): they are told apart by their verbs and their effect.
        """
        number = bisect_left(self._tools, name, key=lambda tool: tool.name)
        if number == len(self._tools) or self._tools[number].name != name:
            return None
        view = self._view(actor, lessons=False)
        found = view.best(view.terms(self._tools[number].intent), WINDOW)
        others = [one for one in found if one.number != number]
        if not others or _confidence(others[0], [one.score for one in others]) != "high":
            return None
        other = self._tools[others[0].number]
        return other.name if _does_alike(self._tools[number], other) else None

    def rank(self, intent: str, actor: Actor) -> list[str]:
        """The best three without the question whether any is good enough: for lint and benchmarks."""
        view = self._view(actor, lessons=True)
        return [self._tools[one.number].name for one in self._picked(view, view.best(view.terms(intent), WINDOW), None)]

    def calibrate(self, actor: Actor) -> tuple[float, float]:
        """The thresholds for this asker, for Chinese and other intents: call it when the index is swapped, ahead of intents."""
        view = self._view(actor, lessons=True)
        return view.threshold(wide=True), view.threshold(wide=False)

    def _fused(self, best: Sequence[Scored], likeness: Mapping[str, float], actor: Actor) -> list[Scored]:
        """By words and meaning together; in the scores' own unit, which is the same for all of one intent's."""
        lexical = {one.number: one for one in best}
        unit = best[0].score / best[0].covers
        seen = {
            number: likeness[tool.name]
            for number, tool in enumerate(self._tools)
            if tool.name in likeness and actor.sees(tool.name)
        }
        mean = sum(seen.values()) / (len(seen) or 1)
        nearer = {number: unit * LIKENESS * (value - mean) for number, value in seen.items() if value > mean}
        fused = []
        for number in lexical.keys() | nearer.keys():
            one = lexical.get(number) or Scored(number, 0.0, 0.0)
            fused.append(Scored(number, one.score + nearer.get(number, 0.0), one.covers))
        return heapq.nlargest(WINDOW, fused, key=lambda one: (one.score, -one.number))

    def _offered(
        self, best: Sequence[Scored], ranked: Sequence[Scored], intent: str, actor: Actor
    ) -> tuple[Sequence[Scored], bool]:
        """What may be offered, empty where the best by words is not good enough; and whether only lessons make it so."""
        if not best or best[0].score < 1:
            return (), False
        offered = [one for one in ranked[:WINDOW] if one.score >= CUT * ranked[0].score]
        plain = self._view(actor, lessons=False)
        if plain is self._view(actor, lessons=True) or any(
            one.score >= 1 for one in plain.best(plain.terms(intent), 1)
        ):
            return offered, False
        reading = [one for one in offered if self._tools[one.number].effect == "read"]
        return (reading, True) if reading and reading[0].score >= 1 else ((), False)

    def _shown(self, view: View, terms: Sequence[Term], found: Sequence[Scored], context: Any) -> tuple[Candidate, ...]:
        scores = sorted((one.score for one in found), reverse=True)
        return tuple(
            Candidate(
                self._tools[one.number].name,
                math.floor(one.score * 100) / 100,  # what shows 1 has reached it
                _confidence(one, scores),
                _matched(view, terms, one.number),
            )
            for one in self._picked(view, found, context)
        )

    def _picked(self, view: View, found: Sequence[Scored], context: Any) -> list[Scored]:
        """The best three, deprecated ones last; of those that score alike, the one that the context speaks for first."""
        said = _context_scores(view, context, found)

        def place(one: Scored) -> tuple[float, float, int]:
            score = one.score * (DEPRECATED if self._is_deprecated(one) else 1)
            return -(_two_figures(score) if said else score), -said.get(one.number, 0.0), one.number

        return sorted(sorted(found, key=place)[:MOST], key=self._is_deprecated)

    def _is_deprecated(self, one: Scored) -> bool:
        return self._tools[one.number].deprecated is not None

    def _view(self, actor: Actor, *, lessons: bool) -> View:
        asker = self._lessons.asker(actor.name) if lessons else None
        key = (actor.tools, asker)
        with self._making:
            if key not in self._views:
                if len(self._views) == MAX_VIEWS:
                    del self._views[next(iter(self._views))]
                self._views[key] = self._made(actor, asker)
            return self._views[key]

    def _made(self, actor: Actor, asker: str | None) -> View:
        among = None if actor.tools is None else [actor.sees(tool.name) for tool in self._tools]
        more = None if asker is None else self._lessons.postings(asker)
        return View(Scorer(self._postings, among=among, more=more), self._spelling, self._dictionary)


def _confidence(one: Scored, scores: Sequence[float]) -> str:
    """Of one tool among the scores found, which come descending."""
    margin = (one.score - scores[1]) / one.score if len(scores) > 1 else 1.0
    for name, (score, covers, apart) in (("high", HIGH), ("medium", MEDIUM)):
        if one.score >= score and one.covers >= covers and margin >= apart:
            return name
    return "low"


def _does_alike(one: Definition, other: Definition) -> bool:
    """Nothing speaks against it: neither an effect of another kind, nor verbs most of which are others."""
    if None not in (one.effect, other.effect) and one.effect != other.effect:
        return False
    verbs, others = (
        {
            name
            for unit in units(f"{tool.name} {tool.display} {tool.intent}")
            for name in unit.classes
            if name[0] == VERB
        }
        for tool in (one, other)
    )
    return not verbs or not others or len(verbs & others) >= ALIKE * len(verbs | others)


def _matched(view: View, terms: Sequence[Term], number: int) -> tuple[str, ...]:
    """Longest first, without the characters and pairs that are parts of longer ones or reach into them."""
    found = {term.unit.text: term.unit for term in terms if view.gave(term.unit, number)}
    kept: list[str] = []
    for text in sorted(found, key=lambda text: (-len(text), not found[text].classes, text)):
        inside = "".join(kept)
        if text not in inside and not (found[text].wide and any(character in inside for character in text)):
            kept.append(text)
    return tuple(kept[:MATCHED])


def _context_scores(view: View, context: Any, found: Sequence[Scored]) -> Mapping[int, float]:
    """What the context says for each tool; nothing where no two of them score alike."""
    if not context or len({_two_figures(one.score) for one in found}) == len(found):
        return {}
    return view.scores(view.terms(" ".join(_texts(context))))


def _two_figures(score: float) -> float:
    """Scores that agree in two figures are a tie: the third comes from how many words a definition has."""
    return float(f"{score:.2g}")


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, however deep; keys are names, not texts."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            waiting.extend(one.values())
        elif isinstance(one, list | tuple):
            waiting.extend(one)
