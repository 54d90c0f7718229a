"""What handlers work with: the parts that `app.py` joined, and the few settings that answers depend on."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from service.domain.definitions import Definition, Problem
from service.domain.index import Index
from service.execution.execute import Execution
from service.execution.matching import Matching
from service.intake.anchors.part import Anchors
from service.intake.ingest import Ingest
from service.intake.receive import Receiver
from service.intake.worker import Worker
from service.store.checkpointing import Checkpoints
from service.store.database import Database
from service.store.verifying import Verification
from service.web.auth import Authority
from service.web.feed import Feed
from service.web.metrics import Metrics
from service.web.people import People
from service.web.streams import Streams


@dataclass(frozen=True, slots=True)
class Parts:
    """One service's parts. `warn`: what of a definition this instance lacks now (a node, an executor)."""

    database: Database
    authority: Authority
    people: People
    execution: Execution
    matching: Matching
    ingest: Ingest
    worker: Worker
    receiver: Receiver
    metrics: Metrics
    public_url: str
    tracks_repository: bool
    tools_path: str
    shell_state: Callable[[], str]
    max_body: Mapping[str, int]
    max_wait_s: float
    streams: Streams
    feed: Feed
    checkpoint: Callable[[int], str | None]  # the newest signed note that covers an entry
    checkpoints: Checkpoints
    anchors: Anchors | None  # None where no repository was named for them
    verification: Verification
    warn: Callable[[Definition], list[Problem]]
    schema: Callable[[], dict[str, Any]]
    openapi: Callable[[], dict[str, Any]]

    @property
    def index(self) -> Index:
        """The registry as of the last look."""
        return self.ingest.index

    def link(self, path: str) -> str:
        """An absolute link for people and programs outside."""
        return f"{self.public_url}{path}"


def etag(*facts: Any) -> str:
    """A strong validator over the facts that an answer depends on."""
    return '"' + hashlib.sha256(repr(facts).encode("utf-8", "backslashreplace")).hexdigest()[:32] + '"'
