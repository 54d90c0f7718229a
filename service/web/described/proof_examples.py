"""Examples of proofs for the OpenAPI document; the paths are real, the signature is not."""

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from service.domain.merkle import leaf_hash, node_hash
from service.domain.notes import Checkpoint, VerifierKey, signed


def proof_examples(content: bytes, run_id: str, whose: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """As in a log of two entries, the second of which (`content`) ended the run; `whose`: the definition that ran."""
    leaf, other = leaf_hash(content), leaf_hash(b"the first entry")
    key = VerifierKey("bitong/example", hashlib.sha256(b"public key").digest())
    head = Checkpoint(key.name, 2, node_hash(other, leaf))
    signature = hashlib.sha512(b"signature").digest()
    proved = {"leaf": leaf.hex(), "path": [other.hex()]}
    encoded = base64.b64encode(content).decode("ascii")
    identity = {name: whose[name] for name in ("version", "commit", "tree", "blob", "sha256")}
    run: dict[str, Any] = {
        "format": "bitong-run-proof/1",
        "run": run_id,
        "definition": {"tool": "shell-exec", **identity},
        "keys": [str(key)],
        "checkpoint": signed(head.text(), [(key, signature)]),
        "entries": [{"index": 1, "type": "run.finished", "entry_b64": encoded, **proved}],
    }
    well: dict[str, Any] = {
        "ok": True,
        "size": 2,
        "root": head.root.hex(),
        "checkpoints": 1,
        "open_runs": [],
        "findings": [],
    }
    more: dict[str, Any] = {"entries": {"log.opened": 1, "run.finished": 1}, "seconds": 0.1, "notes": []}
    return {
        "InclusionProof": {"second": {"index": 1, "size": 2, **proved}},
        "ConsistencyProof": {"grew": {"from": 1, "to": 2, "path": [leaf.hex()]}},
        "RunProof": {"hello": run},
        "VerifyReport": {"well": well | more},
    }
