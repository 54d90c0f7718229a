"""From a webhook's bytes to a durable Delivery and a nudge (contract/http-api.md, The webhook)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import structlog

from service.domain.deliveries import Delivery, why_ignored
from service.domain.times import now
from service.errors import Message, Unavailable
from service.intake import forgejo
from service.intake.worker import Worker
from service.store import deliveries
from service.store.database import Database, Transaction

logger = structlog.get_logger(__name__)


class Receiver:
    """Takes deliveries. `secrets`: name → secret of those that may sign now; without any, every hook is refused."""

    def __init__(
        self,
        database: Database,
        worker: Worker,
        *,
        secrets: Mapping[str, str],
        branch: str,
        repository_id: Callable[[], int | None],
    ) -> None:
        self._database = database
        self._worker = worker
        self._secrets = secrets
        self._branch = branch
        self._repository_id = repository_id

    def receive(self, body: bytes, headers: Sequence[tuple[bytes, bytes]]) -> Delivery:
        """Verify, keep, wake the worker. Returns once the delivery is durable; `outcome` is `ignored` or None.

        Raises Unauthenticated (not signed by a known secret), Malformed, CannotRecord, or Unavailable without a secret.
        """
        if not self._secrets:
            raise Unavailable(
                Message(
                    "未设置 webhook_secret，拒绝所有 Webhook。",
                    "webhook_secret is not set; every webhook is refused.",
                ),
                code="no-webhook-secret",
            )
        signed_by = forgejo.verify(body, headers, self._secrets)
        delivery = forgejo.read_delivery(body, headers, received_at=now(), signed_by=signed_by)
        why = why_ignored(delivery, branch=self._branch, repository_id=self._repository_id())
        if why is not None:
            delivery = replace(delivery, outcome="ignored", reason=why)
        fresh = self._database.write(lambda transaction: self._keep(transaction, delivery))
        logger.info("delivery", id=delivery.id, kind=delivery.event, reason=why, repeat=not fresh)
        if why is None and fresh:
            self._worker.nudge()
        elif why is None:
            self._worker.nudge_for_repeat()
        return delivery

    def _keep(self, transaction: Transaction, delivery: Delivery) -> bool:
        return deliveries.keep(transaction.connection, delivery, transaction.now)
