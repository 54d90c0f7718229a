"""`file.read`, `file.write`, `file.list`: beneath the roots and nowhere else, whatever paths and links say (M6)."""

import base64
import json
import os
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from service.gatekeeper.answers import CannotDo
from service.gatekeeper.beneath import Roots
from service.gatekeeper.files import Files

MAX_BYTES = 1_000_000


@pytest.fixture
def place(tmp_path):
    """A root, a denied folder beneath it, and a secret beside it."""
    (tmp_path / "root/deep/denied").mkdir(parents=True)
    (tmp_path / "root/deep/denied/key").write_text("secret")
    (tmp_path / "root/deep/plain").write_text("plain")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    return tmp_path


@pytest.fixture(params=[True, False], ids=["openat2", "by component"])
def roots(request, place):
    roots = Roots([place / "root"], [place / "root/deep/denied", place / "root/token"], openat2=request.param)
    yield roots
    roots.close()


@pytest.fixture
def files(roots):
    return Files(roots, MAX_BYTES)


def read(files, path, offset=0, limit=None, encoding="utf-8", keep=MAX_BYTES):
    return files.read(str(path), offset, limit, encoding, keep, lambda: None)


@pytest.mark.parametrize(
    "path",
    [
        "{root}/../outside/secret",
        "{root}/deep/../../outside/secret",
        "../outside/secret",
        "/etc/passwd",
        "../../../../../../etc/passwd",
        "{root}/%2e%2e/outside/secret",
        "{root}/link-out",
        "{root}/link-folder/secret",
        "{root}/link-up/outside/secret",
        "{root}/link-absolute",
        "{root}side/secret",
        "{root}/deep/denied/key",
        "{root}/link-denied",
        "{root}/deep/./denied//key",
        "/proc/self/environ",
        "{root}/\0",
        "/",
    ],
)
def test_nothing_outside_is_read_written_or_listed(files, place, path):
    """M6: `..`, an encoded one, absolute, links of every kind; what is denied beneath the root."""
    root = place / "root"
    (root / "link-out").symlink_to(place / "outside/secret")
    (root / "link-folder").symlink_to("../outside")
    (root / "link-up").symlink_to("..")
    (root / "link-absolute").symlink_to("/etc/passwd")
    (root / "link-denied").symlink_to("deep/denied/key")
    path = path.format(root=root)

    for attempt in (
        lambda: read(files, path),
        lambda: files.write(path, b"evil", "append"),
        lambda: files.write(path + "/new", b"evil", "create"),
        lambda: files.list(path, 1000),
    ):
        with pytest.raises(CannotDo):
            attempt()
    assert (place / "outside/secret").read_text() == "secret"
    assert (root / "deep/denied/key").read_text() == "secret"


def test_a_link_that_stays_beneath_is_followed_where_the_kernel_can_hold_it(place):
    """openat2 follows it; component by component refuses every link."""
    (place / "root/link").symlink_to("deep/plain")
    kernel, walk = Roots([place / "root"], []), Roots([place / "root"], [], openat2=False)

    assert read(Files(kernel, MAX_BYTES), place / "root/link")["stdout"] == "plain"
    with pytest.raises(CannotDo):
        read(Files(walk, MAX_BYTES), place / "root/link")
    kernel.close()
    walk.close()


def test_a_link_swapped_while_reading_never_leads_out(files, place):
    """M6: resolve-then-check leaked 15 % of reads in this race (facts/platform.md)."""
    spot, spare = place / "root/spot", place / "root/spare"
    folder = place / "root/real"
    folder.mkdir()
    (folder / "secret").write_text("inside")
    spot.symlink_to("real")
    stop = threading.Event()

    def swap():
        for turn in range(10**9):
            if stop.is_set():
                return
            spare.symlink_to(place / "outside" if turn % 2 else "real")
            spare.replace(spot)

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    until = time.monotonic() + 1
    while time.monotonic() < until:
        try:
            seen.add(read(files, spot / "secret")["stdout"])
        except CannotDo:
            seen.add("refused")
        with suppress(CannotDo):
            files.write(str(spot / "secret"), b"inside", "overwrite")
    stop.set()
    thread.join()

    assert seen <= {"inside", "refused"}
    assert "refused" in seen
    assert (place / "outside/secret").read_text() == "secret"


def test_what_is_no_regular_file_is_refused(files, place):
    """A pipe would hold the reader, a device may do anything when it is opened."""
    os.mkfifo(place / "root/pipe")
    (place / "root/loop").symlink_to("loop")

    for name in ("pipe", "loop", "deep"):
        for mode in ("overwrite", "append"):
            with pytest.raises(CannotDo):
                files.write(str(place / "root" / name), b"x", mode)
        with pytest.raises(CannotDo):
            read(files, place / "root" / name)
    with pytest.raises(CannotDo):
        files.list(str(place / "root/deep/plain"), 1000)


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a device")
def test_a_device_beneath_the_root_is_refused(files, place):
    os.mknod(place / "root/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))

    with pytest.raises(CannotDo):
        read(files, place / "root/null")
    with pytest.raises(CannotDo):
        files.write(str(place / "root/null"), b"x", "append")


def test_a_second_name_of_a_denied_file_is_denied_too(place):
    """X35: a hard link to the token file beneath a root."""
    token = place / "outside/token"
    token.write_text("t0ken")
    (place / "root/innocent").hardlink_to(token)
    roots = Roots([place / "root"], [token])

    with pytest.raises(CannotDo):
        read(Files(roots, MAX_BYTES), place / "root/innocent")
    roots.close()


def test_a_root_of_everything_still_shows_no_process(place):
    """X35: `/proc/<pid>/environ` is a regular file."""
    roots = Roots([Path("/")], [place / "outside"])
    files = Files(roots, MAX_BYTES)

    assert read(files, place / "root/deep/plain")["stdout"] == "plain"
    for path in ("/proc/self/environ", "/proc/1/environ", "/sys/kernel/notes", "/dev/mem", place / "outside/secret"):
        with pytest.raises(CannotDo):
            read(files, path)
    roots.close()


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [(0, None, b"0123456789"), (3, 4, b"3456"), (8, 100, b"89"), (10, None, b""), (99, None, b""), (0, 0, b"")],
)
def test_a_piece_of_a_file_is_read_as_text_or_base64(files, place, offset, limit, expected):
    """Offset and limit count bytes."""
    (place / "root/file").write_bytes(b"0123456789")

    assert read(files, "file", offset, limit)["stdout"] == expected.decode()
    assert base64.b64decode(read(files, "file", offset, limit, "base64")["stdout"]) == expected


