"""A call on a known tool that may not run, recorded: why, and what its caller is told (contract/http-api.md, 409 and 422)."""

from typing import Final

from service.domain.runs import Run
from service.errors import BitongError
from service.execution.receipts import refused_run, within_bytes
from service.store import keys, run_steps
from service.store.database import Database, Transaction
from service.store.keys import Key
from service.store.run_steps import Asked, Begun, Waiting

# Of these the call is not to blame, and the same call with the same key may go well the next time.
PASSING: Final = ("shutdown", "crash", "busy", "not-available", "cannot-record", "internal")


def refuse(
    database: Database, asked: Asked, cause: BitongError, *, key: Key | None = None, waiting: Waiting | None = None
) -> Run:
    """Write it, durably. `key`: stands for the refusal too; `waiting`: the row of a call that waited until now.

    Raises CannotRecord, or keys.Taken.
    """
    told = cause.facts.get("problems", [])
    kept = within_bytes(told)

    def work(transaction: Transaction) -> Begun:
        if key is not None:
            keys.claim(transaction, key, asked.run_id)
        if waiting is not None and asked.key_hash is not None and cause.code in PASSING:
            keys.release(transaction, asked.actor, asked.key_hash)
        return run_steps.refuse(
            transaction, asked, code=cause.code, message=cause.message, problems=kept, waiting=waiting
        )

    return refused_run(database.write(work), asked, cause.code, cause.message, told)
