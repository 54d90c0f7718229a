"""The course of a look: what it costs, where the branch is, and the processes it runs in."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from service.domain.history import Progress, Tip
from service.errors import RepositoryUnreachable
from tests.git_http import Faults, GitHttpServer, git
from tests.git_objects import Builder, definition


def _children(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(status.parent.name))
    return found


def _helpers() -> list[int]:
    return [
        pid
        for pid in _children(os.getpid())
        if b"service.intake.mirror.process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def _wait_until(true: Any, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.02)
    return False


def test_a_look_with_nothing_new_asks_for_refs_only(server: GitHttpServer, builder: Builder, watch: Any) -> None:
    """Every minute, for ever: the capabilities and the refs, and nothing on disk changes."""
    builder.push(builder.root(builder.tool("good")))
    watch.look()
    server.forget()

    said = watch.look()

    assert [type(seen) for seen in said] == [Tip]
    assert [request.method for request in server.requests] == ["GET", "POST"]
    assert all(request.protocol == "version=2" for request in server.requests)


def test_a_push_is_fetched_alone(server: GitHttpServer, builder: Builder, watch: Any, tmp_path: Path) -> None:
    """Only what is new comes, as loose objects: no pack is added that would slow what follows."""
    first = builder.push(builder.root(*(builder.tool(f"t{number}") for number in range(30))))
    watch.look()
    tools = [builder.tool(f"t{number}", "new" if number == 7 else "") for number in range(30)]
    tip = builder.push(builder.root(*tools), first)
    objects = tmp_path / "data" / "mirror" / "objects"
    before = set(objects.glob("??/*"))

    watch.look()

    assert watch.changes(tip).keys() == {b"t7"}
    assert len(set(objects.glob("??/*")) - before) == 5  # commit, root, tools, folder, file
    assert list(objects.glob("pack/*")) == []


def test_packs_over_a_megabyte_stay_packs_and_are_made_whole(builder: Builder, watch: Any, tmp_path: Path) -> None:
    """The server sends deltas on what we have: each pack must hold their bases, or git could not read it alone."""
    noise = os.urandom(1_200_000)
    first = builder.push(builder.tree({"noise": noise, "tools/good/TOOL.hdlp": definition("good")}))
    watch.look()
    files = {"noise": noise[:600_000] + b"!" + noise[600_000:], "more": os.urandom(1_200_000)}
    second = builder.push(builder.tree({**files, "tools/good/TOOL.hdlp": definition("good", "x")}), first)

    watch.look()

    mirror = tmp_path / "data" / "mirror"
    packs = list((mirror / "objects" / "pack").glob("*.pack"))
    assert len(packs) == 2
    assert max(pack.stat().st_size for pack in packs) > 2_400_000  # the delta's base was added
    assert watch.changes(second).keys() == {b"good"}
    assert git("fsck", "--full", "--strict", at=mirror) == ""
    assert git("rev-parse", "main:noise", at=mirror) == git("rev-parse", "main:noise", at=builder.folder)


def test_only_the_tracked_branch_counts(builder: Builder, watch: Any) -> None:
    """W14: neither a branch whose name begins alike, nor a tag; asked for exactly."""
    other = builder.move(builder.commit(builder.root(builder.tool("other"))), "main2")
    git("tag", "main", other, at=builder.folder)

    watch.look()

    assert watch.tip == Tip(None, "main", empty=False)
    assert watch.commits == {}


@pytest.mark.parametrize("how", ["http", "local"])
def test_an_empty_repository_is_empty_and_a_default_branch_is_named(how: str, builder: Builder, watch_of: Any) -> None:
    """contract/registration.md, Faults: a branch that never existed is an empty registry."""
    watch = watch_of(**({"url": str(builder.folder)} if how == "local" else {}))
    watch.look()
    nothing = watch.tip
    commit = builder.commit(builder.root(builder.tool("good")))
    builder.move(commit, "trunk")
    watch.look()
    elsewhere = watch.tip
    git("symbolic-ref", "HEAD", "refs/heads/trunk", at=builder.folder)
    builder.move(commit)

    watch.look()

    assert (nothing.commit, nothing.empty) == (None, True)
    assert (elsewhere.commit, elsewhere.empty) == (None, False)
    assert watch.tip == Tip(commit, "trunk", empty=False)


def test_a_branch_name_may_have_slashes_and_chinese(builder: Builder, watch_of: Any, tmp_path: Path) -> None:
    """It becomes a path in the mirror and a prefix on the wire."""
    watch = watch_of(branch="发布/主线")
    commit = builder.move(builder.commit(builder.root(builder.tool("good"))), "发布/主线")

    watch.look()
    watch.look()

    assert watch.tip.commit == commit
    assert git("rev-parse", "refs/heads/发布/主线", at=tmp_path / "data" / "mirror") == commit


def test_a_sub_path_is_kept(tmp_path: Path, watch_of: Any) -> None:
    """Forgejo behind `/code`: joining URLs must not drop it."""
    (tmp_path / "sub").mkdir()
    with GitHttpServer(tmp_path / "sub", prefix="/code") as server:
        builder = Builder(server.create("owner/native-repo.git"))
        tip = builder.push(builder.root(builder.tool("good")))
        watch = watch_of(url=server.url("owner/native-repo.git"))

        watch.look()

        assert watch.tip.commit == tip
        assert all(request.path.startswith("/code/owner/native-repo.git/") for request in server.requests)


def test_a_work_tree_is_read_like_a_bare_repository(builder: Builder, watch_of: Any, tmp_path: Path) -> None:
    """A local path may be either, and its objects may be borrowed from a third place."""
    tip = builder.push(builder.root(builder.tool("good")))
    git("clone", "-q", "--shared", builder.folder, tmp_path / "work")

    watch = watch_of(url=f"file://{tmp_path / 'work'}")
    watch.look()

    assert watch.tip.commit == tip
    assert watch.changes(tip).keys() == {b"good"}


def test_a_shallow_clone_is_unsupported(builder: Builder, watch_of: Any, tmp_path: Path) -> None:
    """Its history ends where none does; taking that for the truth would invent versions."""
    first = builder.push(builder.root(builder.tool("good")))
    builder.push(builder.root(builder.tool("good", "x")), first)
    git("clone", "-q", "--depth=1", f"file://{builder.folder}", tmp_path / "work")

    with pytest.raises(RepositoryUnreachable) as caught:
        watch_of(url=str(tmp_path / "work")).look()

    assert caught.value.code == "repository-unsupported"


def test_what_a_local_source_forgets_is_kept(builder: Builder, watch_of: Any, tmp_path: Path) -> None:
    """G13: an orphan's folder survives in the mirror's folder, though the source was cleaned up."""
    watch = watch_of(url=str(builder.folder))
    orphan = builder.push(builder.root(builder.tool("orphan")))
    watch.look()
    builder.push(builder.root(builder.tool("good")))
    watch.look(keep=[orphan])
    git("gc", "--prune=now", "--quiet", at=builder.folder)

    watch.look(keep=[orphan])

    mirror = tmp_path / "data" / "mirror"
    assert git("cat-file", "-p", f"{orphan}:tools/orphan/TOOL.hdlp", at=mirror).encode() + b"\n" == definition("orphan")


def test_one_process_serves_many_looks_and_none_stays(builder: Builder, watch: Any) -> None:
    """Each look runs in a child that ends with it, so no memory gathers."""
    before = _helpers()
    watch.mirror.start()
    commit = builder.push(builder.root(builder.tool("good")))
    watch.look()
    (helper,) = set(_helpers()) - set(before)
    builder.push(builder.root(builder.tool("good", "x")), commit)
    watch.look()

    assert set(_helpers()) - set(before) == {helper}
    assert _children(helper) == []
    watch.mirror.close()
    assert _wait_until(lambda: helper not in _helpers())


def test_a_dead_helper_is_started_again(builder: Builder, watch: Any) -> None:
    """Whatever killed it: the next look works."""
    before = set(_helpers())
    builder.push(builder.root(builder.tool("good")))
    watch.look()
    for helper in set(_helpers()) - before:
        os.kill(helper, signal.SIGKILL)

    watch.look(full=True)

    assert watch.commits


def test_closing_the_iterator_ends_the_look(server: GitHttpServer, builder: Builder, watch: Any) -> None:
    """Even while the server says nothing; and the next look is not kept waiting."""
    before = set(_helpers())
    builder.push(builder.root(builder.tool("good")))
    server.faults = Faults(hang=True)
    watch.mirror.start()
    (helper,) = set(_helpers()) - before
    looking = watch.mirror.look(tips=(), known=list)
    server.faults = Faults(sleep_s=3.0)
    assert isinstance(next(looking), Tip)
    assert len(_children(helper)) == 1
    started = time.monotonic()

    looking.close()

    assert time.monotonic() - started < 1
    assert _children(helper) == []
    server.faults = Faults()
    watch.look()
    assert watch.commits


def test_a_look_in_its_own_time_limit_dies_alone(server: GitHttpServer, builder: Builder, watch_of: Any) -> None:
    """G17: the total deadline holds where each single read is in time."""
    watch = watch_of(deadline_s=1.0)
    builder.push(builder.root(builder.tool("good")))
    watch.mirror.start()
    server.faults = Faults(hang=True)
    started = time.monotonic()

    with pytest.raises(RepositoryUnreachable) as caught:
        watch.look()

    assert caught.value.code == "repository-timeout"
    assert time.monotonic() - started < 4


def test_a_long_fetch_says_how_far_it_is(builder: Builder, watch: Any, server: GitHttpServer) -> None:
    """design.md: progress is shown, and hooks are answered meanwhile."""
    builder.push(builder.tree({f"noise-{part}": os.urandom(8_000_000) for part in range(6)}))
    server.faults = Faults(slow_s=0.02, only="/git-upload-pack")

    said = watch.look()

    steps = [seen.done for seen in said if isinstance(seen, Progress) and seen.phase == "fetch"]
    assert steps
    assert steps == sorted(steps)
