"""What a crash left open is closed on the next start (contract/audit.md: two records a run, also after a crash)."""

from typing import Final

from service.domain.executors import Outcome
from service.domain.runs import NOTHING
from service.errors import Message
from service.store import keys, run_steps, runs
from service.store.database import Database, Transaction
from service.store.run_steps import Asked


def recover(database: Database) -> int:
    """Close what a crash left open. Answers how many.

    Runs that had begun become `interrupted`, by `crash`; those that stood in line are refused, since they never began.
    What waits for a confirmation goes on waiting, or expires where its secrets were in memory (execution/confirm.py).
    """

    def work(transaction: Transaction) -> int:
        left = runs.unfinished(transaction.connection)
        for seq, run_id, actor in left:
            run_steps.finish(transaction, seq, run_id, actor, CRASHED)
        waited = runs.never_started(transaction.connection)
        for place, run in waited:
            commitment = runs.commitment(transaction.connection, run.seq)
            assert commitment is not None
            asked = Asked(run.id, run.version, run.actor, commitment, run.match_id, run.confirmation_id, run.key_hash)
            if run.key_hash is not None:
                keys.release(transaction, run.actor, run.key_hash)
            run_steps.refuse(transaction, asked, code="crash", message=NOT_BEGUN, problems=[], waiting=place)
        return len(left) + len(waited)

    return database.write(work, urgent=True)  # of what ran already, so it may use the reserve


CRASHED: Final = Outcome(
    state="interrupted",
    stdout=NOTHING,
    stderr=NOTHING,
    duration_ms=0,
    reason="crash",
    why=Message("运行期间服务中断，结果未知。", "The service ended while it ran; what came of it is not known."),
)
NOT_BEGUN: Final = Message("开始之前服务中断，没有执行。", "The service ended before it began; it did not run.")
