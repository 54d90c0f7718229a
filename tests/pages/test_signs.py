"""P5: texts of strangers are shown as they are, and what cannot be seen or turns text around becomes a sign."""

from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from service.web.pages.signs import one_line, shown

TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"


def test_control_characters_are_shown_as_signs() -> None:
    assert shown("\x1b[31mred\x07\x00\x7f\r") == "␛[31mred␇␀␡␍"


def test_lines_and_tabs_stay_where_there_is_room_for_them() -> None:
    assert shown("a\n\tb") == "a\n\tb"
    assert one_line("a\n\tb") == "a␤␉b"


def test_nothing_turns_the_direction_of_text() -> None:
    """`gpj.exe` must not look like `exe.jpg`."""
    assert not set(shown(f"photo{TURNING}gpj.exe")) & set(TURNING)
    assert shown("\u202e") == "⟨U+202E⟩"


def test_joined_signs_and_other_scripts_stay_whole() -> None:
    """A family emoji is joined by U+200D; Arabic and Hebrew are text like any other."""
    for text in ("👩\u200d👩\u200d👧", "مرحبا", "שלום", "笔筒", "é"):
        assert shown(text) == text


def test_what_is_no_unicode_can_be_printed() -> None:
    assert shown("\ud800").encode("utf-8") == b"?"


def test_markup_of_our_own_is_left_alone() -> None:
    assert shown(Markup("<b>\u202e</b>")) == Markup("<b>\u202e</b>")


@given(st.text())
def test_nothing_shown_is_a_control_character(text: str) -> None:
    assert all(character in "\n\t" or ord(character) >= 0x20 for character in shown(text))
    assert not set(one_line(text)) & {"\n", "\t", "\x1b", *TURNING}
