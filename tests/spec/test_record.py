"""The record: what each run leaves behind, that it can be counted again from outside, and the lists made of it.

Purging, exports (U10), checkpoints and their proofs, anchors and `/stats` are not built yet.
"""

import base64
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from tests.git_http import git
from tests.harness.definitions import shell_exec_text, tool_text
from tests.harness.forge import NativeRepo
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService

STREAM = {"bytes", "sha256", "kept", "kept_sha256"}
STARTED = {"run", "tool", "version", "commit", "tree", "blob", "sha256", "executor", "node", "params_digest"}
STARTED |= {"match", "confirmation", "key_hash"}
FINISHED = {"run", "state", "reason", "exit_code", "status", "duration_ms", "stdout", "stderr"}
RUN = {"id", "state", "reason", "ok", "tool", "method", "version", "commit", "actor", "started_at", "ended_at"}
RUN |= {"duration_ms", "exit_code", "error", "output_bytes", "stderr_bytes", "match_id", "confirmation_id", "receipt"}


@dataclass
class Kept:
    """A service that ran some things, by two actors."""

    service: BitongService
    repo: NativeRepo
    other: str

    def entries_of(self, run: str) -> list[dict[str, Any]]:
        """The log's items about one run, in the log's order."""
        found = [item for item in self.service.items("/audit") if item["facts"].get("run") == run]
        return sorted(found, key=lambda item: item["index"])


@pytest.fixture(scope="module")
def kept(shared_parts: Parts) -> Kept:
    repo = shared_parts.repo("first", "second", "leaves")
    repo.write_tool("local-exec", text=shell_exec_text("local-exec", executor="shell"))
    repo.write_tool("broken", text=tool_text("broken", without=("why",)))
    repo.commit()
    service = shared_parts.service(repo)
    repo.remove_tool("leaves")
    repo.commit()
    service.push(repo)
    other = service.token("exec", name="other-actor")
    for number in range(3):
        service.run("first")
        service.run("second", token=other)
        service.run("local-exec", {"cmd": f"echo needle-{number} >&2; exit {number}"})
    service.exec("local-exec", {})
    return Kept(service, repo, other)


# The log


def test_a_run_leaves_exactly_two_entries_that_say_what_ran_and_what_came_back(kept: Kept) -> None:
    """`started` before anything happens, `finished` after; each names what a stranger needs to check it."""
    told = kept.service.run("local-exec", {"cmd": "printf 笔; printf err >&2; exit 3"})

    started, finished = kept.entries_of(told["run"]["id"])
    definition = kept.service.tools()["local-exec"]["definition"]
    assert (started["type"], finished["type"]) == ("run.started", "run.finished")
    assert set(started["facts"]) == STARTED
    assert set(finished["facts"]) == FINISHED
    for name in ("version", "commit", "tree", "blob", "sha256"):
        assert started["facts"][name] == definition[name]
    assert started["facts"]["executor"] == "shell"
    facts = finished["facts"]
    assert (facts["state"], facts["reason"], facts["exit_code"]) == ("failed", "exit-code", 3)
    for stream, raw in (("stdout", "笔".encode()), ("stderr", b"err")):
        digest = hashlib.sha256(raw).hexdigest()
        wanted = {"bytes": len(raw), "sha256": digest, "kept": len(raw), "kept_sha256": digest}
        assert facts[stream] == wanted
        assert set(facts[stream]) == STREAM
    assert facts["duration_ms"] == told["duration_ms"]


def test_the_receipt_names_the_entry_that_ended_the_run(kept: Kept) -> None:
    """Index and leaf are in the answer, and the leaf is the hash of the exact bytes that are kept."""
    told = kept.service.run("first")

    entry = kept.service.entry(told["receipt"]["index"])

    assert set(told["receipt"]) == {"index", "leaf", "checkpoint"}
    assert entry["leaf"] == told["receipt"]["leaf"]
    assert (entry["type"], entry["facts"]["run"]) == ("run.finished", told["run"]["id"])


