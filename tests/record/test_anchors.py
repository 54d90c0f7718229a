"""Checkpoints on a branch of their own in somebody's repository (contract/audit.md, Anchors)."""

import base64
import json
import shutil

import pytest

from service.errors import CannotRecord, Unavailable, UsageError
from service.intake.anchors.part import Anchors
from service.settings import load, refuse_unsafe
from service.store import restoring
from service.store.anchors import listed
from service.store.backup import snapshot
from service.verify import notes
from tests.git_http import Faults, GitHttpServer, git
from tests.harness.service import BitongService, eventually

BRANCH = "bitong-audit"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with GitHttpServer(tmp_path_factory.mktemp("git")) as server:
        yield server


@pytest.fixture(params=["http", "path"])
def place(request, server, tmp_path):
    """A repository's URL and folder: over HTTP with a token, and as a local path."""
    server.faults = Faults()
    server.require(token=None)
    folder = server.create(f"{tmp_path.name}/records.git")
    if request.param == "path":
        return str(folder), folder
    server.require(token="secret-of-records")
    return server.url(f"{tmp_path.name}/records.git"), folder


def anchors_on(log, url: str, **changed: object) -> Anchors:
    how = {"branch": BRANCH, "username": "bitong", "token": "secret-of-records", "interval_s": 60.0, **changed}
    return Anchors(log.database, log.checkpoints, url=url, **how)


def on_branch(folder, revision: str = BRANCH) -> str:
    return git("show", f"{revision}:checkpoint", at=folder) + "\n"


def commits(folder) -> int:
    return int(git("rev-list", "--count", BRANCH, at=folder))


def test_the_newest_checkpoint_is_what_the_branch_holds(log, place):
    url, folder = place
    log.append(times=3)
    note = log.checkpoint()

    anchor = anchors_on(log, url).attempt()

    assert on_branch(folder) == note
    assert git("rev-parse", BRANCH, at=folder) == anchor.commit
    assert notes.is_signed(notes.read_note(note.encode()), [notes.read_key(str(log.checkpoints.keys[-1]))])
    with log.database.read() as connection:
        (row,) = listed(connection, before=None, limit=10)
    assert (row.size, row.branch, row.commit) == (anchor.size, BRANCH, anchor.commit)
    git("fsck", "--strict", at=folder)


def test_each_anchor_stands_on_the_one_before_and_every_entry_of_it_is_in_the_log(log, place):
    url, folder = place
    anchors = anchors_on(log, url)
    made = []
    for _ in range(3):
        log.append(times=2)
        log.checkpoint()
        made.append(anchors.attempt())

    sizes = [int(on_branch(folder, f"{BRANCH}~{back}").split("\n")[1]) for back in (2, 1, 0)]
    assert sizes == [one.size for one in made] == sorted(sizes)
    rows = log.database.fetch("SELECT entry FROM log_entries WHERE type = 'checkpoint.anchored' ORDER BY idx", {})
    facts = [json.loads(row[0])["facts"] for row in rows]
    assert [(one["size"], one["commit"]) for one in facts] == [(one.size, one.commit) for one in made]
    assert all("secret" not in one["repository"] for one in facts)


def test_an_entry_about_an_anchor_alone_is_nothing_new(log, place):
    """Or the log would grow for ever by telling of its own anchors."""
    url, folder = place
    anchors = anchors_on(log, url)
    log.checkpoint()
    anchors.attempt()

    for _ in range(3):
        log.checkpoint()
        assert anchors.attempt() is None

    assert commits(folder) == 1
    log.append()
    log.checkpoint()
    assert anchors.attempt() is not None


def test_after_a_restart_it_goes_on_where_the_branch_stands(log, place):
    url, folder = place
    log.checkpoint()
    anchors_on(log, url).attempt()
    log.append()
    log.checkpoint()

    assert anchors_on(log, url).attempt() is not None
    assert commits(folder) == 2


def test_a_branch_that_holds_something_else_is_never_written_over(log, place, tmp_path):
    url, folder = place
    work = tmp_path / "work"
    git("clone", "--quiet", str(folder), work)
    (work / "README").write_text("ours")
    git("checkout", "--quiet", "-b", BRANCH, at=work)
    git("add", "--all", at=work)
    git("commit", "--quiet", "-m", "ours", at=work)
    git("push", "--quiet", "origin", BRANCH, at=work)
    log.checkpoint()

    with pytest.raises(Unavailable) as refused:
        anchors_on(log, url).attempt()

    assert refused.value.code == "branch-taken"
    assert commits(folder) == 1


def test_what_another_key_signed_is_something_else_too(log, new_log, place):
    """Who may push there cannot make this log believe that it was longer once."""
    url, folder = place
    log.append(times=40)
    log.checkpoint()
    anchors_on(log, url).attempt()
    other = new_log("other")
    other.append(times=20)
    other.checkpoint()

    with pytest.raises(Unavailable) as refused:
        anchors_on(other, url).attempt()

    assert refused.value.code == "branch-taken"
    assert commits(folder) == 1


