"""Copies of the database, and putting one back (contract/cli.md, backup and restore; contract/audit.md, Restoring)."""

import json
import shutil
import subprocess

import pysqlite3.dbapi2 as sqlite
import pytest

from service.domain.notes import Checkpoint
from service.errors import Unavailable, UsageError
from service.store import restoring
from service.store.backup import PART, forget_parts, snapshot
from service.store.database import Database
from service.store.folder import DataFolder
from service.verify import verify_database
from service.web.server import API
from tests.harness.definitions import shell_exec_text
from tests.harness.service import ALL_SCOPES, BitongService
from tests.web.desk import Desk


@pytest.fixture
def service(tmp_path):
    service = BitongService(tmp_path)
    yield service
    service.close()


def restore(service: BitongService, *arguments: str) -> subprocess.CompletedProcess[str]:
    return service.cli("restore", *arguments)


def entries(file, kind: str) -> list[dict]:
    connection = sqlite.connect(f"file:{file}?mode=ro", uri=True)
    try:
        rows = connection.execute("SELECT entry FROM log_entries WHERE type = ? ORDER BY idx", (kind,)).fetchall()
    finally:
        connection.close()
    return [json.loads(row[0])["facts"] for row in rows]


def test_a_backup_of_a_running_service_is_whole_private_and_opens_nothing(service, tmp_path):
    """S14, S8: one consistent copy through the service; no token in it, no part left behind, nothing overwritten."""
    service.start()
    token = service.token(*ALL_SCOPES)
    file = tmp_path / "copy.db"

    done = service.cli("backup", str(file), "--json")
    again = service.cli("backup", str(file))

    assert (done.returncode, again.returncode) == (0, 2), done.stderr + again.stderr
    assert json.loads(done.stdout)["bytes"] == file.stat().st_size
    assert "log.key" in done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    assert token.encode() not in file.read_bytes()
    assert verify_database(file).findings == ()
    assert list(service.data_dir.glob(f"{PART}*")) == []


def test_a_backup_is_for_the_operator_of_this_host(service):
    """It holds every run's output, whatever tools a token is limited to."""
    service.start()

    answer = service.admin.get(f"{API}/backup")

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_without_a_service_the_command_copies_by_itself(service, tmp_path):
    service.start()
    service.stop()

    assert service.cli("backup", str(tmp_path / "copy.db")).returncode == 0
    assert verify_database(tmp_path / "copy.db").findings == ()


def test_what_a_crash_left_of_a_backup_goes_at_the_next_start(tmp_path):
    (tmp_path / f"{PART}abc").write_bytes(b"half")

    forget_parts(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_a_backup_that_cannot_be_made_leaves_nothing(tmp_path):
    (tmp_path / "bitong.db").write_bytes(b"no database" * 1000)

    with pytest.raises(Unavailable):
        snapshot(tmp_path / "bitong.db", tmp_path / "copy.db")

    assert [file.name for file in tmp_path.iterdir()] == ["bitong.db"]


def test_after_restoring_an_older_backup_nothing_is_written_until_it_is_acknowledged(service, tmp_path):
    """S16: serve and commands refuse with the command to give; each token is decided on by name; then it goes on."""
    service.start()
    kept, ended = service.token("read", name="kept"), service.token("read", name="ended")
    assert service.cli("backup", str(tmp_path / "copy.db")).returncode == 0
    service.token("read", name="of-another-past")
    service.stop()
    size = verify_database(service.data_dir / "bitong.db").size
    older = verify_database(tmp_path / "copy.db").size

    placed = restore(service, str(tmp_path / "copy.db"), "--verify")

    assert placed.returncode == 0, placed.stderr
    assert f"{older:,}" in placed.stdout
    assert f"{size:,}" in placed.stdout
    refused = [service.cli(*command) for command in (("serve",), ("token", "create", "x", "--scope", "read"))]
    assert [one.returncode != 0 and "bitong restore --acknowledge" in one.stderr for one in refused] == [True, True]
    undecided = restore(service, "--acknowledge")
    assert (undecided.returncode, "kept" in undecided.stderr) == (2, True)
    assert restore(service, "--acknowledge", "--keep", "kept", "--end", "nobody").returncode == 2
    assert verify_database(service.data_dir / "bitong.db").size == older

    acknowledged = restore(service, "--acknowledge", "--keep", "kept", "--end", "ended")

    assert acknowledged.returncode == 0, acknowledged.stderr
    service.start()
    statuses = [service.client(token).get(f"{API}/tools").status_code for token in (kept, ended)]
    assert statuses == [200, 401]
    (facts,) = entries(service.data_dir / "bitong.db", "log.restored")
    assert (facts["size"], facts["known_size"]) == (older, size)
    (aside,) = service.data_dir.glob("before-restore-*/bitong.db")
    assert verify_database(aside).size == size


def test_a_backup_that_lost_nothing_needs_no_acknowledgement(service, tmp_path):
    """Its log is as long as all that is known of it: the disk was lost, not the record."""
    service.start()
    service.stop()
    assert service.cli("backup", str(tmp_path / "copy.db")).returncode == 0

    assert restore(service, str(tmp_path / "copy.db")).returncode == 0

    assert restore(service, "--acknowledge").returncode == 2
    service.start()
    assert entries(service.data_dir / "bitong.db", "log.restored") == []


def test_on_a_new_host_where_nothing_is_known_a_restore_is_acknowledged(service, tmp_path):
    """S16: without a checkpoint and without the old database nobody can tell whether something is missing."""
    service.start()
    service.stop()
    assert service.cli("backup", str(tmp_path / "copy.db")).returncode == 0
    shutil.rmtree(service.data_dir)

    assert restore(service, str(tmp_path / "copy.db")).returncode == 0
    assert service.cli("serve").returncode != 0
    assert restore(service, "--acknowledge").returncode == 0

    service.start()
    (facts,) = entries(service.data_dir / "bitong.db", "log.restored")
    assert facts["known_size"] is None


def test_a_backup_is_not_put_under_a_running_service(service, tmp_path):
    service.start()
    assert service.cli("backup", str(tmp_path / "copy.db")).returncode == 0

    done = restore(service, str(tmp_path / "copy.db"))

    assert done.returncode == 3
    assert "data_dir" in done.stderr


def test_what_does_not_verify_is_not_restored(service, tmp_path):
    service.start()
    service.stop()
    file = tmp_path / "copy.db"
    assert service.cli("backup", str(file)).returncode == 0
    connection = sqlite.connect(file)
    connection.execute("UPDATE log_entries SET actor = 'somebody' WHERE idx = 1")
    connection.commit()
    connection.close()
    before = (service.data_dir / "bitong.db").read_bytes()

    assert restore(service, str(file), "--verify").returncode == 1
    assert (service.data_dir / "bitong.db").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"no database" * 1000])