def test_the_log_has_no_gaps_and_every_leaf_can_be_hashed_again(kept: Kept) -> None:
    """From 0 on, each index once; bytes are JSON with sorted keys, without floats, as they were hashed."""
    indexes = sorted(item["index"] for item in kept.service.items("/audit"))

    assert indexes == list(range(len(indexes)))
    for index in indexes:
        entry = kept.service.entry(index)
        json.loads(base64.b64decode(entry["entry_b64"]).decode(), object_pairs_hook=_sorted, parse_float=_no_float)
        assert set(entry) == {"index", "type", "at", "actor", "leaf", "facts", "entry_b64"}


def _sorted(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    assert names == sorted(set(names))
    return dict(pairs)


def _no_float(text: str) -> Any:
    raise AssertionError(f"a float in the log: {text}")


def test_the_log_begins_with_its_opening_and_holds_what_happened_to_definitions(kept: Kept) -> None:
    """Registered, rejected, removed: each an entry that names commit, author and pusher."""
    items = kept.service.items("/audit")

    by_type = {item["type"] for item in items}
    wanted = {"log.opened", "service.started", "definition.registered", "definition.rejected", "definition.removed"}
    assert wanted | {"token.issued", "run.started", "run.finished", "run.refused"} <= by_type
    assert next(item for item in items if item["index"] == 0)["type"] == "log.opened"
    registered = [item["facts"] for item in items if item["type"] == "definition.registered"]
    for facts in registered:
        assert {"tool", "version", "commit", "tree", "blob", "sha256", "author", "pusher"} <= set(facts)
    rejected = [item["facts"] for item in items if item["type"] == "definition.rejected"]
    assert all(facts["problems"] for facts in rejected)
    tokens = [item["facts"] for item in items if item["type"] == "token.issued"]
    assert all({"token", "name", "scopes", "tools", "expires"} <= set(facts) for facts in tokens)


def test_parameters_are_not_in_the_log(kept: Kept) -> None:
    """A commitment stands there: they can be purged later with every proof intact."""
    told = kept.service.run("local-exec", {"cmd": "true needle-in-the-parameters"})

    assert kept.service.get(f"/runs/{told['run']['id']}")["params"] == {"cmd": "true needle-in-the-parameters"}
    for item in kept.entries_of(told["run"]["id"]):
        raw = kept.service.admin.get(f"{API}/audit/entries/{item['index']}")
        assert "needle-in-the-parameters" not in raw.text
        assert b"needle-in-the-parameters" not in base64.b64decode(raw.json()["entry_b64"])


def test_the_log_can_be_read_page_by_page_and_by_type(kept: Kept) -> None:
    """Each item once, whatever the page's size; a filter leaves out all others."""
    whole = kept.service.items("/audit")

    assert kept.service.items("/audit", limit=3) == whole
    finished = kept.service.items("/audit", type="run.finished", limit=2)
    assert finished == [item for item in whole if item["type"] == "run.finished"]
    actor = finished[0]["actor"]
    assert kept.service.items("/audit", actor=actor) == [item for item in whole if item["actor"] == actor]


def test_an_entry_that_is_not_there_is_not_found(kept: Kept) -> None:
    """Neither beyond the end nor before the beginning, nor what is no number."""
    for index in (10**6, 10**30, -1, "x"):
        assert kept.service.admin.get(f"{API}/audit/entries/{index}").status_code in (404, 422)


def test_the_database_verifies_while_the_service_runs_from_a_copy(kept: Kept, tmp_path: Any) -> None:
    """S8: a copy is made by the database's own means; the checker needs nothing but that file."""
    pysqlite3 = pytest.importorskip("pysqlite3")
    copy = tmp_path / "copy.db"
    source = pysqlite3.connect(f"file:{kept.service.data_dir / 'bitong.db'}?mode=ro", uri=True)
    try:
        source.execute("VACUUM INTO ?", (str(copy),))
    finally:
        source.close()

    done = kept.service.cli("audit", "verify", "--database", str(copy))

    assert done.returncode == 0, done.stdout + done.stderr


def test_an_entry_changed_by_one_bit_is_named(parts: Parts) -> None:
    """S5, in one place: the checker's own tests change every column."""
    pysqlite3 = pytest.importorskip("pysqlite3")
    service = parts.service(parts.repo("first"))
    index = service.run("first")["receipt"]["index"]
    raw = bytes.fromhex(service.entry(index)["leaf"])
    service.stop()
    changed = bytes([raw[0] ^ 1]) + raw[1:]
    database = pysqlite3.connect(str(service.data_dir / "bitong.db"))
    for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for column in database.execute(f'PRAGMA table_info("{table}")').fetchall():
            update = f'UPDATE "{table}" SET "{column[1]}" = ? WHERE "{column[1]}" = ?'  # noqa: S608 – names of our own
            for old, new in ((raw, changed), (raw.hex(), changed.hex())):
                try:
                    database.execute(update, (new, old))
                except pysqlite3.Error:
                    continue
    database.commit()
    touched = database.total_changes
    database.close()

    done = service.cli("audit", "verify", "--database", str(service.data_dir / "bitong.db"))

    assert touched
    assert done.returncode == 1
    assert str(index) in done.stdout + done.stderr


# The lists


def test_the_runs_are_listed_newest_first_with_all_their_fields(kept: Kept) -> None:
    """What a person sees first is what happened last."""
    told = kept.service.run("first")

    runs = kept.service.items("/runs")

    first = runs[0]
    assert first["id"] == told["run"]["id"]
    assert all(set(run) == RUN for run in runs)
    assert UUID(first["id"]).version == 7
    assert first["receipt"]["index"] == told["receipt"]["index"]
    assert first["method"] == "shell:run"
    started, ended = (datetime.fromisoformat(first[name]) for name in ("started_at", "ended_at"))
    assert started <= ended
    assert all(first[name].endswith("Z") for name in ("started_at", "ended_at"))


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ({"tool": "second"}, lambda run: run["tool"] == "second"),
        ({"state": "failed"}, lambda run: run["state"] == "failed"),
        ({"state": "refused"}, lambda run: run["state"] == "refused"),
        ({"ok": "true"}, lambda run: run["ok"] is True),
        ({"ok": "false"}, lambda run: run["ok"] is False),
        ({"q": "needle-2"}, lambda run: run["error"] == "needle-2\n"),
        ({"tool": "local-exec", "ok": "true"}, lambda run: run["tool"] == "local-exec" and run["ok"]),
    ],
)
def test_the_runs_can_be_filtered(kept: Kept, query: dict[str, str], holds: Any) -> None:
    """Exactly those that fit, and at least one of them."""
    whole = kept.service.items("/runs")

    found = kept.service.items("/runs", **query)

    assert found == [run for run in whole if holds(run)]
    assert found


