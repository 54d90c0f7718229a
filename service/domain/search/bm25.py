"""BM25F over weighted words, packed: 1,000 tools take a few megabytes.

One list of postings for all words, laid end to end, so that a word costs its text, a dictionary slot and one number.
"""

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

K1: Final = 1.5  # flat between 1.2 and 2 (facts)
B: Final = 0.4  # flat between .3 and .5


class Postings:
    """Which document holds which word, with what weight. Immutable once built."""

    def __init__(self, documents: Iterable[Mapping[str, float]]) -> None:
        self.lengths = array("f")
        gathered: dict[str, tuple[array[int], array[float]]] = {}
        for number, found in enumerate(documents):
            self.lengths.append(sum(found.values()))
            for word, weight in found.items():
                if word not in gathered:
                    gathered[word] = array("I"), array("f")
                gathered[word][0].append(number)
                gathered[word][1].append(weight)
        self._places = {word: place for place, word in enumerate(gathered)}
        self._starts = array("I", [0])
        self._documents = array("I")
        self._weights = array("f")
        for numbers, weights in gathered.values():
            self._documents.extend(numbers)
            self._weights.extend(weights)
            self._starts.append(len(self._documents))

    def __contains__(self, word: str) -> bool:
        return word in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def of(self, word: str) -> Iterable[tuple[int, float]]:
        """Numbers of the documents that hold the word, ascending, each with the word's weight."""
        place = self._places.get(word)
        if place is None:
            return ()
        start, end = self._starts[place], self._starts[place + 1]
        return zip(self._documents[start:end], self._weights[start:end], strict=True)

    def holds(self, word: str, number: int) -> bool:
        """Whether this document holds the word."""
        place = self._places.get(word)
        if place is None:
            return False
        end = self._starts[place + 1]
        found = bisect_left(self._documents, number, self._starts[place], end)
        return found < end and self._documents[found] == number


class Scorer:
    """Scores of words over some of the documents. What is not among them counts nowhere: neither in frequencies nor in lengths.

    `more` are postings of the same documents that are added to the first: what was learned.
    """

    def __init__(
        self, postings: Postings, *, among: Sequence[bool] | None = None, more: Postings | None = None
    ) -> None:
        self._postings, self._more = postings, more
        self._among = among
        lengths = list(postings.lengths)
        if more is not None:
            lengths = [length + extra for length, extra in zip(lengths, more.lengths, strict=True)]
        seen = lengths if among is None else [length for length, here in zip(lengths, among, strict=True) if here]
        self.count = len(seen)
        average = sum(seen) / len(seen) if seen else 1.0
        self._norms = [K1 * (1 - B + B * length / (average or 1.0)) for length in lengths]
        self.rarest = math.log(1 + (self.count + 0.5) / 0.5)  # what a word weighs that no document holds

    def of(self, word: str) -> tuple[float, dict[int, float]]:
        """The word's weight (inverse document frequency), and what it gives each document that holds it."""
        found = self._found(word)
        if not found:
            return self.rarest, found
        weight = math.log(1 + (self.count - len(found) + 0.5) / (len(found) + 0.5))
        norms, factor = self._norms, weight * (K1 + 1)
        return weight, {number: factor * times / (times + norms[number]) for number, times in found.items()}

    def knows(self, word: str) -> bool:
        """Whether any of the documents holds the word."""
        if self._among is not None:
            return bool(self._found(word))
        return word in self._postings or (self._more is not None and word in self._more)

    def holds(self, word: str, number: int) -> bool:
        """Whether this document holds the word."""
        return self._postings.holds(word, number) or (self._more is not None and self._more.holds(word, number))

    def _found(self, word: str) -> dict[int, float]:
        found = dict(self._postings.of(word))
        if self._more is not None:
            for number, times in self._more.of(word):
                found[number] = found.get(number, 0.0) + times
        among = self._among
        return found if among is None else {number: times for number, times in found.items() if among[number]}
