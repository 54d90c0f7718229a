"""How many answers go on at once (server-sent events); each holds a connection and a descriptor."""

from typing import Final

from service.errors import Busy, Message

MAX_STREAMS: Final = 4096


class Streams:
    """How many event streams are open; bounded, since each holds a descriptor."""

    def __init__(self) -> None:
        self.open = 0

    def check(self) -> None:
        """Raise Busy where one more would be too many."""
        if self.open >= MAX_STREAMS:
            raise Busy(
                Message("事件流太多，请稍后再试。", "Too many event streams; try again later."),
                facts={"retry_after_s": 5},
            )

    def enter(self) -> None:
        """One more."""
        self.open += 1

    def leave(self) -> None:
        """One less."""
        self.open -= 1
