"""What the mirror process and the service say to each other: frames of a kind, a length and a body.

JSON for what was seen, plain bytes for blobs and lists of ids. Never pickle: the sender has read hostile data.
A folder's name, which may be any bytes, travels as Latin-1 text.
"""

import json
import re
import struct
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, Final

from service.domain.definitions import Problem, Reading
from service.domain.history import (
    FolderChange,
    FolderFile,
    Progress,
    Seen,
    SeenBlob,
    SeenCommit,
    SeenFolder,
    Signature,
    Tip,
)

REQUEST: Final = b"r"
ASK_KNOWN: Final = b"k"
KNOWN: Final = b"K"
BLOB: Final = b"b"
SEEN: Final = b"s"
FAILED: Final = b"f"
DONE: Final = b"d"

MAX_FRAME_BYTES: Final = 64 << 20
_HEADER = struct.Struct(">cI")
_ID = re.compile(r"[0-9a-f]{40}")


class Garbled(Exception):
    """What came is not what was agreed."""


def frame(kind: bytes, body: bytes = b"") -> bytes:
    """One frame, ready to send."""
    return _HEADER.pack(kind, len(body)) + body


def read_frame(stream: BinaryIO) -> tuple[bytes, bytes] | None:
    """The next frame's kind and body; None where the stream ends, even inside a frame. Raises Garbled when too long."""
    head = stream.read(_HEADER.size)
    if len(head) < _HEADER.size:
        return None
    kind, length = _HEADER.unpack(head)
    if length > MAX_FRAME_BYTES:
        raise Garbled(f"a frame of {length} bytes")
    body = stream.read(length)
    return (kind, body) if len(body) == length else None


def json_frame(kind: bytes, value: Mapping[str, Any]) -> bytes:
    """A frame with a JSON object in ASCII, so that no text can break it."""
    return frame(kind, json.dumps(value, separators=(",", ":")).encode("ascii"))


def pack_ids(ids: Iterable[str]) -> bytes:
    """Many ids, 20 bytes each."""
    return b"".join(map(bytes.fromhex, ids))


def unpack_ids(body: bytes) -> set[bytes]:
    """The inverse of `pack_ids`, as hex in bytes."""
    text = body.hex().encode("ascii")
    return {text[start : start + 40] for start in range(0, len(text), 40)}


def seen_frame(seen: Seen) -> bytes:
    """What a look says, as one frame."""
    if isinstance(seen, SeenBlob):
        return frame(BLOB, bytes.fromhex(seen.id) + seen.content)
    return json_frame(SEEN, _shape(seen))


def seen_from(kind: bytes, body: bytes) -> Seen:
    """The inverse of `seen_frame`. Raises Garbled."""
    if kind == BLOB:
        return SeenBlob(body[:20].hex(), body[20:])
    try:
        return _from_shape(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Garbled(type(error).__name__) from error


def failure_from(body: bytes) -> tuple[str, str]:
    """Code and cause of a FAILED frame. Raises Garbled."""
    try:
        value = json.loads(body)
        return str(value["code"]), str(value["cause"])
    except (ValueError, KeyError, TypeError) as error:
        raise Garbled(type(error).__name__) from error


def _shape(seen: Tip | Progress | SeenCommit | SeenFolder) -> dict[str, Any]:
    match seen:
        case Tip():
            return {"is": "tip", "commit": seen.commit, "default": seen.default_branch, "empty": seen.empty}
        case Progress():
            return {"is": "progress", "phase": seen.phase, "done": seen.done, "total": seen.total}
        case SeenCommit():
            return {
                "is": "commit",
                "id": seen.id,
                "parents": seen.parents,
                "author": [seen.author.name, seen.author.email, seen.author.at],
                "committer": [seen.committer.name, seen.committer.email, seen.committer.at],
                "message": seen.message,
                "changes": [[change.folder.decode("latin-1"), change.tree, change.source] for change in seen.changes],
                "problems": [problem.as_json() for problem in seen.problems],
            }
        case SeenFolder():
            return {
                "is": "folder",
                "folder": seen.folder.decode("latin-1"),
                "tree": seen.tree,
                "reading": seen.reading.as_json() if seen.reading else None,
                "problems": [problem.as_json() for problem in seen.problems],
                "files": [[file.path, file.executable, file.blob, file.size] for file in seen.files],
                "blob": seen.blob,
                "sha256": seen.sha256,
            }


def _from_shape(shape: dict[str, Any]) -> Seen:
    match shape["is"]:
        case "tip":
            return Tip(shape["commit"] and _id(shape["commit"]), shape["default"], shape["empty"])
        case "progress":
            return Progress(shape["phase"], shape["done"], shape["total"])
        case "commit":
            return SeenCommit(
                id=_id(shape["id"]),
                parents=tuple(map(_id, shape["parents"])),
                author=Signature(*shape["author"]),
                committer=Signature(*shape["committer"]),
                message=shape["message"],
                changes=tuple(
                    FolderChange(folder.encode("latin-1"), tree and _id(tree), source)
                    for folder, tree, source in shape["changes"]
                ),
                problems=tuple(map(Problem.from_json, shape["problems"])),
            )
        case "folder":
            return SeenFolder(
                folder=shape["folder"].encode("latin-1"),
                tree=_id(shape["tree"]),
                reading=Reading.from_json(shape["reading"]) if shape["reading"] else None,
                problems=tuple(map(Problem.from_json, shape["problems"])),
                files=tuple(FolderFile(*file) for file in shape["files"]),
                blob=shape["blob"],
                sha256=shape["sha256"],
            )
    raise Garbled("an unknown noun")


def _id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise Garbled("an id that is none")
    return text
