"""A run's output while it comes: the beginning, the end, and what was between is counted."""

from service.execution.live import HEAD_BYTES, TAIL_BYTES, Tape


def read(tape: Tape, offsets: dict[str, int]) -> list[tuple[str, int, bytes]]:
    """What came since, and move on."""
    pieces = tape.after(offsets)
    for piece in pieces:
        offsets[piece.stream] = piece.offset + len(piece.content)
    return [(piece.stream, piece.offset, piece.content) for piece in pieces]


def test_who_keeps_up_reads_every_byte_once() -> None:
    """U8: in order within a stream, whatever the pieces' sizes."""
    tape, offsets, seen = Tape(), {"stdout": 0, "stderr": 0}, b""
    for number in range(100):
        tape.write("stdout", bytes([number]) * 5000)
        while pieces := read(tape, offsets):
            seen += b"".join(content for _, _, content in pieces)

    assert seen == b"".join(bytes([number]) * 5000 for number in range(100))


def test_who_comes_late_reads_the_beginning_and_the_end() -> None:
    """And sees by the offset how much was skipped."""
    tape = Tape()
    whole = bytes(range(256)) * 4096
    tape.write("stderr", whole)
    offsets = {"stdout": 0, "stderr": 0}

    first, second = read(tape, offsets), read(tape, offsets)

    assert first == [("stderr", 0, whole[:HEAD_BYTES])]
    assert second == [("stderr", len(whole) - TAIL_BYTES, whole[-TAIL_BYTES:])]
    assert read(tape, offsets) == []
    assert tape.totals() == {"stdout": 0, "stderr": len(whole)}


def test_one_write_across_the_end_of_the_beginning_loses_nothing() -> None:
    """The part beyond it is the tail's."""
    tape, offsets = Tape(), {"stdout": 0, "stderr": 0}
    tape.write("stdout", b"a" * (HEAD_BYTES - 1))
    tape.write("stdout", b"bcd")

    assert b"".join(content for _, _, content in read(tape, offsets) + read(tape, offsets))[-3:] == b"bcd"


def test_a_listener_is_told_until_it_leaves() -> None:
    """Of output, and of what else happens."""
    tape, told = Tape(), []
    listener = lambda: told.append(1)  # noqa: E731 - the same object twice
    tape.listen(listener)
    tape.write("stdout", b"x")
    tape.touch()
    tape.unlisten(listener)
    tape.touch()

    assert len(told) == 2
