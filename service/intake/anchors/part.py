"""Anchors checkpoints: at most each `interval_s`, when the log has something new (contract/audit.md, Anchors).

A fault here only keeps anchors from being made: it is in the log, in `/readyz` and in the metrics, and is tried again.
What stands on the branch is compared first: no other file is ever written over, and no log that others hold more of.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

from service.domain.notes import Checkpoint, read_checkpoint
from service.errors import BitongError, Message, Unavailable
from service.store import anchors, proofs
from service.store.anchors import Anchor
from service.store.checkpointing import Checkpoints, Made
from service.store.database import Database
from service.store.signing import is_signed_by

logger = structlog.get_logger(__name__)

DEADLINE_S: Final = 60.0
FIRST_S: Final = 2.0  # after the start: the first checkpoint comes a second after it
_PACKAGE_ROOT: Final = Path(__file__).resolve().parents[3]
_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR")

_TAKEN: Final = Message(
    "anchor_branch 上是别的内容，不在其上提交检查点；请换一个分支。",
    "anchor_branch holds something else, so no checkpoint is committed to it; name another branch.",
)
_BEHIND: Final = Message(
    "分支上的检查点比这里的日志长：可能恢复了旧备份。请运行 bitong restore --acknowledge。",
    "The checkpoint on the branch is of a longer log than this one: was an older backup restored? bitong restore --acknowledge.",
)
_DIFFERS: Final = Message(
    "分支上的检查点属于另一份日志。请运行 bitong audit verify --checkpoint。",
    "The checkpoint on the branch is of another log than this one. Run bitong audit verify --checkpoint.",
)
_FAILED: Final = Message("检查点没能提交到仓库，稍后再试。", "A checkpoint could not be committed; it is tried again.")


class Anchors:
    """Commits the newest checkpoint to `branch` of the repository at `url`. `behind`: told of one that is of a longer log."""

    def __init__(
        self,
        database: Database,
        checkpoints: Checkpoints,
        *,
        url: str,
        branch: str,
        username: str,
        token: str | None,
        interval_s: float,
        behind: Callable[[Checkpoint], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._checkpoints = checkpoints
        if "://" not in url:
            url = str(Path(url).absolute())
        self._asked = {"url": url, "branch": branch, "username": username, "token": token}
        self._repository = _without_credentials(url)
        self._branch = branch
        self._interval_s = interval_s
        self._behind = behind
        self._tip: str | None = None  # of the branch, as we left or found it
        self._trouble: BitongError | None = None
        self._ending = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        with database.read() as connection:
            self._last = next(iter(anchors.listed(connection, before=None, limit=1)), None)

    def start(self) -> None:
        """Begin to make them."""
        self._thread = threading.Thread(target=self._work, name="anchors", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; one that is under way is cut short, since git moves a branch at once or not at all."""
        self._ending.set()
        if (process := self._process) is not None:
            process.kill()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def state(self) -> str:
        """`ok`, or why the last try failed: a code as the mirror's, `branch-taken`, `log-behind`, `log-differs`."""
        return "ok" if self._trouble is None else self._trouble.code

    @property
    def last(self) -> Anchor | None:
        """The newest one made."""
        return self._last

    def attempt(self) -> Anchor | None:
        """Anchor the newest checkpoint if there is something new; None where there is not. Raises Unavailable."""
        made = self._checkpoints.newest
        if made is None or not self._is_new(made):
            return None
        answer = self._commit(made)
        if "tip" in answer:
            self._compare(answer)
            self._tip = answer["tip"]
            answer = self._commit(made)
        if "commit" not in answer:
            raise Unavailable(_FAILED, code=str(answer.get("failed", "rejected")))
        self._tip = answer["commit"]
        return self._written(made, answer["commit"])

    def _work(self) -> None:
        pause = min(FIRST_S, self._interval_s)
        while not self._ending.wait(pause):
            pause = self._interval_s
            try:
                self.attempt()
            except BitongError as error:
                self._fail(error)
            except Exception as error:
                logger.exception("anchoring failed inside", error=type(error).__name__)
                self._fail(Unavailable(_FAILED, code="internal"))
            else:
                self._trouble = None

    def _fail(self, error: BitongError) -> None:
        if self._ending.is_set():
            return
        if self.state != error.code:
            logger.warning("no checkpoint is anchored", state=error.code, why=error.message.en)
        self._trouble = error

    def _is_new(self, made: Made) -> bool:
        """Whether the log has more since the last anchor than the entry that tells of it."""
        last, size = self._last, made.head.size
        if last is None:
            return True
        if size != last.size + 1:
            return size > last.size
        with self._database.read() as connection:
            return not anchors.is_about_an_anchor(connection, last.size)

    def _compare(self, answer: dict[str, Any]) -> None:
        """Whether what stands on the branch is of this log's past. Raises Unavailable.

        Only what this log's own key signed counts: whoever else may push there cannot make us believe in a longer log.
        """
        if answer["tip"] is None:
            return
        note = answer["held"] or ""
        try:
            held = read_checkpoint(note)
        except ValueError:
            raise Unavailable(_TAKEN, code="branch-taken") from None
        if not any(is_signed_by(note, key) for key in self._checkpoints.keys):
            raise Unavailable(_TAKEN, code="branch-taken")
        with self._database.read() as connection:
            restored = anchors.was_restored(connection)
            if restored is not None and restored < held.size:
                return  # it may be of the past that was given up, as the operator acknowledged
            if held.size <= self._database.log.size:
                if proofs.tree_at(connection, held.size).root() != held.root:
                    raise Unavailable(_DIFFERS, code="log-differs")
                return
        self._behind(held)
        raise Unavailable(_BEHIND, code="log-behind")

    def _written(self, made: Made, commit: str) -> Anchor:
        anchor = Anchor(made.head.size, "", self._repository, self._branch, commit)
        self._last = self._database.write(lambda transaction: anchors.add(transaction, anchor, made.head.root))
        return self._last

    def _commit(self, made: Made) -> dict[str, Any]:
        """One run of `commit.py`, within its time. Raises Unavailable."""
        size = made.head.size
        message = f"检查点：{size} 条\n\nCheckpoint of {size} entries of {made.head.origin}.\n"
        asked = self._asked | {"note": made.note, "message": message, "parent": self._tip}
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "service.intake.anchors.commit"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environment, "PYTHONPATH": os.fspath(_PACKAGE_ROOT), "PYTHONUTF8": "1"},
            cwd="/",
            process_group=0,
            text=True,
            encoding="utf-8",
        ) as process:
            self._process = process
            if self._ending.is_set():
                process.kill()
            try:
                said, _ = process.communicate(json.dumps(asked), timeout=DEADLINE_S)
                answer: dict[str, Any] = json.loads(said)
            except subprocess.TimeoutExpired:
                process.kill()
                raise Unavailable(_FAILED, code="repository-timeout") from None
            except (ValueError, OSError):
                process.kill()
                raise Unavailable(_FAILED, code="repository-unreachable") from None
            finally:
                self._process = None
        if "failed" in answer:
            logger.debug("anchoring failed", cause=answer["cause"])
            raise Unavailable(_FAILED, code=answer["failed"])
        return answer


def _without_credentials(url: str) -> str:
    if "://" not in url:
        return url
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
