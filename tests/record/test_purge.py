"""What purging leaves and what it takes (contract/audit.md, Parameters; contract/cli.md, keep_output_days)."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy.exc import IntegrityError

from service.domain.times import later, now
from service.store.purging import MARK, Wanted, step
from service.store.retention import Retention
from service.verify import verify_database
from service.web.server import API
from tests.git_http import git
from tests.harness.definitions import shell_exec_text
from tests.harness.service import BitongService
from tests.web.desk import Desk

WORD = "kaleidoscope-7731"
PURGE = f"{API}/audit/purge-output"


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    desk = Desk(tmp_path_factory.mktemp("desk"))
    asks = shell_exec_text("asks", constraints={"require_confirm": True})
    desk.commit(shell_exec=shell_exec_text(), other=shell_exec_text("other"), asks=asks)
    desk.start()
    yield desk
    desk.close()


@pytest.fixture(scope="module")
def somebody(desk) -> httpx.Client:
    return desk.client("read", "exec", "confirm", "admin")


@pytest.fixture(autouse=True)
def nothing_is_left(somebody):
    """Each test begins with all purged that others ran."""
    purge(somebody, older_than=later(now(), 60))


def run(client: httpx.Client, cmd: str, tool: str = "shell-exec") -> str:
    answer = client.post(f"{API}/exec", json={"tool": tool, "params": {"cmd": cmd}})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["run"]["id"])


def purge(client: httpx.Client, **wanted: object) -> dict:
    answer = client.post(PURGE, json=wanted)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def files_with(folder: Path, word: bytes) -> list[str]:
    return [file.name for file in folder.rglob("*") if file.is_file() and word in file.read_bytes()]


def assert_verifies(desk: Desk) -> None:
    assert verify_database(desk.bitong.database.path).findings == ()


def test_the_word_is_in_no_byte_after_a_purge_and_every_proof_stays(desk, somebody):
    """S12: parameters, both streams, the error in the row, the confirmation's preview; small and large outputs."""
    run(somebody, f"echo {WORD}; echo {WORD} >&2; exit 3")
    run(somebody, f"yes {WORD} | head -c 60000")
    for _ in range(40):
        run(somebody, f"echo {WORD} {'x' * 1500}")
    asked = somebody.post(f"{API}/exec", json={"tool": "asks", "params": {"cmd": f"echo {WORD}"}}).json()
    somebody.post(f"{API}/confirmations/{asked['confirmation']['id']}", json={"decision": "approve"})
    folder = Path(desk.bitong.folder.path)
    assert files_with(folder, WORD.encode())

    done = purge(somebody, older_than=later(now(), 60))

    assert (done["runs"], done["next"], done["folded"]) == (43, None, True)
    assert done["bytes"] > 100_000
    assert files_with(folder, WORD.encode()) == []
    assert_verifies(desk)


def test_a_purged_run_says_so_and_keeps_its_receipt(desk, somebody):
    """Sizes and hashes stay; one entry names the run, its bytes, who purged it and why."""
    run_id = run(somebody, f"echo {WORD}; echo oh >&2; exit 3")
    before = somebody.get(f"{API}/runs/{run_id}").json()

    purge(somebody, run=run_id)

    after = somebody.get(f"{API}/runs/{run_id}").json()
    same = ("id", "state", "exit_code", "output_bytes", "output_sha256", "stderr_sha256", "params_digest")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert after["receipt"]["leaf"] == before["receipt"]["leaf"]
    assert (after["params"], after["output"], after["stderr"]) == (None, "", "")
    assert after["notes"][-1] == MARK.as_json()
    (entry,) = somebody.get(f"{API}/audit", params={"type": "output.purged", "run": run_id}).json()["items"]
    assert entry["facts"]["run"] == run_id
    assert entry["facts"]["why"] == "purge-output"
    assert entry["actor"].startswith("token:")
    assert_verifies(desk)


