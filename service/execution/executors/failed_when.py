"""When a 2xx answer says itself that it failed: the setting `hlpd_api_failed_when` (contract/executors.md, hlpd-api)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from service.domain.quoting import quoted
from service.errors import Message

_NOT: Final = "not "
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Condition:
    """One field of the answer and the value that it must have, or with `negated` must not have, to mean a failure."""

    field: str
    negated: bool
    value: Any

    def holds(self, document: Mapping[str, Any]) -> bool:
        """Whether the field is there and says so. A field that is not there says nothing."""
        found = _find(document, self.field)
        return found is not _ABSENT and _same(found, self.value) is not self.negated

    def words(self) -> Message:
        """In words, without what the far side wrote: `ok is false`."""
        value = quoted(self.value)
        if self.negated:
            return Message(f"{self.field} 不是 {value}", f"{self.field} is not {value}")
        return Message(f"{self.field} 是 {value}", f"{self.field} is {value}")


@dataclass(frozen=True, slots=True)
class FailedWhen:
    """The conditions of which one is enough; by default `{"ok": false, "error": "not null"}`."""

    conditions: tuple[Condition, ...] = (
        Condition("ok", negated=False, value=False),
        Condition("error", negated=True, value=None),
    )

    @classmethod
    def read(cls, mapping: Mapping[str, Any]) -> "FailedWhen":
        """From a setting: which field of the answer means failure when it is which value, or is `not` that.

        `{"ok": false, "error": "not null"}`, `{"code": "not 0"}`, `{"result.status": "failed"}`: a value is a text, a
        number or a boolean; `not` is followed by one in JSON, a text in its quotes, or by `null`. `a.b` is the field
        `b` of `a`. An empty mapping believes every 2xx. Raises ValueError that names the key.
        """
        return cls(tuple(_condition(field, value) for field, value in mapping.items()))

    def said_by(self, document: Mapping[str, Any]) -> list[Message]:
        """The conditions that hold in an answer, in words; none when it says of no failure."""
        return [condition.words() for condition in self.conditions if condition.holds(document)]


def _condition(field: str, value: Any) -> Condition:
    if not all(field.split(".")):
        raise ValueError(f"{field!r}: the name of a field, or names joined by single dots")
    negated = isinstance(value, str) and value.startswith(_NOT)
    if negated:
        try:
            value = json.loads(value.removeprefix(_NOT))
        except (ValueError, RecursionError):
            raise ValueError(f'{field!r}: after `not` comes null, true, false, a number or a "text"') from None
    if not isinstance(value, bool | int | float | str | None):
        raise ValueError(f"{field!r}: a text, a number, true, false, or `not` and one of these")
    return Condition(field, negated, value)


def _find(document: Any, field: str) -> Any:
    found = document
    for name in field.split("."):
        found = found.get(name, _ABSENT) if isinstance(found, Mapping) else _ABSENT
    return found


def _same(found: Any, value: Any) -> bool:
    """Equal as JSON has it: `0` is `0.0`, and neither `false` nor `"0"`."""
    return bool(found == value) and isinstance(found, bool) == isinstance(value, bool)
