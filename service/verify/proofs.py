"""Proofs of RFC 6962, and the file that proves one run to a stranger (`bitong audit prove`), without any database."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from service.verify.findings import VerifyError, shown
from service.verify.forms import fits, read_entry
from service.verify.notes import Key, is_signed, read_key, read_note
from service.verify.tree import sha256

FORMAT: Final = "bitong-run-proof/1"
MAX_BYTES: Final = 16 * 1024 * 1024
_IDENTITY: Final = ("tool", "version", "commit", "tree", "blob", "sha256")


class Refused(ValueError):
    """The proof does not prove what it says; `zh` and `en` say why."""

    def __init__(self, zh: str, en: str) -> None:
        super().__init__(en)
        self.zh = zh
        self.en = en


def includes(index: int, size: int, leaf: bytes, path: Sequence[bytes], root: bytes) -> bool:
    """Whether the path leads from leaf `index` to the root over `size` leaves (RFC 9162 §2.1.3.2)."""
    if not 0 <= index < size:
        return False
    first, last, node = index, size - 1, leaf
    for other in path:
        if last == 0:
            return False
        if first & 1 or first == last:
            node = _parent(other, node)
            while not first & 1 and first:
                first, last = first >> 1, last >> 1
        else:
            node = _parent(node, other)
        first, last = first >> 1, last >> 1
    return last == 0 and node == root


def extends(older: int, newer: int, old_root: bytes, root: bytes, path: Sequence[bytes]) -> bool:
    """Whether the path proves that the tree of `newer` leaves extends that of `older` (RFC 9162 §2.1.4.2)."""
    if older == newer:
        return not path and old_root == root
    if older == 0:
        return not path and old_root == sha256(b"")
    if not 0 < older < newer or not path:
        return False
    nodes = list(path)
    if older & older - 1 == 0:
        nodes.insert(0, old_root)
    first, last = older - 1, newer - 1
    while first & 1:
        first, last = first >> 1, last >> 1
    left = right = nodes[0]
    for node in nodes[1:]:
        if last == 0:
            return False
        if first & 1 or first == last:
            left, right = _parent(node, left), _parent(node, right)
            while not first & 1 and first:
                first, last = first >> 1, last >> 1
        else:
            right = _parent(right, node)
        first, last = first >> 1, last >> 1
    return last == 0 and left == old_root and right == root


def verify_proof(content: bytes, keys: Sequence[str]) -> dict[str, Any]:
    """What a proof of a run proves: `{run, size, root, keys, entries: [{index, type, at, actor, facts}], notes}`.

    Without `keys` the note is checked with those that the file itself names, and `notes` says so. Raises VerifyError where
    it proves nothing.
    """
    try:
        return _proved(_read(content), keys)
    except Refused as why:
        raise VerifyError(f"证明不成立：{why.zh}。", f"It proves nothing: {why.en}.") from why
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise VerifyError(f"不是运行的证明：{shown(error)}。", f"Not a proof of a run: {shown(error)}.") from error


def _read(content: bytes) -> dict[str, Any]:
    if len(content) > MAX_BYTES:
        raise ValueError("larger than any proof")
    shape = json.loads(content)
    if shape["format"] != FORMAT:
        raise ValueError(f"format {shape['format']}")
    return dict(shape)


def _proved(shape: Mapping[str, Any], given: Sequence[str]) -> dict[str, Any]:
    keys = [read_key(vkey) for vkey in given or shape["keys"]]
    note = read_note(shape["checkpoint"].encode())
    if not is_signed(note, keys):
        raise Refused("检查点没有这些公钥的签名", "no key of these signed the checkpoint")
    if any(key.name != note.origin for key in keys if _signed_by(key, note.signatures)):
        raise Refused("检查点属于另一个日志", "the checkpoint is of another log")
    entries = [_entry(one, note.size, note.root) for one in shape["entries"]]
    _states(shape["run"], entries)
    _identity(shape["definition"], entries)
    notes = []
    if not given:
        own = (
            "没有给出公钥：用的是文件自己所说的公钥。",
            "No key was given: the one that the file itself names was used.",
        )
        notes.append({"zh": own[0], "en": own[1]})
    return {"run": shape["run"], "size": note.size, "root": note.root.hex(), "entries": entries, "notes": notes}


def _signed_by(key: Key, signatures: Sequence[tuple[str, bytes, bytes]]) -> bool:
    return any((key.name, key.id) == (name, identifier) for name, identifier, _ in signatures)


def _entry(said: Mapping[str, Any], size: int, root: bytes) -> dict[str, Any]:
    """One entry: its bytes are canonical, say what stands beside them, and are in the tree."""
    content = base64.b64decode(said["entry_b64"], validate=True)
    leaf = sha256(b"\x00" + content)
    path = [bytes.fromhex(node) for node in said["path"]]
    if any(len(node) != 32 for node in path):
        raise ValueError("a node has 32 bytes")
    entry = read_entry(content)
    if not fits(entry["type"], entry["facts"]):
        raise ValueError("facts of another form")
    if type(said["index"]) is not int or (entry["index"], entry["type"]) != (said["index"], said["type"]):
        raise Refused("记录的字节与所说的不符", "an entry's bytes say something else")
    if leaf.hex() != said["leaf"] or not includes(entry["index"], size, leaf, path, root):
        raise Refused(f"记录 {said['index']} 不在签名的树里", f"entry {said['index']} is not in the signed tree")
    return entry


def _states(run: str, entries: Sequence[Mapping[str, Any]]) -> None:
    """All entries are of this run, in order; it was refused alone, or started and finished once."""
    if any(entry["facts"].get("run") != run for entry in entries):
        raise Refused("记录不属于这次运行", "an entry is of another run")
    indexes = [entry["index"] for entry in entries]
    if indexes != sorted(set(indexes)):
        raise Refused("记录的次序不对", "the entries are out of order")
    steps = [entry["type"] for entry in entries if entry["type"].startswith("run.")]
    if steps not in (["run.refused"], ["run.started", "run.finished"]):
        raise Refused("不是一次完整的运行", "it is no whole run")


def _identity(definition: Mapping[str, Any] | None, entries: Sequence[Mapping[str, Any]]) -> None:
    started = next((entry["facts"] for entry in entries if entry["type"] == "run.started"), None)
    wanted = None if started is None else {name: started[name] for name in _IDENTITY}
    if definition != wanted:
        raise Refused("运行的不是所说的定义", "another definition ran than it says")


def _parent(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right)
