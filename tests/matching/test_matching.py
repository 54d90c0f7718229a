"""From an intent to candidates (seed §2 step 3; contract/http-api.md, Intent call)."""

from dataclasses import replace
from pathlib import Path

import pytest

from service.domain.actors import Actor
from service.domain.search.matcher import Match, Matcher
from service.intake.definitions.reading import read_definition
from tests.matching.registry import ANYONE, native, starter, tool


def names(match: Match) -> list[str]:
    return [one.tool for one in match.candidates]


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    return Matcher(starter())


@pytest.mark.parametrize(
    ("intent", "wanted"),
    [
        ("查看最近的提交记录", "git-log"),
        ("看看最近的commit", "git-log"),
        ("磁盘还剩多少空间", "disk-usage"),
        ("硬盘满了没", "disk-usage"),
        ("how much disk space is left", "disk-usage"),
        ("restart the service", "service-restart"),
        ("renew the certificate", "cert-renew"),
        ("把备份删掉", "backup-delete"),
    ],
)
def test_the_tool_that_serves_an_intent_comes_first(matcher, intent, wanted):
    match = matcher.match(intent, ANYONE)

    assert match.found
    assert names(match)[0] == wanted
    assert match.nearest == ()


def test_there_are_one_to_three_candidates(matcher):
    for intent in ("文件", "服务器", "查看", "读取服务器上的文件"):
        match = matcher.match(intent, ANYONE)
        assert len(match.candidates) <= 3
        assert bool(match.candidates) is match.found


def test_scores_fall_and_are_in_thresholds(matcher):
    scores = [one.score for one in matcher.match("读取服务器上的文件", ANYONE).candidates]

    assert scores == sorted(scores, reverse=True)
    assert scores[0] >= 1


def test_a_plain_intent_is_sure_and_says_what_matched(matcher):
    [first, *_] = matcher.match("查看最近的提交记录", ANYONE).candidates

    assert first.confidence == "high"
    assert first.matched == ("提交记录", "查看", "最近")


def test_two_tools_that_fit_alike_leave_doubt():
    matcher = Matcher([*starter(), tool("file-get", "读取文件", "读取服务器上一个文件的内容")])

    match = matcher.match("读取文件", ANYONE)

    assert set(names(match)[:2]) == {"file-read", "file-get"}
    assert {one.confidence for one in match.candidates} == {"low"}


@pytest.mark.parametrize("intent", ["", " ", "。。。", "😀😀", "\x00", "的了吗", "\ud800"])
def test_an_intent_without_words_finds_nothing(matcher, intent):
    assert matcher.match(intent, ANYONE) == Match(found=False)


def test_an_empty_registry_finds_nothing():
    assert Matcher([]).match("查看最近的提交记录", ANYONE) == Match(found=False)


def test_order_of_definitions_changes_nothing():
    forth, back = Matcher(starter()), Matcher(starter()[::-1])

    for intent in ("读取文件", "重启", "服务器", "renew"):
        assert forth.match(intent, ANYONE) == back.match(intent, ANYONE)


def test_deprecated_tools_come_last():
    """contract/tool-hdlp.md: still runs, matched last."""
    old, fresh = tool("aa-old", "查看证书", "查看域名证书"), tool("zz-new", "证书", "看一个域名的证书何时到期")
    plain, marked = (Matcher([*starter(), one, fresh]) for one in (old, replace(old, deprecated="用zz-new")))

    assert names(plain.match("查看域名证书", ANYONE))[0] == "aa-old"
    assert names(marked.match("查看域名证书", ANYONE))[-1] == "aa-old"


def test_a_deprecated_tool_is_still_found_where_it_alone_fits():
    matcher = Matcher([replace(one, deprecated="不再用") if one.name == "cert-renew" else one for one in starter()])

    assert "cert-renew" in names(matcher.match("续签证书", ANYONE))


