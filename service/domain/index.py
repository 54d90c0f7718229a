"""The Index: an immutable view of all names and what runs for each, swapped whole (seed §2, the tools' index on the desk)."""

from collections.abc import Iterable, Iterator

from service.domain.actors import Actor
from service.domain.tools import Tool


class Index:
    """Every name in the registry at one revision. Reading it needs no lock, since it never changes."""

    def __init__(self, tools: Iterable[Tool], revision: int) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.revision = revision

    def changed(self, tools: Iterable[Tool], revision: int, gone: Iterable[str] = ()) -> "Index":
        """The next index: these tools as given, those names gone, all others as they were."""
        fresh = self._tools | {tool.name: tool for tool in tools}
        for name in gone:
            fresh.pop(name, None)
        return Index(fresh.values(), revision)

    def get(self, name: str) -> Tool | None:
        """A name, whoever asks."""
        return self._tools.get(name)

    def find(self, name: str, actor: Actor) -> Tool | None:
        """A name as this actor sees it: one outside its patterns does not exist."""
        tool = self._tools.get(name)
        return tool if tool is not None and actor.sees(name) else None

    def named(self, actor: Actor) -> Iterator[Tool]:
        """Every name that this actor sees, in order."""
        for name in sorted(self._tools):
            if actor.sees(name):
                yield self._tools[name]

    def __len__(self) -> int:
        return sum(1 for tool in self._tools.values() if tool.state == "active")
