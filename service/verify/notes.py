"""Checkpoints: C2SP notes signed with Ed25519, and the keys they are checked with. Nothing of the writer's is used."""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAX_BYTES: Final = 64 * 1024
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_SIGNATURE: Final = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")


@dataclass(frozen=True, slots=True)
class Key:
    """A public key under its name; `id` are the 4 bytes that a signature's line begins with."""

    name: str
    id: bytes
    public: bytes


@dataclass(frozen=True, slots=True)
class Note:
    """A checkpoint as signed: which log, how many entries, what root, and the text that each signature is of."""

    origin: str
    size: int
    root: bytes
    text: bytes
    signatures: tuple[tuple[str, bytes, bytes], ...]  # name, key's id, signature


def read_key(vkey: str) -> Key:
    """A C2SP vkey, `<name>+<hex id>+<base64(0x01 ‖ public key)>`. Raises ValueError for any other text."""
    match = re.fullmatch(r"([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)", vkey.strip())
    if match is None:
        raise ValueError("no vkey")
    name, identifier, encoded = match.groups()
    content = base64.b64decode(encoded, validate=True)
    digest = hashlib.sha256(name.encode() + b"\n" + content).digest()[:4]
    plain = base64.b64encode(content).decode() == encoded
    if not plain or len(content) != 33 or content[0] != 1 or digest.hex() != identifier:
        raise ValueError("no Ed25519 vkey, or not its id")
    return Key(name, digest, content[1:])


def read_note(content: bytes) -> Note:
    """A checkpoint's note. Raises ValueError for what is none."""
    if len(content) > MAX_BYTES:
        raise ValueError("larger than any checkpoint")
    whole = content.decode("utf-8")
    text, empty, lines = whole.rpartition("\n\n")
    body = text.split("\n")
    if not empty or not lines.endswith("\n") or len(body) < 3 or not body[0] or not _SIZE.fullmatch(body[1]):
        raise ValueError("not the three lines of a checkpoint, an empty one, and signatures")
    root = base64.b64decode(body[2], validate=True)
    if len(root) != 32 or base64.b64encode(root).decode() != body[2]:
        raise ValueError("no root of 32 bytes")
    signatures = tuple(_signature(line) for line in lines.removesuffix("\n").split("\n"))
    return Note(body[0], int(body[1]), root, (text + "\n").encode(), signatures)


def _signature(line: str) -> tuple[str, bytes, bytes]:
    match = _SIGNATURE.fullmatch(line)
    content = base64.b64decode(match[2], validate=True) if match is not None else b""
    if match is None or len(content) < 5 or base64.b64encode(content).decode() != match[2]:
        raise ValueError("not a line of a signature")
    return match[1], content[:4], content[4:]


def is_signed(note: Note, keys: Sequence[Key]) -> bool:
    """Whether one of the keys signed it; a wrong signature of any of them refuses it, one of an unknown key says nothing."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - a third of a second, for signatures alone
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    right = False
    for name, identifier, signature in note.signatures:
        for key in keys:
            if (key.name, key.id) == (name, identifier):
                try:
                    Ed25519PublicKey.from_public_bytes(key.public).verify(signature, note.text)
                except (InvalidSignature, ValueError):
                    return False
                right = True
    return right
