"""Tokens: each may what its entry says, and is revoked when an entry says so."""

from typing import Any

import pysqlite3.dbapi2 as sqlite

from service.verify.database import TABLES
from service.verify.findings import Findings
from service.verify.forms import Entry, parse


class Tokens:
    """What the entries said of tokens, held against the rows. In memory: one record a token."""

    def __init__(self, db: sqlite.Connection, findings: Findings) -> None:
        self.db = db
        self.findings = findings
        self.tokens: dict[str, tuple[int, dict[str, Any]]] = {}
        self.readers = {"token.issued": self._issued, "token.revoked": self._revoked}

    def _issued(self, entry: Entry) -> None:
        facts = entry.facts
        wanted = {"name": facts["name"], "scopes": facts["scopes"], "tools": facts["tools"]}
        wanted |= {
            "created_at": entry.at,
            "created_by": entry.actor,
            "expires_at": facts["expires"],
            "revoked_at": None,
            "hash": facts["hash"],
        }
        self.tokens[facts["token"]] = (entry.index, wanted)

    def _revoked(self, entry: Entry) -> None:
        _, wanted = self.tokens.get(entry.facts["token"], (None, None))
        if wanted is not None and wanted["revoked_at"] is None:
            self.tokens[entry.facts["token"]] = (entry.index, {**wanted, "revoked_at": entry.at})

    def check(self) -> None:
        """Each token may what its entry says, and is revoked when an entry says so."""
        columns = TABLES["tokens"].split()
        sql = (
            "SELECT id, name, scopes, tools, created_at, created_by, expires_at, revoked_at, lower(hex(hash))"
            " FROM tokens NOT INDEXED"
        )
        for values in self.db.execute(sql):
            row = dict(zip(columns, values, strict=True))
            row |= {"scopes": parse(row["scopes"]), "tools": parse(row["tools"])}
            index, wanted = self.tokens.get(row["id"], (None, None))
            if wanted is None:
                self.findings.find(None, "row-unlogged", f"tokens.id of {row['id']}", row["name"], "token.issued")
            else:
                self.findings.compare(index, "tokens", row["id"], row, wanted)
