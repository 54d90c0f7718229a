"""Matching in the running service: the Matcher of now, what each answer is written down as, and what runs teach.

One thread of its own builds: a push is not slowed by it, and what is asked meanwhile is answered as of a moment before.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from service.domain.actors import Actor
from service.domain.index import Index
from service.domain.runs import Run
from service.domain.search.clusters import clustered
from service.domain.search.fields import Dictionary
from service.domain.search.learned import cleaned
from service.domain.search.matcher import Match, Matcher
from service.domain.times import now, uuid7
from service.domain.tools import ToolVersion
from service.errors import BitongError, CannotRecord, Message, Unavailable
from service.execution.embeddings import Embeddings
from service.execution.teaching import Teaching, active
from service.store import matching
from service.store.database import Database, Transaction
from service.store.matching import Asked, Learned

logger = structlog.get_logger(__name__)

FRESH_S: Final = 1.0  # that an intent waits for the registry of this moment, before it is answered as of the one before
FIRST_S: Final = 30.0  # that the first ones wait for any
RELEARN_S: Final = 2.0  # between two takings-in of what was taught: each asker's next answer takes a calibration
RETRY_S: Final = 5.0
WARM: Final = 8  # of the latest askers, for whom thresholds are computed ahead
MAX_MISSED: Final = 2_000  # newest intents that the report looks at
EXAMPLES: Final = 5  # other wordings shown of a cluster

_EVERYBODY: Final = Actor("", frozenset())


@dataclass(frozen=True, slots=True)
class Answered:
    """A Match as it was given: its id, None where it could not be written down; the tools it names, as they were."""

    id: str | None
    match: Match
    versions: Mapping[str, ToolVersion]


@dataclass(frozen=True, slots=True)
class MissingTool:
    """Intents of one kind that found nothing. `found_now`: a tool that would serve the newest of them by now."""

    intent: str
    count: int
    actors: int
    first_at: str
    last_at: str
    examples: tuple[str, ...]
    found_now: str | None


@dataclass(frozen=True, slots=True)
class _Built:
    """One registry, ready to be asked. `resembling`: by tool an older one that its own intent finds (see `resembles`)."""

    index: Index
    taught: int  # how far what is learned was taken in
    matcher: Matcher
    versions: Mapping[str, ToolVersion]
    resembling: dict[str, str] = field(default_factory=dict)


class Matching:
    """`index`: the registry now. `dictionary`: opened once, in the thread. `learn`: whether runs teach and lessons count."""

    def __init__(
        self,
        database: Database,
        *,
        index: Callable[[], Index],
        dictionary: Callable[[], Dictionary | None] = lambda: None,
        learn: bool = True,
        embeddings: Embeddings | None = None,
    ) -> None:
        self._database = database
        self._index = index
        self._open = dictionary
        self._dictionary: Dictionary | None = None
        self._embeddings = embeddings
        self._built: _Built | None = None
        self._ready = threading.Condition()
        self.teaching = Teaching(database, index, on=learn)
        self._taught = 0  # rises when what is learned changed
        self._relearned = 0.0
        self._askers: dict[tuple[Any, str], Actor] = {}
        self._memory = threading.Lock()
        self._wake = threading.Event()
        self._stopped = False
        self._retry = threading.Event()  # set when it ends: then nothing waits to be tried again
        self._thread = threading.Thread(target=self._work, name="matching", daemon=True)
        self.revision = 0  # rises when what `resembles` answers may have changed

    def start(self) -> None:
        """Build the first matcher; what a crash kept from being learned is learned now."""
        self._wake.set()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; lessons that wait are written first."""
        self._stopped = True
        self._retry.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(RETRY_S)

    def wake(self) -> None:
        """The registry may have changed."""
        self._wake.set()

    # Answers.

    def match(self, intent: str, actor: Actor, context: Any = None) -> Answered:
        """What `actor` may be offered, written down. Where storage refuses it is answered all the same, without an id.

        Raises Unavailable while there is no matcher yet.
        """
        built = self._current()
        match = built.matcher.match(intent, actor, context, self._likeness(built, intent, actor))
        names = tuple(one.tool for one in (*match.candidates, *match.nearest))
        asked = Asked(uuid7(), actor.name, cleaned(intent), match.found, names, now())
        try:
            self._database.write(lambda transaction: matching.record(transaction, asked))
        except CannotRecord:
            logger.warning("a match could not be written down; it is answered without an id")
            return Answered(None, match, built.versions)
        self.teaching.asked(asked)
        self._warm_for(actor)
        return Answered(asked.id, match, built.versions)

    def knows(self, match_id: str, actor: Actor) -> bool:
        """Whether this was an answer to this actor."""
        if not match_id.isascii():
            return False
        return matching.actor_of(self._database.fetch(matching.FIND, {"id": match_id})) == actor.name

    def resembles(self, name: str, actor: Actor) -> str | None:
        """An older tool that this one's own intent finds with high confidence, among those that the actor sees."""
        built = self._built
        if built is None or actor.tools is None:
            return None if built is None else built.resembling.get(name)
        return _resembling(built, name, actor)

    def learned(self, tool: str) -> list[Learned]:
        """What a tool has learned, newest first."""
        with self._database.read() as connection:
            return matching.of_tool(connection, tool)

    def forget(self, tool: str, by: Actor, only: int | None = None) -> int:
        """Forget what a tool has learned, or one intent of it; how many."""

        def work(transaction: Transaction) -> int:
            everything = matching.of_tool(transaction.connection, tool)
            gone = [one for one in everything if only is None or one.id == only]
            matching.forget(transaction, gone, "asked", by.name)
            return len(gone)

        forgotten = self._database.write(work)
        self._relearned = 0.0  # at once
        self._learned_something()
        self._wake.set()
        return forgotten

    def missing(self, actor: Actor) -> list[MissingTool]:
        """Intents that found nothing, clustered. Who sees only some tools is told only of its own intents."""
        own = None if actor.tools is None else actor.name
        with self._database.read() as connection:
            missed = matching.missed(connection, actor=own, most=MAX_MISSED)
        built = self._current()
        return [
            _missing([missed[place] for place in places], built, actor)
            for places in clustered([one.intent for one in missed])
        ]

    def ran(self, run: Run) -> None:
        """A run was recorded. One that ended well and named its match, or followed one, will teach; this waits for nothing."""
        if self.teaching.ran(run):
            self._wake.set()

    # The matcher of now.

    def _warm_for(self, actor: Actor) -> None:
        with self._memory:
            key = actor.tools, actor.name
            self._askers.pop(key, None)
            self._askers[key] = actor
            if len(self._askers) > WARM:
                del self._askers[next(iter(self._askers))]

    def _current(self) -> _Built:
        wanted, built = self._index(), self._built
        if built is not None and built.index is wanted:
            return built
        self._wake.set()
        with self._ready:
            self._ready.wait_for(lambda: self._built is not None, FIRST_S)
            self._ready.wait_for(lambda: self._built is not None and not _older(self._built, wanted), FRESH_S)
            if self._built is None:
                raise Unavailable(_NOT_YET)
            return self._built

    def _likeness(self, built: _Built, intent: str, actor: Actor) -> Mapping[str, float] | None:
        if self._embeddings is None:
            return None
        seen = [version.definition for name, version in built.versions.items() if actor.sees(name)]
        return self._embeddings.likeness(intent, seen)

    # The thread.

    def _work(self) -> None:
        self._try(self.teaching.take_up)
        self._try(self._renew)
        self._try(self._bring_dictionary)
        while not self._stopped:
            behind = self._built is not None and self._built.taught != self._taught
            self._wake.wait(RELEARN_S if behind else None)
            self._wake.clear()
            self._try(self._teach)
            if not self._stopped:
                self._try(self._renew)
        self._try(self._teach)

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except BitongError:  # storage: said where it failed
            self._retry.wait(RETRY_S)
            self._wake.set()
        except Exception as error:
            logger.exception("matching failed inside", error=type(error).__name__)

    def _bring_dictionary(self) -> None:
        """After the first matcher, since the first time it takes two seconds."""
        self._dictionary = self._open()
        if self._dictionary is not None:
            self._renew(anew=True)

    def _learned_something(self) -> None:
        with self._memory:
            self._taught += 1

    def _teach(self) -> None:
        if self.teaching.teach():
            self._learned_something()

    def _renew(self, *, anew: bool = False) -> None:
        """A matcher of the registry and the lessons as they are now, where either changed."""
        index, built, taught = self._index(), self._built, self._taught
        if built is None or built.index is not index or anew:
            versions = {tool.name: tool.version for tool in index.named(_EVERYBODY) if active(tool) and tool.version}
            self.teaching.forget_ended(None if built is None else _changed(built, versions))
            definitions = [version.definition for version in versions.values()]
            if self._embeddings is not None:
                self._embeddings.learn_soon(definitions)
            matcher = Matcher(definitions, learned=self.teaching.holding(), dictionary=self._dictionary)
            fresh = _Built(index, taught, matcher, versions, _carried(built, versions))
            self._publish(fresh)
            self._compare(fresh, built)
        elif built.taught != taught and time.monotonic() >= self._relearned + RELEARN_S:
            self._publish(replace(built, taught=taught, matcher=built.matcher.relearned(self.teaching.holding())))

    def _publish(self, built: _Built) -> None:
        """Thresholds first, for the latest askers: each takes a hundred matches."""
        self._relearned = time.monotonic()
        with self._memory:
            askers = [*self._askers.values()]
        for actor in (_EVERYBODY, *askers):
            built.matcher.calibrate(actor)
        with self._ready:
            self._built = built
            self._ready.notify_all()

    def _compare(self, built: _Built, before: _Built | None) -> None:
        """Which tools resemble an older one. Of those that did not change it is known, unless the older one did."""
        known = {} if before is None else before.versions
        was = {} if before is None else before.resembling
        for name, version in built.versions.items():
            if self._stopped:
                return
            settled = _same(known.get(name), version) and (name not in was or name in built.resembling)
            if not settled and (other := _resembling(built, name, _EVERYBODY)) is not None:
                built.resembling[name] = other
        self.revision += 1