def test_an_anchor_of_a_longer_log_holds_everything_until_it_is_acknowledged(log, place, tmp_path):
    """contract/audit.md, Restoring: an older backup, known by its anchor alone. Then anchors go on, on the new past."""
    url, folder = place
    log.append(times=3)
    log.checkpoint()
    snapshot(log.file, tmp_path / "older.db")
    log.append(times=20)
    log.checkpoint()
    anchors_on(log, url).attempt()

    def put_back_by_hand() -> None:
        for name in ("bitong.db", "bitong.db-wal", "bitong.db-shm", "checkpoint"):
            (log.folder.path / name).unlink(missing_ok=True)
        shutil.copy(tmp_path / "older.db", log.file)

    log.again(put_back_by_hand)
    anchors = anchors_on(log, url, behind=lambda known: restoring.hold(log.folder, log.database, known))

    with pytest.raises(Unavailable) as refused:
        anchors.attempt()

    assert refused.value.code == "log-behind"
    with pytest.raises(CannotRecord):
        log.append()
    with pytest.raises(Unavailable):
        restoring.refuse_unacknowledged(log.folder, log.database)
    log.again()
    restoring.acknowledge(log.folder, log.database)
    restoring.settle(log.folder)
    log.again()
    log.checkpoint()
    assert anchors_on(log, url).attempt() is not None
    assert commits(folder) == 2


def test_a_log_that_took_another_way_is_not_anchored(log, place, tmp_path):
    """A backup put back by hand, and written on, before the anchor was looked at again."""
    url, folder = place
    snapshot(log.file, tmp_path / "older.db")
    log.append(times=5)
    log.checkpoint()
    anchors_on(log, url).attempt()

    def put_back_by_hand() -> None:
        for name in ("bitong.db", "bitong.db-wal", "bitong.db-shm", "checkpoint"):
            (log.folder.path / name).unlink(missing_ok=True)
        shutil.copy(tmp_path / "older.db", log.file)

    log.again(put_back_by_hand)
    log.append("service.started", times=40)
    log.checkpoint()

    with pytest.raises(Unavailable) as refused:
        anchors_on(log, url).attempt()

    assert refused.value.code == "log-differs"
    assert commits(folder) == 1


@pytest.mark.parametrize(
    ("faults", "code"),
    [
        (Faults(status=500), "repository-unreachable"),
        (Faults(status=404), "repository-not-found"),
        (Faults(drop=True), "repository-unreachable"),
        (Faults(status=403, only="receive-pack"), "repository-unauthorized"),
        (Faults(status=302, location="http://127.0.0.1:1/x"), "repository-unreachable"),
    ],
)
def test_a_repository_that_fails_harms_nothing(log, server, tmp_path, faults, code):
    """It is said by a code, and the next try goes well."""
    server.require(token=None)
    folder = server.create(f"{tmp_path.name}/failing.git")
    anchors = anchors_on(log, server.url(f"{tmp_path.name}/failing.git"), token=None)
    log.checkpoint()
    server.faults = faults
    try:
        with pytest.raises(Unavailable) as failed:
            anchors.attempt()
    finally:
        server.faults = Faults()

    assert failed.value.code == code
    log.append()
    assert anchors.attempt() is not None
    assert commits(folder) == 1


def test_a_wrong_token_is_said(log, server, tmp_path):
    server.faults = Faults()
    server.create(f"{tmp_path.name}/closed.git")
    server.require(token="another")
    log.checkpoint()

    with pytest.raises(Unavailable) as failed:
        anchors_on(log, server.url(f"{tmp_path.name}/closed.git")).attempt()

    assert failed.value.code == "repository-unauthorized"
    server.require(token=None)


def test_checkpoints_never_go_to_the_tracked_branch():
    """design.md: Bitong never writes the branch that it reads tools from."""
    place = {"BITONG_REPOSITORY_URL": "/srv/native.git", "BITONG_ANCHOR_REPOSITORY_URL": "/srv/native"}

    with pytest.raises(UsageError, match="anchor_branch"):
        refuse_unsafe(load(place | {"BITONG_ANCHOR_BRANCH": "main"}))

    refuse_unsafe(load(place))


def test_the_token_goes_over_plain_http_to_this_host_alone():
    """R16."""
    place = {"BITONG_ANCHOR_REPOSITORY_URL": "http://forge.example/a/b.git", "BITONG_ANCHOR_REPOSITORY_TOKEN": "t"}

    with pytest.raises(UsageError, match="anchor_repository_url"):
        refuse_unsafe(load(place))

    refuse_unsafe(load(place | {"BITONG_ANCHOR_REPOSITORY_INSECURE": "true"}))


def test_a_service_anchors_by_itself_and_says_where(server, tmp_path):
    server.require(token=None)
    folder = server.create(f"{tmp_path.name}/by-itself.git")
    service = BitongService(tmp_path / "s", anchor_repository_url=str(folder), anchor_interval_s=1)
    try:
        service.start()
        row = eventually(lambda: next(iter(service.items("/audit/anchors")), None), within_s=20)
        ready = service.anonymous.get("/readyz").json()["parts"]["anchors"]
        numbers = service.admin.get("/metrics").text
    finally:
        service.close()

    assert set(row) == {"size", "at", "repository", "branch", "commit"}
    assert (row["branch"], row["repository"]) == (BRANCH, str(folder))
    assert ready["state"] == "ok"
    assert ready["age_s"] < 60
    assert "bitong_anchor_trouble 0.0" in numbers
    size = int(git("show", f"{row['commit']}:checkpoint", at=folder).split("\n")[1])
    assert size == row["size"]
    assert base64.b64decode(git("show", f"{row['commit']}:checkpoint", at=folder).split("\n")[2])
