"""Nearness of meaning: what it changes, what it never changes, and an endpoint that is away, slow or wrong."""

import json
import socket
import time

import pytest

from service.domain.actors import Actor
from service.domain.search.matcher import Matcher
from service.execution import embeddings
from service.execution.embeddings import Embeddings
from tests.harness.far_side import answer_with, drip, nobody, reset, say
from tests.harness.service import eventually
from tests.matching.registry import ANYONE, starter, tool

TOOLS = [
    tool("cat-feed", "喂猫", "给家里的猫添上猫粮"),
    tool("cat-wash", "洗猫", "给家里的猫洗一个澡"),
    tool("dog-walk", "遛狗", "带着狗出门走一走"),
]
# What the made-up model knows: texts that hold the word point there.
MEANINGS = {"洗": [0.0, 1.0, 0.0], "干净": [0.0, 1.0, 0.0], "喂": [1.0, 0.0, 0.0], "狗": [0.0, 0.0, 1.0]}


def vector(text: str) -> list[float]:
    return next((found for word, found in MEANINGS.items() if word in text), [1.0, 1.0, 1.0])


def model(connection: socket.socket, request: bytes) -> None:
    """An endpoint of OpenAI's form; it answers backwards, since `index` says which is which."""
    texts = json.loads(request.partition(b"\r\n\r\n")[2])["input"]
    rows = [{"index": place, "embedding": vector(text)} for place, text in enumerate(texts)]
    answer_with(json.dumps({"data": rows[::-1]}).encode())(connection, request)


def learned(url: str, **more) -> Embeddings:
    made = Embeddings(url, more.get("token"), "some-model")
    made.learn_soon(TOOLS)
    eventually(lambda: made.likeness("洗", TOOLS), every_s=0.01)
    return made


# What it changes.


def test_what_is_nearer_in_meaning_comes_first():
    matcher = Matcher(TOOLS)
    assert matcher.match("家里的猫", ANYONE).candidates[0].tool in {"cat-feed", "cat-wash"}

    for name in ("cat-feed", "cat-wash"):
        nearer = {one.name: 0.9 if one.name == name else 0.8 for one in TOOLS}
        assert matcher.match("家里的猫", ANYONE, likeness=nearer).candidates[0].tool == name


def test_a_tool_without_a_word_in_common_may_be_offered_beside_those_that_have_some():
    likeness = {"cat-feed": 0.5, "cat-wash": 0.5, "dog-walk": 0.95}

    found = Matcher(TOOLS).match("家里的猫", ANYONE, likeness=likeness).candidates

    assert "dog-walk" in {one.tool for one in found}


@pytest.mark.parametrize("intent", ["红烧肉要炖多久才软", "", "翻翻旧账本"])
def test_nearness_never_turns_a_no_into_a_yes(intent):
    likeness = {one.name: 1.0 if one.name == "git-log" else 0.0 for one in starter()}

    assert not Matcher(starter()).match(intent, ANYONE, likeness=likeness).found


def test_a_tool_that_the_asker_does_not_see_lends_nothing():
    asker = Actor("token:cats", frozenset(), ("cat-*",))
    likeness = {"cat-feed": 0.6, "cat-wash": 0.7}

    without = Matcher(TOOLS[:2]).match("家里的猫", asker, likeness=likeness)

    assert Matcher(TOOLS).match("家里的猫", asker, likeness=likeness | {"dog-walk": 1.0}) == without


def test_equal_nearness_changes_nothing():
    matcher = Matcher(starter())
    likeness = {one.name: 0.5 for one in starter()}

    for intent in ("查看最近的提交记录", "服务器上的文件", "红烧肉"):
        assert matcher.match(intent, ANYONE, likeness=likeness) == matcher.match(intent, ANYONE)


# The endpoint.


def test_the_endpoint_tells_how_near_each_tool_is(far_side):
    side = far_side(model)

    likeness = learned(side.url + "/v1", token="secret").likeness("弄干净", TOOLS)

    assert max(likeness, key=likeness.get) == "cat-wash"
    assert likeness["cat-wash"] == pytest.approx(1.0)
    assert all(request.startswith(b"POST /v1/embeddings HTTP/1.1\r\n") for request in side.requests)
    assert all(b"Authorization: Bearer secret\r\n" in request for request in side.requests)
    assert {body["model"] for body in side.bodies()} == {"some-model"}


def test_a_text_is_sent_once(far_side):
    side = far_side(model)
    made = learned(side.url)
    made.likeness("弄干净", TOOLS)
    count = side.connections

    for _ in range(3):
        assert made.likeness("弄干净", TOOLS)
    made.learn_soon(TOOLS)

    assert side.connections == count


@pytest.mark.parametrize("intent", ["把猫洗干净" * 20, "wash " * 21, "x" * 1_000_000])
def test_a_long_intent_goes_by_its_words(far_side, intent):
    side = far_side(model)
    made = learned(side.url)
    count = side.connections

    assert made.likeness(intent, TOOLS) is None
    assert side.connections == count


FAULTS = {
    "status": answer_with(b"{}", "500 Internal Server Error"),
    "no json": answer_with(b"<html>"),
    "no list": answer_with(b'{"data": 5}'),
    "no vector": answer_with(b'{"data": [{"index": 0, "embedding": []}]}'),
    "text": answer_with(b'{"data": [{"index": 0, "embedding": ["x"]}]}'),
    "nothing points anywhere": answer_with(b'{"data": [{"index": 0, "embedding": [0.0, 0.0]}]}'),
    "no number": answer_with(b'{"data": [{"index": 0, "embedding": [NaN, 1]}]}'),
    "too many": answer_with(b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]}'),
    "deep": answer_with(b"[" * 100_000),
    "reset": reset,
    "no http": say(b"hello\r\n\r\n"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_endpoint_that_fails_leaves_the_words(far_side, fault, capsys):
    """A line in the log, no error; for a while it is not asked again."""
    working = [True]

    def behave(connection, request):
        (model if working[0] else FAULTS[fault])(connection, request)

    side = far_side(behave)
    made = learned(side.url)
    working[0] = False
    count = side.connections

    assert made.likeness("弄干净", TOOLS) is None
    assert made.likeness("再弄干净", TOOLS) is None

    assert side.connections == count + 1
    assert "no embedding of an intent" in capsys.readouterr().out


def test_an_endpoint_that_drips_is_given_up_within_the_deadline(far_side, monkeypatch):
    """One second for an intent; asserted with five times that."""
    working = [True]
    slow = drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x")

    def behave(connection, request):
        (model if working[0] else slow)(connection, request)

    made = learned(far_side(behave).url)
    working[0] = False
    began = time.monotonic()

    assert made.likeness("弄干净", TOOLS) is None
    assert time.monotonic() - began < 5 * embeddings.DEADLINE_S


def test_an_endpoint_where_nobody_listens_is_no_trouble():
    made = Embeddings(nobody(), None, "some-model")

    made.learn_soon(TOOLS)

    assert made.likeness("弄干净", TOOLS) is None
