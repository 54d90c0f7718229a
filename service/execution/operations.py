"""Which of Forgejo's operations there are here: our own facts, and what the instance's document adds to them.

The document is a forge's word, and a forge may be away: it is fetched now and then, kept in the data folder, and never
waited for by a run. `refresh` alone uses the network; whoever owns the looks at the repository calls it after each.
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from service.domain import strict_json
from service.domain.executors import Cancel
from service.domain.operations import Operation, read_operation, settled, shipped
from service.execution.executors.http import Answer, HttpCaller, Lost, NotSent, Request
from service.execution.forgejo_document import (
    MAX_DOCUMENT_BYTES,
    Facts,
    NotADocument,
    facts_as_kept,
    read_document,
)
from service.store.folder import DataFolder

logger = structlog.get_logger(__name__)

FILE: Final = "forgejo-operations.json"
FRESH_S: Final = 3600.0
DOUBT_S: Final = 300.0  # an operation that was not as the document says: ask again, but no storm of it
RETRY_S: Final = 60.0
FETCH_S: Final = 10.0
_DENIED: Final = (401, 403)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The instance's document, as last seen."""

    facts: Mapping[str, Facts] = field(default_factory=dict)
    operations: Mapping[str, Operation] = field(default_factory=dict)
    revision: str = ""


class Operations:
    """Finds operations by name; safe to share among threads. `folder`: where the document is kept from start to start.

    `api_url` ends in /api/v1; without one there are our own facts only. `token`: the service's own, for an instance that
    hides its document from strangers.
    """

    def __init__(
        self,
        api_url: str | None,
        token: str | None = None,
        folder: DataFolder | None = None,
        caller: HttpCaller | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api_url = api_url
        self._token = token
        self._folder = folder
        self._caller = caller or HttpCaller()
        self._clock = clock
        self._refreshing = threading.Lock()
        self._cancel = Cancel()
        self._stopped = False
        self._due = clock()
        self._asked = clock()
        self._seen = self._kept() or _Seen()

    @property
    def facts(self) -> Mapping[str, Facts]:
        """What the instance's document says, by operationId, in the shipped files' shape; empty before it was seen.

        JSON-ready: registration checks definitions against it (`extra_operations`).
        """
        return self._seen.facts

    @property
    def revision(self) -> str:
        """Names what `facts` holds (SHA-256, hex), so that a change is noticed over a restart too; "" before it was seen."""
        return self._seen.revision

    def find(self, name: str) -> Operation | None:
        """The operation as it is called here; None when neither our facts nor the instance knows it."""
        known, seen = shipped().get(name, ()), self._seen.operations.get(name)
        if known or seen is not None:
            return settled(known, seen)
        self.doubt()
        return None

    def lacks(self, name: str) -> bool:
        """Whether the instance's document was seen, and has no such operation."""
        if not self._seen.facts or name in self._seen.facts:
            return False
        self.doubt()
        return True

    def doubt(self) -> None:
        """Something did not go as the document says: look at it again soon."""
        self._due = min(self._due, self._asked + DOUBT_S)

    def refresh(self) -> bool:
        """Fetch the document where that is due; whether what is known of the instance changed. Waits FETCH_S at most.

        Never raises for what the forge or the disk does.
        """
        if self._api_url is None or self._clock() < self._due or not self._refreshing.acquire(blocking=False):
            return False
        try:
            self._cancel = Cancel()  # each fetch its own: what has listened to one is never let go of
            if self._stopped:
                return False
            self._asked = self._clock()
            self._due = self._asked + RETRY_S
            facts = self._fetched(self._api_url)
            self._due = self._asked + FRESH_S
            seen = _seen(facts)
            if seen.revision == self._seen.revision:
                return False
            self._seen = seen
            self._keep(facts)
        except NotADocument as error:
            logger.warning("the forge's description of its API cannot be had", reason=str(error))
            return False
        finally:
            self._refreshing.release()
        logger.info("the forge's description of its API is new", operations=len(facts))
        return True

    def stop(self) -> None:
        """End a fetch that is under way, and begin none any more."""
        self._stopped = True
        self._cancel.ask("shutdown")

    def _fetched(self, api_url: str) -> dict[str, Facts]:
        """Raises NotADocument, also where nothing came."""
        deadline = time.monotonic() + FETCH_S
        result = self._get(api_url, None, deadline)
        if self._token is not None and isinstance(result, Answer) and result.status in _DENIED:
            result = self._get(api_url, self._token, deadline)
        if not isinstance(result, Answer):
            raise NotADocument(result.cause)
        if result.status != 200:
            raise NotADocument(f"HTTP {result.status}")
        return read_document(result.body.kept)

    def _get(self, api_url: str, token: str | None, deadline: float) -> NotSent | Lost | Answer:
        url = api_url.rstrip("/").removesuffix("/api/v1") + "/swagger.v1.json"
        request = Request("GET", url, headers=(("Accept", "application/json"),), token=token)
        return self._caller.call(request, deadline=deadline, keep=MAX_DOCUMENT_BYTES + 1, cancel=self._cancel)

    def _keep(self, facts: Mapping[str, Facts]) -> None:
        if self._folder is None:
            return
        try:
            self._folder.write(FILE, json.dumps({"source": self._api_url, "operations": facts}).encode("ascii"))
        except OSError as error:
            logger.warning("the forge's description of its API could not be kept", reason=error.strerror)

    def _kept(self) -> _Seen | None:
        """What an earlier start saw of the same instance; nothing that cannot be read is trusted."""
        if self._folder is None:
            return None
        try:
            value: Any = strict_json.loads((self._folder.path / FILE).read_bytes())
        except (OSError, strict_json.NotJson):
            return None
        if not isinstance(value, dict) or value.get("source") != self._api_url:
            return None
        return _seen(facts_as_kept(value.get("operations")))


def _seen(facts: Mapping[str, Facts]) -> _Seen:
    text = json.dumps(facts, sort_keys=True, separators=(",", ":")).encode("ascii")
    operations = {name: read_operation(name, one) for name, one in facts.items()}
    return _Seen(facts, operations, hashlib.sha256(text).hexdigest() if facts else "")
