"""An honest no: a threshold that follows the registry, and what is said beside it (issue 5)."""

import pytest

from service.domain.search import nulls
from service.domain.search.matcher import Matcher
from tests.matching.intents import UNRELATED
from tests.matching.registry import ANYONE, native, starter, tool


@pytest.fixture(scope="module")
def large() -> Matcher:
    return Matcher(native())


@pytest.mark.parametrize("intent", ["订一张去北京的高铁票", "讲个笑话", "play some jazz", "红烧肉怎么做才不腻"])
def test_what_no_tool_serves_is_not_found(intent):
    match = Matcher(starter()).match(intent, ANYONE)

    assert not match.found
    assert match.candidates == ()


def test_the_nearest_are_named_and_lie_below_the_threshold(large):
    match = large.match("帮我写一封情书寄给她", ANYONE)

    assert not match.found
    assert 1 <= len(match.nearest) <= 3
    assert all(one.score < 1 and one.confidence == "low" for one in match.nearest)


def test_most_unrelated_intents_are_turned_away(large):
    found = [intent for intent in UNRELATED if large.match(intent, ANYONE).found]

    assert len(found) <= 1, found


@pytest.mark.parametrize("size", [1, 7, 30, 120])
def test_a_registry_of_any_size_turns_the_shipped_list_away(size):
    """One in twenty may pass, of each language."""
    matcher = Matcher(native()[:size])

    for shipped in (nulls.CHINESE, nulls.LATIN):
        found = [intent for intent in shipped if matcher.match(intent, ANYONE).found]
        assert len(found) <= 0.06 * len(shipped) + 1, found


def test_the_threshold_follows_the_registry(large):
    few, _ = Matcher(native()[:7]).calibrate(ANYONE)
    many, _ = large.calibrate(ANYONE)

    assert many > few


def test_a_near_miss_is_not_sure():
    """The tool that is wanted is missing; its sibling may be shown, with doubt."""
    matcher = Matcher(starter())

    for intent in ("把服务器关机", "给文件改个名字", "撤销上一次提交"):
        match = matcher.match(intent, ANYONE)
        assert all(one.confidence != "high" for one in match.candidates), match


def test_no_word_alone_makes_a_tool_of_a_small_registry_fit():
    assert not Matcher([tool("file-read", "读取文件", "读取一个文件")]).match("话剧什么时候开演", ANYONE).found


def test_the_shipped_list_repeats_nothing_and_no_test_stands_in_it():
    shipped = [*nulls.CHINESE, *nulls.LATIN]

    assert len(shipped) == len(set(shipped)) >= 200
    assert not set(shipped) & set(UNRELATED)
    assert all(not line.isascii() for line in nulls.CHINESE)
    assert all(line.isascii() for line in nulls.LATIN)
