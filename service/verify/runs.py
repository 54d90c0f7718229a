"""The runs: each refused alone, or started and ended once; their rows, parameters and output as the entries say."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pysqlite3.dbapi2 as sqlite

from service.verify.database import FIND_NUMBER, FIND_PURGE, FIND_RUN, RUN
from service.verify.definitions import Version
from service.verify.findings import Findings, OneOf
from service.verify.forms import Entry, hash_of, identity, number, unhex
from service.verify.tree import sha256

STREAM: Final = {"bytes", "sha256", "kept", "kept_sha256"}
WAITING: Final = ("queued", "awaiting_confirmation")  # a run of which nothing has been logged yet


class Runs:
    """What the entries said of runs, held against the rows. In memory: the runs that are open."""

    def __init__(self, db: sqlite.Connection, findings: Findings, versions: Mapping[tuple[str, int], Version]) -> None:
        self.db = db
        self.findings = findings
        self.versions = versions
        self.open: dict[str, tuple[int, dict[str, Any]]] = {}  # where started, and what its row must say
        self.rows = 0
        self.readers = {
            "run.started": self._started,
            "run.finished": self._finished,
            "run.refused": self._refused,
        }

    def _started(self, entry: Entry) -> None:
        facts = entry.facts
        version = self.versions.get((facts["tool"], facts["version"]))
        ran = identity(facts)
        known = version.registered if version is not None else None
        method = version.method if version is not None else None
        if known != ran or (method or "").partition(":")[0] != facts["executor"]:
            where = f"version {facts['version']} of {facts['tool']} in run {facts['run']}"
            self.findings.find(
                entry.index, "version-differs", where, _said(facts["executor"], ran), _said(method, known)
            )
        wanted = {
            "state": "started",
            "reason": None,
            "tool": facts["tool"],
            "method": method,
            "version": facts["version"],
            "version_id": version.row if version is not None else None,
            "commit_id": ran[0],
            "actor": entry.actor,
            "node": facts["node"],
            "match_id": facts["match"],
            "confirmation_id": facts["confirmation"],
            "params_digest": unhex(facts["params_digest"]),
            "key_hash": unhex(facts["key_hash"]),
            "start_index": entry.index,
            "started_at": entry.at,
            "end_index": None,
            "end_leaf": None,
            "ended_at": None,
            "exit_code": None,
            "status": None,
        }
        self.open[facts["run"]] = (entry.index, wanted)

    def _finished(self, entry: Entry) -> None:
        facts = entry.facts
        _, wanted = self.open.pop(facts["run"], (None, None))
        if wanted is None:
            where = f"run {facts['run']}"
            self.findings.find(entry.index, "run-ends-unstarted", where, entry.type, "one run.started before")
            return
        streams = {name: facts[name] for name in ("stdout", "stderr")}
        for name, said in streams.items():
            if said.keys() != STREAM:
                raise ValueError(name)
            wanted[f"{name}_bytes"], wanted[f"{name}_kept"] = number(said["bytes"]), number(said["kept"])
            wanted[f"{name}_sha256"] = unhex(said["sha256"])
        wanted |= {"state": facts["state"], "reason": facts["reason"], "exit_code": number(facts["exit_code"])}
        wanted |= {"status": number(facts["status"]), "duration_ms": number(facts["duration_ms"])}
        wanted |= {"end_index": entry.index, "end_leaf": entry.leaf, "ended_at": entry.at}
        self._row(entry.index, facts["run"], wanted, streams)

    def _refused(self, entry: Entry) -> None:
        facts = entry.facts
        wanted: dict[str, object] = {"state": "refused", "reason": facts["code"], "tool": facts["tool"]}
        wanted |= {"actor": entry.actor, "exit_code": None, "status": None, "start_index": None, "started_at": None}
        wanted |= {"end_index": entry.index, "end_leaf": entry.leaf, "ended_at": OneOf(None, entry.at)}
        for name in ("stdout", "stderr"):  # nothing ran
            wanted |= {f"{name}_bytes": 0, f"{name}_kept": 0, f"{name}_sha256": OneOf(None, sha256(b""))}
        row = self._row(entry.index, facts["run"], wanted, {})
        if row is not None:
            self._of_version(entry.index, facts["run"], facts["tool"], row)
        problems = bytes.fromhex(facts["problems_digest"])
        if row is None or (row["problems"] is None and self._purged(facts["run"])):
            return
        if hash_of(row["problems"]) != problems:
            where = f"runs.problems of {facts['run']}"
            self.findings.find(entry.index, "bytes-differ", where, hash_of(row["problems"]), problems)

    def _of_version(self, index: int, run: str, tool: str, row: dict[str, Any]) -> None:
        """What a refused run was refused for is a version there is; its entry names the tool alone."""
        of, *found = self.db.execute(FIND_NUMBER, (row["version_id"],)).fetchone() or (None, None, None)
        self.findings.compare(index, "runs", run, row, dict(zip(("version", "commit_id"), found, strict=True)))
        if of != tool:
            self.findings.find(index, "column-differs", f"runs.version_id of {run}", of, tool)

    def _row(
        self, index: int, run: str, wanted: dict[str, Any], streams: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Any] | None:
        found = self.db.execute(FIND_RUN, (run,)).fetchone()
        if found is None:
            self.findings.find(index, "row-missing", f"runs.id of {run}", None, run)
            return None
        self.rows += 1
        salt, masked, out, err, *values = found
        row = dict(zip(RUN, values, strict=True))
        self.findings.compare(index, "runs", run, row, wanted)
        self._parameters(index, run, row["params_digest"], salt, masked, refused=wanted["state"] == "refused")
        for stream, kept in (("stdout", out), ("stderr", err)):
            if kept is not None or stream in streams:
                self._output(index, run, stream, streams.get(stream), kept)
        return row

    def _parameters(self, index: int, run: str, digest: object, salt: object, masked: object, *, refused: bool) -> None:
        where = f"run_parameters of {run}"
        if salt is None and masked is None:
            if not refused and not self._purged(run):
                self.findings.find(index, "row-missing", where, None, digest)
            return
        bound = sha256(salt + masked) if isinstance(salt, bytes) and isinstance(masked, bytes) else None
        if bound != digest:
            self.findings.find(index, "bytes-differ", where, bound, digest)

    def _output(self, index: int, run: str, stream: str, said: Mapping[str, Any] | None, kept: object) -> None:
        where = f"run_output.kept of {run} {stream}"
        size = said["kept"] if said is not None else 0
        if kept is None:
            if size and not self._purged(run):
                self.findings.find(index, "row-missing", where, None, f"{size} bytes")
        elif not isinstance(kept, bytes) or len(kept) != size:
            found = f"{len(kept)} bytes" if isinstance(kept, bytes) else "no bytes"
            self.findings.find(index, "bytes-differ", where, found, f"{size} bytes")
        elif said is not None and (size or said["kept_sha256"]) and sha256(kept) != unhex(said["kept_sha256"]):
            self.findings.find(index, "bytes-differ", where, sha256(kept), said["kept_sha256"])

    def _purged(self, run: str) -> bool:
        """Whether an `output.purged` entry names the run; its columns are compared with its leaf like all others."""
        return self.db.execute(FIND_PURGE, (run,)).fetchone() is not None

    def check(self) -> None:
        """What only the whole log can say: runs begun twice, those still open, rows that no entry tells of."""
        sql = """SELECT run, idx FROM (SELECT run, idx, row_number() OVER (PARTITION BY run ORDER BY idx) AS nth
                 FROM log_entries NOT INDEXED WHERE type IN ('run.started', 'run.refused')) WHERE nth = 2 LIMIT 100"""
        for run, index in self.db.execute(sql):
            self.findings.find(index, "run-begins-twice", f"run {run}", "a second beginning", "one")
        sql_end = "SELECT end_index FROM runs WHERE id = ? AND end_index NOT IN (SELECT idx FROM log_entries)"
        for run, (index, wanted) in self.open.items():
            end = self.db.execute(sql_end, (run,)).fetchone()  # of an end that is missing, it shows there
            self._row(end[0] if end and isinstance(end[0], int) else index, run, wanted, {})
        (rows,) = self.db.execute("SELECT count(*) FROM runs NOT INDEXED").fetchone()
        if rows != self.rows:
            self._unlogged()
        sql = """SELECT 'run_parameters', run_seq FROM run_parameters WHERE run_seq NOT IN (SELECT seq FROM runs)
                 UNION ALL SELECT 'run_output', run_seq FROM run_output
                 WHERE run_seq NOT IN (SELECT seq FROM runs) OR stream NOT IN ('stdout', 'stderr') LIMIT 100"""
        for table, sequence in self.db.execute(sql):
            self.findings.find(None, "row-unlogged", f"{table}.run_seq of {sequence}", sequence, "a run's stream")

    def _unlogged(self) -> None:
        sql = """SELECT id, state, start_index, end_index FROM runs r WHERE NOT EXISTS
                 (SELECT 1 FROM log_entries l WHERE l.run = r.id AND l.type IN ('run.started', 'run.refused'))"""
        for run, state, start, end in self.db.execute(sql):
            if state not in WAITING or start is not None or end is not None:
                self.findings.find(None, "row-unlogged", f"runs.id of {run}", state, "run.started or run.refused")


def _said(executor: str | None, identity: Iterable[bytes] | None) -> str | None:
    return None if identity is None else "/".join([str(executor), *(one.hex() for one in identity)])
