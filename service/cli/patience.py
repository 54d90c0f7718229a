"""How long a service that went away is waited for, as while it starts anew."""

import time
from typing import Final

from service.cli import showing
from service.errors import BitongError, Message

PAUSES_S: Final = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


class Patience:
    """Pauses that grow, said once; when they are used up, the failure that was waited out is raised."""

    def __init__(self, waiting: Message) -> None:
        self._waiting = waiting
        self._left = list(PAUSES_S)

    @property
    def tried(self) -> bool:
        """Whether something was waited out already."""
        return len(self._left) < len(PAUSES_S)

    def renew(self) -> None:
        """It went on: the next failure is a new one."""
        self._left = list(PAUSES_S)

    def wait(self, error: BitongError) -> None:
        """Pause before the next try; raises `error` after the last."""
        if not self._left:
            raise error
        if not self.tried:
            showing.say(self._waiting)
        time.sleep(self._left.pop(0))
