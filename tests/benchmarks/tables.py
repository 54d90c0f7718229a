"""Numbers into lines: medians, 99th percentiles, ratios, and tables in plain text."""

import statistics
import unicodedata
from collections.abc import Sequence


def median(values: Sequence[float]) -> float:
    """The middle one; 0 of nothing."""
    return statistics.median(values) if values else 0.0


def p99(values: Sequence[float]) -> float:
    """The value that one in a hundred exceeds; 0 of nothing."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))] if values else 0.0


def ms(seconds: float) -> str:
    """Milliseconds with three figures that matter."""
    value = seconds * 1000
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def mb(size: float) -> str:
    """Megabytes (of 1,000,000 bytes) of a number of bytes."""
    return f"{size / 1e6:.1f}"


def times(value: float, floor: float) -> str:
    """The ratio to a floor."""
    return f"{value / floor:.2f}x" if floor else "-"


class Table:
    """Rows under a heading; the first column to the left, the others to the right."""

    def __init__(self, title: str, *columns: str) -> None:
        self.title = title
        self._rows: list[Sequence[str]] = [columns]
        self._notes: list[str] = []

    def row(self, *cells: str) -> None:
        """One more line."""
        self._rows.append(cells)

    def note(self, text: str) -> None:
        """A sentence below: an aim, what was counted, what went wrong."""
        self._notes.append(text)

    def show(self) -> None:
        """Print it."""
        widths = [max(map(_width, column)) for column in zip(*self._rows, strict=True)]
        print(f"\n## {self.title}\n")
        for number, cells in enumerate(self._rows):
            padded = [cells[0] + " " * (widths[0] - _width(cells[0]))]
            padded += [" " * (width - _width(cell)) + cell for width, cell in zip(widths[1:], cells[1:], strict=True)]
            print("| " + " | ".join(padded) + " |")
            if number == 0:
                print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
        for text in self._notes:
            print(f"* {text}")
        print(flush=True)


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
