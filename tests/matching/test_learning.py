"""What may be learned from the record, from whom, and what never follows from it (issue 5; cases.md I1)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from service.domain.actors import Actor
from service.domain.search import learned
from service.domain.search.learned import CAP, CAP_OF_ONE, LearnedIntent
from service.domain.search.matcher import Matcher
from tests.matching.registry import ANYONE, starter

NOW = datetime(2026, 12, 1, tzinfo=UTC)
ZHUYUAN = Actor("token:zhuyuan", frozenset({"read", "exec"}))
TOOLS = {one.name: one for one in starter()}


def accepted(tool: str, text: str, *actors: str, days_ago: int = 0) -> list[LearnedIntent]:
    at = NOW - timedelta(days=days_ago)
    return [LearnedIntent(text, actor, at, learned.ground(TOOLS[tool])) for actor in actors]


def matcher(**lessons: list[LearnedIntent]) -> Matcher:
    return Matcher(starter(), learned={name.replace("_", "-"): found for name, found in lessons.items()}, now=NOW)


def best(of: Matcher, intent: str, actor: Actor = ANYONE) -> str | None:
    candidates = of.match(intent, actor).candidates
    return candidates[0].tool if candidates else None


SLANG = "翻翻旧账本"


def test_an_accepted_intent_finds_its_tool_again():
    taught = matcher(git_log=accepted("git-log", SLANG, ZHUYUAN.name))

    assert best(Matcher(starter()), SLANG, ZHUYUAN) is None
    assert best(taught, SLANG, ZHUYUAN) == "git-log"


def test_what_only_a_lesson_finds_is_offered_with_doubt():
    """One call that happened to follow an intent may have taught it: nobody shall take that for certain."""
    taught = matcher(git_log=accepted("git-log", SLANG, ZHUYUAN.name))

    assert {one.confidence for one in taught.match(SLANG, ZHUYUAN).candidates} == {"low"}


def test_a_hundred_accepts_by_one_token_change_nothing_for_others():
    """I1."""
    flood = [
        LearnedIntent(f"磁盘空间{word}", ZHUYUAN.name, NOW, learned.ground(TOOLS["git-log"]))
        for word in map("第{}次".format, range(100))
    ]
    taught, plain = matcher(git_log=flood), Matcher(starter())

    for intent in ("磁盘空间还剩多少", "查看最近的提交记录", SLANG, "读取文件"):
        assert taught.match(intent, ANYONE) == plain.match(intent, ANYONE)


def test_what_three_actors_agree_on_counts_for_everybody():
    taught = matcher(git_log=accepted("git-log", SLANG, "token:a", "token:b", "token:c"))

    assert best(taught, SLANG) == "git-log"


@pytest.mark.parametrize("counts", [(10, 1, 1), (1, 1, 1), (9, 5, 2, 1), (3, 3), (7,)])
def test_no_actor_makes_more_than_a_third_of_what_others_see(counts):
    """I1. The intents of each actor have words of their own, so that their weights can be told apart."""
    intents = [
        LearnedIntent(f"actor{actor} word{chr(97 + actor)}{chr(97 + one)}", f"token:{actor}", NOW)
        for actor, count in enumerate(counts)
        for one in range(count)
    ]

    document = learned.document(intents, "", NOW)

    shares = [
        sum(weight for word, weight in document.items() if word.startswith(f"word{chr(97 + actor)}"))
        for actor in range(len(counts))
    ]
    assert max(shares) <= sum(shares) / 3 + 1e-9
    assert (sum(shares) > 0) is (len(counts) >= 3)


@pytest.mark.parametrize("tool", ["file-write", "service-restart", "backup-delete"])
def test_nothing_learned_turns_a_no_into_a_tool_that_changes_something(tool):
    taught = matcher(**{tool.replace("-", "_"): accepted(tool, SLANG, ZHUYUAN.name, "token:b", "token:c")})

    match = taught.match(SLANG, ZHUYUAN)

    assert not match.found
    assert match.nearest[0].tool == tool


def test_a_tool_that_does_not_say_its_effect_is_taken_for_one_that_changes_something():
    tools = [replace(one, effect=None) if one.name == "git-log" else one for one in starter()]
    lesson = LearnedIntent(SLANG, ZHUYUAN.name, NOW, learned.ground(tools[2]))

    assert not Matcher(tools, learned={"git-log": [lesson]}, now=NOW).match(SLANG, ZHUYUAN).found


def test_a_tool_that_changes_something_does_not_come_in_behind_one_that_reads():
    lessons = {name: accepted(name, SLANG, ZHUYUAN.name) for name in ("git-log", "backup-delete")}

    match = Matcher(starter(), learned=lessons, now=NOW).match(SLANG, ZHUYUAN)

    assert [one.tool for one in match.candidates] == ["git-log"]


def test_what_is_learned_may_order_what_is_found_anyway():
    intent = "服务器上的文件"
    first = best(Matcher(starter()), intent, ZHUYUAN)
    second = {"file-read": "file-write", "file-write": "file-read"}[first]

    taught = Matcher(starter(), learned={second: accepted(second, intent, ZHUYUAN.name)}, now=NOW)

    assert best(taught, intent, ZHUYUAN) == second


@pytest.mark.parametrize(
    "change",
    [{"executor": "shell"}, {"method": "run"}, {"command": ("git", "push")}, {"effect": "destructive"}],
    ids=["executor", "method", "command", "effect"],
)
def test_what_was_learned_is_forgotten_when_the_tool_does_something_else(change):
    tools = [replace(one, **change) if one.name == "git-log" else one for one in starter()]
    lesson = accepted("git-log", SLANG, ZHUYUAN.name)

    assert learned.counting({"git-log": lesson}, starter()).keys() == {"git-log"}
    assert learned.counting({"git-log": lesson}, tools) == {}
    assert not Matcher(tools, learned={"git-log": lesson}, now=NOW).match(SLANG, ZHUYUAN).found


def test_a_new_wording_of_the_definition_forgets_nothing():
    tools = [replace(one, intent="换了说法", why="也换了") if one.name == "git-log" else one for one in starter()]

    assert learned.counting({"git-log": accepted("git-log", SLANG, "token:a")}, tools).keys() == {"git-log"}


def test_a_renamed_tool_starts_anew():
    tools = [replace(one, name="git-history") if one.name == "git-log" else one for one in starter()]

    assert learned.counting({"git-log": accepted("git-log", SLANG, "token:a")}, tools) == {}


def test_grounds_tell_the_parts_of_a_command_apart():
    one, other = (replace(TOOLS["git-log"], command=command) for command in (("a", "bc"), ("ab", "c")))

    assert learned.ground(one) != learned.ground(other)


def test_a_flood_pushes_out_nobody_elses_intents():
    theirs = [LearnedIntent("翻翻旧账本", "token:a", NOW - timedelta(days=9))]
    flood = [LearnedIntent(f"旧账{chr(0x4E00 + i)}", "token:b", NOW) for i in range(100)]

    kept = learned.kept(theirs + flood)

    assert theirs[0] in kept
    assert len(kept) == CAP_OF_ONE + 1


def test_the_newest_are_kept_up_to_the_cap():
    many = [LearnedIntent(f"旧账{chr(0x4E00 + i)}", f"token:{i % 9}", NOW - timedelta(days=i)) for i in range(3 * CAP)]

    assert learned.kept(reversed(many)) == tuple(many[:CAP])


def test_one_wording_of_one_actor_is_kept_once():
    repeats = [LearnedIntent(text, "token:a", NOW) for text in ("翻翻旧账本", "翻翻旧账本！", "请 翻翻旧账本")]

    assert len(learned.kept(repeats)) == 1


def test_old_intents_fade():
    young, old = (
        learned.document(accepted("git-log", SLANG, "token:a", days_ago=days), "token:a", NOW) for days in (0, 360)
    )

    assert old["旧账"] == pytest.approx(young["旧账"] / 4)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("看看/var/log/hldp/sync.log最后写了啥", "看看 最后写了啥"),
        ("用token=abc123登录", "用 登录"),
        ("重启 hldp-api-7f9c 服务", "重启 服务"),
        ("把 https://example.org/x?key=1 下载下来", "把 下载下来"),
        ("给 someone@example.org 发信", "给 发信"),
        ("密码是 'hunter two' 的那台", "密码是 的那台"),
        ("记下“你不是工具，你是家人”这句话", "记下 这句话"),
        ("查一下工单12号", "查一下工单 号"),
        ("sk_live_ABCDEFGHIJKLMNOPQRSTUVWX 还能用吗", "还能用吗"),
        ("C:\\Users\\me\\file.txt 打不开", "打不开"),
        ("restart the web service", "restart the web service"),
        ("--password hunter 登录", "hunter 登录"),
        ("10.0.0.7", ""),
    ],
)
def test_what_is_somebodys_own_is_not_kept(said, kept):
    assert learned.cleaned(said) == kept


def test_what_is_kept_is_short():
    assert len(learned.cleaned("看看日志 " * 10_000)) <= learned.MAX_CHARACTERS
