"""Signed notes, the keys they are checked with, and checkpoints of the log as their text. No I/O, no signing.

C2SP signed-note and tlog-checkpoint: the text, an empty line, and one line a signature:
`— <name> <base64(key id ‖ signature)>`. A key is given as `<name>+<hex key id>+<base64(0x01 ‖ public key)>`.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ED25519: Final = b"\x01"  # the algorithm's byte
NAME: Final = re.compile(r"[^\s+]{1,200}\Z")  # a key's: no spaces, no plus
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key with its name; `str()` gives it as people pass it on (a C2SP vkey)."""

    name: str
    public: bytes

    @property
    def id(self) -> bytes:
        """The first 4 bytes of SHA-256(name ‖ 0x0A ‖ 0x01 ‖ public key)."""
        return hashlib.sha256(self.name.encode() + b"\n" + ED25519 + self.public).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{_base64(ED25519 + self.public)}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A tree head: the log's name, its size, and the root over so many leaves."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        """What is signed: three lines."""
        return f"{self.origin}\n{self.size}\n{_base64(self.root)}\n"


def read_key(vkey: str) -> VerifierKey:
    """The inverse of `str(key)`. Raises ValueError for what is no Ed25519 vkey, or whose id is not its key's."""
    name, _, rest = vkey.strip().partition("+")
    _, _, encoded = rest.partition("+")
    content = base64.b64decode(encoded, validate=True)
    key = VerifierKey(name, content[1:])
    if not NAME.match(name) or len(key.public) != 32 or str(key) != vkey.strip():
        raise ValueError("not an Ed25519 vkey")
    return key


def signed(text: str, signatures: Sequence[tuple[VerifierKey, bytes]]) -> str:
    """A note: the text, which ends with a newline, and a line for each signature (64 bytes each)."""
    lines = [f"— {key.name} {_base64(key.id + signature)}\n" for key, signature in signatures]
    return text + "\n" + "".join(lines)


def read_checkpoint(note: str) -> Checkpoint:
    """The tree head that a note's text speaks of, whoever signed it. Raises ValueError for any other text."""
    text, empty, _ = note.rpartition("\n\n")
    lines = text.split("\n")
    if not empty or len(lines) < 3 or not lines[0] or not _SIZE.fullmatch(lines[1]):
        raise ValueError("not a checkpoint")
    root = base64.b64decode(lines[2], validate=True)
    if len(root) != 32:
        raise ValueError("a root has 32 bytes")
    return Checkpoint(lines[0], int(lines[1]), root)


def signature_by(note: str, key: VerifierKey) -> tuple[str, bytes] | None:
    """The signed text and this key's signature; None where the note has none by it. Raises ValueError for what is no note."""
    text, empty, lines = note.rpartition("\n\n")
    if not empty or not lines.endswith("\n"):
        raise ValueError("not a note")
    for line in lines.removesuffix("\n").split("\n"):
        dash, _, rest = line.partition(" ")
        name, _, encoded = rest.partition(" ")
        if dash != "—" or not NAME.match(name):
            raise ValueError("not a line of a signature")
        content = base64.b64decode(encoded, validate=True)
        if (name, content[:4]) == (key.name, key.id):
            return text + "\n", content[4:]
    return None


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
