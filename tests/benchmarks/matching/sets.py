"""The sets that are measured: tools, and what is asked of them. They stay beside the checkout, in `../shared`."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.domain.definitions import Definition, Parameter
from service.intake.definitions.reading import read_definition

DATA = Path(__file__).parents[4] / "shared" / "data"

# In the order of the table: name, and the kinds of query that its aim is about (None: all that have an answer).
PUBLIC = {
    "acebench_zh": None,
    "acebench_en": None,
    "livemcp": ("step",),
    "metatool_en": ("single",),
    "clinc150_en": None,
}
NATIVE = "native-repo"


@dataclass(frozen=True)
class Query:
    """Something asked; `gold` names every tool that serves it, none where nothing does."""

    text: str
    gold: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class Set:
    """Tools and queries under a name."""

    name: str
    tools: tuple[Definition, ...]
    queries: tuple[Query, ...]

    def answerable(self) -> list[Query]:
        """The queries that a tool serves, of the kinds that are measured."""
        kinds = PUBLIC.get(self.name)
        return [query for query in self.queries if query.gold and (kinds is None or query.kind in kinds)]

    def of_kind(self, kind: str) -> list[Query]:
        """The queries of one kind."""
        return [query for query in self.queries if query.kind == kind]


def draws(seed: int) -> random.Random:
    """The same draws in every run."""
    return random.Random(seed)  # noqa: S311 - no secret


def missing() -> Path | None:
    """The folder that the sets lie in, where it is not there."""
    return None if (DATA / "intents").is_dir() and (DATA / NATIVE).is_dir() else DATA


def public(name: str) -> Set:
    """One of the public benchmarks, as data/intents/README.md describes them."""
    folder = DATA / "intents" / name
    return Set(name, tuple(map(_definition, _lines(folder / "tools.jsonl"))), _queries(folder / "queries.jsonl"))


def native() -> Set:
    """The native-repo with its intents, the definitions read as the service reads them."""
    folder = DATA / NATIVE
    tools = []
    for path in sorted((folder / "tools").glob("*/TOOL.hdlp")):
        reading = read_definition(path.read_bytes(), path.parent.name)
        assert reading.definition is not None, f"{path}: {reading.problems}"
        tools.append(reading.definition)
    return Set(NATIVE, tuple(tools), _queries(folder / "intents-dev.jsonl"))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _queries(path: Path) -> tuple[Query, ...]:
    return tuple(Query(line["query"], tuple(line["gold"]), line["kind"]) for line in _lines(path))


def _definition(line: dict[str, Any]) -> Definition:
    parameters = {one["name"]: Parameter("string", description=one.get("desc") or "") for one in line["params"]}
    return Definition(line["name"], "", line["intent"], "", "", "", "", "", parameters)
