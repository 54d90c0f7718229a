"""What may be learned from the record: which words led to which tool, and how little of it one actor decides.

Learned texts are untrusted: they are words to search by and nothing else, and nobody is shown them as ours.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from service.domain.definitions import Definition
from service.domain.search.words import words

CAP: Final = 30  # intents kept for one tool
CAP_OF_ONE: Final = CAP // 3  # of them, of one actor: a flood pushes out nobody else's
HALF_LIFE_DAYS: Final = 180
MAX_CHARACTERS: Final = 200
# Of a learned word, where a word of a tool's intent weighs 1. At 1 what is learned costs the others more than it gives.
WEIGHT: Final = 0.5

_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'|`[^`]*`|“[^”]*”|「[^」]*」|《[^》]*》")
# Whatever names one thing of somebody's: addresses, paths, assignments, and tokens with a digit in them.
_PRIVATE: Final = re.compile(
    # Each begins where nothing of its own kind stands before: tried at every character it would take a square of the length.
    r"(?<!\w)\w+://\S+|(?<!\S)\S+@\S+|(?<![\w.~-])(?:[A-Za-z]:)?[\w.~-]*[/\\][\w./\\~-]*|(?<![\w-])[\w-]+\s*[=:：]\s*[!-~]+"
    r"|--?[A-Za-z][\w-]*|(?<![A-Za-z0-9_.-])[A-Za-z0-9_.-]*\d[A-Za-z0-9_.-]*|[A-Za-z0-9+_=-]{25,}",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class LearnedIntent:
    """An intent after which its asker ran a tool with success. `ground` is what the tool was then (see `ground`)."""

    text: str
    actor: str
    accepted_at: datetime
    ground: str = ""


def cleaned(intent: str) -> str:
    """What of an intent may be kept: no addresses, paths, quoted words, numbers or keys. Empty where nothing is left."""
    text = _PRIVATE.sub(" ", _QUOTED.sub(" ", intent[: 4 * MAX_CHARACTERS]))
    return " ".join(text.split())[:MAX_CHARACTERS]


def ground(definition: Definition) -> str:
    """A digest of what a tool does: executor, method, command and effect. What was learned holds while it stays the same."""
    parts = (definition.executor, definition.method, *(definition.command or ()), definition.effect or "")
    return sha256("\0".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def kept(intents: Iterable[LearnedIntent]) -> tuple[LearnedIntent, ...]:
    """Newest first, each actor's wording once, within both caps."""
    seen: set[tuple[str, frozenset[str]]] = set()
    of_actor: Counter[str] = Counter()
    result: list[LearnedIntent] = []
    for intent in sorted(intents, key=lambda one: one.accepted_at, reverse=True):
        wording = intent.actor, frozenset(_words(intent))
        if not wording[1] or wording in seen or of_actor[intent.actor] == CAP_OF_ONE:
            continue
        seen.add(wording)
        of_actor[intent.actor] += 1
        result.append(intent)
    return tuple(result[:CAP])


def document(intents: Sequence[LearnedIntent], asker: str, now: datetime) -> dict[str, float]:
    """Words with weights, as `asker` is answered.

    An asker's own intents count whole. Those of others count so that none of them makes more than a third of the tool's
    learned weight (issue 5), so nothing of theirs counts before three have run the tool.
    """
    weights: dict[str, float] = {}
    for intent in intents:
        weights[intent.actor] = weights.get(intent.actor, 0.0) + _age_weight(intent, now)
    most = _third(sorted(weights.values(), reverse=True))
    found: dict[str, float] = {}
    for intent in intents:
        share = 1.0 if intent.actor == asker else min(1.0, most / weights[intent.actor])
        for word in _words(intent) if share else ():
            found[word] = found.get(word, 0.0) + WEIGHT * share * _age_weight(intent, now)
    return found


def counting(
    intents: Mapping[str, Sequence[LearnedIntent]], definitions: Iterable[Definition]
) -> dict[str, tuple[LearnedIntent, ...]]:
    """By tool, what still holds: the tool is there, and is on the ground on which it was learned."""
    result = {}
    for definition in definitions:
        if found := intents.get(definition.name):
            now = ground(definition)
            if holding := kept(one for one in found if one.ground == now):
                result[definition.name] = holding
    return result


def _third(weights: Sequence[float]) -> float:
    """The most that one may weigh, so that it is at most a third of the sum; weights come descending."""
    for capped in range(3):
        most = sum(weights[capped:]) / (3 - capped)
        if capped < len(weights) and weights[capped] <= most:
            return most
    return 0.0


def _age_weight(intent: LearnedIntent, now: datetime) -> float:
    days = max(0.0, (now - intent.accepted_at).total_seconds() / 86_400)
    return float(0.5 ** (days / HALF_LIFE_DAYS))


def _words(intent: LearnedIntent) -> Iterable[str]:
    """Without single characters, which in free talk are there by chance."""
    return (word for word in words(intent.text) if len(word) > 1)
