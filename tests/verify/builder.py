"""Writes small valid databases by hand, so that the verifier is tested against neither the writer nor itself.

`python -m tests.verify.builder --bench N` builds a log of about N entries and prints how fast it verifies.
"""

import argparse
import base64
import hashlib
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pysqlite3.dbapi2 as sqlite
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection, create_engine, insert

from service.store import tables
from service.verify import verify_database

TIME = "2026-05-31T08:00:00.000Z"
COMMIT = "c1" * 20
LATER = "c2" * 20
GONE = "c3" * 20
DEFINITION = "§ name: text-stats\n§ display: 文本统计\n".encode()
SCRIPT = b"print('counted')\n"


# Which columns follow from the log, so that one bit of them is found; and by which a row is named.
BIT_COLUMNS = {
    "log_entries": ("type", "at", "actor", "run", "tool", "leaf", "entry", "idx"),
    "log_tiles": ("level", "idx", "hash"),
    "runs": (
        *(
            "id",
            "state",
            "reason",
            "tool",
            "method",
            "version",
            "version_id",
            "commit_id",
            "actor",
            "node",
            "started_at",
        ),
        *("ended_at", "exit_code", "status", "duration_ms", "params_digest", "match_id", "confirmation_id", "key_hash"),
        *("stdout_bytes", "stdout_sha256", "stdout_kept", "stderr_bytes", "stderr_sha256", "stderr_kept"),
        *("start_index", "end_index", "end_leaf"),
    ),
    "run_parameters": ("run_seq", "salt", "masked"),
    "run_output": ("run_seq", "stream", "kept"),
    "tool_versions": ("tool", "number", "state", "commit_id", "tree", "blob", "sha256", "registered_at"),
    "tools": ("name", "state", "version_id"),
    "folder_trees": ("files", "blob", "sha256", "folder", "tree"),
    "blobs": ("id", "content"),
    "tokens": ("id", "name", "scopes", "tools", "created_at", "created_by", "expires_at", "revoked_at", "hash"),
    "rejections": ("tool", "commit_id", "problems"),
    "confirmations": (
        *("id", "state", "run", "tool", "version", "version_id", "commit_id", "sha256", "params_digest", "actor"),
        *("asked_at", "answered_by", "answered_at", "ask_index", "answer_index"),
    ),
    "idempotency_keys": ("actor", "key_hash", "run"),
    "checkpoints": ("size", "root", "at", "note"),
}
KEY_COLUMNS = {
    "log_entries": ("idx",),
    "log_tiles": ("level", "idx"),
    "runs": ("id",),
    "run_parameters": ("run_seq",),
    "run_output": ("run_seq", "stream"),
    "tool_versions": ("tool", "number"),
    "tools": ("name",),
    "folder_trees": ("folder", "tree"),
    "blobs": ("id",),
    "tokens": ("id",),
    "rejections": ("id",),
    "confirmations": ("id",),
    "idempotency_keys": ("run",),
    "checkpoints": ("size",),
}


