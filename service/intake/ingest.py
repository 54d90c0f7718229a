"""One look at the repository: from what the mirror sees to a registry that agrees with the tip."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from service.domain.deliveries import UNKNOWN, Delivery, why_ignored
from service.domain.history import Progress, Seen, SeenBlob, SeenCommit, SeenFolder, Tip
from service.domain.index import Index
from service.errors import RepositoryUnreachable
from service.intake.publish import News, Published, late_pushers, prepare, publish
from service.store import deliveries, history, tools
from service.store.database import Database, Reader, Transaction

if TYPE_CHECKING:
    from service.domain.tools import Standing

logger = structlog.get_logger(__name__)

STAGE_ITEMS: Final = 500  # facts from git in one staging transaction, so that hooks and runs are never kept waiting
STAGE_BYTES: Final = 4 * 1024 * 1024


class Source(Protocol):
    """Where history comes from; `intake/mirror.Mirror` is the one."""

    def look(
        self, *, tips: Sequence[str], known: Callable[[], Sequence[str]], keep: Sequence[str] = (), full: bool = False
    ) -> Any:
        """An iterator of Seen values, as intake/mirror/looking.py says."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found. `outcome`: applied, unchanged or failed; `trouble`: a code that stands until a look mends it."""

    outcome: str
    registered: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    tip: str | None = None
    moved: bool = False
    trouble: str | None = None
    reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Shape: `{outcome, tip, registered, removed, rejected, reason}`."""
        return {
            "outcome": self.outcome,
            "tip": self.tip,
            "registered": list(self.registered),
            "removed": list(self.removed),
            "rejected": list(self.rejected),
            "reason": self.reason,
        }


class Ingest:
    """Looks, one at a time; `index` is the registry as of the last look, for everyone to read.

    `operations`: the revision and the facts of the instance's own document, as last seen ("" and none before it was);
    asked once a look, after `before`.
    """

    def __init__(
        self,
        database: Database,
        source: Source,
        *,
        branch: str,
        tools_path: str,
        repository_id: Callable[[], int | None],
        operations: Callable[[], tuple[str, Mapping[str, Any]]] = lambda: ("", {}),
        before: Callable[[], None] = lambda: None,
        progress: Callable[[Progress], None] = lambda _: None,
        changed: Callable[[Index, Sequence[str]], None] = lambda _index, _names: None,
    ) -> None:
        self._database = database
        self._source = source
        self._branch = branch
        self._tools_path = tools_path
        self._repository_id = repository_id
        self._operations = operations
        self._settled_by = ""  # the revision that older rejections were settled by; each start settles them anew
        self._before = before
        self._progress = progress
        self._changed = changed
        self._standings: Mapping[bytes, Standing] | None = None  # of the last tip, once a look has published here
        self.progress: Progress | None = None  # how far a look that runs now has come
        with database.read() as connection:
            row = tools.registry_row(connection)
            self.index = Index(tools.all_tools(connection), row["revision"] if row else 0)
            self.trouble: str | None = row["trouble"] if row else None
            self.trouble_since: str | None = row["trouble_since"] if row else None
            self.looked_at: str | None = row["looked_at"] if row else None
            self._tip: str | None = row["tip"].hex() if row and row["tip"] else None

    def look(self, *, full: bool = False) -> Look:
        """Look once. Never raises for what the repository does: that is a failed Look, and nothing changed."""
        self.progress = None
        self._before()
        with self._database.read() as connection:
            covered = deliveries.newest(connection)
        try:
            look = self._look(covered, full=full)
        except RepositoryUnreachable as error:
            logger.warning("repository could not be read", code=error.code, error=error.message.en)
            look = Look("failed", trouble=error.code, reason=error.message.en, tip=self._tip)
            self._database.write(lambda transaction: self._close_look(transaction, look, covered))
        finally:
            self.progress = None
        return look

    def _look(self, covered: int, *, full: bool) -> Look:
        seen = _Stager(self._database)
        tip: Tip | None = None
        tips = [self._tip] if self._tip else []
        with self._database.read() as connection:
            keep = tools.orphaned_commits(connection)
        for item in self._source.look(tips=tips, known=self._known, keep=keep, full=full):
            if isinstance(item, Tip):
                tip = item
            elif isinstance(item, Progress):
                self.progress = item
                self._progress(item)
            else:
                seen.add(item)
        if tip is not None and tip.default_branch not in (None, self._branch):
            logger.info("another branch is the repository's default", default=tip.default_branch, tracked=self._branch)
        return self._publish(tip, seen, covered, full=full)

    def _publish(self, tip: Tip | None, seen: "_Stager", covered: int, *, full: bool) -> Look:
        if tip is None or tip.commit is None:
            trouble = "history-vanished" if self._tip else None
            look = Look("unchanged", tip=self._tip, trouble=trouble, reason=trouble)
            self._database.write(lambda transaction: self._close_look(transaction, look, covered))
            return look
        new_tip = tip.commit
        moved = new_tip != self._tip
        brought = {commit.id for commit in seen.commits}  # of these it is known already who pushed them
        revision, operations = self._operations()
        # A document that was not seen settles nothing: what it once ended the absent forge does not bring back.
        again = revision not in ("", self._settled_by)
        news: News | None = None
        if seen.long or again:
            seen.flush()
            with self._database.read() as connection:
                news = self._news(connection, new_tip, seen.commits, operations, full=full, again=again)

        def work(transaction: Transaction) -> tuple[Look, Published]:
            published = Published(revision=self.index.revision)
            if moved or seen.commits or (news is not None and news.registered.again):
                history.stage(transaction.connection, seen.waiting)
                fresh = news or self._news(transaction.connection, new_tip, seen.commits, operations, full=full)
                published = publish(transaction, fresh)
            waiting = self._pushes(transaction.connection, waiting_only=True)
            late = late_pushers(transaction, [push for push in waiting if push.after not in brought])
            if late and not published.touched:
                published.revision += 1
                tools.put_registry(transaction.connection, revision=published.revision)
            published.touched |= late
            look = _look_of(published, new_tip, moved=moved)
            self._close_look(transaction, look, covered)
            # Before the commit: whoever reads its outcome finds what it names. A run is held against the database.
            self._swap_index(transaction.connection, published)
            return look, published

        before = self.index
        try:
            look, published = self._database.write(work)
        except BaseException:
            self.index = before
            raise
        self._tip = new_tip
        self._standings = published.standings or self._standings
        self._settled_by = revision
        if news is not None and news.registered.again:
            logger.info("definitions rejected before were settled by the forge's description of its API", tip=new_tip)
        if published.touched:
            self._changed(self.index, sorted(published.touched))
        if published.orphaned:
            self._keep_objects(new_tip)
        return look

    def _keep_objects(self, tip: str) -> None:
        """At once, while they are still there: the objects of what a force-push left behind."""
        with self._database.read() as connection:
            keep = tools.orphaned_commits(connection)
        for _ in self._source.look(tips=[tip], known=self._known, keep=keep):
            pass

    def _news(
        self,
        connection: Reader,
        tip: str,
        commits: Sequence[SeenCommit],
        operations: Mapping[str, Any],
        *,
        full: bool,
        again: bool = False,
    ) -> News:
        return prepare(
            connection,
            tip,
            commits,
            self._pushes(connection, waiting_only=False),
            tools_path=self._tools_path,
            operations=operations,
            again=again,
            full=full,
            before=None if full else self._standings,
        )

    def _pushes(self, connection: Reader, *, waiting_only: bool) -> list[Delivery]:
        found = deliveries.pushes(
            connection,
            ref=f"refs/heads/{self._branch}",
            repository_id=self._repository_id(),
            waiting_only=waiting_only,
        )
        return [push for push in found if push.after]

    def _close_look(self, transaction: Transaction, look: Look, covered: int) -> None:
        """Settle the deliveries that this look covers, and note how the registry stands."""
        result = {
            "outcome": look.outcome,
            "reason": look.reason,
            "registered": look.registered,
            "removed": look.removed,
            "rejected": look.rejected,
        }
        waiting = deliveries.waiting(transaction.connection)
        deliveries.settle(
            transaction.connection,
            {seq: self._result_for(delivery, result) for seq, delivery in waiting if seq <= covered},
        )
        since = None
        if look.trouble is not None:
            since = self.trouble_since if self.trouble == look.trouble else transaction.now
        if look.trouble != self.trouble or look.outcome == "applied" or self.looked_at is None:
            tools.put_registry(
                transaction.connection,
                looked_at=transaction.now,
                outcome=look.outcome,
                trouble=look.trouble,
                trouble_since=since,
            )
        self.trouble, self.trouble_since, self.looked_at = look.trouble, since, transaction.now

    def _result_for(self, delivery: Delivery, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """The look's result, but for what only now turns out to be another repository's, or cannot be told yet."""
        repository_id = self._repository_id()
        if repository_id == UNKNOWN:
            return {"outcome": "failed", "reason": "repository-unidentified"}
        why = why_ignored(delivery, branch=self._branch, repository_id=repository_id)
        return result if why is None else {"outcome": "ignored", "reason": why}

    def _swap_index(self, connection: Reader, published: Published) -> None:
        if not published.touched:
            return
        fresh = [tool for name in published.touched if (tool := tools.tool(connection, name)) is not None]
        gone = published.touched - {tool.name for tool in fresh}
        self.index = self.index.changed(fresh, published.revision, gone)

    def _known(self) -> list[str]:
        with self._database.read() as connection:
            return history.known_commits(connection)


class _Stager:
    """Keeps facts from git for the publication; those of a long look it writes ahead, in small transactions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.waiting: list[SeenCommit | SeenFolder | SeenBlob] = []
        self._bytes = 0
        self.commits: list[SeenCommit] = []
        self.long = False  # whether something was written ahead of the publication

    def add(self, item: Seen) -> None:
        """Take one fact; write when enough came together."""
        if isinstance(item, SeenBlob):
            self._bytes += len(item.content)
        elif isinstance(item, SeenCommit):
            self.commits.append(item)
        elif not isinstance(item, SeenFolder):
            return
        self.waiting.append(item)
        if len(self.waiting) >= STAGE_ITEMS or self._bytes >= STAGE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting."""
        if self.waiting:
            items, self.waiting, self._bytes = self.waiting, [], 0
            self.long = True
            self._database.write(lambda transaction: history.stage(transaction.connection, items))


def _look_of(published: Published, tip: str, *, moved: bool) -> Look:
    if not published.anything:
        return Look("unchanged", tip=tip, moved=moved)
    return Look(
        "applied",
        tuple(published.registered),
        tuple(published.removed),
        tuple(published.rejected),
        tip=tip,
        moved=moved,
    )
