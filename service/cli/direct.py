"""Acting on a data folder that no service holds: opened as the service opens it, and closed again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.cli import showing
from service.domain.history import Progress
from service.errors import Message
from service.settings import Settings

if TYPE_CHECKING:
    from service.bitong import Bitong


@contextmanager
def opened(settings: Settings, progress: Callable[[Progress], None] = lambda _: None) -> "Iterator[Bitong]":
    """The parts of a service on this folder, under its lock. Raises Unavailable while another holds it."""
    from service import logs  # noqa: PLC0415 - the whole service, for commands that need it only
    from service.bitong import Bitong  # noqa: PLC0415

    logs.configure()
    if not settings.database_path.exists():
        place = settings.database_path.parent
        showing.say(Message(f"在 {place} 新建数据目录。", f"Making a new data folder at {place}."))
    bitong = Bitong(settings, progress=progress)
    try:
        yield bitong
    finally:
        bitong.close()
