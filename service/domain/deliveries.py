"""A Delivery: one webhook as received. A hint that the repository moved, never truth (contract/registration.md, Who)."""

from dataclasses import dataclass, field
from typing import Final

UNKNOWN: Final = -1  # a repository's number that the forge has not told yet


@dataclass(frozen=True, slots=True)
class Delivery:
    """What is kept of a signed delivery. `body_sha256` is hex; a repeat of the same body raises `count`.

    `outcome`: None until a look covers it, then applied, unchanged, ignored (with a reason) or failed. `branch` is the
    full ref of an update of a branch, None for everything else. `before` None: the branch is new; `after` None: deleted.
    """

    id: str
    received_at: str
    event: str
    ref: str | None
    repository_id: int | None
    repository: str | None
    pusher: str | None
    before: str | None
    after: str | None
    body_sha256: str
    signed_by: str = "current"
    count: int = 1
    outcome: str | None = None
    reason: str | None = None
    registered: tuple[str, ...] = field(default=())
    removed: tuple[str, ...] = field(default=())
    rejected: tuple[str, ...] = field(default=())


def why_ignored(delivery: Delivery, *, branch: str, repository_id: int | None) -> str | None:
    """Why a delivery does not concern the tracked branch, or None when it does (cases.md W9, W14).

    With `repository_id` None every signed delivery counts as the tracked repository's; with UNKNOWN it may be.
    """
    if repository_id not in (None, UNKNOWN) and delivery.repository_id != repository_id:
        return "other-repository"
    if delivery.event not in ("push", "create", "delete"):
        return "event"
    if delivery.ref is None:
        return "event"
    if delivery.ref.startswith("refs/tags/"):
        return "tag"
    if delivery.ref != f"refs/heads/{branch}":
        return "other-branch"
    return None
