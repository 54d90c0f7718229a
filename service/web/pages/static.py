"""Files that pages are shown with: kept in memory, asked for by name and content, so that browsers keep them for good."""

import hashlib
from pathlib import Path
from typing import Final

from service.errors import Message, NotFound
from service.web.parts import Parts
from service.web.routing import Answer, Asked

_FOLDER: Final = Path(__file__).parent.parent / "static"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FILES: Final = {
    file.relative_to(_FOLDER).as_posix(): file.read_bytes()
    for file in sorted(_FOLDER.rglob("*"))
    if file.suffix in _TYPES
}
_VERSIONS: Final = {name: hashlib.sha256(content).hexdigest()[:12] for name, content in FILES.items()}


def versioned(name: str) -> str:
    """The path of a file, which changes with its content."""
    return f"/static/{name}?v={_VERSIONS[name]}"


def show(_parts: Parts, asked: Asked) -> Answer:
    """One file."""
    content = FILES.get(asked.path["name"])
    if content is None:
        raise NotFound(Message("没有这个文件。", "There is no such file."))
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Cross-Origin-Resource-Policy": "same-origin"}
    return Answer(content, 200, headers, _TYPES["." + asked.path["name"].rpartition(".")[2]])
