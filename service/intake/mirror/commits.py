"""Raw git commits as plain values: headers read strictly, people and times as claimed (cases.md G3, G4, G6)."""

import codecs
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from service.domain.definitions import Problem
from service.domain.history import Signature
from service.intake.mirror.trees import Undecodable

MAX_MESSAGE_CHARACTERS: Final = 200
MAX_NAME_CHARACTERS: Final = 200

_ID = re.compile(rb"[0-9a-f]{40}")
_PERSON = re.compile(rb"([^<]*)<([^>]*)>(.*)", re.DOTALL)
_WHEN = re.compile(rb" ?([0-9]{1,12}) ([+-])([0-9]{2})([0-9]{2})")
_LAST_SECOND = 253_402_300_799  # 9999-12-31T23:59:59Z
_ENCODINGS = re.compile(
    r"utf-?8|us-?ascii|ascii|gbk|gb2312|gb18030|big5|big5-?hkscs|euc-?jp|shift[_-]?jis|iso-2022-jp|euc-?kr|koi8-[ru]"
    r"|(iso-?8859|latin)-?\d{1,2}|(cp|windows-?)\d{3,4}",
    re.IGNORECASE,
)
_TWO_AUTHORS = Problem(
    code="two-authors",
    zh="这个提交写了不止一个作者（author）行，不同的程序会读出不同的作者；请用普通的 git commit 重新提交。",
    en="This commit has more than one author line, and programs disagree on which counts; "
    "commit again with an ordinary git commit.",
)


@dataclass(frozen=True, slots=True)
class Commit:
    """What one commit object says: ids as hex in bytes, people as claimed, the message's first line."""

    tree: bytes
    parents: tuple[bytes, ...]
    author: Signature
    committer: Signature
    message: str
    problems: tuple[Problem, ...]


def parents(raw: bytes) -> tuple[bytes, ...]:
    """Only the parents, and not the same one twice. Raises Undecodable."""
    return _tree_and_parents(raw)[1]


def read_commit(raw: bytes) -> Commit:
    """Read a commit object's content. Raises Undecodable where it has no tree."""
    tree, above, rest = _tree_and_parents(raw)
    head, _, message = rest.partition(b"\n\n")
    headers = [line.partition(b" ")[::2] for line in head.split(b"\n")]
    people = {name: [value for key, value in headers if key == name] for name in (b"author", b"committer")}
    encoding = next((value for key, value in headers if key == b"encoding"), b"")
    authors = people[b"author"]
    return Commit(
        tree=tree,
        parents=above,
        author=_signature(authors[0] if authors else b"", encoding),
        committer=_signature((people[b"committer"] or [b""])[0], encoding),
        message=_first_line(message, encoding),
        problems=(_TWO_AUTHORS,) if len(authors) > 1 else (),
    )


def _tree_and_parents(raw: bytes) -> tuple[bytes, tuple[bytes, ...], bytes]:
    line, _, rest = raw.partition(b"\n")
    if not line.startswith(b"tree ") or not _ID.fullmatch(line[5:]):
        raise Undecodable("a commit object has no tree")
    above: list[bytes] = []
    while rest.startswith(b"parent "):
        line, _, rest = rest.partition(b"\n")
        if not _ID.fullmatch(line[7:]):
            raise Undecodable("a commit object has a garbled parent")
        above.append(line[7:])
    return raw[5:45], tuple(dict.fromkeys(above)), rest


def _signature(line: bytes, encoding: bytes) -> Signature:
    match = _PERSON.fullmatch(line)
    if match is None:
        return Signature(_text(line.strip(), encoding)[:MAX_NAME_CHARACTERS], "", None)
    name, email, rest = match.groups()
    return Signature(
        _text(name.strip(), encoding)[:MAX_NAME_CHARACTERS],
        _text(email.strip(), encoding)[:MAX_NAME_CHARACTERS],
        _when(rest),
    )


def _when(rest: bytes) -> str | None:
    """RFC 3339 UTC with milliseconds (git has none), or None where the time or its zone is none that a calendar has."""
    match = _WHEN.fullmatch(rest)
    if match is None:
        return None
    seconds, hours, minutes = int(match.group(1)), int(match.group(3)), int(match.group(4))
    if seconds > _LAST_SECOND or hours > 14 or minutes > 59:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _first_line(message: bytes, encoding: bytes) -> str:
    line = message.lstrip(b"\n").partition(b"\n")[0][: 8 * MAX_MESSAGE_CHARACTERS]
    return _text(line, encoding).strip()[:MAX_MESSAGE_CHARACTERS]


def _text(raw: bytes, encoding: bytes) -> str:
    """Decoded as the commit says, where it names an encoding of text; what cannot be is shown as escaped bytes."""
    name = encoding.decode("ascii", "replace").strip()
    if not _ENCODINGS.fullmatch(name):
        name = "utf-8"
    try:
        codecs.lookup(name)
    except LookupError:
        name = "utf-8"
    return raw[: 16 * MAX_NAME_CHARACTERS].decode(name, "backslashreplace")