def _carried(before: _Built | None, versions: Mapping[str, ToolVersion]) -> dict[str, str]:
    """What resembled what and did not change, neither the one nor the other."""
    if before is None:
        return {}
    same = versions.keys() - _changed(before, versions)
    return {name: other for name, other in before.resembling.items() if {name, other} <= same}


def _changed(before: _Built, versions: Mapping[str, ToolVersion]) -> set[str]:
    return {name for name, version in versions.items() if not _same(before.versions.get(name), version)}


def _resembling(built: _Built, name: str, actor: Actor) -> str | None:
    """Of two that resemble each other, the one that was registered later is told."""
    if name not in built.versions:
        return None
    other = built.matcher.resembling(name, actor)
    return other if other is not None and built.versions[other].id < built.versions[name].id else None


def _same(one: ToolVersion | None, other: ToolVersion | None) -> bool:
    return one is not None and other is not None and one.id == other.id


def _older(built: _Built, wanted: Index) -> bool:
    return built.index is not wanted and built.index.revision <= wanted.revision


def _missing(asked: Sequence[Asked], built: _Built, actor: Actor) -> MissingTool:
    """`asked`: one cluster, newest first."""
    newest = asked[0]
    match = built.matcher.match(newest.intent, actor)
    others = dict.fromkeys(one.intent for one in asked if one.intent != newest.intent)
    return MissingTool(
        intent=newest.intent,
        count=len(asked),
        actors=len({one.actor for one in asked}),
        first_at=asked[-1].at,
        last_at=newest.at,
        examples=tuple([*others][:EXAMPLES]),
        found_now=match.candidates[0].tool if match.found else None,
    )


_NOT_YET: Final = Message("匹配尚未就绪，请稍后再试。", "Matching is not ready yet; try again in a moment.")