def test_what_is_no_backup_is_refused(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    folder = DataFolder(tmp_path / "data")
    folder.make()

    with pytest.raises(UsageError):
        restoring.place(folder, tmp_path / "file")

    assert list(folder.path.iterdir()) == []


# Beside the command.


def note(size: int) -> str:
    return Checkpoint("bitong/test", size, bytes(32)).text() + "\n— bitong/test AAAA\n"


def test_a_database_put_back_by_hand_is_noticed_by_the_checkpoint_beside_it(log):
    """S16, where nobody used the command."""
    log.append(times=5)
    (log.folder.path / "checkpoint").write_text(note(log.database.log.size + 1))

    with pytest.raises(Unavailable, match="restore --acknowledge"):
        restoring.refuse_unacknowledged(log.folder, log.database)

    (log.folder.path / "checkpoint").write_text(note(log.database.log.size))
    restoring.refuse_unacknowledged(log.folder, log.database)


def test_a_restore_that_was_cut_short_opens_nothing(log):
    """The mark is laid before anything is moved."""
    (log.folder.path / restoring.MARK).write_text("{}")

    with pytest.raises(Unavailable, match="restore --acknowledge"):
        restoring.refuse_unacknowledged(log.folder, log.database)


def test_the_write_ahead_log_of_the_old_database_is_never_the_new_ones(log, tmp_path):
    """It goes aside with its database, and both can still be read there."""
    log.append(times=3)
    snapshot(log.file, tmp_path / "copy.db")
    older = log.database.log.size
    log.append(times=4)
    size = log.database.log.size
    assert (log.folder.path / "bitong.db-wal").stat().st_size > 0

    placed = restoring.place(log.folder, tmp_path / "copy.db")  # as after a crash: nobody closed the old one

    assert (placed.size, placed.known.size, placed.whole) == (older, size, False)
    restored, aside = Database(log.file), Database(placed.aside / "bitong.db")
    assert (restored.log.size, aside.log.size) == (older, size)
    restored.close()
    aside.close()


def test_questions_keys_and_links_of_the_other_past_end(tmp_path):
    """What waited is refused, a key stands for nothing, a link opens nothing; the log verifies."""
    desk = Desk(tmp_path)
    desk.commit(asks=shell_exec_text("asks", constraints={"require_confirm": True}), shell_exec=shell_exec_text())
    desk.start()
    client = desk.client("read", "exec", "confirm", "admin")
    asked = client.post(f"{API}/exec", json={"tool": "asks", "params": {"cmd": "echo x"}}).json()
    body = {"tool": "shell-exec", "params": {"cmd": "echo once"}}
    client.post(f"{API}/exec", json=body, headers={"Idempotency-Key": "once"})
    client.post(f"{API}/sign-in-links")
    folder, path = desk.bitong.folder, desk.bitong.database.path
    snapshot(path, tmp_path / "copy.db")
    client.post(f"{API}/exec", json=body)
    desk.close()

    restoring.place(folder, tmp_path / "copy.db")
    database = Database(path)
    restoring.acknowledge(folder, database)
    left = [
        database.fetch("SELECT run FROM idempotency_keys", {}),
        database.fetch("SELECT hash FROM sign_in_links", {}),
    ]
    question = database.fetch("SELECT state FROM confirmations", {})
    run = database.fetch("SELECT state, reason FROM runs WHERE id = :id", {"id": asked["run"]["id"]})
    database.close()

    assert left == [[], []]
    assert [tuple(row) for row in (*question, *run)] == [("dropped",), ("refused", "confirmation-dropped")]
    assert verify_database(path).findings == ()
