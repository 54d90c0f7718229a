"""The log's signing key: 32 bytes in `log.key` of the data folder, and what it signs (contract/audit.md, Checkpoints).

A rotation takes four steps, each of them safe to stop after: the new key is written beside the old one, the log names it,
a checkpoint that covers this is signed by both, the new one takes the old one's place.
"""

from typing import Final, NamedTuple

from service.domain.notes import VerifierKey, signature_by, signed
from service.errors import Message, Unavailable
from service.store.folder import KEY_BYTES, DataFolder

FILE: Final = "log.key"
NEXT_FILE: Final = "log.next.key"

KEY_MISSING: Final = Message(
    f"签名密钥 {FILE} 不见了：不再签检查点，执行照常。请从备份放回原来的文件。",
    f"The signing key {FILE} is missing: no checkpoint is signed, tools run as before. Put the file back from a backup.",
)
KEY_CHANGED: Final = Message(
    f"签名密钥 {FILE} 不是日志所记的那一把：不再签检查点，执行照常。请从备份放回原来的文件。",
    f"The signing key {FILE} is not the one that the log names: no checkpoint is signed, tools run as before."
    " Put the file back from a backup.",
)


class KeyPair(NamedTuple):
    """A private key's 32 bytes, and its public key under the log's name."""

    seed: bytes
    public: VerifierKey

    def __repr__(self) -> str:
        return f"KeyPair({self.public})"


def pair(seed: bytes, name: str) -> KeyPair:
    """The pair that these 32 bytes are."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - 8 MB, for who signs alone
        Ed25519PrivateKey,
    )

    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return KeyPair(seed, VerifierKey(name, public))


def sign(text: str, pairs: list[KeyPair]) -> str:
    """The text as a note signed by each of the keys."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    signatures = [(one.public, Ed25519PrivateKey.from_private_bytes(one.seed).sign(text.encode())) for one in pairs]
    return signed(text, signatures)


def in_folder(folder: DataFolder, file: str, name: str) -> KeyPair | None:
    """The pair in a key file, or None where there is no such file. Raises Unavailable for a file that is no key."""
    try:
        seed = (folder.path / file).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(KEY_MISSING, code="key-missing") from error
    if len(seed) != KEY_BYTES:
        raise Unavailable(KEY_CHANGED, code="key-changed")
    return pair(seed, name)


def is_signed_by(note: str, key: VerifierKey) -> bool:
    """Whether the note has a signature of this key, and it is right."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    try:
        found = signature_by(note, key)
        if found is None:
            return False
        Ed25519PublicKey.from_public_bytes(key.public).verify(found[1], found[0].encode())
    except (ValueError, InvalidSignature):
        return False
    return True
