"""Idempotency keys: the same call of the same actor runs once, whoever vanished meanwhile (contract/http-api.md)."""

import hashlib
import hmac
import json
from typing import Any

from service.domain.actors import Actor
from service.domain.calls import ExecRequest
from service.domain.parameters import fit
from service.domain.runs import Run, mask
from service.domain.tools import ToolVersion
from service.errors import Conflict, Message
from service.store import keys, runs
from service.store.database import Database
from service.store.keys import Key


class Repeats:
    """Which run a key stands for. `secret`: the key of all hashes, which stands outside the database."""

    def __init__(self, database: Database, secret: bytes) -> None:
        self._database = database
        self._secret = secret

    def key_of(self, request: ExecRequest, actor: Actor, version: ToolVersion) -> Key | None:
        """The key of a call, bound to what it calls; None without one."""
        if request.key is None:
            return None
        return Key(actor.name, self._key_hash(actor, request.key), self._digest(request, version))

    def find(self, request: ExecRequest, actor: Actor) -> Run | None:
        """The run that this call made before. Raises Conflict (`key-reused`) where the key came with another call."""
        if request.key is None:
            return None
        found = keys.find(self._database, actor.name, self._key_hash(actor, request.key), self._database.moment())
        if found is None:
            return None
        run_id, digest = found
        with self._database.read() as connection:
            run = runs.run(connection, run_id)
        if run is None or not hmac.compare_digest(self._digest(request, run.version), digest):
            raise reused()
        return run

    def _key_hash(self, actor: Actor, key: str) -> bytes:
        return self._hash([actor.name, key])

    def _digest(self, request: ExecRequest, version: ToolVersion) -> bytes:
        """Over tool, parameters after defaults, demand and time limit; by the definition that the first call met."""
        schema = version.definition.params_schema
        parameters, problems = fit(schema, request.params)
        given = request.params if problems else parameters
        masked = {name: mask(schema.get(name), value, self._secret) for name, value in given.items()}
        demand = [request.version, request.commit, request.sha256]
        return self._hash([request.tool, masked, demand, request.timeout_ms])

    def _hash(self, shape: list[Any]) -> bytes:
        text = json.dumps(shape, sort_keys=True, separators=(",", ":"))
        return hmac.new(self._secret, text.encode("ascii"), hashlib.sha256).digest()


def reused() -> Conflict:
    """The refusal of a key that came before with another call."""
    return Conflict(
        Message(
            "这个 Idempotency-Key 已用于另一次调用；请换一个。",
            "This Idempotency-Key came with another call before; use a new one.",
        ),
        code="key-reused",
    )
