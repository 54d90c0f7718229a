"""What a crash left open is closed on the next start (contract/audit.md: two records a run, also after a crash)."""

from typing import Final

from service.domain.executors import Outcome
from service.domain.runs import NOTHING
from service.errors import Message
from service.store import runs
from service.store.database import Database, Transaction


def recover(database: Database) -> int:
    """Close what a crash left open: its runs become `interrupted`, by `crash`. Answers how many."""

    def work(transaction: Transaction) -> int:
        left = runs.unfinished(transaction.connection)
        for seq, run_id, actor in left:
            runs.finish(transaction, seq, run_id, actor, CRASHED)
        return len(left)

    return database.write(work, urgent=True)  # of what ran already, so it may use the reserve


CRASHED: Final = Outcome(
    state="interrupted",
    stdout=NOTHING,
    stderr=NOTHING,
    duration_ms=0,
    reason="crash",
    why=Message("运行期间服务中断，结果未知。", "The service ended while it ran; what came of it is not known."),
)
