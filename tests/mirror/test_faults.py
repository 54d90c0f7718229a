"""What goes wrong far away or on disk: each is one failure with a code, and nothing is lost by it."""

import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from service.errors import RepositoryUnreachable
from service.intake.mirror.fetching import CloneLog
from service.intake.mirror.git_remote import Unreachable
from tests.git_http import Faults, GitHttpServer, git
from tests.git_objects import Builder, definition
from tests.mirror.hostile import BombServer


def _fails(watch: Any) -> RepositoryUnreachable:
    with pytest.raises(RepositoryUnreachable) as caught:
        watch.look()
    assert caught.value.message.zh
    assert caught.value.message.en
    return caught.value


@pytest.mark.parametrize(
    ("faults", "code"),
    [
        (Faults(status=401), "repository-unauthorized"),
        (Faults(status=403), "repository-unauthorized"),
        (Faults(status=404), "repository-not-found"),
        (Faults(status=500), "repository-unreachable"),
        (Faults(status=307, location="http://127.0.0.1:9/elsewhere"), "repository-unreachable"),
        (Faults(drop=True), "repository-unreachable"),
        (Faults(cut=20), "repository-unreachable"),
        (Faults(status=200), "repository-not-found"),
        (Faults(hang=True), "repository-timeout"),
    ],
)
@pytest.mark.parametrize("only", ["/info/refs", "/git-upload-pack"])
def test_each_failure_of_the_server_has_its_code_and_passes(
    faults: Faults, code: str, only: str, server: GitHttpServer, builder: Builder, watch_of: Any
) -> None:
    """The next look, when the server is well again, sees everything."""
    watch = watch_of(deadline_s=2.0)
    tip = builder.push(builder.root(builder.tool("good")))
    faults.only = only
    server.faults = faults

    failure = _fails(watch)
    server.faults = Faults()
    watch.look()

    assert failure.code == code or (only == "/git-upload-pack" and failure.code == "repository-unreachable")
    assert watch.changes(tip).keys() == {b"good"}


def test_nobody_listening_is_unreachable(watch_of: Any) -> None:
    """Forgejo is down."""
    assert _fails(watch_of(url="http://127.0.0.1:9/owner/native-repo.git")).code == "repository-unreachable"


def test_a_token_appears_nowhere(server: GitHttpServer, builder: Builder, watch_of: Any) -> None:
    """Not in a failure, whether it came as a setting or in the URL, nor in what any process shows."""
    server.require(token="right")
    given = watch_of(token="s3cret-token")
    inside = watch_of(url=server.url("owner/native-repo.git").replace("//", "//me:s3cret-token@"))

    failures = [_fails(given), _fails(inside)]

    for failure in failures:
        assert failure.code == "repository-unauthorized"
        shown = f"{failure!r} {failure} {failure.message} {failure.facts} {failure.__cause__!r}"
        assert "s3cret" not in shown
        assert "127.0.0.1" in shown
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = process.read_bytes()
        except OSError:
            continue
        assert b"s3cret-token" not in text


def test_credentials_are_those_of_the_url_or_the_settings(
    server: GitHttpServer, builder: Builder, watch_of: Any
) -> None:
    """Any user name will do for Forgejo; the token is what counts."""
    server.require(token="right")
    builder.push(builder.root(builder.tool("good")))

    for options in ({"token": "right"}, {"url": server.url("owner/native-repo.git").replace("//", "//me:right@")}):
        watch = watch_of(**options)
        watch.look()
        assert watch.commits
        watch.mirror.close()


def test_no_token_goes_to_another_origin(
    server: GitHttpServer, builder: Builder, watch_of: Any, tmp_path: Path
) -> None:
    """A redirect elsewhere is refused; one within the origin, as after a rename, is followed."""
    refs = "/info/refs?service=git-upload-pack"
    with GitHttpServer(tmp_path / "served") as other:
        server.faults = Faults(status=302, location=other.url("owner/native-repo.git") + refs)

        failure = _fails(watch_of(token="s3cret-token"))

        assert failure.code == "repository-unreachable"
        assert other.requests == []
    builder.push(builder.root(builder.tool("good")))
    server.faults = Faults(status=301, location=server.url("owner/native-repo.git") + refs, only="owner/old-name.git")
    watch = watch_of(url=server.url("owner/old-name.git"))

    watch.look()

    assert watch.commits


