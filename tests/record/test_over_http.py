"""Checkpoints and proofs as callers get them, checked by what shares no code with the service."""

import base64
import json
from pathlib import Path

import httpx
import pytest

from service.domain.actors import OPERATOR
from service.verify import notes, verify_proof
from service.verify.proofs import extends, includes
from service.web.server import API
from tests.harness.definitions import shell_exec_text, tool_text
from tests.harness.service import bitong, environment, eventually
from tests.web.desk import Desk
from tests.web.openapi import Described


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    desk = Desk(tmp_path_factory.mktemp("desk"))
    desk.commit(shell_exec=shell_exec_text(), asks=tool_text("asks", constraints={"require_confirm": True}))
    desk.start()
    yield desk
    desk.close()


@pytest.fixture(scope="module")
def somebody(desk) -> httpx.Client:
    return desk.client("read", "exec", "confirm", "admin")


@pytest.fixture(scope="module")
def vkey(desk) -> str:
    return str(desk.bitong.checkpoints.keys[-1])


def run(client: httpx.Client, cmd: str = "echo hello", tool: str = "shell-exec") -> dict:
    answer = client.post(f"{API}/exec", json={"tool": tool, "params": {"cmd": cmd}})
    assert answer.status_code == 200, answer.text
    return answer.json()


def newest(client: httpx.Client) -> notes.Note:
    answer = client.get(f"{API}/audit/checkpoint")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    return notes.read_note(answer.content)


def test_the_checkpoint_is_signed_and_covers_what_was_there(somebody, vkey):
    receipt = run(somebody)["receipt"]

    note = newest(somebody)

    assert note.size > receipt["index"]
    assert notes.is_signed(note, [notes.read_key(vkey)])
    assert vkey.startswith(note.origin + "+")


def test_a_receipts_entry_is_in_the_signed_tree(somebody):
    """contract/http-api.md: where the receipt had none yet, the proof has it within seconds."""
    receipt = run(somebody)["receipt"]

    proof = somebody.get(f"{API}/audit/proof/{receipt['index']}").json()

    assert set(proof) == {"index", "size", "leaf", "path"}
    assert proof["leaf"] == receipt["leaf"]
    note = newest(somebody)
    proof = somebody.get(f"{API}/audit/proof/{receipt['index']}", params={"size": note.size}).json()
    path = [bytes.fromhex(node) for node in proof["path"]]
    assert includes(receipt["index"], note.size, bytes.fromhex(receipt["leaf"]), path, note.root)


def test_a_receipt_carries_the_checkpoint_once_there_is_one(somebody):
    """Null at first, and later the newest note that covers it, in the run's own receipt."""
    told = run(somebody)
    newest(somebody)

    kept = somebody.get(f"{API}/runs/{told['run']['id']}").json()["receipt"]

    assert notes.read_note(kept["checkpoint"].encode()).size > kept["index"] == told["receipt"]["index"]


def test_who_keeps_the_last_checkpoint_is_a_witness(somebody):
    """Each newer one extends the one before."""
    kept = newest(somebody)
    for _ in range(3):
        run(somebody)
        note = newest(somebody)
        assert note.size > kept.size
        proof = somebody.get(f"{API}/audit/consistency", params={"from": kept.size, "to": note.size}).json()
        path = [bytes.fromhex(node) for node in proof["path"]]
        assert (proof["from"], proof["to"]) == (kept.size, note.size)
        assert extends(kept.size, note.size, kept.root, note.root, path)
        kept = note


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/audit/proof/999999999", 404, "unknown-entry"),
        ("/audit/proof/-1", 404, "unknown-entry"),
        ("/audit/proof/x", 404, "unknown-entry"),
        ("/audit/proof/3?size=3", 422, "bad-parameters"),
        ("/audit/proof/3?size=99999999", 422, "bad-parameters"),
        ("/audit/proof/3?size=x", 422, "bad-parameters"),
        ("/audit/proof/3?sise=4", 422, "bad-parameters"),
        ("/audit/consistency?from=5&to=4", 422, "bad-parameters"),
        ("/audit/consistency?from=0&to=99999999", 422, "bad-parameters"),
        ("/audit/consistency?from=-1&to=4", 422, "bad-parameters"),
        ("/runs/none/proof", 404, "unknown-run"),
    ],
)
def test_what_cannot_be_proved_is_said(somebody, path, status, code):
    answer = somebody.get(API + path)

    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize("cmd", ["echo hello", "exit 3"])
