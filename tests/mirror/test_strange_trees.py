"""Trees that stock `git push` puts through: each strange entry is a problem of what it names, and of nothing else."""

from typing import Any

import pytest

from tests.git_objects import Builder, definition


def test_two_files_named_tool_hdlp_in_one_folder_are_rejected(builder: Builder, watch: Any) -> None:
    """G1: git shows the first and dulwich the last, so neither counts."""
    one, other = builder.blob(definition("two")), builder.blob(definition("two", "x"))
    two = builder.rows([("100644", b"TOOL.hdlp", one), ("100644", b"TOOL.hdlp", other)])
    tip = builder.push(builder.root(builder.tool("good"), ("40000", b"two", two)))

    watch.look()

    assert watch.codes(tip, b"two") == ["ambiguous-tree"]
    assert watch.folder(tip, b"two").blob is None
    assert watch.folder(tip, b"good").reading.definition.name == "good"


def test_a_definition_that_is_a_link_is_rejected(builder: Builder, watch: Any) -> None:
    """G7: the link's text must not be read as a definition, nor the file it names."""
    link = builder.rows([("120000", b"TOOL.hdlp", builder.blob(b"../good/TOOL.hdlp"))])
    tip = builder.push(builder.root(builder.tool("good"), ("40000", b"linked", link)))

    watch.look()

    assert watch.codes(tip, b"linked") == ["symlink"]
    assert watch.folder(tip, b"linked").reading is None
    assert watch.codes(tip, b"good") == []


def test_a_folder_that_is_a_link_or_a_submodule_is_rejected(builder: Builder, watch: Any) -> None:
    """G9: what is not in the repository cannot be registered from it."""
    good = builder.tool("good")
    rows = [good, ("120000", b"link", builder.blob(b"good")), ("160000", b"sub", "12" * 20)]
    tip = builder.push(builder.root(*rows))

    watch.look()

    assert watch.codes(tip, b"link") == ["symlink"]
    assert watch.codes(tip, b"sub") == ["submodule"]
    assert watch.codes(tip, b"good") == []