def test_a_large_file_is_cut_at_the_cap_and_hashed_to_its_end(files, place):
    """Totals cover all that was read; base64 of chunks is base64 of the whole."""
    content = os.urandom(700_001)
    (place / "root/file").write_bytes(content)

    cut = read(files, "file", keep=1000)
    encoded = read(files, "file", encoding="base64")

    assert (cut["stdout_bytes"], cut["truncated"]) == (len(content), True)
    assert base64.b64decode(cut["stdout_b64"]) == content[:1000]
    assert base64.b64decode(encoded["stdout"], validate=True) == content


def test_more_than_one_call_may_move_is_refused_with_a_way_out(files, place):
    """Sizes are capped; a limit reads piece by piece."""
    with (place / "root/file").open("wb") as file:
        file.truncate(MAX_BYTES + 1)

    with pytest.raises(CannotDo, match="limit"):
        read(files, "file")
    with pytest.raises(CannotDo):
        files.write("new", b"x" * (MAX_BYTES + 1), "create")
    assert read(files, "file", limit=5)["stdout_bytes"] == 5


def test_create_never_replaces(files, place):
    """The default, so that a slip of the hand covers nobody's file."""
    told = json.loads(files.write("new", b"one", "create")["stdout"])

    with pytest.raises(CannotDo, match="already"):
        files.write("new", b"two", "create")
    assert (place / "root/new").read_bytes() == b"one"
    assert (told["bytes"], told["size"]) == (3, 3)


def test_overwrite_replaces_whole_and_keeps_the_rights(files, place):
    """Who has it open reads on in the old one; nobody sees a half."""
    target = place / "root/file"
    target.write_bytes(b"old")
    target.chmod(0o640)
    before = target.open("rb")

    files.write("file", b"new", "overwrite")

    with before:
        assert before.read() == b"old"
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert sorted(path.name for path in (place / "root").iterdir()) == ["deep", "file"]


def test_new_content_gets_no_right_to_run_as_somebody(files, place):
    """The kernel takes set-user-ID away when a file is written; so do we when it is replaced."""
    target = place / "root/file"
    target.write_bytes(b"old")
    target.chmod(0o6755)

    files.write("file", b"new", "overwrite")

    assert stat.S_IMODE(target.stat().st_mode) == 0o755


def test_append_adds_and_makes_what_is_not_there(files, place):
    files.write("log", b"one\n", "append")
    told = json.loads(files.write("log", b"two\n", "append")["stdout"])

    assert (place / "root/log").read_bytes() == b"one\ntwo\n"
    assert told["size"] == 8


@pytest.mark.parametrize("mode", ["create", "overwrite", "append"])
def test_the_token_file_cannot_be_made_or_changed(files, place, mode):
    """X35: denied by its place even before it exists."""
    with pytest.raises(CannotDo):
        files.write("token", b"mine", mode)
    assert not (place / "root/token").exists()


def test_a_failed_write_leaves_nothing(files, place):
    """A folder that is not there; a name that is too long."""
    for path in ("nowhere/file", "x" * 300):
        for mode in ("create", "overwrite", "append"):
            with pytest.raises(CannotDo):
                files.write(path, b"x", mode)
    assert [path.name for path in (place / "root").iterdir()] == ["deep"]


def test_a_list_has_a_line_for_each_entry(files, place):
    """`{name, type, bytes, modified}`, by name; a name that is no UTF-8 has its bytes too."""
    folder = place / "root/many"
    folder.mkdir()
    (folder / "b").write_bytes(b"12345")
    os.utime(folder / "b", (0, 0))
    (folder / "a").mkdir()
    (folder / "c").symlink_to("/nowhere")
    os.mkfifo(folder / "d")
    (folder / "中").touch()
    with open(os.fsencode(folder) + b"/\xff\n", "wb"):  # noqa: PTH123  a name in bytes
        pass

    lines = [json.loads(line) for line in files.list("many", MAX_BYTES)["stdout"].splitlines()]

    assert [(line["name"], line["type"]) for line in lines] == [
        ("a", "folder"), ("b", "file"), ("c", "link"), ("d", "other"), ("中", "file"), ("\ufffd\n", "file"),
    ]  # fmt: skip
    assert lines[1] == {"name": "b", "type": "file", "bytes": 5, "modified": "1970-01-01T00:00:00.000Z"}
    assert base64.b64decode(lines[5]["name_b64"]) == b"\xff\n"


def test_no_descriptor_is_left(files, place):
    """Whatever was refused on the way."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("deep/plain", "deep", "../outside", "nowhere", "deep/denied/key"):
        for attempt in (lambda p=path: read(files, p), lambda p=path: files.write(p, b"", "overwrite")):
            with suppress(CannotDo):
                attempt()

    assert len(list(Path("/proc/self/fd").iterdir())) == before
