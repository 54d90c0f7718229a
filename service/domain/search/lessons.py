"""What was learned, as postings beside those of the definitions: one set for each asker who taught something, one for others."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from service.domain.definitions import Definition
from service.domain.search import learned as rules
from service.domain.search.bm25 import Postings
from service.domain.search.learned import LearnedIntent

EVERYBODY: Final = ""  # who taught nothing: sees only what three actors or more agree on


class Lessons:
    """The learned intents that hold for a registry's tools, in the tools' order."""

    def __init__(
        self, tools: Sequence[Definition], learned: Mapping[str, Sequence[LearnedIntent]], now: datetime
    ) -> None:
        holding = rules.counting(learned, tools)
        self._intents = [holding.get(tool.name, ()) for tool in tools]
        self._teachers = {intent.actor for intents in holding.values() for intent in intents}
        self._shared = any(len({intent.actor for intent in intents}) >= 3 for intents in holding.values())
        self._now = now

    def asker(self, actor: str) -> str | None:
        """Under which name this actor's lessons are kept; None where nothing learned counts for it."""
        if actor in self._teachers:
            return actor
        return EVERYBODY if self._shared else None

    def postings(self, asker: str) -> Postings:
        """The learned words with their weights, as they count for this asker."""
        return Postings([rules.document(intents, asker, self._now) for intents in self._intents])
