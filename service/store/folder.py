"""The data folder: who may read it, the lock that one service holds, keys, and the control token (contract/cli.md)."""

import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import Final, NamedTuple

from service.errors import Message, Unavailable

CONTROL: Final = "control.json"
KEY_BYTES: Final = 32


class Control(NamedTuple):
    """How commands beside a running service reach it: its address on loopback and an admin token for it."""

    url: str
    token: str


class DataFolder:
    """One folder, 0700, its files 0600."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def make(self) -> None:
        """Make it when it is not there; take rights away from others."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise Unavailable(
                Message(f"无法使用 data_dir：{reason}", f"Cannot use data_dir: {reason}"),
                code="data-dir",
            ) from None

    def lock(self) -> None:
        """Hold the folder for this process. Raises Unavailable when another does; a crash lets go of it."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise Unavailable(
                Message(
                    "另一个 Bitong 持有这个 data_dir 的锁；请先停止它，或换一个。",
                    "Another Bitong holds the lock on this data_dir; stop it first, or use another.",
                ),
                code="locked",
            ) from None
        self._lock = descriptor

    def unlock(self) -> None:
        """Let go of the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def key(self, name: str) -> bytes:
        """A secret key of 32 random bytes, made when it is first asked for."""
        file = self.path / f"{name}.key"
        if not file.exists():
            self.write(file.name, secrets.token_bytes(KEY_BYTES))
        content = file.read_bytes()
        if len(content) != KEY_BYTES:
            raise Unavailable(
                Message(f"密钥文件 {file.name} 已损坏。", f"The key file {file.name} is damaged."), code="key"
            )
        return content

    def write(self, name: str, content: bytes) -> None:
        """Replace a file as a whole, durably, readable by its owner alone."""
        temporary = self.path / f".{name}.{os.getpid()}"
        try:
            with open(temporary, "wb", opener=_private) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path / name)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)  # the name too: a key that a power cut takes away was already used
        finally:
            os.close(folder)

    def announce(self, control: Control) -> None:
        """Say where the running service is."""
        self.write(CONTROL, json.dumps(control._asdict()).encode())

    def withdraw(self) -> None:
        """The service ends."""
        (self.path / CONTROL).unlink(missing_ok=True)

    def running(self) -> Control | None:
        """How to reach the service that holds this folder; None when none says so."""
        try:
            shape = json.loads((self.path / CONTROL).read_bytes())
            return Control(shape["url"], shape["token"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
