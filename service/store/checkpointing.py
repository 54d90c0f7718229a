"""Makes checkpoints: signed tree heads, a second after the log grew and on demand (contract/audit.md, Checkpoints).

Before a head is signed, what came since the last one is hashed again from the stored rows. Nothing here is on the way of a
run: receipts read the newest note from memory, and a fault here only keeps it from growing.
"""

import secrets
import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

import structlog

from service.domain.audit import SYSTEM, Fact
from service.domain.merkle import TiledLog
from service.domain.notes import NAME, Checkpoint, VerifierKey, read_checkpoint
from service.errors import BitongError, Message, Unavailable, UsageError
from service.store import checkpoints, proofs
from service.store.database import Database
from service.store.folder import KEY_BYTES, DataFolder
from service.store.signing import (
    FILE,
    KEY_CHANGED,
    KEY_MISSING,
    NEXT_FILE,
    KeyPair,
    in_folder,
    is_signed_by,
    pair,
    sign,
)

logger = structlog.get_logger(__name__)

INTERVAL_S: Final = 1.0
NOTE_FILE: Final = "checkpoint"

_BAD_ORIGIN: Final = Message(
    "log_origin：日志的名称不能含空格或加号。", "log_origin: the log's name holds no spaces and no plus."
)
_SHRANK: Final = Message(
    "日志比最新的检查点短：可能恢复了旧备份。不再签检查点。",
    "The log is shorter than the newest checkpoint: an older backup may have been restored. No checkpoint is signed.",
)
_DIFFERS: Final = Message(
    "日志与最新的检查点或已写入的内容不符：不再签检查点。请运行 bitong audit verify。",
    "The log is not the one that was signed or written: no checkpoint is signed. Run bitong audit verify.",
)
_NOT_WRITTEN: Final = Message("检查点写不下来，稍后再试。", "A checkpoint could not be written; it is tried again.")
_NOT_YET: Final = Message("还没有检查点。", "There is no checkpoint yet.")


class Made(NamedTuple):
    """A tree head and the note that signs it."""

    head: Checkpoint
    note: str