def test_only_what_was_asked_for_goes(desk, somebody):
    small, large = run(somebody, "echo small"), run(somebody, "yes | head -c 5000")
    other = run(somebody, "yes | head -c 5000", tool="other")

    counted = purge(somebody, larger_than=1000, tool="shell-exec", dry_run=True)
    purge(somebody, larger_than=1000, tool="shell-exec")

    assert (counted["runs"], counted["folded"]) == (1, None)
    outputs = {one: somebody.get(f"{API}/runs/{one}").json()["output"] for one in (small, large, other)}
    assert (outputs[small], outputs[large], len(outputs[other])) == ("small\n", "", 5000)
    assert_verifies(desk)


def test_what_a_refusal_quoted_of_a_value_goes_too(desk, somebody):
    """S12: problems quote the beginning of a value that does not fit."""
    refused = somebody.post(f"{API}/exec", json={"tool": "shell-exec", "params": {"cmd": 1, "cwd": [WORD], WORD: 1}})
    assert refused.status_code == 422
    folder = Path(desk.bitong.folder.path)
    assert files_with(folder, WORD.encode())

    purge(somebody, tool="shell-exec")

    assert files_with(folder, WORD.encode()) == []
    assert_verifies(desk)


def test_a_run_is_purged_once(desk, somebody):
    run_id = run(somebody, "echo once")

    assert [purge(somebody, run=run_id)["runs"] for _ in range(2)] == [1, 0]
    assert purge(somebody, tool="shell-exec")["runs"] == 0


def test_a_run_that_goes_on_is_left_alone(desk, somebody):
    asked = somebody.post(f"{API}/exec", json={"tool": "asks", "params": {"cmd": "echo later"}}).json()

    assert purge(somebody, tool="asks")["runs"] == 0

    approved = somebody.post(f"{API}/confirmations/{asked['confirmation']['id']}", json={"decision": "approve"})
    assert approved.json()["output"] == "later\n"
    assert_verifies(desk)


def test_a_token_purges_only_tools_that_exist_for_it(desk, somebody):
    run(somebody, "echo mine", tool="other")
    hidden = run(somebody, "echo hidden")
    limited = desk.client("admin", tools=("oth*",))

    assert purge(limited, older_than=later(now(), 60))["runs"] == 1
    assert purge(limited, run=hidden)["runs"] == 0


@pytest.mark.parametrize(
    "body", [{}, {"dry_run": True}, {"older_than": "soon"}, {"toool": "x"}, {"larger_than": "9"}, []]
)
def test_a_purge_says_what_it_is_of(somebody, body):
    answer = somebody.post(PURGE, json=body)

    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request")


