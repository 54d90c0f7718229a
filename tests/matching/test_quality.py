"""A regression test of the whole: intents written for these tests, against the 120 tools of tests/data/native-repo.

`make bench-matching` measures more, on benchmarks that stay outside the repository.
"""

import pytest

from service.domain.search.matcher import Matcher
from tests.matching.intents import SERVED
from tests.matching.registry import ANYONE, native


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    return Matcher(native())


def test_every_intent_names_a_tool_that_is_there():
    assert {wanted for _, wanted in SERVED} <= {one.name for one in native()}


def test_the_right_tool_is_among_three(matcher):
    missed = [(intent, wanted) for intent, wanted in SERVED if wanted not in matcher.rank(intent, ANYONE)]

    assert len(missed) <= 0.05 * len(SERVED), missed


def test_the_right_tool_is_mostly_first(matcher):
    first = [intent for intent, wanted in SERVED if matcher.rank(intent, ANYONE)[:1] == [wanted]]

    assert len(first) >= 0.85 * len(SERVED)


def test_few_good_intents_are_turned_away(matcher):
    turned_away = [intent for intent, _ in SERVED if not matcher.match(intent, ANYONE).found]

    assert len(turned_away) <= 0.1 * len(SERVED), turned_away