def flipped(value):
    """The value with one bit the other way; of a number a high one, which collides with no small number."""
    if isinstance(value, int):
        return value ^ 1 << 20
    content = bytearray(value if isinstance(value, bytes) else value.encode())
    content[len(content) // 2] ^= 1
    return bytes(content) if isinstance(value, bytes) else content.decode()


def sha(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def git(kind: str, content: bytes) -> bytes:
    return hashlib.sha1(f"{kind} {len(content)}".encode() + b"\0" + content).digest()  # noqa: S324 - git's own


def mth(leaves: list[bytes]) -> bytes:
    """RFC 6962 §2.1, word for word: split at the largest power of two smaller than n."""
    if not leaves:
        return sha(b"")
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return sha(b"\x01" + mth(leaves[:split]) + mth(leaves[split:]))


class Signer:
    """An Ed25519 key as C2SP signed-note writes it down."""

    def __init__(self, seed: bytes, name: str = "bitong/test") -> None:
        self.name = name
        self.private = Ed25519PrivateKey.from_private_bytes(seed)
        public = b"\x01" + self.private.public_key().public_bytes_raw()
        self.id = sha(name.encode() + b"\n" + public)[:4]
        self.vkey = f"{name}+{self.id.hex()}+{base64.b64encode(public).decode()}"

    def line(self, text: str) -> str:
        signature = self.id + self.private.sign(text.encode())
        return f"\N{EM DASH} {self.name} {base64.b64encode(signature).decode()}\n"


def note_of(size: int, root: bytes, *signers: Signer, origin: str = "bitong/test") -> bytes:
    """A signed checkpoint."""
    text = f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"
    return (text + "\n" + "".join(signer.line(text) for signer in signers)).encode()


class Builder:
    """Appends entries and the rows that follow from them; `close` adds the tiles."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.leaves: list[bytes] = []
        self.versions: dict[tuple[str, int], dict[str, Any]] = {}
        self.runs = 0
        self._engine = create_engine(f"sqlite:///{path}", module=sqlite)
        tables.metadata.create_all(self._engine)
        self._connection: Connection = self._engine.connect()
        self.append("log.opened", "bitong", origin="bitong/test")

    def row(self, table: Any, **values: Any) -> None:
        self._connection.execute(insert(table), values)

    def append(self, type_: str, actor: str, /, **facts: Any) -> tuple[int, bytes]:
        """One entry; answers its index and leaf."""
        index = len(self.leaves)
        shape = {"index": index, "type": type_, "at": TIME, "actor": actor, "facts": facts}
        content = json.dumps(shape, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
        leaf = sha(b"\x00" + content)
        self.leaves.append(leaf)
        self.row(
            tables.log_entries,
            idx=index,
            type=type_,
            at=TIME,
            actor=actor,
            leaf=leaf,
            entry=content,
            run=facts.get("run"),
            tool=facts.get("tool"),
        )
        return index, leaf

    def version(self, tool: str, number: int, commit: str, state: str = "active", extra: bytes = b"") -> None:
        """A registered version whose folder holds TOOL.hdlp, lib/count.py and, of `extra` bytes, run.sh."""
        files = [("TOOL.hdlp", False, DEFINITION), ("lib/count.py", False, SCRIPT), ("run.sh", True, extra)]
        blobs = {path: git("blob", content) for path, _, content in files}
        inside = git("tree", b"100644 count.py\0" + blobs["lib/count.py"])
        entries = [
            b"100644 TOOL.hdlp\0" + blobs["TOOL.hdlp"],
            b"40000 lib\0" + inside,
            b"100755 run.sh\0" + blobs["run.sh"],
        ]
        tree = git("tree", b"".join(entries))
        for path, _, content in files:
            known = insert(tables.blobs).prefix_with("OR IGNORE")
            self._connection.execute(known, {"id": blobs[path], "content": content})
        listed = [[path, runs, blobs[path].hex(), len(content)] for path, runs, content in files]
        identity = {"tree": tree, "blob": blobs["TOOL.hdlp"], "sha256": sha(DEFINITION)}
        folder = {"folder": tool.encode(), "reading": "{}", "problems": "[]", "files": json.dumps(listed)}
        self._connection.execute(insert(tables.folder_trees).prefix_with("OR IGNORE"), folder | identity)
        facts = {"tool": tool, "version": number, "commit": commit} | {
            name: one.hex() for name, one in identity.items()
        }
        self.append("definition.registered", "bitong", **facts, author="ICE-GL-ZY001", pusher=None)
        self.row(
            tables.tool_versions,
            tool=tool,
            number=number,
            state=state,
            commit_id=bytes.fromhex(commit),
            **identity,
            definition='{"executor":"shell","author":"ICE-GL-ZY001","method":"argv"}',
            warnings="[]",
            same_meaning=False,
            git_author="Zhu <zhu@example.org>",
            git_committer="Zhu",
            pusher="zhu",
            registered_at=TIME,
        )
        row = len(self.versions) + 1
        self.versions[tool, number] = facts | {"row": row}
        stands = {"name": tool, "state": state, "version_id": row, "behind": False}
        if state != "superseded":
            self._connection.execute(insert(tables.tools), stands)

    def run(
        self,
        run: str,
        tool: str = "text-stats",
        version: int = 2,
        *,
        ended: bool = True,
        purged: bool = False,
        **more: Any,
    ) -> None:
        """A run with its rows: ended unless said otherwise; `more` replaces columns."""
        self.runs += 1
        known = self.versions[tool, version]
        salt, masked, key = sha(run.encode())[:16], b'{"text":"hello"}', sha(b"key")
        digest = sha(salt + masked)
        facts = {name: value for name, value in known.items() if name != "row"}
        start, _ = self.append(
            *("run.started", "token:t1"),
            **facts,
            run=run,
            executor="shell",
            node="BS-SG-001",
            params_digest=digest.hex(),
            match="m1",
            confirmation="k1",
            key_hash=key.hex(),
        )
        columns: dict[str, Any] = {
            "seq": self.runs,
            "id": run,
            "state": "started",
            "tool": tool,
            "method": "shell:argv",
            "actor": "token:t1",
            "version_id": known["row"],
            "version": version,
            "commit_id": bytes.fromhex(known["commit"]),
            "node": "BS-SG-001",
            "created_at": TIME,
            "started_at": TIME,
            "duration_ms": 0,
            "params_digest": digest,
            "match_id": "m1",
            "confirmation_id": "k1",
            "key_hash": key,
            "start_index": start,
            "stdout_bytes": 0,
            "stdout_kept": 0,
            "stderr_bytes": 0,
            "stderr_kept": 0,
        }
        if ended:
            columns |= self._end(run, purged=purged)
        self.row(tables.runs, **columns | more)
        if purged:
            self.append("output.purged", "operator", run=run)
        else:
            self.row(tables.run_parameters, run_seq=self.runs, salt=salt, masked=masked)

    def _end(self, run: str, *, purged: bool) -> dict[str, Any]:
        streams, columns = {}, {}
        for stream, kept, size in (("stdout", b"6 words\n", 9_000), ("stderr", b"slow\n", 5)):
            whole = sha(stream.encode())
            streams[stream] = {"bytes": size, "sha256": whole.hex(), "kept": len(kept), "kept_sha256": sha(kept).hex()}
            columns |= {f"{stream}_bytes": size, f"{stream}_sha256": whole, f"{stream}_kept": len(kept)}
            if not purged:
                self.row(tables.run_output, run_seq=self.runs, stream=stream, kept=kept)
        facts = {"state": "failed", "reason": "exit-code", "exit_code": 3, "status": 200, "duration_ms": 1234}
        end, leaf = self.append("run.finished", "bitong", run=run, **facts, **streams)
        return columns | facts | {"end_index": end, "end_leaf": leaf, "ended_at": TIME}

    def refused(self, run: str) -> None:
        """A refused run."""
        self.runs += 1
        problems = json.dumps([{"code": "too-long", "zh": "太长", "en": "too long"}], ensure_ascii=False)
        facts = {
            "run": run,
            "tool": "text-stats",
            "code": "bad-parameters",
            "problems_digest": sha(problems.encode()).hex(),
        }
        end, leaf = self.append("run.refused", "token:t1", **facts)
        self.row(
            tables.runs,
            seq=self.runs,
            id=run,
            state="refused",
            reason="bad-parameters",
            tool="text-stats",
            method="shell:argv",
            version_id=2,
            version=2,
            commit_id=bytes.fromhex(LATER),
            actor="token:t1",
            created_at=TIME,
            ended_at=TIME,
            duration_ms=0,
            problems=problems,
            params_digest=sha(b""),
            stdout_bytes=0,
            stdout_kept=0,
            stderr_bytes=0,
            stderr_kept=0,
            end_index=end,
            end_leaf=leaf,
        )

    def queued(self, run: str) -> None:
        """A run that waits: a row, and no entry yet."""
        self.runs += 1
        self.row(
            tables.runs,
            seq=self.runs,
            id=run,
            state="queued",
            tool="text-stats",
            method="shell:argv",
            version_id=2,
            version=2,
            commit_id=bytes.fromhex(LATER),
            actor="token:t1",
            created_at=TIME,
            duration_ms=0,
            params_digest=sha(b""),
            stdout_bytes=0,
            stdout_kept=0,
            stderr_bytes=0,
            stderr_kept=0,
        )

    def token(self, token: str, scopes: list[str], tools: list[str] | None, *, revoked: bool = False) -> None:
        """An issued token and its row."""
        expires = "2027-01-01T00:00:00.000Z"
        named = {"token": token, "name": f"name-{token}", "hash": sha(token.encode()).hex()}
        self.append("token.issued", "operator", **named, scopes=scopes, tools=tools, expires=expires)
        if revoked:
            self.append("token.revoked", "operator", token=token)
        self.row(
            tables.tokens,
            id=token,
            name=f"name-{token}",
            hash=sha(token.encode()),
            scopes=json.dumps(scopes),
            tools=None if tools is None else json.dumps(tools),
            created_at=TIME,
            created_by="operator",
            expires_at=expires,
            revoked_at=TIME if revoked else None,
        )

    def rejected(self, tool: str) -> None:
        """A definition that could not be registered, and its row."""
        problems = [
            {"code": "no-author", "zh": "缺作者", "en": "no author", "line": 3, "column": None, "field": "author"}
        ]
        facts = {
            "tool": tool,
            "version": None,
            "commit": GONE,
            "tree": "aa" * 20,
            "blob": "bb" * 20,
            "sha256": "cc" * 32,
        }
        self.append("definition.rejected", "bitong", **facts, author="Zhu", pusher="zhu", problems=problems)
        self.row(
            tables.rejections,
            folder=tool.encode(),
            commit_id=bytes.fromhex(GONE),
            kind="definition",
            path=f"tools/{tool}",
            tool=tool,
            pusher="zhu",
            at=TIME,
            problems=json.dumps(problems),
            current=True,
        )

    def confirmation(
        self,
        number: int,
        answer: str | None,
        *,
        answerer: str | None = None,
        waits: bool = True,
        said: dict[str, Any] | None = None,
    ) -> None:
        """A question of `token:t1` about text-stats 2, answered or not, with its run's row where that waits."""
        key, run = f"c-{number}", f"r-asked-{number}"
        digest = sha(key.encode())
        facts = {"confirmation": key, "run": run, "tool": "text-stats", "version": 2, "params_digest": digest.hex()}
        facts["asker"] = "token:t1"
        asked, _ = self.append("confirmation.requested", "token:t1", **facts, answerer=None, self=None)
        answered = None
        if answer is not None:
            by = answerer or "bitong"
            itself = None if answerer is None else answerer == "token:t1"
            answered, _ = self.append(
                *(f"confirmation.{answer}", by), **facts | {"answerer": answerer, "self": itself} | (said or {})
            )
        if waits:
            self.queued(run)
        self.row(
            tables.confirmations,
            id=key,
            state=answer or "waiting",
            run=run,
            tool="text-stats",
            version_id=2,
            version=2,
            commit_id=bytes.fromhex(LATER),
            sha256=sha(DEFINITION),
            params_digest=digest,
            params=b"{}" if answer is None else None,
            preview="{}",
            actor="token:t1",
            asked_at=TIME,
            expires_at=TIME,
            answered_by=answerer,
            answered_at=None if answer is None else TIME,
            ask_index=asked,
            answer_index=answered,
        )

    def key(self, seed: bytes, *, previous: "Signer | None" = None) -> "Signer":
        """A signing key that the log names."""
        signer = Signer(seed)
        if previous is None:
            self.append("key.created", "bitong", key=signer.vkey)
        else:
            self.append("key.rotated", "bitong", key=signer.vkey, previous=previous.vkey)
        return signer

    def checkpoint(self, *signers: "Signer") -> bytes:
        """A checkpoint of all there is, with its row; the note."""
        root = mth(self.leaves)
        note = note_of(len(self.leaves), root, *signers)
        self.row(tables.checkpoints, size=len(self.leaves), root=root, at=TIME, note=note)
        return note

    def close(self) -> None:
        """Write the tiles of every whole subtree, and let go of the file."""
        level, nodes = 1, self.leaves
        while nodes := [mth(nodes[at : at + 256]) for at in range(0, len(nodes) - 255, 256)]:
            for index, node in enumerate(nodes):
                self.row(tables.log_tiles, level=level, idx=index, hash=node)
            level += 1
        self._connection.commit()
        self._connection.close()
        self._engine.dispose()


def example(path: Path, runs: int = 0) -> Builder:
    """A log that holds something of each kind; with 150 `runs` more it has a tile."""
    log = Builder(path)
    log.append("service.started", "bitong", version="0.1.0", sandbox="bubblewrap", digests={"forgejo": "ab" * 32})
    log.version("text-stats", 1, COMMIT, "superseded")
    log.version("text-stats", 2, LATER, extra=b"#!/bin/sh\n")
    log.version("lost-tool", 1, GONE, "orphaned", extra=b"#!/bin/bash\n")
    lost = {name: value for name, value in log.versions["lost-tool", 1].items() if name != "row"}
    log.append("definition.orphaned", "bitong", **lost, author="Zhu", pusher=None)
    log.rejected("broken-tool")
    log.token("t1", ["read", "exec"], ["text-*"])
    log.token("t2", ["admin"], None, revoked=True)
    log.run("r-ended")
    log.refused("r-refused")
    log.run("r-purged", purged=True)
    log.run("r-open", ended=False)
    log.queued("r-queued")
    for number in range(runs):
        log.run(f"r-{number:04}")
    return log


def signed_example(path: Path, runs: int = 150) -> tuple[Builder, list[Signer], list[bytes]]:
    """The example with confirmations, an idempotency key, two signing keys and four checkpoints on the way."""
    log = example(path, runs)
    old = log.key(b"k" * 32)
    notes = [log.checkpoint(old)]
    log.confirmation(1, None)
    log.confirmation(2, "approved", answerer="token:t2", waits=False)
    log.run("r-asked-2")
    log.confirmation(3, "rejected", answerer="token:t1")
    log.confirmation(4, "expired")
    notes.append(log.checkpoint(old))
    new = log.key(b"n" * 32, previous=old)
    notes.append(log.checkpoint(old, new))
    log.append("session.closed", "person:1")
    notes.append(log.checkpoint(new))
    log.row(
        tables.idempotency_keys,
        actor="token:t1",
        key_hash=sha(b"key"),
        call_digest=sha(b"call"),
        run="r-ended",
        ends_at=TIME,
    )
    return log, [old, new], notes


def change(path: Path, *statements) -> None:
    """Run statements on the copy; each is SQL, or a pair of SQL and its values."""
    db = sqlite.connect(path)
    for statement in statements:
        sql, values = (statement, ()) if isinstance(statement, str) else statement
        db.execute(sql, values)
    db.commit()
    db.close()


def read(path: Path, sql: str):
    db = sqlite.connect(path)
    row = db.execute(sql).fetchone()
    db.close()
    return row[0]


def bench(entries: int) -> None:
    """Print how many entries a second are verified, of a log that is runs for the most part."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bitong.db"
        begun = time.perf_counter()
        example(path, runs=entries // 2).close()
        print(f"built in {time.perf_counter() - begun:.1f} s")
        report = verify_database(path)
        rate = report.size / report.seconds
        print(f"{report.size} entries in {report.seconds:.2f} s: {rate:,.0f}/s, {len(report.findings)} findings")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", type=int, default=100_000, metavar="N")
    bench(parser.parse_args().bench)
