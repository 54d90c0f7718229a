"""What runs teach: from a run that ended well, back to the intent that it followed, to a lesson (facts/matching.md, section 5).

A run only leaves a few words here in memory. They become durable a moment later, off the path of any call, many in one
commit. A crash in between loses lessons of runs that named no match; the others are found again at the next start.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from service.domain.index import Index
from service.domain.runs import Run
from service.domain.search.learned import LearnedIntent, ground
from service.domain.times import later
from service.domain.tools import Tool
from service.errors import CannotRecord
from service.store import matching, tools
from service.store.database import Database
from service.store.matching import Asked, Lesson

FOLLOWS_S: Final = 600.0  # within which a call without `match_id` counts as what came of its actor's last intent
MAX_LESSONS: Final = 10_000  # waiting to be written; more are lost, which harms nothing
MAX_RECENT: Final = 1_000  # actors whose last intent is remembered


class Teaching:
    """`index`: the registry now. `on`: the setting `learn_intents`; off, nothing is taught and nothing learned counts."""

    def __init__(self, database: Database, index: Callable[[], Index], *, on: bool) -> None:
        self._database = database
        self._index = index
        self._on = on
        self._lessons: deque[Lesson] = deque(maxlen=MAX_LESSONS)
        self._recent: dict[str, Asked] = {}
        self._lock = threading.Lock()

    def asked(self, asked: Asked) -> None:
        """An intent was answered: the actor's next call may be what came of it."""
        with self._lock:
            self._recent.pop(asked.actor, None)
            self._recent[asked.actor] = asked
            if len(self._recent) > MAX_RECENT:
                del self._recent[next(iter(self._recent))]

    def ran(self, run: Run) -> bool:
        """A run was recorded; whether it left a lesson. Nothing is waited for, and nothing written here."""
        if not self._on or run.state != "succeeded" or run.start_index is None:
            return False
        match = self._followed(run)
        if match is None:
            return False
        doing = ground(run.version.definition)
        self._lessons.append(Lesson(match, run.id, run.version.tool, run.actor, doing, run.start_index))
        return True

    def _followed(self, run: Run) -> str | None:
        """The match that the run named, or else its actor's last, where the run came soon and is of a tool that was found.

        After a match that found nothing the next tool counts, whatever it is: that is where learning helps most.
        """
        with self._lock:
            asked = self._recent.get(run.actor)
            if run.match_id is not None:
                if asked is not None and asked.id == run.match_id:
                    del self._recent[run.actor]
                return run.match_id
            if asked is None or not asked.at <= run.created_at <= later(asked.at, FOLLOWS_S):
                return None
            if asked.found and run.version.tool not in asked.tools:
                return None
            del self._recent[run.actor]
            return asked.id

    def take_up(self) -> None:
        """Lessons of runs that ended well, and named their match, just before a crash."""
        if not self._on:
            return
        with self._database.read() as connection:
            for match, run, tool, actor, version_id, start in matching.left_untaught(connection):
                definition = tools.version_by_id(connection, version_id).definition
                self._lessons.append(Lesson(match, run, tool, actor, ground(definition), start))

    def teach(self) -> bool:
        """Write the lessons that wait, in one transaction; whether any taught something.

        Raises CannotRecord where storage refuses; then they go on waiting.
        """
        lessons: list[Lesson] = []
        while self._lessons:
            lessons.append(self._lessons.popleft())
        grounds = self._grounds({lesson.tool for lesson in lessons})
        holding = [lesson for lesson in lessons if grounds.get(lesson.tool) == lesson.ground]
        if not holding:
            return False
        try:
            return any(
                self._database.write(lambda transaction: [matching.teach(transaction, lesson) for lesson in holding])
            )
        except CannotRecord:
            self._lessons.extendleft(reversed(holding))
            raise

    def holding(self) -> Mapping[str, Sequence[LearnedIntent]]:
        """What is learned, by tool; nothing where learning is off."""
        found: dict[str, list[LearnedIntent]] = {}
        if self._on:
            with self._database.read() as connection:
                for one in matching.everything_learned(connection):
                    found.setdefault(one.tool, []).append(one.intent)
        return found

    def forget_ended(self, fresh: Collection[str] | None) -> None:
        """What was learned ends with the tool, or when the tool does something else (cases.md I1).

        `fresh`: tools that changed since this was done last; None: any may have.
        """
        with self._database.read() as connection:
            learned = {one.tool for one in matching.everything_learned(connection)}
            grounds = self._grounds(learned)
            gone = any(matching.ended(connection, grounds, fresh).values())
        if gone:
            self._database.write(lambda transaction: matching.forget_ended(transaction, grounds, fresh))

    def _grounds(self, names: set[str]) -> dict[str, str]:
        """What those of the tools that are active do now."""
        index = self._index()
        found = {name: index.get(name) for name in names}
        return {
            name: ground(tool.version.definition)
            for name, tool in found.items()
            if tool is not None and active(tool) and tool.version is not None
        }


def active(tool: Tool) -> bool:
    """Whether it can run."""
    return tool.state == "active" and tool.version is not None
