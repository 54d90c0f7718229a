"""Nearness of meaning, from an OpenAI-compatible embeddings endpoint: an addition that may be absent, slow or wrong.

Off unless `embeddings_url` is set. Whatever the endpoint does, intents are answered by their words (facts/matching.md,
section 7); its trouble is a line in the log. Vectors are kept in memory by their text's hash.
"""

import json
import math
import threading
import time
from array import array
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from operator import mul
from typing import Any, Final, TypeAlias

import structlog

from service.domain.definitions import Definition
from service.execution.executors.http import Answer, HttpCaller, Request

logger = structlog.get_logger(__name__)

DEADLINE_S: Final = 1.0  # of one intent
BATCH_DEADLINE_S: Final = 60.0  # of one batch of tools, which nobody waits for
BATCH: Final = 64
PAUSE_S: Final = 30.0  # after trouble: intents do not each wait for a dead endpoint
MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
MAX_DIMENSIONS: Final = 8192
MAX_TEXT: Final = 300  # characters
KEPT_INTENTS: Final = 1_000
# Longer intents are found better by their words alone (facts/matching.md, section 2).
LONGEST_CHINESE: Final = 30
LONGEST_LATIN: Final = 20

Vector: TypeAlias = "array[float]"


class Trouble(Exception):
    """No vectors came. The text says why, never what was sent."""


class Embeddings:
    """Vectors of tools and intents; safe to share among threads. `url` ends where `/embeddings` follows, often in /v1."""

    def __init__(self, url: str, token: str | None, model: str, caller: HttpCaller | None = None) -> None:
        self._url = url.rstrip("/") + "/embeddings"
        self._token = token
        self._model = model
        self._caller = caller or HttpCaller()
        self._lock = threading.Lock()
        self._tools: dict[bytes, Vector] = {}
        self._intents: dict[bytes, Vector] = {}
        self._quiet_until = 0.0
        self._wanted: Sequence[Definition] | None = None
        self._learning = False

    def learn_soon(self, definitions: Sequence[Definition]) -> None:
        """Fetch the vectors of these tools where they are new, in a thread of its own: the endpoint may take minutes."""
        with self._lock:
            self._wanted = definitions
            if self._learning:
                return
            self._learning = True
        threading.Thread(target=self._learn_on, name="embeddings", daemon=True).start()

    def _learn_on(self) -> None:
        while True:
            with self._lock:
                wanted, self._wanted = self._wanted, None
                if wanted is None:
                    self._learning = False
                    return
            self._learn(wanted)

    def _learn(self, definitions: Iterable[Definition]) -> None:
        """Vectors of tools that are gone leave. Never raises for the endpoint."""
        texts = {_hash(text): text for text in map(_text_of, definitions)}
        with self._lock:
            self._tools = {key: vector for key, vector in self._tools.items() if key in texts}
            missing = [key for key in texts if key not in self._tools]
        for start in range(0, len(missing), BATCH):
            keys = missing[start : start + BATCH]
            try:
                vectors = self._fetched([texts[key] for key in keys], BATCH_DEADLINE_S)
            except Trouble as trouble:
                logger.warning("no embeddings of tools; intents go by words", reason=str(trouble), tools=len(missing))
                return
            with self._lock:
                self._tools |= zip(keys, vectors, strict=True)

    def likeness(self, intent: str, definitions: Iterable[Definition]) -> Mapping[str, float] | None:
        """By tool, how near its meaning is to the intent's: a cosine. None where it cannot be told, or would not help."""
        if not _is_short(intent) or not self._tools:
            return None
        asked = self._of_intent(intent)
        if asked is None:
            return None
        with self._lock:
            known = self._tools
        found = ((one.name, known.get(_hash(_text_of(one)))) for one in definitions)
        return {name: sum(map(mul, asked, vector)) for name, vector in found if vector and len(vector) == len(asked)}

    def _of_intent(self, intent: str) -> "Vector | None":
        key = _hash(intent)
        with self._lock:
            if key in self._intents:
                return self._intents[key]
            if time.monotonic() < self._quiet_until:
                return None
        try:
            vector = self._fetched([intent[:MAX_TEXT]], DEADLINE_S)[0]
        except Trouble as trouble:
            logger.warning("no embedding of an intent; it goes by its words", reason=str(trouble))
            self._quiet_until = time.monotonic() + PAUSE_S
            return None
        with self._lock:
            while len(self._intents) >= KEPT_INTENTS:
                del self._intents[next(iter(self._intents))]
            self._intents[key] = vector
        return vector

    def _fetched(self, texts: Sequence[str], within_s: float) -> list[Vector]:
        """One vector of length 1 for each text. Raises Trouble."""
        body = json.dumps({"model": self._model, "input": list(texts)}).encode("ascii")
        headers = (("Content-Type", "application/json"), ("Accept", "application/json"))
        request = Request("POST", self._url, headers=headers, body=body, token=self._token)
        result = self._caller.call(request, deadline=time.monotonic() + within_s, keep=MAX_ANSWER_BYTES)
        if not isinstance(result, Answer):
            raise Trouble(result.cause)
        if result.status != 200:
            raise Trouble(f"HTTP {result.status}")
        try:
            rows = sorted(json.loads(result.body.kept)["data"], key=lambda row: int(row["index"]))
            vectors = [_unit(row["embedding"]) for row in rows]
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            raise Trouble("not an answer of the OpenAI form") from None
        if len(vectors) != len(texts):
            raise Trouble("not one vector for each text")
        return vectors


def _unit(numbers: Any) -> Vector:
    """Raises ValueError for what is no direction."""
    if not isinstance(numbers, list) or not 0 < len(numbers) <= MAX_DIMENSIONS:
        raise ValueError("no vector")
    length = math.sqrt(sum(number * number for number in numbers))
    if not math.isfinite(length) or length == 0:
        raise ValueError("no direction")
    return array("f", (number / length for number in numbers))


def _text_of(definition: Definition) -> str:
    """What stands for a tool: names and intent; parameters added nothing (facts/matching.md, section 2)."""
    return f"{definition.name} {definition.display} {definition.intent}"[:MAX_TEXT]


def _hash(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _is_short(intent: str) -> bool:
    """By characters beyond ASCII and by words of letters, which is near enough."""
    chinese = sum(not character.isascii() for character in intent)
    return len(intent) <= MAX_TEXT and chinese <= LONGEST_CHINESE and len(intent.split()) <= LONGEST_LATIN