BAD_NAMES = [b".", b"..", b".git", b".GiT", b"", b"a/b", b"\xff\xfe", b"new\nline", b"bell\x07", b"nel\xc2\x85"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_folder_with_a_name_that_is_none_is_rejected_and_the_others_register(
    name: bytes, builder: Builder, watch_of: Any
) -> None:
    """G10: dulwich lists them all. Locally, since git's own client refuses to send some."""
    watch = watch_of(url=str(builder.folder))
    rows = [(b"good", builder.tool("good")), (name, ("40000", name, builder.tool("x")[2]))]
    tip = builder.push(builder.root(*(row for _, row in sorted(rows, key=lambda each: each[0] + b"/"))))

    watch.look()

    assert watch.codes(tip, name) == ["bad-name"]
    assert watch.codes(tip, b"good") == []


@pytest.mark.parametrize("mode", ["040000", "40755", "100666", "100664", "644", "0", "130000"])
def test_a_mode_spelled_otherwise_is_rejected(mode: str, builder: Builder, watch_of: Any) -> None:
    """G10: `git fsck` passes some of them, even with --strict."""
    watch = watch_of(url=str(builder.folder))
    bad = builder.tool("bad")[2] if mode.endswith("40000") or mode == "40755" else builder.blob(b"x")
    tip = builder.push(builder.root((mode, b"bad", bad), builder.tool("good")))

    watch.look()

    assert watch.codes(tip, b"bad") == ["bad-mode"]
    assert watch.codes(tip, b"good") == []


def test_one_name_twice_rejects_both_and_an_unsorted_one_itself(builder: Builder, watch: Any) -> None:
    """G10, G1: also where one of the two is a file that sorts elsewhere."""
    first, second = builder.tool("twice"), builder.tool("twice", "x")
    file_of_that_name = ("100644", b"mixed", builder.blob(b"x"))
    rows = [
        builder.tool("good"),
        file_of_that_name,
        ("100644", b"mixed.txt", builder.blob(b"y")),
        builder.tool("mixed"),
    ]
    tip = builder.push(builder.root(*rows, first, second, builder.tool("early")))

    watch.look()

    assert watch.codes(tip, b"twice") == ["ambiguous-tree"]
    assert watch.codes(tip, b"mixed") == ["ambiguous-tree"]
    assert watch.codes(tip, b"early") == ["unsorted-tree"]
    assert watch.codes(tip, b"good") == []
    assert b"mixed.txt" not in watch.changes(tip)


def test_a_doubled_tools_folder_rejects_all_that_is_in_either(builder: Builder, watch: Any) -> None:
    """contract/registration.md: the path from the root is checked as strictly, and nothing beside it."""
    one, other = builder.rows([builder.tool("one")]), builder.rows([builder.tool("other")])
    root = builder.rows(
        [("100666", b"strange", builder.blob(b"")), ("40000", b"tools", one), ("40000", b"tools", other)]
    )
    tip = builder.push(root)

    watch.look()

    assert watch.codes(tip, b"one") == watch.codes(tip, b"other") == ["ambiguous-tree"]


def test_a_strange_entry_that_ends_lets_its_folder_register(builder: Builder, watch: Any) -> None:
    """The folder's tree is the same before and after: what was strange around it must have counted as a difference."""
    tool = builder.tool("late")
    strange = builder.push(builder.root(builder.tool("zeta"), tool))
    proper = builder.push(builder.root(tool, builder.tool("zeta")), strange)

    watch.look()

    assert watch.codes(strange, b"late") == ["unsorted-tree"]
    assert watch.changes(proper).keys() == {b"late"}
    assert watch.folder(proper, b"late").reading.definition.name == "late"


def test_a_strange_entry_that_comes_between_two_clean_trees_is_seen(builder: Builder, watch: Any) -> None:
    """Trees that are nearly alike are compared in the middle only: what is strange there must still be found."""
    tools = [builder.tool(f"tool-{number:02}") for number in range(20)]
    before = builder.push(builder.root(*tools))
    doubled = builder.push(builder.root(*tools[:10], builder.tool("tool-09", "x"), *tools[10:]), before)
    unsorted = builder.push(builder.root(*tools[:10], builder.tool("aaa"), *tools[10:]), doubled)
    after = builder.push(builder.root(*tools), unsorted)

    watch.look()

    assert watch.codes(doubled, b"tool-09") == ["ambiguous-tree"]
    assert watch.changes(unsorted).keys() == {b"tool-09", b"aaa"}
    assert watch.codes(unsorted, b"aaa") == ["unsorted-tree"]
    assert watch.codes(unsorted, b"tool-09") == []
    assert {name: change.tree for name, change in watch.changes(after).items()} == {b"aaa": None}


def test_plain_files_beside_the_folders_are_nothing(builder: Builder, watch: Any) -> None:
    """tools/README.md is no tool and no problem, nor is a folder without TOOL.hdlp, whatever it holds."""
    readme = ("100644", b"README.md", builder.blob(b"x"))
    library = ("40000", b"lib", builder.rows([("120000", b"link", builder.blob(b"x"))]))
    tip = builder.push(builder.root(readme, builder.tool("good"), library))

    watch.look()

    assert watch.changes(tip).keys() == {b"good", b"lib"}
    assert watch.folder(tip, b"lib").reading is None
    assert watch.codes(tip, b"lib") == []


def test_a_path_that_is_no_folder_has_no_tools(builder: Builder, watch: Any) -> None:
    """`tools` as a file, and then as a folder, and as a file again."""
    file = builder.rows([("100644", b"tools", builder.blob(b"x"))])
    first = builder.push(file)
    second = builder.push(builder.root(builder.tool("good")), first)
    third = builder.push(file, second)

    watch.look()

    assert watch.changes(first) == {}
    assert watch.changes(second).keys() == {b"good"}
    assert {name: change.tree for name, change in watch.changes(third).items()} == {b"good": None}


def test_tools_may_lie_deeper(builder: Builder, watch_of: Any) -> None:
    """The root folder `tools` is a setting, and may have a slash in it."""
    watch = watch_of(tools_path="ops/agent")
    tip = builder.push(builder.tree({"ops/agent/good/TOOL.hdlp": definition("good"), "agent/x/TOOL.hdlp": b"no"}))

    watch.look()

    assert watch.changes(tip).keys() == {b"good"}
