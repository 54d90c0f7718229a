"""`/audit`: can I trust this record? Entries, the newest checkpoint, verification, anchors."""

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from service.domain.audit import TYPES
from service.errors import BitongError, Invalid, NotFound
from service.web import audit, keeping, proofs
from service.web.pages.view import View
from service.web.parts import Parts
from service.web.routing import Answer, Asked

SAID: Final = 6
_FIRST: Final = {name: place for place, name in enumerate(("tool", "version", "run", "confirmation", "state", "name"))}
_LONG: Final = (
    "blob",
    "tree",
    "sha256",
    "params_digest",
    "match",
    "key_hash",
    "session",
    "token",
    "hash",
    "expires",
    "leaf",
)
_FILTERS: Final = ("type", "actor", "tool", "run", "since", "until", "cursor")


def show_list(parts: Parts, asked: Asked) -> Answer:
    """Newest first, filtered."""
    return _listed(View.of(parts, asked), None)


def verify(view: View, _form: Mapping[str, str]) -> Answer:
    """Verify the whole record now, and say what was found."""
    report = proofs.verify(view.parts, view.asked).content
    return _listed(view, report, reads_query=False)


def show_entry(parts: Parts, asked: Asked) -> Answer:
    """One entry: its facts, its exact bytes, its leaf, and what proves it."""
    view = View.of(parts, asked)
    entry = view.api(audit.show_entry, at=asked.path)
    proof = None
    if view.actor.may("read"):
        try:
            proof = view.api(proofs.prove_entry, at=asked.path)
        except BitongError:  # no checkpoint covers it yet: the entry is shown all the same
            proof = None
    content = base64.b64decode(entry["entry_b64"]).decode("utf-8", "replace")
    newest = _neighbours(view, entry["index"])
    return view.render("entry.html", here="/audit", entry=entry, content=content, proof=proof, later=newest)


def _listed(view: View, report: Mapping[str, Any] | None, *, reads_query: bool = True) -> Answer:
    query = view.asked.query if reads_query else {}
    filters: dict[str, Any] = {name: query[name].strip() for name in _FILTERS if query.get(name, "").strip()}
    shown: dict[str, Any] = {"items": [], "next": None}
    wrong: dict[str, str] = {}
    try:
        shown = view.api(audit.list_entries, **filters | view.actor_named(filters.get("actor")))
    except Invalid as error:
        wrong = {problem["param"]: view.told(problem) for problem in error.facts["problems"]}
    return view.render(
        "audit.html",
        here="/audit",
        entries=[entry | {"says": _says(entry["facts"])} for entry in shown["items"]],
        next=shown["next"],
        filters=filters,
        wrong=wrong,
        types=TYPES,
        checkpoint=_checkpoint(view),
        anchors=view.api(keeping.list_anchors, limit=5)["items"],
        bytes=view.parts.database.bytes(),
        report=report,
        findings=[json.dumps(one, ensure_ascii=False) for one in report["findings"]] if report else [],
    )


def _checkpoint(view: View) -> str | None:
    try:
        note: str = view.api(proofs.show_checkpoint).decode("utf-8", "replace")
    except BitongError:  # a missing key is said on every page already
        return None
    return note


def _neighbours(view: View, index: int) -> bool:
    try:
        view.api(audit.show_entry, at={"index": str(index + 1)})
    except NotFound:
        return False
    return True


def _says(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The facts that a list has room for, what it is about first; the others stand on the entry's own page."""
    plain = {name: value for name, value in facts.items() if isinstance(value, str | int | bool) and name not in _LONG}
    return sorted(plain.items(), key=lambda fact: (fact[0] not in _FIRST, _FIRST.get(fact[0], 0)))[:SAID]
