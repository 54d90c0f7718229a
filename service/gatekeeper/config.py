"""What the reference gatekeeper is told at its start."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

METHODS: Final = frozenset({"exec", "file.read", "file.write", "file.list", "http"})
MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GatekeeperConfig:
    """Everything the gatekeeper knows.

    `roots`: folders it reads and writes beneath, the first one for relative paths. `deny`: folders and files that nobody
    reaches through it; `file.*` never reaches the state folder and the token file either. `methods`: of METHODS (`status` and
    `cancel` always work). `allow_urls`: what `http` may reach, as outgoing.py says. Sizes in bytes, times as named.
    """

    token: str = field(repr=False)
    state_dir: Path
    roots: tuple[Path, ...] = ()
    deny: tuple[Path, ...] = ()
    token_file: Path | None = None
    methods: frozenset[str] = METHODS
    allow_urls: tuple[str, ...] = ()
    allow_remote: bool = False
    max_body_bytes: int = 32 * MIB
    body_deadline_s: float = 10.0
    max_output_bytes: int = 16 * MIB
    max_file_bytes: int = 64 * MIB
    max_timeout_ms: int = 3_600_000
    max_calls: int = 32
    shutdown_grace_s: float = 5.0