class Checkpoints:
    """The newest checkpoint, and the thread that makes the next. `open` it once the log has its first entry."""

    def __init__(self, database: Database, folder: DataFolder) -> None:
        self._database = database
        self._folder = folder
        self._newest: Made | None = None  # of this log
        self._last: Made | None = None  # that the next has to extend, also where this log cannot
        self._origin = ""
        self._keys: tuple[VerifierKey, ...] = ()
        self._pair: KeyPair | None = None
        self._trouble: BitongError | None = None
        self._making = threading.Lock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Read the log's name, its keys and its newest checkpoint; a new log gets its key. Raises UsageError for a bad name."""
        with self._database.read() as connection:
            self._origin = checkpoints.origin(connection)
            self._keys = tuple(checkpoints.keys(connection))
        if not NAME.match(self._origin):
            raise UsageError(_BAD_ORIGIN)
        if not self._keys:
            self._create_key()
        self._last = self._newest_kept()
        try:
            self._as_signed(self._last, self._database.log)
            self._newest = self._last
            self._end_rotation()
        except (BitongError, OSError) as error:
            self._fail(error)

    def start(self) -> None:
        """Begin to make them."""
        self._thread = threading.Thread(target=self._work, name="checkpoints", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Make the last one and end; to be called before the database closes."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self._attempt()

    @property
    def state(self) -> str:
        """`ok`, or why none is signed: `key-missing`, `key-changed`, `log-shrank`, `log-differs`, `cannot-record`."""
        return "ok" if self._trouble is None else self._trouble.code

    @property
    def trouble(self) -> Message | None:
        """Why none is signed, in words."""
        return None if self._trouble is None else self._trouble.message

    @property
    def keys(self) -> Sequence[VerifierKey]:
        """The log's public keys, oldest first; the last one signs."""
        return self._keys

    @property
    def newest(self) -> Made | None:
        """The newest there is, from memory."""
        return self._newest

    def covering(self, index: int) -> str | None:
        """The newest note if it covers this entry, from memory; for receipts."""
        made = self._newest
        return made.note if made is not None and index < made.head.size else None

    def current(self, size: int = 1) -> Made:
        """The newest one of at least so many entries, made now where need be. Raises Unavailable when none can be signed."""
        made = self._newest
        if made is None or made.head.size < size:
            self._attempt()
            made = self._newest
        if made is None or made.head.size < size:
            raise Unavailable(self.trouble or _NOT_YET)
        return made

    def rotate(self) -> VerifierKey:
        """Sign with a new key from now on; the first head that it signs is signed by the old one too. Raises Unavailable."""
        with self._making:
            old = self._current_pair()
            new = pair(secrets.token_bytes(KEY_BYTES), self._origin)
            self._folder.write(NEXT_FILE, new.seed)
            facts = {"key": str(new.public), "previous": str(old.public)}
            self._database.write(lambda transaction: transaction.append(Fact("key.rotated", SYSTEM, facts)))
            self._keys = (*self._keys, new.public)
            self._make([old, new])
            self._take_over(new)
            return new.public

    # Making one, by one thread at a time.

    def _work(self) -> None:
        while not self._ending.wait(INTERVAL_S):
            made = self._last
            if made is None or made.head.size != self._database.log.size:
                self._attempt()

    def _attempt(self) -> None:
        with self._making:
            try:
                self._make([self._current_pair()])
            except (BitongError, OSError) as error:
                self._fail(error)
            except Exception as error:
                logger.exception("making a checkpoint failed inside", error=type(error).__name__)
                self._fail(Unavailable(_NOT_WRITTEN, code="internal"))
            else:
                self._trouble = None

    def _fail(self, error: BaseException) -> None:
        known = error if isinstance(error, BitongError) else Unavailable(_NOT_WRITTEN, code="cannot-record")
        if self.state != known.code:
            logger.error("no checkpoint is signed", state=known.code, why=known.message.en, **known.facts)
        self._trouble = known

    def _make(self, pairs: list[KeyPair]) -> None:
        target = self._database.log
        last = self._last
        if last is not None and last.head.size == target.size and last.head.root == target.root():
            return
        moment = self._extends(last, target)
        head = Checkpoint(self._origin, target.size, target.root())
        note = sign(head.text(), pairs)
        self._database.write(lambda transaction: checkpoints.add(transaction, head, moment, note))
        self._newest = self._last = Made(head, note)
        self._folder.write(NOTE_FILE, note.encode())

    def _as_signed(self, last: Made | None, target: TiledLog) -> TiledLog:
        """The stored tree at the last checkpoint's size, if it has that root; of no checkpoint: the empty one."""
        head = None if last is None else last.head
        if head is not None and head.size > target.size:
            raise Unavailable(_SHRANK, code="log-shrank")
        try:
            with self._database.read() as connection:
                tree = proofs.tree_at(connection, 0 if head is None else head.size)
        except proofs.Differs as differs:
            raise Unavailable(_DIFFERS, code="log-differs", facts={"index": differs.index}) from None
        if head is not None and tree.root() != head.root:
            raise Unavailable(_DIFFERS, code="log-differs")
        return tree

    def _extends(self, last: Made | None, target: TiledLog) -> str:
        """The stored rows make up the log that was written, and it extends the last checkpoint; the last row's time."""
        tree, moment = self._as_signed(last, target), ""
        try:
            while tree.size < target.size:
                with self._database.read() as connection:
                    tree, moment = proofs.grow(connection, tree, target.size)
        except proofs.Differs as differs:
            raise Unavailable(_DIFFERS, code="log-differs", facts={"index": differs.index}) from None
        if tree.root() != target.root():
            raise Unavailable(_DIFFERS, code="log-differs")
        return moment

    # The key and its files.

    def _current_pair(self) -> KeyPair:
        """The pair that the log names, read anew each time: a file that is gone ends the signing (cases.md R12)."""
        found = in_folder(self._folder, FILE, self._origin)
        if found is None:
            raise Unavailable(KEY_MISSING, code="key-missing")
        if found.public != self._keys[-1]:
            raise Unavailable(KEY_CHANGED, code="key-changed")
        return found

    def _create_key(self) -> None:
        found = None
        try:
            found = in_folder(self._folder, FILE, self._origin)  # of a start that was cut short before the log named it
        except Unavailable:
            logger.warning("a damaged key file that no entry names is replaced")
        if found is None:
            found = pair(secrets.token_bytes(KEY_BYTES), self._origin)
            self._folder.write(FILE, found.seed)
        facts = {"key": str(found.public)}
        self._database.write(lambda transaction: transaction.append(Fact("key.created", SYSTEM, facts)))
        self._keys = (found.public,)

    def _end_rotation(self) -> None:
        """What a crash left of a rotation is brought to its end, or forgotten where the log never named the new key."""
        new = in_folder(self._folder, NEXT_FILE, self._origin)
        if new is None:
            return
        if new.public == self._keys[-1]:
            old = in_folder(self._folder, FILE, self._origin)
            if old is not None and old.public in self._keys[:-1]:
                self._make([old, new])
            self._take_over(new)
        else:
            (self._folder.path / NEXT_FILE).unlink()

    def _take_over(self, new: KeyPair) -> None:
        self._folder.write(FILE, new.seed)
        (self._folder.path / NEXT_FILE).unlink(missing_ok=True)

    def _newest_kept(self) -> Made | None:
        """The newest of the row and the file: the file outlives a database that was put back from a backup."""
        kept: list[Made] = []
        with self._database.read() as connection:
            try:
                row = checkpoints.newest(connection)
                kept += [] if row is None else [Made(*row)]
            except ValueError:
                logger.warning("the newest checkpoint's row holds no note")
        try:
            note = (self._folder.path / NOTE_FILE).read_text()
            if any(is_signed_by(note, key) for key in self._keys):
                kept.append(Made(read_checkpoint(note), note))
        except (OSError, ValueError):
            pass  # none, or none that can be read: the row's stands
        return max(kept, key=lambda made: made.head.size, default=None)
