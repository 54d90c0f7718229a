"""Kinds of failure, by meaning. `web/errors.py` maps each kind to a status; nothing below `web/` knows a status number.

A failure carries a stable kebab-case `code` and a sentence in Chinese and English that says what to do. A failure of ours
(`Unavailable`) never looks like the caller's mistake, nor like absence.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Message(NamedTuple):
    """One sentence in both languages people read here."""

    zh: str
    en: str

    def as_json(self) -> dict[str, str]:
        """Shape: `{"zh": …, "en": …}`."""
        return {"zh": self.zh, "en": self.en}


class BitongError(Exception):
    """The family's root; raise one of the kinds below."""

    code = "internal"

    def __init__(self, message: Message, *, code: str | None = None, facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message.en)
        self.message = message
        self.code = code or type(self).code
        self.facts: dict[str, Any] = dict(facts or {})


class Malformed(BitongError):
    """The request is not of the shape asked for: not JSON, a wrong type."""

    code = "bad-request"


class Invalid(BitongError):
    """The request was understood and breaks a rule; `facts["problems"]` lists every one."""

    code = "bad-parameters"


class Unauthenticated(BitongError):
    """Nobody we know."""

    code = "unauthenticated"


class Forbidden(BitongError):
    """Somebody we know, who may not."""

    code = "forbidden"


class NotFound(BitongError):
    """No such thing, or none that the asker may see."""

    code = "not-found"


class Conflict(BitongError):
    """What was asked for does not agree with how things stand now."""

    code = "conflict"


class TooLarge(BitongError):
    """More bytes than a limit allows."""

    code = "too-large"


class Unsupported(BitongError):
    """A form of request that is not taken, such as a form-encoded webhook."""

    code = "unsupported"


class RangeNotSatisfiable(BitongError):
    """A part of some bytes that is not there."""

    code = "range-not-satisfiable"


class Busy(BitongError):
    """Over a limit; `facts["retry_after_s"]` says when to come back."""

    code = "busy"


class Unavailable(BitongError):
    """A part of ours, or one that we need, cannot do its work now."""

    code = "not-available"


class CannotRecord(Unavailable):
    """The record could not be made durable, so the action does not happen (design.md, Storage)."""

    code = "cannot-record"


class RepositoryUnreachable(Unavailable):
    """The tracked repository could not be read; tools go on running and the next look tries again."""

    code = "repository-unreachable"


class UsageError(BitongError):
    """Used wrongly: a setting, a command line. Names what is wrong, never a secret's value."""

    code = "usage"
