"""Commits: who and when as they claim, merges by what they changed, and which commits a look says."""

from typing import Any

import pytest

from tests.git_http import git
from tests.git_objects import Builder


def test_a_commit_with_two_authors_says_so(builder: Builder, watch: Any) -> None:
    """G3: git takes the last, dulwich the first; so it is no source of an author."""
    tip = builder.push_as(b"One <one@example.org> 1790000000 +0000\nauthor Two <two@example.org> 1790000001 +0000")

    watch.look()

    assert [problem.code for problem in watch.commits[tip].problems] == ["two-authors"]
    assert watch.changes(tip).keys() == {b"good"}


@pytest.mark.parametrize(
    ("line", "text", "at"),
    [
        (b"Ann <a@example.org> 1790000000 +0800", "Ann <a@example.org>", "2026-09-21T14:13:20.000Z"),
        (b"Ann <a@example.org> 1790000000 -0930", "Ann <a@example.org>", "2026-09-21T14:13:20.000Z"),
        (b"Ann", "Ann", None),
        (b"", "", None),
        (b"Ann <a@example.org>", "Ann <a@example.org>", None),
        (b"Ann <a@example.org> -5 +0000", "Ann <a@example.org>", None),
        (b"Ann <a@example.org> 99999999999999999999 +0000", "Ann <a@example.org>", None),
        (b"Ann <a@example.org> 253402300800 +0000", "Ann <a@example.org>", None),
        (b"Ann <a@example.org> 253402300799 +0000", "Ann <a@example.org>", "9999-12-31T23:59:59.000Z"),
        (b"Ann <a@example.org> 1790000000 +9999", "Ann <a@example.org>", None),
        (b"Ann <a@example.org> noon +0000", "Ann <a@example.org>", None),
        ("安 <a@例.org> 0 +0000".encode(), "安 <a@例.org>", "1970-01-01T00:00:00.000Z"),
        (b"\xff <> 0 +0000", "\\xff", "1970-01-01T00:00:00.000Z"),
    ],
)
def test_an_odd_author_is_kept_as_claimed(
    line: bytes, text: str, at: str | None, builder: Builder, watch_of: Any
) -> None:
    """G4: registered, with the date unreadable where no calendar has it."""
    watch = watch_of(url=str(builder.folder))
    tip = builder.push_as(line)

    watch.look()

    assert (watch.commits[tip].author.text(), watch.commits[tip].author.at) == (text, at)
    assert watch.commits[tip].problems == ()


@pytest.mark.parametrize(
    ("encoding", "raw", "text"),
    [
        ("GBK", "修好了".encode("gbk"), "修好了"),
        ("", "修好了".encode(), "修好了"),
        ("", "修".encode("gbk"), "\\xd0\\xde"),
        ("UTF-8", b"\xff ok", "\\xff ok"),
        ("rot13", b"plain", "plain"),
        ("../../etc", b"plain", "plain"),
        ("", b"\n\nsecond line first", "second line first"),
        ("", b"x" * 5000 + b"\nmore", "x" * 200),
    ],
)
def test_a_message_is_read_as_its_encoding_says(
    encoding: str, raw: bytes, text: str, builder: Builder, watch_of: Any
) -> None:
    """G6: else what cannot be decoded is shown as escaped bytes."""
    watch = watch_of(url=str(builder.folder))
    who = b"Ann <a@example.org> 1790000000 +0000"
    head = [b"tree " + builder.root(builder.tool("good")).encode(), b"author " + who, b"committer " + who]
    head += [b"encoding " + encoding.encode()] if encoding else []
    tip = builder.move(builder.literal("commit", b"\n".join(head) + b"\n\n" + raw + b"\n"))

    watch.look()

    assert watch.commits[tip].message == text


