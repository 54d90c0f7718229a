"""Git trees, read strictly (contract/registration.md, What is checked): entries, folders below `tools`, what differs.

Stock `git push` puts through trees that no two programs read alike: one name twice, unsorted, `..`, `100666`. Such an
entry is a problem of what it names, and of nothing else. Works on raw bytes and knows no object store.
"""

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

TREE: Final = b"40000"
FILE: Final = b"100644"
EXECUTABLE: Final = b"100755"

_ENTRY = re.compile(rb"([^ \0]*) ([^\0]*)\0(.{20})", re.DOTALL)
# As many whole entries as fit; the group is the last one's mode and name.
_WHOLE_ENTRIES = re.compile(rb"(?:([^\0]*)\0.{20})*+", re.DOTALL)
_PLAIN_NAME = re.compile(rb"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_ZERO_PADDED_TREE = re.compile(rb"0+40000")


class Undecodable(Exception):
    """An object is whole, by its id, and is not what git says it should be; reading it again would not help."""


class Entry(NamedTuple):
    """One entry of a tree: mode and name as written, the id's 20 bytes."""

    mode: bytes
    name: bytes
    id: bytes

    @property
    def raw(self) -> bytes:
        """As it stands in the tree."""
        return self.mode + b" " + self.name + b"\0" + self.id

    @property
    def looks_like_tree(self) -> bool:
        """A tree, however its mode is spelled."""
        return self.mode == TREE or _ZERO_PADDED_TREE.fullmatch(self.mode) is not None

    @property
    def key(self) -> bytes:
        """What git sorts by: a folder's name counts with a slash."""
        return self.name + b"/" if self.looks_like_tree else self.name


def entries(raw: bytes) -> list[Entry]:
    """Every entry in the order written. Raises Undecodable when the bytes are no tree."""
    found = [Entry(*match) for match in _ENTRY.findall(raw)]
    if sum(len(entry.mode) + len(entry.name) + 22 for entry in found) != len(raw):
        raise Undecodable("a tree object is cut short or garbled")
    return found


def name_is_bad(name: bytes) -> bool:
    """Whether it is no usable name: `.`, `..`, `.git` in any case, empty, with `/` or control characters, not UTF-8."""
    if _PLAIN_NAME.fullmatch(name):
        return False
    if name in (b"", b".", b"..") or name.lower() == b".git" or b"/" in name:
        return True
    try:
        return _CONTROL.search(name.decode("utf-8")) is not None
    except UnicodeDecodeError:
        return True


def _mode_flaw(mode: bytes) -> str | None:
    if mode in (TREE, FILE, EXECUTABLE):
        return None
    if mode == b"120000":
        return "symlink"
    return "submodule" if mode == b"160000" else "bad-mode"


def flaws(found: Sequence[Entry]) -> dict[bytes, tuple[str, ...]]:
    """What is strange, by name: codes `symlink submodule bad-mode bad-name unsorted-tree ambiguous-tree`, sorted."""
    strange: dict[bytes, set[str]] = {}
    highest = b""
    for entry in found:
        if code := _mode_flaw(entry.mode):
            strange.setdefault(entry.name, set()).add(code)
        if name_is_bad(entry.name):
            strange.setdefault(entry.name, set()).add("bad-name")
        if entry.key < highest:
            strange.setdefault(entry.name, set()).add("unsorted-tree")
        highest = max(highest, entry.key)
    for name, count in Counter(entry.name for entry in found).items():
        if count > 1:
            strange.setdefault(name, set()).add("ambiguous-tree")
    return {name: tuple(sorted(codes)) for name, codes in strange.items()}


class Folder(NamedTuple):
    """A folder below `tools`: its tree, or an id made of what stands there where it is strange, and why."""

    tree: str
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where `tools` is at a commit: its tree (several where the path is doubled), and what is wrong with the path."""

    trees: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()


NOWHERE: Final = Place()


def step(found: Sequence[Entry], name: bytes, codes: tuple[str, ...] = ()) -> Place:
    """Where `name` is below a tree with these entries, which was itself reached with `codes`."""
    mine = [entry for entry in found if entry.name == name]
    trees = tuple(entry.id.hex() for entry in mine if entry.looks_like_tree)
    if not trees:
        return NOWHERE
    own = flaws(found).get(name, ())
    return Place(trees, tuple(sorted({*codes, *own})))


def folders(found: Sequence[Entry], above: tuple[str, ...] = ()) -> dict[bytes, Folder]:
    """Every folder, and what pretends to be one, of a `tools` tree; not plain files. `above`: the path's own codes."""
    strange = flaws(found)
    listed: dict[bytes, Folder] = {}
    for entry in found:
        codes = tuple(sorted({*strange.get(entry.name, ()), *above}))
        if entry.name in listed or (entry.mode in (FILE, EXECUTABLE) and entry.name not in strange):
            continue
        if codes:
            together = b"".join(other.raw for other in found if other.name == entry.name)
            listed[entry.name] = Folder(_id_of(together, codes), codes)
        else:
            listed[entry.name] = Folder(entry.id.hex())
    return listed


def _id_of(raw: bytes, codes: tuple[str, ...]) -> str:
    """An id for what is no tree, so that it can be compared and kept like one."""
    return hashlib.sha1(" ".join(codes).encode() + b"\0" + raw, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Listing:
    """One `tools` tree: its bytes, and whether nothing in it is strange."""

    raw: bytes
    clean: bool


def listing(raw: bytes) -> Listing:
    """Read a tree whole."""
    return Listing(raw, not flaws(entries(raw)))


class Difference(NamedTuple):
    """What differs between two clean trees: the new one's folders among it, names that have none now, cleanness."""

    now: dict[bytes, Folder]
    gone: set[bytes]


def difference(old: Mapping[bytes, Folder], new: Mapping[bytes, Folder]) -> Difference:
    """The folders that are in `new` and not the same in `old`, and the names that are in `old` alone."""
    return Difference({name: folder for name, folder in new.items() if old.get(name) != folder}, {*old} - {*new})


def quick_difference(old: bytes, new: bytes) -> Difference | None:
    """The same for a clean tree and one that is near it, without reading what both begin and end with.

    None where that cannot tell whether `new` is clean. Not None says that it is.
    """
    head, last = _common_head(old, new)
    old_rows, new_rows, tail = _middles(old, new, head)
    after_rows = _ENTRY.match(new, len(new) - tail)
    next_one = Entry(*after_rows.groups()) if after_rows else None
    if not _clean_between(last, new_rows, next_one, new):
        return None
    before = {row.name: Folder(row.id.hex()) for row in old_rows if row.mode == TREE}
    after = {row.name: Folder(row.id.hex()) for row in new_rows if row.mode == TREE}
    return difference(before, after)


def _common_head(old: bytes, new: bytes) -> tuple[int, Entry | None]:
    """Where the entries both begin with end, and the last of them."""
    whole = _WHOLE_ENTRIES.match(new, 0, _common(old, new, from_end=False))
    if whole is None or whole.group(1) is None:
        return 0, None
    mode, _, name = whole.group(1).partition(b" ")
    return whole.end(), Entry(mode, name, b"")


def _middles(old: bytes, new: bytes, head: int) -> tuple[list[Entry], list[Entry], int]:
    """The entries of both after `head`, to where both go on alike to the end; and how many bytes that end has."""
    alike = min(_common(old, new, from_end=True), len(old) - head, len(new) - head)
    old_rows: list[Entry] = []
    new_rows: list[Entry] = []
    old_left, new_left = len(old) - head, len(new) - head
    while old_left > alike or new_left > alike or old_left != new_left:
        if old_left >= new_left:
            old_left -= _take(old, len(old) - old_left, old_rows)
        else:
            new_left -= _take(new, len(new) - new_left, new_rows)
    return old_rows, new_rows, new_left


def _take(raw: bytes, at: int, rows: list[Entry]) -> int:
    match = _ENTRY.match(raw, at)
    if match is None:
        raise Undecodable("a tree object is cut short or garbled")
    rows.append(Entry(*match.groups()))
    return match.end() - at


def _clean_between(last: Entry | None, rows: Sequence[Entry], following: Entry | None, whole: bytes) -> bool:
    """Whether these entries may stand between a clean tree's `last` one and its `following` one."""
    keys = [entry.key for entry in (last, *rows, following) if entry is not None]
    if any(left >= right for left, right in itertools.pairwise(keys)):
        return False
    # A name that occurs once more may be chance among the ids, or a file beside a folder: then all is read.
    return not any(
        _mode_flaw(row.mode) or name_is_bad(row.name) or whole.count(b" " + row.name + b"\0") > 1 for row in rows
    )


def _common(left: bytes, right: bytes, *, from_end: bool) -> int:
    """How many bytes both begin (or end) with, by halving: a comparison of slices costs next to nothing."""
    same, limit = 0, min(len(left), len(right))
    while same < limit:
        size = (limit - same + 1) // 2
        if from_end:
            piece, other = len(left) - same, len(right) - same
            alike = left[piece - size : piece] == right[other - size : other]
        else:
            alike = left[same : same + size] == right[same : same + size]
        if alike:
            same += size
        elif size == 1:
            break
        else:
            limit = same + size - 1
    return same
