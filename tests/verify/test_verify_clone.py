"""Versions against a clone: loose objects and packs, as git makes them, damaged, and hostile."""

import os
import subprocess
import zlib
from pathlib import Path

import pytest

from service.verify import VerifyError, verify_database
from service.verify.git import Objects, Unreadable, entries_of
from tests.git_http import git
from tests.verify.builder import DEFINITION, SCRIPT, Builder

TOOL = "text-stats"


class Repository:
    """A repository with versions of text-stats, and a log that registered them."""

    def __init__(self, folder: Path, commits: int = 3) -> None:
        self.folder = folder
        folder.mkdir()
        git("init", "--quiet", "--initial-branch=main", at=folder)
        self.log = Builder(folder.parent / "bitong.db")
        self.commits = []
        for number in range(1, commits + 1):
            extra = b"#!/bin/sh\n" + b"# a line that a delta can use again\n" * 50 + b"echo %d\n" % number
            self._write(extra)
            self.commits.append(git("rev-parse", "HEAD", at=folder))
            state = "active" if number == commits else "superseded"
            self.log.version(TOOL, number, self.commits[-1], state, extra)

    def _write(self, extra: bytes) -> None:
        tool = self.folder / "tools" / TOOL
        (tool / "lib").mkdir(parents=True, exist_ok=True)
        (tool / "TOOL.hdlp").write_bytes(DEFINITION)
        (tool / "lib" / "count.py").write_bytes(SCRIPT)
        (tool / "run.sh").write_bytes(extra)
        (tool / "run.sh").chmod(0o755)
        git("add", "--all", at=self.folder)
        git("commit", "--quiet", "--message", "one more", at=self.folder)

    def report(self, **how):
        self.log.close()
        return verify_database(self.log.path, clone=self.folder, **how)


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "clone")


def whats(report):
    return {(one.what, one.where.partition(" at ")[0]) for one in report.findings}


def test_versions_are_what_their_commits_hold(repository):
    report = repository.report()

    assert report.findings == ()
    assert any("3 versions were held" in en for _, en in report.notes)


def test_packed_with_deltas_it_is_the_same(repository):
    git("gc", "--quiet", "--aggressive", "--prune=now", at=repository.folder)
    assert not list(repository.folder.glob(".git/objects/??/*"))

    assert repository.report().findings == ()


def test_packed_with_reference_deltas_and_bare_it_is_the_same(repository, tmp_path):
    """As `git repack` writes them when offsets are switched off."""
    bare = tmp_path / "bare.git"
    git("clone", "--quiet", "--bare", "--no-local", str(repository.folder), str(bare), at=tmp_path)
    git("config", "repack.usedeltabaseoffset", "false", at=bare)
    git("repack", "-q", "-a", "-d", "-f", at=bare)
    repository.folder = bare

    assert repository.report().findings == ()


def test_every_object_reads_as_git_reads_it(repository):
    git("gc", "--quiet", at=repository.folder)
    listed = git("cat-file", "--batch-all-objects", "--batch-check", at=repository.folder).splitlines()
    objects = Objects(repository.folder)

    for name, kind, _ in map(str.split, listed):
        done = subprocess.run(["git", "cat-file", kind, name], cwd=repository.folder, capture_output=True, check=True)
        assert objects.read(bytes.fromhex(name), kind.encode()) == done.stdout
    assert len(listed) > 10


@pytest.mark.parametrize("name", ["tree", "blob", "commit"])
def test_a_version_of_other_bytes_than_its_commit_holds_is_found(tmp_path, name):
    """The log and the tables agree with each other; only the repository tells."""
    repository = Repository(tmp_path / "clone", commits=2)
    other = repository.commits[0]
    extra = b"#!/bin/sh\necho from nowhere\n"
    if name == "commit":
        git("commit", "--quiet", "--allow-empty", "--message", "nothing", at=repository.folder)
        git("rm", "-rq", "tools", at=repository.folder)
        git("commit", "--quiet", "--message", "gone", at=repository.folder)
        other = git("rev-parse", "HEAD", at=repository.folder)
    repository.log.version("other-tool" if name == "blob" else "text-stat", 1, other, extra=extra)

    assert {what for what, _ in whats(repository.report())} == {"git-differs"}