def test_a_runs_proof_holds_for_a_stranger(somebody, vkey, cmd):
    """From the file and the key alone: what ran, by whom, and what came back."""
    told = run(somebody, cmd)

    answer = somebody.get(f"{API}/runs/{told['run']['id']}/proof")

    proved = verify_proof(answer.content, [vkey])
    assert proved["run"] == told["run"]["id"]
    started, finished = proved["entries"]
    assert finished["facts"]["stdout"]["sha256"] == told["run"]["output_sha256"]
    definition = {name: told["definition"][name] for name in ("version", "commit", "tree", "blob", "sha256")}
    assert answer.json()["definition"] == {"tool": "shell-exec", **definition}
    assert started["facts"]["sha256"] == definition["sha256"]


def test_a_refused_and_a_confirmed_run_are_proved_with_all_that_names_them(somebody, vkey):
    refused = somebody.post(f"{API}/exec", json={"tool": "shell-exec", "params": {}}).json()["run"]["id"]
    asked = somebody.post(f"{API}/exec", json={"tool": "asks", "params": {}}).json()["confirmation"]["id"]
    approved = somebody.post(f"{API}/confirmations/{asked}", json={"decision": "approve"}).json()["run"]["id"]

    kinds = {}
    for one in (refused, approved):
        proved = verify_proof(somebody.get(f"{API}/runs/{one}/proof").content, [vkey])
        kinds[one] = [entry["type"] for entry in proved["entries"]]

    assert kinds[refused] == ["run.refused"]
    assert kinds[approved] == ["confirmation.requested", "confirmation.approved", "run.started", "run.finished"]


def test_a_run_that_waits_has_no_proof_yet(somebody):
    answer = somebody.post(f"{API}/exec", json={"tool": "asks", "params": {}}).json()
    waiting = answer["run"]["id"] if "run" in answer else None
    if waiting is None:
        items = somebody.get(f"{API}/runs", params={"state": "awaiting_confirmation"}).json()["items"]
        waiting = items[0]["id"]

    proof = somebody.get(f"{API}/runs/{waiting}/proof")

    assert (proof.status_code, proof.json()["code"]) == (409, "run-open")


def test_what_a_token_does_not_see_has_no_proof_for_it(desk, somebody):
    """R13: the same answer as for what is not there."""
    told = run(somebody)
    _, text = desk.bitong.authority.issue("narrow", ["read", "exec"], ["asks"], None, OPERATOR)
    headers = {"Authorization": f"Bearer {text}"}
    index = told["receipt"]["index"]

    for path, absent in (
        (f"/audit/proof/{index}", "/audit/proof/99999999"),
        (f"/runs/{told['run']['id']}/proof", "/runs/none/proof"),
    ):
        hidden, unknown = (httpx.get(desk.url + API + one, headers=headers) for one in (path, absent))
        assert (hidden.status_code, hidden.content) == (unknown.status_code, unknown.content)
    assert httpx.post(f"{desk.url}{API}/audit/verify", headers=headers).status_code == 403


def test_the_database_in_use_verifies(somebody):
    """With the runs that are open, and the checkpoints so far."""
    run(somebody)
    newest(somebody)

    report = somebody.post(f"{API}/audit/verify").json()

    assert report["findings"] == []
    assert report["ok"]
    assert report["checkpoints"] >= 1
    assert report["size"] >= 10


