"""What of a definition is searched, and how much each part says (weights: facts/matching.md, section 2)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from service.domain.definitions import Definition
from service.domain.search.words import words

NAME: Final = 2.0
DISPLAY: Final = 2.0
INTENT: Final = 1.0
EXAMPLES: Final = 1.0
PARAMETERS: Final = 0.5
METHOD: Final = 0.5
COMMAND: Final = 0.3
WHY: Final = 0.3
GLOSS: Final = 0.3

# Parameters and reasons name much that a tool does not do: with their classes hit@3 falls by a point.
CLASSES_FROM: Final = 1.0


class Dictionary(Protocol):
    """Chinese to English, without a segmenter: the longest entries found in the text, and what they mean."""

    def glosses(self, text: str) -> Iterable[tuple[str, Sequence[str]]]:
        """Each entry in the text with its English words; nothing where there is none."""
        ...


def document(definition: Definition, dictionary: Dictionary | None = None) -> Mapping[str, float]:
    """Each word of a definition with its weight, summed over the fields it stands in."""
    found: defaultdict[str, float] = defaultdict(float)
    for weight, text in _fields(definition):
        for word in words(text, classes=weight >= CLASSES_FROM):
            found[word] += weight
    if dictionary is not None:
        for _, gloss in dictionary.glosses(f"{definition.display} {definition.intent}"):
            for word in words(" ".join(gloss)):
                found[word] += GLOSS
    return found


def _fields(definition: Definition) -> Iterator[tuple[float, str]]:
    yield NAME, definition.name
    yield DISPLAY, definition.display
    yield INTENT, definition.intent
    for example in definition.examples:
        yield EXAMPLES, example
    for name, parameter in definition.params_schema.items():
        yield PARAMETERS, name
        yield PARAMETERS, parameter.description
    yield METHOD, definition.method
    for argument in definition.command or ():
        yield COMMAND, argument
    yield WHY, definition.why
