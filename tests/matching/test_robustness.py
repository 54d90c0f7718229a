"""Any text, at any length, in a moment."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.search.learned import cleaned
from service.domain.search.matcher import Matcher
from tests.matching.registry import ANYONE, native

# Five times the aim of 5 ms (style of these tests: deadlines five times over).
DEADLINE_S = 0.025
MATCHER = Matcher(native())
MATCHER.calibrate(ANYONE)


@pytest.mark.parametrize(
    "intent",
    [
        "重启服务器看看日志error 502 " * 60_000,
        "查看" * 500_000,
        "a" * 1_000_000,
        "\u0000" * 1_000_000,
        "😀" * 250_000,
        " ".join(f"word{number}" for number in range(100_000)),
        " ".join("restrat systmectl regsiter databse" for _ in range(1_000)),
        "\ufdfa" * 100_000,  # one character that NFKC makes eighteen of
        "aB" * 500_000,
        "\u0301" * 1_000_000,
    ],
    ids=["mixed", "chinese", "one-word", "nul", "emoji", "words", "misspelt", "expanding", "camel", "combining"],
)
def test_a_huge_intent_takes_no_longer_than_another(intent):
    least = min(_seconds(lambda: MATCHER.match(intent, ANYONE)) for _ in range(3))

    assert least < DEADLINE_S


@pytest.mark.parametrize(
    "text", ["a.b" * 100_000, "/" * 100_000, "=" * 100_000, "'" * 99_999, "--a" * 100_000, "a " * 100_000]
)
def test_cleaning_takes_no_longer_either(text):
    assert min(_seconds(lambda: cleaned(text)) for _ in range(3)) < DEADLINE_S


@settings(max_examples=150, deadline=None)
@given(
    st.text(st.characters(exclude_categories=()), max_size=80),
    st.recursive(st.text(max_size=9), st.lists, max_leaves=5),
)
def test_any_text_gets_an_answer_of_its_shape(intent, context):
    match = MATCHER.match(intent, ANYONE, context)

    assert match.found is bool(match.candidates)
    assert len(match.candidates) <= 3
    assert len(match.nearest) <= 3
    assert all(one.score >= 1 for one in match.candidates[:1])
    assert all(one.score < 1 for one in match.nearest)


def _seconds(call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