def test_without_the_key_runs_go_on_and_readyz_says_why(desk, somebody):
    """R12."""
    file = Path(desk.bitong.folder.path) / "log.key"
    kept = file.read_bytes()
    before = newest(somebody)
    file.unlink()
    try:
        told = run(somebody)
        index = told["receipt"]["index"]
        proof = somebody.get(f"{API}/audit/proof/{index}")
        assert (proof.status_code, proof.json()["code"]) == (503, "not-available")
        assert told["receipt"]["checkpoint"] is None
        ready = somebody.get("/readyz")
        assert (ready.status_code, ready.json()["parts"]["checkpoints"]) == (200, {"state": "key-missing"})
        assert newest(somebody) == before
        path = somebody.get(f"{API}/audit/proof/{index}", params={"size": index + 1})
        assert path.status_code == 200
    finally:
        file.write_bytes(kept)
    eventually(lambda: somebody.get("/readyz").json()["parts"]["checkpoints"] == {"state": "ok"})
    assert newest(somebody).size > before.size


# On the command line.


@pytest.fixture
def command(desk, somebody, tmp_path):
    """A client command, as one who may read; its exit code and what it printed."""
    token = somebody.headers["Authorization"].removeprefix("Bearer ")
    env = environment({}, BITONG_URL=desk.url, BITONG_TOKEN=token)

    def call(*arguments: str) -> tuple[int, str]:
        done = bitong(*arguments, env=env, cwd=tmp_path)
        return done.returncode, done.stdout

    return call


def test_the_key_the_checkpoint_and_a_proof_on_the_command_line_verify_the_log(desk, somebody, command, tmp_path, vkey):
    """What an auditor does: keep key and checkpoint, and hold the database and a proof against them."""
    told = run(somebody)
    key = command("audit", "key")
    checkpoint = command("audit", "checkpoint")
    proof = command("audit", "prove", told["run"]["id"])
    (tmp_path / "kept").write_text(checkpoint[1])
    (tmp_path / "proof").write_text(proof[1])
    database = str(desk.bitong.database.path)

    assert key == (0, f"{vkey}\n")
    assert checkpoint[0] == proof[0] == 0
    code, said = command("audit", "verify", "--proof", str(tmp_path / "proof"), "--key", vkey, "--json")
    assert (code, json.loads(said)["run"]) == (0, told["run"]["id"])
    arguments = ("--database", database, "--key", vkey, "--checkpoint", str(tmp_path / "kept"))
    code, said = command("audit", "verify", *arguments, "--clone", str(desk.repository), "--json")
    report = json.loads(said)
    assert (code, report["ok"]) == (0, True), report
    assert any("held against the clone" in note["en"] for note in report["notes"])


def test_a_forged_proof_is_exit_1_with_a_sentence(somebody, command, tmp_path, vkey):
    told = run(somebody)
    shape = json.loads(command("audit", "prove", told["run"]["id"])[1])
    content = bytearray(base64.b64decode(shape["entries"][-1]["entry_b64"]))
    content[content.index(b'"exit_code":0') + 12] ^= 1
    shape["entries"][-1]["entry_b64"] = base64.b64encode(content).decode()
    (tmp_path / "proof").write_text(json.dumps(shape))

    code, said = command("audit", "verify", "--proof", str(tmp_path / "proof"), "--key", vkey, "--json")

    assert code == 1
    assert json.loads(said)["ok"] is False


def test_every_answer_is_as_the_document_says(somebody):
    """OpenAPI: the proofs, the note, the report."""
    api = Described(somebody.get(f"{API}/openapi.json").json())
    told = run(somebody)
    index = told["receipt"]["index"]
    asked = [
        ("GET", "/audit/checkpoint", ""),
        ("GET", "/audit/proof/{index}", f"/audit/proof/{index}"),
        ("GET", "/audit/proof/{index}", "/audit/proof/99999999"),
        ("GET", "/audit/consistency", "/audit/consistency?from=1&to=3"),
        ("GET", "/audit/consistency", ""),
        ("GET", "/audit/consistency", "/audit/consistency?from=x"),
        ("GET", "/runs/{id}/proof", f"/runs/{told['run']['id']}/proof"),
        ("POST", "/audit/verify", ""),
    ]

    wrong = {
        path: api.wrong(verb, API + route, somebody.request(verb, API + (path or route))) for verb, route, path in asked
    }

    assert {path: said for path, said in wrong.items() if said} == {}