def test_tools_that_stand_elsewhere_are_found_there(repository):
    report = repository.report(tools_path="definitions")
    assert {what for what, _ in whats(report)} == {"git-differs"}


def test_a_commit_that_the_clone_lacks_is_said(repository):
    repository.log.version(TOOL, 4, "ab" * 20, "superseded", b"x")

    assert whats(repository.report()) == {("git-missing", "version 4 of text-stats")}


def test_an_orphaned_version_may_be_missing(repository):
    repository.log.version("lost", 1, "ab" * 20, "orphaned", b"x")
    facts = {name: value for name, value in repository.log.versions["lost", 1].items() if name != "row"}
    repository.log.append("definition.orphaned", "bitong", **facts, author="Zhu", pusher=None)

    report = repository.report()

    assert report.findings == ()
    assert any("1 versions that a force-push" in en for _, en in report.notes)


def test_a_folder_that_is_no_repository_is_said_in_a_sentence(tmp_path):
    log = Builder(tmp_path / "bitong.db")
    log.close()

    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(VerifyError, match="Not a git repository"):
            verify_database(log.path, clone=folder)


def test_whatever_byte_of_a_pack_is_wrong_the_verifier_answers(repository):
    """G11: a finding or nothing, since not every byte is read; never another error."""
    git("gc", "--quiet", "--aggressive", "--prune=now", at=repository.folder)
    repository.log.close()
    found = 0
    for suffix in ("pack", "idx"):
        (file,) = repository.folder.glob(f".git/objects/pack/*.{suffix}")
        file.chmod(0o600)
        content = file.read_bytes()
        for at in range(0, len(content), max(1, len(content) // 60)):
            damaged = bytearray(content)
            damaged[at] ^= 0x55
            file.write_bytes(damaged)
            found += bool(verify_database(repository.log.path, clone=repository.folder).findings)
        file.write_bytes(content[: len(content) // 2])
        assert verify_database(repository.log.path, clone=repository.folder).findings
        file.write_bytes(content)
    assert found > 20


def test_nothing_of_a_hostile_clone_runs(repository, tmp_path):
    """No git command: hooks, filters, an fsmonitor and a pipe in place of an object stay what they are."""
    mark = tmp_path / "ran"
    (repository.folder / ".git" / "config").write_text(
        f'[core]\n\tfsmonitor = "touch {mark}"\n\tsshCommand = "touch {mark}"\n[include]\n\tpath = /dev/zero\n'
    )
    name = repository.commits[0]
    loose = repository.folder / ".git" / "objects" / name[:2] / name[2:]
    loose.unlink()
    os.mkfifo(loose)

    report = repository.report()

    assert {what for what, _ in whats(report)} == {"git-missing"}
    assert not mark.exists()


def test_a_bomb_is_not_inflated(repository):
    """G17: a hundred megabytes in a loose object of a hundred kilobytes."""
    name = repository.commits[0]
    loose = repository.folder / ".git" / "objects" / name[:2] / name[2:]
    loose.chmod(0o600)
    loose.write_bytes(zlib.compress(b"commit 104857600\0" + bytes(100 << 20)))

    assert {what for what, _ in whats(repository.report())} == {"git-missing"}


@pytest.mark.parametrize(
    "tree",
    [
        b"100644 a",
        b"100644 a\0" + bytes(19),
        b" a\0" + bytes(20),
        b"100644 a\0" + bytes(20) + b"100755 a\0" + bytes(20),
    ],
)
def test_what_is_no_tree_is_unreadable(tree):
    """G1, G11: also a name twice, which two readers would read in two ways."""
    with pytest.raises(Unreadable):
        entries_of(tree)