def test_a_merge_that_took_one_side_changed_nothing(builder: Builder, watch: Any) -> None:
    """G12: it differs from its first parent, but the second has it so; an octopus names the first that has it."""
    base = builder.commit(builder.root(builder.tool("a")))
    left = builder.commit(builder.root(builder.tool("a", "left")), base)
    right = builder.commit(builder.root(builder.tool("a"), builder.tool("b")), base)
    third = builder.commit(builder.root(builder.tool("a"), builder.tool("c")), base)
    merge = builder.push(
        builder.root(builder.tool("a", "left"), builder.tool("b"), builder.tool("c")), left, right, third
    )

    watch.look()

    assert {name: change.source for name, change in watch.changes(merge).items()} == {b"b": 1, b"c": 2}
    assert {name: change.source for name, change in watch.changes(right).items()} == {b"b": None}


def test_an_evil_merge_made_what_neither_side_had(builder: Builder, watch: Any) -> None:
    """G12: that is an event; so is what it removes from all sides, while what one side had removed is not."""
    base = builder.commit(builder.root(builder.tool("a"), builder.tool("b"), builder.tool("c")))
    left = builder.commit(builder.root(builder.tool("a", "left"), builder.tool("b"), builder.tool("c")), base)
    right = builder.commit(builder.root(builder.tool("a"), builder.tool("c")), base)
    merge = builder.push(builder.root(builder.tool("a", "evil")), left, right)

    watch.look()

    changes = {name: (change.tree is None, change.source) for name, change in watch.changes(merge).items()}
    assert changes == {b"a": (False, None), b"b": (True, 1), b"c": (True, None)}


def test_commits_come_depth_first_in_parent_order(builder: Builder, watch: Any) -> None:
    """contract/registration.md, Numbers: given once, in this order."""
    tree = builder.root(builder.tool("a"))
    base = builder.commit(tree, message="base")
    left = [builder.commit(tree, base, message="left 1")]
    left.append(builder.commit(tree, left[-1], message="left 2"))
    right = builder.commit(tree, base, message="right")
    tip = builder.push(tree, right, left[-1], message="merge")

    watch.look()

    assert list(watch.commits) == [base, right, *left, tip]


def test_a_push_costs_only_its_own_commits_and_does_not_ask_what_is_known(builder: Builder, watch: Any) -> None:
    """One commit after another is the ordinary case; the list of all known ones is long."""
    commit = builder.push(builder.root(builder.tool("a")))
    watch.look()
    watch.asked = 0
    for note in "123":
        commit = builder.push(builder.root(builder.tool("a", note)), commit)
    before = set(watch.commits)

    watch.look()

    assert watch.asked == 0
    assert len(set(watch.commits) - before) == 3


def test_a_merge_of_an_older_commit_says_no_commit_twice(builder: Builder, watch: Any) -> None:
    """What is new does not end at the tips here: known commits are asked for, once."""
    tree = builder.root(builder.tool("a"))
    commits = [builder.push(tree)]
    for _ in range(5):
        commits.append(builder.push(tree, commits[-1]))
    watch.look()
    watch.asked = 0
    side = builder.commit(builder.root(builder.tool("a"), builder.tool("b")), commits[2])
    merge = builder.push(builder.root(builder.tool("a"), builder.tool("b")), commits[-1], side)

    said = watch.look()

    assert watch.asked == 1
    assert [seen.id for seen in said if type(seen).__name__ == "SeenCommit"] == [side, merge]


def test_a_force_push_back_says_only_where_the_branch_is(builder: Builder, watch: Any) -> None:
    """W13 to W15 of the walk: everything is known already."""
    first = builder.push(builder.root(builder.tool("a")))
    builder.push(builder.root(builder.tool("a", "x")), first)
    watch.look()
    builder.move(first)

    said = watch.look()

    assert [type(seen).__name__ for seen in said] == ["Tip"]
    assert said[0].commit == first


def test_a_long_history_does_not_overflow(builder: Builder, watch_of: Any) -> None:
    """Iteratively, also where a thousand commits stand in one line; and it says how far it is."""
    watch = watch_of(url=str(builder.folder))
    text = "commit refs/heads/main\ncommitter Z <z@example.org> {} +0000\ndata 1\nx\n"
    lines = [text.format(1_790_000_000 + number) for number in range(1500)]
    git("fast-import", "--quiet", at=builder.folder, stdin="".join(lines).encode())

    said = watch.look()

    assert len(watch.commits) == 1500
    assert (said[-1].phase, said[-1].done, said[-1].total) == ("walk", 1500, 1500)