def test_two_purges_at_once_write_one_entry_a_run(desk, somebody):
    made = {run(somebody, f"echo {number}") for number in range(20)}
    threads = [
        threading.Thread(target=step, args=(desk.bitong.database, Wanted()), kwargs={"actor": "a", "why": "b"})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    entries = somebody.get(f"{API}/audit", params={"type": "output.purged", "limit": 1000}).json()["items"]
    named = [entry["facts"]["run"] for entry in entries if entry["facts"]["run"] in made]
    assert sorted(named) == sorted(made)
    assert_verifies(desk)


@contextmanager
def aged(desk: Desk, run_id: str, seconds: float) -> Iterator[None]:
    """For a while as if the run had been made so long ago; the verifier would notice."""
    database = desk.bitong.database
    (row,) = database.fetch("SELECT created_at, ended_at FROM runs WHERE id = :id", {"id": run_id})
    sql = "UPDATE runs SET created_at = :made, ended_at = :ended WHERE id = :id"
    for made, ended in ((later(row[0], -seconds), later(row[1], -seconds)), row):
        moved = {"made": made, "ended": ended, "id": run_id}
        database.write(lambda transaction, moved=moved: transaction.cursor.execute(sql, moved) and None)
        if (made, ended) != tuple(row):
            yield


def test_what_is_older_than_keep_output_days_goes_by_itself(desk, somebody):
    old, young = run(somebody, "echo old"), run(somebody, "echo young")
    retention = Retention(desk.bitong.database, keep_days=90, keep_bytes=10**9, most_bytes=None)

    with aged(desk, old, 91 * 86_400):
        assert [retention.look(), retention.look()] == [1, 0]

    assert [somebody.get(f"{API}/runs/{one}").json()["output"] for one in (old, young)] == ["", "young\n"]
    (entry,) = somebody.get(f"{API}/audit", params={"type": "output.purged", "run": old}).json()["items"]
    assert (entry["actor"], entry["facts"]["why"]) == ("bitong", "keep_output_days")
    assert_verifies(desk)


def test_over_keep_output_bytes_the_oldest_go_until_it_fits(desk, somebody):
    runs = [run(somebody, "yes | head -c 60000") for _ in range(6)]
    retention = Retention(desk.bitong.database, keep_days=90, keep_bytes=150_000, most_bytes=None)

    retention.look()

    kept = [len(somebody.get(f"{API}/runs/{one}").json()["output"]) for one in runs]
    assert kept[-1] == 60_000 or retention.kept <= 150_000
    assert retention.kept <= 150_000
    assert kept == sorted(kept)
    assert_verifies(desk)


def test_over_max_database_bytes_nothing_new_runs_and_all_else_goes_on(desk, somebody):
    """503 with a sentence that names the setting; after a purge, or a higher setting, it runs again."""
    run_id = run(somebody, "echo before")
    full = Retention(desk.bitong.database, keep_days=90, keep_bytes=10**9, most_bytes=1024)
    full.look()

    refused = somebody.post(f"{API}/exec", json={"tool": "shell-exec", "params": {"cmd": "echo no"}})

    assert (refused.status_code, refused.json()["code"]) == (503, "cannot-record")
    assert "max_database_bytes" in refused.json()["message"]["en"]
    assert somebody.get(f"{API}/runs/{run_id}").json()["output"] == "before\n"
    assert purge(somebody, run=run_id)["runs"] == 1
    Retention(desk.bitong.database, keep_days=90, keep_bytes=10**9, most_bytes=10**9).look()
    run(somebody, "echo after")
    assert_verifies(desk)


def test_nobody_purges_without_a_record_of_it(desk, somebody):
    """An append that cannot be made durable means the action does not happen."""
    run_id = run(somebody, "echo stays")
    desk.bitong.database.write(
        lambda t: t.cursor.execute("CREATE TRIGGER no BEFORE DELETE ON run_output BEGIN SELECT RAISE(ABORT, 'x'); END")
    )
    with pytest.raises(IntegrityError):
        step(desk.bitong.database, Wanted(run=run_id), actor="a", why="b")
    desk.bitong.database.write(lambda t: t.cursor.execute("DROP TRIGGER no"))

    assert somebody.get(f"{API}/runs/{run_id}").json()["output"] == "stays\n"
    assert somebody.get(f"{API}/audit", params={"type": "output.purged", "run": run_id}).json()["items"] == []


def test_the_command_purges_through_the_service_and_without_one(tmp_path):
    """Counting first; the word is gone from the data folder; on a stopped service it takes the lock itself."""
    repository = tmp_path / "native-repo"
    (repository / "tools" / "shell-exec").mkdir(parents=True)
    (repository / "tools" / "shell-exec" / "TOOL.hdlp").write_text(shell_exec_text())
    git("init", "--quiet", "--initial-branch=main", at=repository)
    git("add", "--all", at=repository)
    git("commit", "--quiet", "-m", "tool", at=repository)
    service = BitongService(tmp_path / "service", repository_url=str(repository)).start()
    try:
        for _ in range(2):
            service.run("shell-exec", {"cmd": f"echo {WORD}"})
        counted = service.cli("audit", "purge-output", "--older-than", "0d", "--dry-run", "--json")
        done = service.cli("audit", "purge-output", "--older-than", "0d", "--tool", "shell-exec")
        nothing = service.cli("audit", "purge-output")
        assert (json.loads(counted.stdout)["runs"], done.returncode, nothing.returncode) == (2, 0, 2), done.stderr
        assert service.files_with(WORD.encode()) == []
        late = service.run("shell-exec", {"cmd": f"echo {WORD}"})["run"]["id"]
        service.stop()
        direct = service.cli("audit", "purge-output", "--run", late, "--json")
        assert (direct.returncode, json.loads(direct.stdout)["runs"]) == (0, 1), direct.stderr
        assert service.files_with(WORD.encode()) == []
        service.assert_verifies()
    finally:
        service.close()
