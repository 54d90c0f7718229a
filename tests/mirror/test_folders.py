"""What a tool's folder may hold: regular files, not too large, not too many; and how it comes."""

import hashlib
from typing import Any

import pytest

from tests.git_objects import Builder, definition


def test_a_folder_comes_with_all_its_files(builder: Builder, watch: Any) -> None:
    """A run needs neither the mirror nor the forge: every byte is there at registration."""
    files = {"run.sh": b"#!/bin/sh\necho hello\n", "lib/part.py": b"x = 1\n", "TOOL.hdlp": definition("good")}
    tip = builder.push(builder.root(("40000", b"good", builder.tree(files))))

    watch.look()

    folder = watch.folder(tip, b"good")
    assert {file.path: watch.blobs[file.blob] for file in folder.files} == files
    assert {file.path: file.size for file in folder.files} == {path: len(content) for path, content in files.items()}
    assert [file.path for file in folder.files if file.executable] == ["run.sh"]
    assert folder.sha256 == hashlib.sha256(files["TOOL.hdlp"]).hexdigest()
    assert watch.blobs[folder.blob] == files["TOOL.hdlp"]
    assert folder.tree == watch.changes(tip)[b"good"].tree


def test_an_invalid_definition_comes_with_its_problems_and_bytes(builder: Builder, watch: Any) -> None:
    """A rejection shows what was written."""
    tip = builder.push(builder.root(("40000", b"bad", builder.tree({"TOOL.hdlp": b"name: other\n"}))))

    watch.look()

    folder = watch.folder(tip, b"bad")
    assert folder.reading.definition is None
    assert folder.reading.problems
    assert watch.blobs[folder.blob] == b"name: other\n"


@pytest.mark.parametrize("size", [64 * 1024 + 1, 50_000_000])
def test_a_definition_that_is_too_large_is_not_read(size: int, builder: Builder, watch: Any) -> None:
    """Y23: from the object's header; neither its bytes nor a hash of them come."""
    tip = builder.push(builder.root(("40000", b"big", builder.tree({"TOOL.hdlp": b"#" * size}))))

    watch.look()

    folder = watch.folder(tip, b"big")
    assert [problem.code for problem in folder.reading.problems] == ["file-too-large"]
    assert str(size) in folder.reading.problems[0].en
    assert folder.sha256 is None
    assert folder.blob is not None
    assert folder.blob not in watch.blobs or size <= 1 << 20


def test_a_definition_of_just_64_kib_is_read(builder: Builder, watch: Any) -> None:
    """Y23: the limit itself is allowed."""
    text = definition("edge")
    text += b"#" + b"x" * (64 * 1024 - len(text) - 2) + b"\n"
    tip = builder.push(builder.root(("40000", b"edge", builder.tree({"TOOL.hdlp": text}))))

    watch.look()

    assert len(text) == 64 * 1024
    assert watch.folder(tip, b"edge").reading.definition.name == "edge"


@pytest.mark.parametrize(
    ("files", "codes"),
    [
        ({"big.bin": b"\0" * ((1 << 20) + 1)}, ["file-too-large"]),
        ({"big.bin": b"\0" * (1 << 20)}, []),
        ({f"{number}.bin": bytes([number]) * 1_000_000 for number in range(5)}, ["folder-too-large"]),
        ({f"{number}.txt": b"x" for number in range(200)}, ["too-many-files"]),
        ({f"{number}.txt": b"x" for number in range(199)}, []),
        ({f"deep/{'d/' * number}f": b"x" for number in range(3)}, []),
    ],
)
def test_the_limits_of_a_folder(files: dict[str, bytes], codes: list[str], builder: Builder, watch: Any) -> None:
    """X40: 1 MiB a file, 4 MiB and 200 files together, TOOL.hdlp among them."""
    tip = builder.push(builder.root(("40000", b"tool", builder.tree({**files, "TOOL.hdlp": definition("tool")}))))

    watch.look()

    folder = watch.folder(tip, b"tool")
    assert watch.codes(tip, b"tool") == codes
    assert folder.reading.definition.name == "tool"
    assert all(file.blob in watch.blobs for file in folder.files) is (codes == [])


def test_links_and_strange_entries_inside_a_folder_are_problems_that_say_where(builder: Builder, watch: Any) -> None:
    """X40, G7, G10: as strict at any depth."""
    row = ("100644", b"x", builder.blob(b"x"))
    deep = builder.rows([("120000", b"link", builder.blob(b"/etc/passwd")), row, row])
    rows = [
        ("100644", b"TOOL.hdlp", builder.blob(definition("tool"))),
        ("40000", b"deep", deep),
        ("160000", b"s", "12" * 20),
    ]
    tip = builder.push(builder.root(("40000", b"tool", builder.rows(rows))))

    watch.look()

    found = {(problem.field, problem.code) for problem in watch.folder(tip, b"tool").problems}
    assert found == {("deep/link", "symlink"), ("deep/x", "ambiguous-tree"), ("s", "submodule")}
    assert watch.blobs == {}


def test_a_folder_named_tool_hdlp_is_no_definition(builder: Builder, watch: Any) -> None:
    """It looks like one in a listing, so it is a problem and not silence."""
    tip = builder.push(builder.root(("40000", b"tool", builder.tree({"TOOL.hdlp/x": b"x"}))))

    watch.look()

    assert watch.codes(tip, b"tool") == ["not-a-file"]


def test_the_same_bytes_in_two_folders_come_once(builder: Builder, watch: Any) -> None:
    """A blob is sent once a look; each folder is read under its own name."""
    shared = b"#!/bin/sh\n"
    tip = builder.push(builder.root(builder.tool("a", run_sh=shared), builder.tool("b", run_sh=shared)))

    watch.look()

    assert watch.folder(tip, b"a").files[1].blob == watch.folder(tip, b"b").files[1].blob
