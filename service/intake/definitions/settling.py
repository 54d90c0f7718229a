"""What of a definition only the instance's own document can settle, and how it does (contract/registration.md).

The file is read once, where no document is: a definition that names what our own facts lack stays open. Whoever
registers it settles it by the document as last seen, each time anew, so what was read once never has to be read again.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.definitions import Problem, Reading
from service.domain.quoting import shown_name
from service.intake.definitions.operations import CODES, OPEN, check_operation
from service.intake.definitions.reading import as_reading, read_notes


def read_open(content: bytes, folder: str) -> Reading:
    """As `read_definition`; but an open definition comes along, with a problem at each field that `settle` may speak of."""
    notes, definition = read_notes(content, folder)
    doubt = next((problem for problem in notes.problems if problem.code in OPEN), None)
    if definition is None or doubt is None or notes.full:
        return as_reading(notes.problems, notes.warnings, definition)
    fields = ("method", "params_schema", *(f"params_schema.{shown_name(name)}" for name in definition.params_schema))
    known = {problem.field for problem in notes.problems}
    places = [notes.placed(replace(doubt, field=field, line=None)) for field in fields if field not in known]
    return Reading(definition, (*notes.problems, *places), tuple(notes.warnings))


def settle(reading: Reading, facts: Mapping[str, Any]) -> Reading:
    """An open reading decided by our own facts and by `facts`, the document's by operationId; any other as it is.

    What comes back is what `read_definition` gives with these facts.
    """
    definition = reading.definition
    if definition is None or not reading.problems:
        return reading
    problems, warnings = check_operation(definition, extra_operations=facts)
    places = {found.field: found for found in (*reading.warnings, *reading.problems)}

    def placed(problem: Problem) -> Problem:
        at = places.get(problem.field, problem)
        return replace(problem, line=at.line, column=at.column)

    found, warned = (
        [item for item in items if item.code not in CODES] for items in (reading.problems, reading.warnings)
    )
    return as_reading([*found, *map(placed, problems)], [*warned, *map(placed, warnings)], definition)


def is_open(reading: Reading | None) -> bool:
    """Whether another document may settle it otherwise."""
    return reading is not None and reading.definition is not None and bool(reading.problems)
