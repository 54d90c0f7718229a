"""Confirmations: asked once, answered at most once, by whom and when the entries say; and idempotency keys."""

from typing import Any, Final

import pysqlite3.dbapi2 as sqlite

from service.verify.database import TABLES
from service.verify.findings import Findings
from service.verify.forms import Entry, unhex

ANSWERS: Final = ("approved", "rejected", "expired", "dropped")
_SAME: Final = ("run", "tool", "version", "params_digest", "asker")  # of the answer as of the question


class Confirmations:
    """What the entries said of questions, held against the rows. In memory: one record a question."""

    def __init__(self, db: sqlite.Connection, findings: Findings) -> None:
        self.db = db
        self.findings = findings
        self.asked: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {}
        self.readers = {
            "confirmation.requested": self._requested,
            **{f"confirmation.{answer}": self._answered for answer in ANSWERS},
        }

    def _requested(self, entry: Entry) -> None:
        facts = entry.facts
        if facts["confirmation"] in self.asked:
            where = f"confirmation {facts['confirmation']}"
            self.findings.find(entry.index, "asked-twice", where, entry.type, "one confirmation.requested")
        if facts["asker"] != entry.actor:
            where = f"confirmation {facts['confirmation']}"
            self.findings.find(entry.index, "column-differs", where, facts["asker"], entry.actor)
        wanted = {
            "state": "waiting",
            "run": facts["run"],
            "tool": facts["tool"],
            "version": facts["version"],
            "params_digest": unhex(facts["params_digest"]),
            "actor": entry.actor,
            "asked_at": entry.at,
            "answered_by": None,
            "answered_at": None,
            "ask_index": entry.index,
            "answer_index": None,
        }
        self.asked[facts["confirmation"]] = (entry.index, wanted, facts)

    def _answered(self, entry: Entry) -> None:
        facts = entry.facts
        where = f"confirmation {facts['confirmation']}"
        _, wanted, asked = self.asked.get(facts["confirmation"], (None, None, {}))
        if wanted is None or wanted["state"] != "waiting":
            state = None if wanted is None else wanted["state"]
            self.findings.find(entry.index, "answered-wrongly", where, state, "asked before, and not answered")
            return
        if any(facts[name] != asked[name] for name in _SAME):
            self.findings.find(
                entry.index, "answered-wrongly", where, "another question's facts", "those it was asked with"
            )
        state = entry.type.removeprefix("confirmation.")
        by_somebody = state in ("approved", "rejected")
        itself = facts["answerer"] == asked["asker"] if by_somebody else None
        said = (facts["answerer"], facts["self"])
        if said != (entry.actor if by_somebody else None, itself):
            self.findings.find(entry.index, "answered-wrongly", where, said, f"{entry.actor}, self {itself}")
        wanted |= {
            "state": state,
            "answered_by": facts["answerer"],
            "answered_at": entry.at,
            "answer_index": entry.index,
        }
        self.asked[facts["confirmation"]] = (entry.index, wanted, asked)

    def check(self) -> None:
        """Each question's row says what its entries say; no row stands without, none is missing."""
        columns = TABLES["confirmations"].split()
        left = dict(self.asked)
        for values in self.db.execute(f"SELECT {', '.join(columns)} FROM confirmations NOT INDEXED"):  # noqa: S608 - our own
            row = dict(zip(columns, values, strict=True))
            index, wanted, _ = left.pop(row["id"], (None, None, None))
            if wanted is None:
                where = f"confirmations.id of {row['id']}"
                self.findings.find(None, "row-unlogged", where, row["state"], "confirmation.requested")
                continue
            self.findings.compare(index, "confirmations", row["id"], row, wanted)
            if row["state"] != "waiting" and row["params"] is not None:
                self.findings.find(index, "column-differs", f"confirmations.params of {row['id']}", "kept", None)
            self._version(index, row)
        for key, (index, _, _) in left.items():
            self.findings.find(index, "row-missing", f"confirmations.id of {key}", None, key)

    def _version(self, index: int | None, row: dict[str, Any]) -> None:
        """The definition that was asked about is the registered one."""
        sql = "SELECT commit_id, sha256, tool, number FROM tool_versions WHERE id = ?"
        found = self.db.execute(sql, (row["version_id"],)).fetchone()
        names = ("commit_id", "sha256", "tool", "version")
        said = dict.fromkeys(names) if found is None else dict(zip(names, found, strict=True))
        self.findings.compare(index, "confirmations", row["id"], row, said)

    def keys(self) -> None:
        """An idempotency key stands for a run of its own actor that came with it; ended ones may be gone."""
        sql = """SELECT k.run, k.actor, k.key_hash, r.actor, r.key_hash FROM idempotency_keys k NOT INDEXED
                 LEFT JOIN runs r ON r.id = k.run"""
        for run, actor, digest, known_actor, known_digest in self.db.execute(sql):
            row = {"actor": actor, "key_hash": digest}
            self.findings.compare(None, "idempotency_keys", run, row, {"actor": known_actor, "key_hash": known_digest})