def test_the_runs_can_be_filtered_by_who_when_and_which_commit(kept: Kept) -> None:
    """The questions after an accident."""
    whole = kept.service.items("/runs")
    one = next(run for run in whole if run["tool"] == "second")
    middle = whole[len(whole) // 2]["started_at"]

    by_actor = kept.service.items("/runs", actor=one["actor"])
    by_commit = kept.service.items("/runs", commit=one["commit"])
    since = kept.service.items("/runs", since=middle)
    until = kept.service.items("/runs", until=middle)

    assert by_actor == [run for run in whole if run["actor"] == one["actor"]]
    assert by_commit == [run for run in whole if run["commit"] == one["commit"]]
    assert {run["id"] for run in since} | {run["id"] for run in until} == {run["id"] for run in whole}
    assert 0 < len(since) < len(whole)


def test_a_list_can_be_walked_while_it_grows(kept: Kept) -> None:
    """A cursor is a place, not a count: nothing comes twice and nothing is left out."""
    whole = [run["id"] for run in kept.service.items("/runs")]
    page = kept.service.get("/runs", limit=2)
    walked = [run["id"] for run in page["items"]]
    while page["next"]:
        kept.service.run("first")
        page = kept.service.get("/runs", limit=2, cursor=page["next"])
        assert len(page["items"]) <= 2
        walked += [run["id"] for run in page["items"]]

    assert walked == whole


@pytest.mark.parametrize("path", ["/runs", "/audit", "/deliveries", "/rejections", "/tools"])
@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 1001}, {"limit": "x"}, {"cursor": "nonsense"}])
def test_a_limit_or_cursor_that_cannot_be_is_refused(kept: Kept, path: str, query: dict[str, Any]) -> None:
    """1 to 1,000; said, not bent."""
    assert kept.service.admin.get(f"{API}{path}", params=query).status_code in (400, 422)


