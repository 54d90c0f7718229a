"""From an intent to the one to three tools that serve it, or an honest no (seed §2 step 3, contract/http-api.md, Intent call)."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Final

from service.domain.actors import Actor
from service.domain.definitions import Definition
from service.domain.search import fields
from service.domain.search.bm25 import Postings, Scorer
from service.domain.search.fields import Dictionary
from service.domain.search.learned import LearnedIntent
from service.domain.search.lessons import Lessons
from service.domain.search.queries import Term
from service.domain.search.spelling import Spelling
from service.domain.search.views import Scored, View

MOST: Final = 3  # candidates (seed §2 step 3: the best one to three)
WINDOW: Final = 12  # of the best, in which ties are broken
DEPRECATED: Final = 0.8  # of its score counts when the three are picked; among the three it goes last in any case
MATCHED: Final = 8  # words shown for a tool
CUT: Final = 0.4  # of the best score: what lies lower is not offered
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
    """The answer: one to three `candidates` where found, else up to three `nearest`, which are not recommended."""

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

    def match(self, intent: str, actor: Actor, context: Any = None) -> Match:
        """What `actor` may be offered for an intent of any length. `context`: any JSON; its texts only break ties.

        A tool outside the actor's patterns does not exist: frequencies, lengths and the threshold are those of the tools it
        sees. Nothing learned turns a no into a tool that may change something.
        """
        view = self._view(actor, lessons=True)
        terms = view.terms(intent)
        best = view.best(terms, WINDOW)
        offered = self._offered(view, best, intent, actor)
        if not offered:
            return Match(found=False, nearest=self._shown(view, terms, best, context))
        return Match(found=True, candidates=self._shown(view, terms, offered, context))

    def rank(self, intent: str, actor: Actor) -> list[str]:
        """The best three without the question whether any is good enough: for lint and benchmarks."""
        view = self._view(actor, lessons=True)
        return [self._tools[one.number].name for one in self._picked(view, view.best(view.terms(intent), WINDOW), None)]

    def calibrate(self, actor: Actor) -> tuple[float, float]:
        """The thresholds for this asker, for Chinese and other intents: call it when the index is swapped, ahead of intents."""
        view = self._view(actor, lessons=True)
        return view.threshold(wide=True), view.threshold(wide=False)

    def _offered(self, view: View, best: Sequence[Scored], intent: str, actor: Actor) -> Sequence[Scored]:
        """What may be offered; empty where the best is not good enough."""
        if not best or best[0].score < 1:
            return ()
        offered = [one for one in best if one.score >= CUT * best[0].score]
        plain = self._view(actor, lessons=False)
        if plain is view or any(one.score >= 1 for one in plain.best(plain.terms(intent), 1)):
            return offered
        reading = [one for one in offered if self._tools[one.number].effect == "read"]
        return reading if reading and reading[0].score >= 1 else ()

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
        """The best three, deprecated ones last; of those that show the same score, the one that the context speaks for first."""
        said = _context_scores(view, context, found)

        def place(one: Scored) -> tuple[float, float, int]:
            score = one.score * (DEPRECATED if self._is_deprecated(one) else 1)
            return -round(score, 2), -said.get(one.number, 0.0), one.number

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
    shown = [round(one.score, 2) for one in found]
    if not context or len(set(shown)) == len(shown):
        return {}
    return {one.number: one.score for one in view.best(view.terms(" ".join(_texts(context))), len(shown) * 100)}


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