@pytest.mark.parametrize("how", ["http", "local"])
def test_a_sha256_repository_is_unsupported(how: str, server: GitHttpServer, watch_of: Any) -> None:
    """Said clearly, rather than as a protocol error."""
    folder = server.create("owner/new.git", object_format="sha256")
    tree = git("hash-object", "-w", "-t", "tree", "--stdin", at=folder)
    git("update-ref", "refs/heads/main", git("commit-tree", "-m", "x", tree, at=folder), at=folder)

    failure = _fails(watch_of(url=str(folder) if how == "local" else server.url("owner/new.git")))

    assert failure.code == "repository-unsupported"


def test_a_local_path_without_a_repository_is_not_found(watch_of: Any, tmp_path: Path) -> None:
    """The same codes as over HTTP."""
    assert _fails(watch_of(url=str(tmp_path / "nowhere"))).code == "repository-not-found"


def test_a_pack_over_the_limit_is_refused(builder: Builder, watch_of: Any) -> None:
    """The bytes are counted as they come, whatever the server said."""
    noise = subprocess.run(["head", "-c", "3000000", "/dev/urandom"], capture_output=True, check=True).stdout
    builder.push(builder.tree({"noise": noise, "tools/good/TOOL.hdlp": definition("good")}))

    failure = _fails(watch_of(max_pack_bytes=1_000_000))

    assert "1000000 bytes" in str(failure)


def test_a_bomb_ends_the_look_and_nothing_else(watch_of: Any) -> None:
    """G17: a delta of some hundred bytes that becomes 4 GB; the process that reads it is the one that dies."""
    with BombServer() as bomb:
        watch = watch_of(url=bomb.url)
        started = time.monotonic()

        failures = [_fails(watch) for _ in range(4)]

    assert {failure.code for failure in failures} == {"repository-damaged"}
    assert time.monotonic() - started < 20
    assert ["next clone" in str(failure) for failure in failures] == [False, False, True, True]
    assert bomb.packs_sent == 2


def _spoil_missing(folder: Path, blob: str) -> None:
    (folder / "objects" / blob[:2] / blob[2:]).unlink()


def _spoil_other_content(folder: Path, blob: str) -> None:
    other = git("hash-object", "-w", "--stdin", at=folder, stdin=b"not what it says")
    path = folder / "objects" / blob[:2] / blob[2:]
    path.unlink()
    shutil.copy(folder / "objects" / other[:2] / other[2:], path)


def _spoil_garbled(folder: Path, blob: str) -> None:
    path = folder / "objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(b"garbage")


@pytest.mark.parametrize("spoil", [_spoil_missing, _spoil_other_content, _spoil_garbled])
def test_a_damaged_object_in_a_local_repository_fails_the_look(spoil: Any, builder: Builder, watch_of: Any) -> None:
    """G11: shown as the repository's trouble, and well again once it is mended."""
    watch = watch_of(url=str(builder.folder))
    tip = builder.push(builder.root(builder.tool("good")))
    blob = git("rev-parse", "main:tools/good/TOOL.hdlp", at=builder.folder)
    spoil(builder.folder, blob)

    failure = _fails(watch)
    (builder.folder / "objects" / blob[:2] / blob[2:]).unlink(missing_ok=True)
    builder.blob(definition("good"))
    watch.look()

    assert failure.code == "repository-damaged"
    assert watch.folder(tip, b"good").reading.definition.name == "good"


def test_a_tree_that_is_cut_short_fails_the_look(builder: Builder, watch_of: Any) -> None:
    """G11: its id is right, so reading it again would not help."""
    watch = watch_of(url=str(builder.folder))
    cut = builder.literal("tree", b"40000 good\0" + b"\x12" * 19)
    builder.push(builder.rows([("40000", b"tools", cut)]))

    assert _fails(watch).code == "repository-damaged"


def _objects(mirror: Path) -> list[Path]:
    return [path for path in (mirror / "objects").glob("??/*") if path.is_file()]


def test_a_damaged_mirror_is_replaced_within_the_look(
    server: GitHttpServer, builder: Builder, watch: Any, tmp_path: Path
) -> None:
    """G21, G11: by one clone, swapped in when whole; kept commits move along."""
    orphan = builder.push(builder.root(builder.tool("orphan")))
    watch.look()
    tip = builder.push(builder.root(builder.tool("good")))
    watch.look(keep=[orphan])
    mirror = tmp_path / "data" / "mirror"
    blob = git("rev-parse", "main:tools/good/TOOL.hdlp", at=builder.folder)
    _spoil_garbled(mirror, blob)
    git("reflog", "expire", "--expire=now", "--all", at=builder.folder)
    git("gc", "--prune=now", "--quiet", at=builder.folder)
    server.forget()

    watch.look(full=True)

    assert watch.folder(tip, b"good").reading.definition.name == "good"
    assert len([one for one in server.requests if one.method == "POST"]) == 2  # ls-refs, one clone
    assert git("cat-file", "-t", f"{orphan}:tools/orphan/TOOL.hdlp", at=mirror) == "blob"
    assert git("rev-parse", f"refs/bitong/kept/{orphan}", at=mirror) == orphan
    assert git("fsck", "--full", "--strict", at=mirror) is not None
    assert {path.name for path in mirror.parent.iterdir()} == {"mirror"}