def test_parameters_and_examples_are_searched():
    matcher = Matcher(
        [
            *starter(),
            tool("alpha", "甲", "做一件事", params={"voltage": "电压，单位伏特"}),
            tool("beta", "乙", "做另一件事", examples=("给冰箱除霜",)),
        ]
    )

    assert names(matcher.match("电压是多少伏特", ANYONE))[0] == "alpha"
    assert names(matcher.match("冰箱除霜", ANYONE))[0] == "beta"


def test_context_breaks_ties():
    twins = [tool("clone-a", "克隆", "克隆仓库", why="为了广州"), tool("clone-b", "克隆", "克隆仓库", why="为了上海")]
    matcher = Matcher([*starter(), *twins])

    plain = names(matcher.match("克隆仓库", ANYONE))
    spoken = names(matcher.match("克隆仓库", ANYONE, {"where": ["上海"]}))

    assert plain[:2] == ["clone-a", "clone-b"]
    assert spoken[:2] == ["clone-b", "clone-a"]


def test_context_breaks_nothing_but_ties(matcher):
    plain = matcher.match("续签证书", ANYONE)

    assert matcher.match("续签证书", ANYONE, {"about": "磁盘空间 备份 文件 " * 50, "deep": [[[{"x": 1}]]]}) == plain


def test_a_tool_outside_the_patterns_does_not_exist():
    """contract/http-api.md: not in the answer, and not in a score of it either."""
    narrow = Actor("token:narrow", frozenset({"read"}), ("file-*", "disk-*"))
    seen = [one for one in native() if narrow.sees(one.name)]

    for intent in ("读取文件", "磁盘空间", "重启nginx", "regsiter", "show the disk", "讲个笑话"):
        assert Matcher(native()).match(intent, narrow) == Matcher(seen).match(intent, ANYONE)


def test_sights_are_kept_apart(matcher):
    narrow = Actor("token:narrow", frozenset({"read"}), ("disk-*",))

    before = matcher.match("续签证书", ANYONE)

    assert not matcher.match("续签证书", narrow).found
    assert matcher.match("续签证书", ANYONE) == before


# Tools that resemble each other.


@pytest.mark.parametrize(
    ("name", "display", "intent", "effect", "other"),
    [
        ("log-show", "提交记录", "查看仓库最近的提交记录", None, "commit-list"),
        ("disk-left", "磁盘剩余空间", "查看服务器磁盘还剩多少空间", "read", "disk-usage"),
        ("disk-left", "磁盘剩余空间", "查看服务器磁盘还剩多少空间", "write", None),
        ("show-process", "看进程", "列出服务器上正在运行的进程", "read", "process-list"),
        ("piano-tune", "调音", "给钢琴调一次音", "read", None),
    ],
)
def test_a_tool_whose_own_intent_finds_another_resembles_it(name, display, intent, effect, other):
    """Issue 5: a warning at registration."""
    tools = [*native(), tool(name, display, intent, effect=effect)]

    assert Matcher(tools).resembling(name, ANYONE) == other


def test_siblings_are_told_apart_by_what_they_do():
    """Of the 120 tools of the native-repo few are said to resemble another."""
    matcher = Matcher(native())

    said = [one.name for one in native() if matcher.resembling(one.name, ANYONE)]

    assert len(said) <= 6, said
    assert {"repo-file-update", "commit-status-set", "cron-add", "pr-merge", "cert-renew"}.isdisjoint(said)


def test_a_tool_that_is_not_there_resembles_none():
    assert Matcher(native()).resembling("nothing", ANYONE) is None


def test_the_seeds_intent_finds_git_ops_among_the_starter_set():
    """Seed §2, step 3: what a new native-repo, and the demo's, begins with."""
    place = Path(__file__).parents[2] / "tools"
    readings = [read_definition(file.read_bytes(), file.parent.name) for file in sorted(place.glob("*/TOOL.hdlp"))]
    matcher = Matcher([reading.definition for reading in readings if reading.definition is not None])

    candidates = matcher.match("查看最近的提交记录", ANYONE).candidates

    assert candidates[0].tool == "git-ops"
    assert candidates[0].confidence == "high"
