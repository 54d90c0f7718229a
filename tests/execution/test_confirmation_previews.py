"""A preview is for people: what is longer than they read is cut, and says how long it was."""

from service.domain.confirmations import PREVIEW_CHARACTERS, bounded


def test_a_short_preview_is_as_it_is() -> None:
    """Every shape that executors give."""
    preview = {"argv": ["echo", "你好"], "env": {"A": "1"}, "stdin": "", "body": {"n": 5, "none": None, "flag": True}}

    assert bounded(preview) == preview


def test_a_long_text_is_cut_and_says_how_long_it_was() -> None:
    """Its beginning is what matters: the program's name stands first."""
    shown = bounded({"argv": ["sh", "-c", "x" * 1_000_000]})

    assert shown["argv"][:2] == ["sh", "-c"]
    assert shown["argv"][2].endswith("x… (1000000)")
    assert len(shown["argv"][2]) <= PREVIEW_CHARACTERS


def test_many_small_things_are_bounded_too() -> None:
    """A million items make no preview of megabytes."""
    assert len(str(bounded({"argv": ["a"] * 1_000_000, "env": {str(n): "x" for n in range(100_000)}}))) < 50_000