def test_one_run_says_all_that_is_known_of_it(kept: Kept) -> None:
    """What the list has, and parameters, both streams, the definition that ran."""
    told = kept.service.run("local-exec", {"cmd": "printf out; printf err >&2"})

    run = kept.service.get(f"/runs/{told['run']['id']}")

    assert RUN | {"params", "stderr", "output", "definition", "intent"} <= set(run)
    assert (run["output"], run["stderr"], run["params"]) == ("out", "err", {"cmd": "printf out; printf err >&2"})
    assert run["definition"]["commit"] == told["definition"]["commit"]
    assert (run["output_sha256"], run["truncated"]) == (told["run"]["output_sha256"], told["run"]["truncated"])


def test_the_definition_of_an_old_run_is_still_the_one_that_ran(kept: Kept) -> None:
    """Whatever is pushed later, a receipt shows what ran then."""
    kept.repo.write_tool("changes", display="旧的")
    old = kept.repo.commit()
    kept.service.push(kept.repo)
    run = kept.service.run("changes")["run"]["id"]
    kept.repo.write_tool("changes", display="新的")
    kept.repo.commit()
    kept.service.push(kept.repo)

    told = kept.service.get(f"/runs/{run}")
    source = kept.service.admin.get(f"{API}/tools/changes/versions/1/source")

    assert (told["commit"], told["definition"]["commit"], told["version"]) == (old, old, 1)
    assert source.content == git("show", f"{old}:tools/changes/TOOL.hdlp", at=kept.repo.bare).encode() + b"\n"


def test_the_tools_are_listed_with_all_their_fields(kept: Kept) -> None:
    """What an agent needs to choose and to call, each field always there."""
    tool = kept.service.tools()["local-exec"]

    fields = {"name", "display", "intent", "method", "executor", "params_schema", "constraints", "effect"}
    assert fields | {"deprecated", "author", "why", "definition", "behind", "warnings"} <= set(tool)
    definition = {"version", "commit", "tree", "blob", "sha256", "author", "why", "created", "git_author"}
    assert definition | {"pusher", "registered_at"} <= set(tool["definition"])
    assert (tool["method"], tool["executor"]) == ("exec", "shell")
    assert tool["params_schema"]["cmd"]["type"] == "string"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"q": "Shell命令"}, {"local-exec"}),
        ({"q": "local-ex"}, {"local-exec"}),
        ({"executor": "gatekeeper"}, set()),
        ({"author": "nobody"}, set()),
    ],
)
def test_the_tools_can_be_searched(kept: Kept, query: dict[str, str], names: set[str]) -> None:
    """By words of name, display, intent and why; by executor and author."""
    assert {tool["name"] for tool in kept.service.get("/tools", **query)["items"]} == names


def test_an_unchanged_list_of_tools_is_not_sent_again(kept: Kept) -> None:
    """缓存Agent asks often; after a push the answer is another one."""
    first = kept.service.admin.get(f"{API}/tools")
    tag = {"If-None-Match": first.headers["ETag"]}

    again = kept.service.admin.get(f"{API}/tools", headers=tag)
    kept.repo.write_tool("etag")
    kept.repo.commit()
    kept.service.push(kept.repo)
    after = kept.service.admin.get(f"{API}/tools", headers=tag)

    assert (again.status_code, again.content) == (304, b"")
    assert after.status_code == 200
    assert after.headers["ETag"] != first.headers["ETag"]


def test_a_tools_history_is_listed_with_all_its_fields(kept: Kept) -> None:
    """Who wrote it, who committed it, who pushed it, when it was registered."""
    version = kept.service.versions("first")[0]

    fields = {"version", "state", "commit", "tree", "blob", "sha256", "author", "why", "created"}
    assert fields | {"git_author", "git_committed_at", "pusher", "registered_at"} <= set(version)
    one = kept.service.get("/tools/first/versions/1")
    assert (one["commit"], one["sha256"]) == (version["commit"], version["sha256"])


def test_deliveries_are_listed_with_all_their_fields(kept: Kept) -> None:
    """What the forge sent, and what became of it."""
    row = kept.service.items("/deliveries")[0]

    fields = {"id", "received_at", "event", "ref", "repository", "pusher", "body_sha256", "count", "outcome"}
    assert fields | {"reason", "registered", "removed", "rejected"} <= set(row)
    assert (row["event"], row["ref"], row["pusher"], row["count"]) == ("push", "refs/heads/main", "zhuyuan", 1)
