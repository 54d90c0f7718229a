"""Whose turn it is: bounded in all, for each actor and in bytes, and fair between actors."""

from dataclasses import dataclass

import pytest

from service.errors import Busy
from service.execution.queue import WAITING_BYTES, Queue


@dataclass(eq=False)
class Call:
    """What a queue knows of a call."""

    who: str
    size: int = 10


def line_up(queue: Queue[Call], *calls: Call) -> None:
    """Each stands in line."""
    for call in calls:
        queue.reserve(call.who, call.size)
        queue.put(call)


def order(queue: Queue[Call]) -> list[str]:
    """Whose turn it is, one run after another, until nobody waits."""
    turns = []
    while ready := queue.ready():
        for call in ready:
            turns.append(call.who)
            queue.leave(call.who)
    return turns


def test_a_slot_is_taken_at_once_while_there_is_one() -> None:
    """In all and for each actor."""
    queue = Queue[Call](in_all=3, per_actor=2, places=5)

    assert [queue.enter("a"), queue.enter("a"), queue.enter("a")] == [True, True, False]
    assert [queue.enter("b"), queue.enter("c")] == [True, False]


def test_turns_go_round_the_actors() -> None:
    """One with many waiting does not keep another's one call waiting for all of them."""
    queue = Queue[Call](in_all=1, per_actor=1, places=10)
    assert queue.enter("busy")
    line_up(queue, *(Call("busy") for _ in range(4)), Call("b"), Call("c"), Call("c"))
    queue.leave("busy")

    assert order(queue) == ["busy", "b", "c", "busy", "c", "busy", "busy"]


def test_an_actors_own_calls_keep_their_order() -> None:
    """Also against a call that comes while a slot is free."""
    queue = Queue[Call](in_all=2, per_actor=1, places=5)
    assert queue.enter("a")
    first, second = Call("a"), Call("a")
    line_up(queue, first, second)
    queue.leave("a")

    assert not queue.enter("a")
    assert queue.ready() == [first]
    assert queue.ready() == []
    queue.leave("a")
    assert queue.ready() == [second]


def test_an_actor_at_its_share_is_passed_over() -> None:
    """The slot goes to whoever is under its own."""
    queue = Queue[Call](in_all=2, per_actor=1, places=5)
    assert queue.enter("a")
    other = Call("b")
    line_up(queue, Call("a"), other)

    assert queue.ready() == [other]


def test_the_places_are_bounded_and_say_when_to_come_back() -> None:
    """http-api.md, 429: with Retry-After."""
    queue = Queue[Call](in_all=1, per_actor=1, places=3)
    line_up(queue, Call("a"), Call("a"), Call("a"))

    with pytest.raises(Busy) as refused:
        queue.reserve("a", 10)
    assert refused.value.facts["retry_after_s"] >= 1


def test_who_has_nothing_waiting_finds_a_place_in_anothers_full_queue() -> None:
    """R19: up to as many again."""
    queue = Queue[Call](in_all=1, per_actor=1, places=3)
    line_up(queue, Call("a"), Call("a"), Call("a"))
    line_up(queue, Call("b"), Call("c"), Call("d"))

    with pytest.raises(Busy):
        queue.reserve("b", 10)
    with pytest.raises(Busy):
        queue.reserve("e", 10)


def test_what_waits_is_bounded_in_bytes() -> None:
    """Sixty-four calls of eight megabytes would be half a gigabyte."""
    queue = Queue[Call](in_all=1, per_actor=1, places=64)
    line_up(queue, Call("a", WAITING_BYTES // 2), Call("a", WAITING_BYTES // 2))

    with pytest.raises(Busy):
        queue.reserve("a", 1)
    assert queue.enter("b")
    queue.leave("b")
    assert len(queue.ready()) == 1
    queue.reserve("a", 1)


def test_a_place_that_was_given_back_is_free_again() -> None:
    """As when the row could not be written."""
    queue = Queue[Call](in_all=1, per_actor=1, places=1)
    queue.reserve("a", 10)
    queue.forgo("a", 10)

    line_up(queue, Call("a"))
    assert len(queue.waiting()) == 1


def test_a_call_leaves_its_line_once() -> None:
    """Whoever took it out refuses it; nobody runs it then."""
    queue = Queue[Call](in_all=1, per_actor=1, places=5)
    call = Call("a")
    line_up(queue, call)

    assert [queue.remove(call), queue.remove(call)] == [True, False]
    assert queue.ready() == []