def test_a_mirror_that_cannot_be_replaced_stays_and_is_not_cloned_again_at_once(
    server: GitHttpServer, builder: Builder, watch: Any, tmp_path: Path
) -> None:
    """G21: the old one leaves only when the new one is whole."""
    builder.push(builder.root(builder.tool("good")))
    watch.look()
    mirror = tmp_path / "data" / "mirror"
    victim = git("rev-parse", "main:tools/good/TOOL.hdlp", at=builder.folder)
    _spoil_missing(mirror, victim)
    _spoil_missing(builder.folder, victim)
    before = sorted(_objects(mirror))
    server.forget()

    failures = []
    for _ in range(5):
        with pytest.raises(RepositoryUnreachable) as caught:
            watch.look(full=True)
        failures.append(str(caught.value))

    assert len([one for one in server.requests if one.method == "POST"]) == 5 + 2  # an ls-refs each, two clones
    assert all("next clone" in failure for failure in failures[2:])
    assert sorted(_objects(mirror)) == before


def test_clones_of_an_hour_are_few(tmp_path: Path) -> None:
    """G21: a look a minute, all failing, clones at most 6 times in any hour; one that ends well forgets it."""
    now = [1_790_000_000.0]
    log = CloneLog(tmp_path / "clones.json", clock=lambda: now[0])
    begun = []
    for _ in range(180):
        if log.may_begin():
            log.begin()
            log.failed("repository-damaged", "why")
            begun.append(now[0])
        else:
            with pytest.raises(Unreachable, match="why; the next clone"):
                log.begin()
        now[0] += 60

    assert len(begun) >= 6
    assert max(sum(start <= at < start + 3600 for at in begun) for start in begun) <= 6
    log.succeeded()
    assert log.may_begin()


def test_a_mirror_whose_swap_was_cut_off_is_found_again(builder: Builder, watch: Any, tmp_path: Path) -> None:
    """The process may die between the two renames, or in the middle of a clone."""
    first = builder.push(builder.root(builder.tool("good")))
    watch.look()
    mirror = tmp_path / "data" / "mirror"
    mirror.rename(mirror.with_name("mirror.old"))
    (mirror.parent / "mirror.new-abc" / "objects").mkdir(parents=True)
    tip = builder.push(builder.root(builder.tool("good", "x")), first)

    watch.look()

    assert watch.changes(tip).keys() == {b"good"}
    assert {path.name for path in mirror.parent.iterdir()} == {"mirror"}


def test_a_scattered_mirror_is_cloned_anew(server: GitHttpServer, builder: Builder, watch: Any, tmp_path: Path) -> None:
    """Each pack makes every later look slower."""
    first = builder.push(builder.root(builder.tool("good")))
    watch.look()
    packs = tmp_path / "data" / "mirror" / "objects" / "pack"
    for number in range(60):
        (packs / f"pack-{number:040x}.pack").write_bytes(b"")
    tip = builder.push(builder.root(builder.tool("good", "x")), first)

    watch.look()

    assert watch.changes(tip).keys() == {b"good"}
    assert list(packs.glob("*")) == []


def test_looks_during_a_repack_see_everything(builder: Builder, watch_of: Any) -> None:
    """G18: packs and loose objects vanish while they are read; all of it is found elsewhere then."""
    commit = builder.push(builder.root(builder.tool("good")))
    for note in range(12):
        commit = builder.push(builder.root(builder.tool("good", str(note))), commit)
    watch = watch_of(url=str(builder.folder))
    stop = threading.Event()

    def repack() -> None:
        window = 0
        while not stop.is_set():
            window = 10 - window  # another pack each time, after which the one before is removed
            git("repack", "-adfq", f"--window={window}", at=builder.folder)

    thread = threading.Thread(target=repack)
    thread.start()
    try:
        for _ in range(8):
            watch.look(full=True)
            assert len(watch.commits) == 13
    finally:
        stop.set()
        thread.join()
