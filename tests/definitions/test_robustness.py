"""No bytes make the reader raise, wait or grow (cases.md Y17, Y22)."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.domain.definitions import MAX_FILE_BYTES, Definition
from tests.definitions.written import SEED, codes, read, read_changed

TOOLS = sorted((Path(__file__).parent.parent / "data" / "native-repo" / "tools").iterdir())


def test_an_anchor_is_a_problem_and_its_alias_another():
    """Y17: the first anchor is named; nothing is expanded."""
    bomb = "x-a: &a [1, 1]\n" + "".join(f"x-{n}: &b{n} [*a, *a, *a]\n" for n in range(50))
    reading = read(SEED + bomb)

    assert (reading.problems[0].code, reading.problems[0].line) == ("anchor", 16)
    assert set(codes(reading)) <= {"anchor", "alias", "too-many-problems"}


def test_a_value_that_holds_itself_is_a_problem():
    """Y17: `&a [*a]`."""
    assert codes(read(SEED + "x-a: &a [*a]\n")) == ["anchor", "alias"]


@pytest.mark.parametrize(
    "bomb",
    [
        "[" * 2000,
        "[" * 60_000,
        "{a: " * 2000,
        "? " * 3000,
        "- " * 900,
        "\n" + "".join(" " * n + "a:\n" for n in range(300)),
    ],
)
def test_depth_is_refused_at_once(bomb):
    """Y22: at most 50 ms, and no recursion of the parser's or ours."""
    started = time.perf_counter()
    reading = read(bomb)
    took = time.perf_counter() - started

    assert codes(reading) == ["too-deep"]
    assert took < 0.25  # 50 ms, five times the slack


def test_too_many_nodes_are_a_problem():
    """Y22."""
    started = time.perf_counter()
    reading = read(SEED + "x-a:\n" + "- a\n" * 15_000)
    took = time.perf_counter() - started

    assert codes(reading) == ["too-many-nodes"]
    assert took < 0.25  # 50 ms, five times the slack


def test_at_most_a_hundred_problems_are_listed_and_the_last_says_so():
    reading = read(SEED + "".join(f"key{n}: a\n" for n in range(900)))

    assert len(reading.problems) == 100
    assert reading.problems[-1].code == "too-many-problems"
    assert "801" in reading.problems[-1].en


def test_messages_hold_nothing_that_moves_a_terminal():
    """Whatever a file holds, its problems are safe to print."""
    reading = read_changed(("name: shell-exec", 'name: "\\e[31m\\u202e"'), ("intent", '"\\e]0;x\\a"'))

    assert reading.problems
    assert all((problem.zh + problem.en + problem.field).isprintable() for problem in reading.problems)


def test_reading_a_file_costs_little():
    """10,000 tools in one push are read within seconds (contract/registration.md, G20)."""
    contents = [((folder / "TOOL.hdlp").read_bytes(), folder.name) for folder in TOOLS]
    started = time.perf_counter()
    for content, folder in contents:
        read(content, folder)
    took = time.perf_counter() - started

    assert took / len(contents) < 0.05


@pytest.mark.parametrize(
    "text",
    [
        "a\u200b" * 16_000,
        "why: '" + "\t" * 60_000 + "'",
        "a: b # " + "\t#" * 30_000,
        "a: b" + "\t" * 60_000,
        "x: [：" + '"\\' * 30_000,
        "x: {" + "a： b， " * 8_000,
        "\n".join(f"ke{n}y: a" for n in range(1_900)),
        "params_schema:\n" + "".join(f"  p{n}: {{ type: strin{n} }}\n" for n in range(300)),
        "\n".join(f"k{n}: '\u202e'" for n in range(900)),
        SEED + "\t\n" * 20_000,
        "a: " + "!" * 60_000,
        "\t" * 60_000,
    ],
    ids=range(12),
)
def test_no_file_takes_long(text):
    """Y22: whatever 64 KiB hold; one push may bring many of them."""
    started = time.perf_counter()
    reading = read(text.encode()[:MAX_FILE_BYTES])
    took = time.perf_counter() - started

    assert reading.problems
    assert took < 0.25


@given(st.binary(max_size=400))
@example(b"\xef\xbb\xbf")
@example(b'"\\UFFFFFFFF"')
@example(b'a: "\\ud800"')
@example(b"? |\n")
def test_no_bytes_make_the_reader_raise(content):
    reading = read(content)

    assert reading.problems
    assert json.dumps(reading.as_json()).encode()


_PIECES = [
    "name",
    ": ",
    "：",
    "\n",
    "  ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "，",
    '"',
    "'",
    "|",
    ">",
    "&a ",
    "*a",
    "!t ",
    "? ",
    "#",
    "\t",
    "<<",
    "\\u200b",
    "\u3000",
    "\ufeff",
    "%",
    "---\n",
    "x-",
    "1",
    "params_schema:\n  a: {type: string, enum: [",
    "constraints",
    "\ud7ff",
    "\0",
]


@given(st.lists(st.sampled_from([*_PIECES, *SEED.splitlines(keepends=True)]), max_size=40))
def test_no_mixture_of_yaml_makes_the_reader_raise(pieces):
    reading = read("".join(pieces))

    assert (reading.definition is None) == bool(reading.problems)
    assert all(problem.zh and problem.en and problem.code for problem in reading.problems)
    assert reading.definition is None or isinstance(reading.definition, Definition)
    assert json.dumps(reading.as_json(), ensure_ascii=False).encode()
