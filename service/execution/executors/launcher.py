"""The first process inside a sandbox: starts the tool, waits for it, and says exactly how that went.

bubblewrap alone cannot keep three promises (found with 0.8.0; its `--json-status-fd` does not help):
- its command stands in its own argument vector, `--args` takes options only: parameters would show in the process
  list (X34);
- its `execvp` gives a file of no known format to `/bin/sh`, and a program that cannot start is exit code 1 with
  bubblewrap's text on standard error, as if the tool had said so (X4);
- death by a signal arrives as 128 + n, which a shell may also say of its own: `exit 139` and SIGSEGV look alike (X5).

So bubblewrap runs this as process 1 (`--as-pid-1`): a static program of a few instructions, made anew for each run,
with the tool's arguments, environment, directory, limits and filter inside. It joins a session keyring of its own
(which the filter forbids, so bubblewrap cannot be the one to install it), makes itself undumpable (the tool cannot
reach its memory or descriptors), sets the limits and the filter, changes directory, starts the tool by vfork and
execve, reaps orphans, and writes one 64-bit number to an eventfd: `kind << 32 | value`. When it leaves, the kernel
kills all else in the PID namespace before bubblewrap hears of it: a run that is over has no survivors.

Without bubblewrap it does the same as a plain process in a session of its own, where nothing is killed by its leaving:
there it stays (`stays`) until it has no descendants left, all of which come to it as orphans (descendants.py).

The instructions are assembled from `launcher_<machine>.s`.
"""

import os
import platform
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_BASE: Final = 0x400000
_DATA_OFFSET: Final = 0x400
DATA_AT: Final = _BASE + _DATA_OFFSET
_HEADERS_BYTES: Final = 64 + 2 * 56
_ELF_MACHINE: Final = {"x86_64": 62, "aarch64": 183}
_CODE: Final = {
    "x86_64": bytes.fromhex(
        "bd000440004883ec10c744240800000000b8fa000000bf0100000031f60f05b89d000000bf0400000031f60f05b89d00"
        "0000bf01000000be090000000f05b89d000000bf24000000be010000000f05b8700000000f05b803000000488b7d280f"
        "05b848000000488b7d20be02000000ba010000000f0541bd04000000488b5d30488b334885f67822b82e01000031ff48"
        "8d53084531d20f054189c441f7dc0f85a10000004883c318ebd648837d38007433b89d000000bf26000000be01000000"
        "31d24531d24531c00f05b83d010000bf0100000031f6488b55380f054189c441f7dc756141bd03000000b85000000048"
        "8b7d180f054189c441f7dc754841bd01000000b83a0000000f054189c441f7dc85c0783174734189c64883cfff4889e6"
        "31d24531d2b83d0000000f054439f075e8448b6424084585e4750a41bd02000000448b242449c1e5204d09e54c892c24"
        "b801000000488b7d204889e6ba080000000f05837d400074174883cfff4889e631d24531d2b83d0000000f0585c079e9"
        "31ffb8e70000000f05b89d000000bf01000000be090000000f05488b5d0041bc02000000488b3b4885ff7427488b7508"
        "488b5510b83b0000000f05f7d84883c30883f80274de83f81474d94189c483f80d74d14489642408bf7f000000b83c00"
        "00000f05"
    ),
    "aarch64": bytes.fromhex(
        "1308a0d2138080f2ff4300d1ff0b00b9681b80d2200080d2010080d2010000d4e81480d2800080d2010080d2010000d4"
        "e81480d2200080d2210180d2010000d4e81480d2800480d2210080d2010000d4a81380d2010000d4280780d2601640f9"
        "010000d4280380d2601240f9410080d2220080d2010000d4950080d2771a40f9e10240f94101f8b7a82080d2000080d2"
        "e2220091030080d2010000d4f403004b34060035f7620091f6ffff17621e40f9e20100b4e81480d2c00480d2210080d2"
        "020080d2030080d2040080d2010000d4a82280d2200080d2010080d2621e40f9010000d4f403004bf4030035750080d2"
        "280680d2600e40f9010000d4f403004b34030035350080d2881b80d2202288d2010080d2020080d2030080d2040080d2"
        "010000d4f403004b40040034c001f837f603002a882080d200008092e1030091020080d2030080d2010000d41f00166b"
        "21ffff54f40b40b974000035550080d2f40340b9948215aaf40300f9080880d2601240f9e1030091020180d2010000d4"
        "602240f9000100b4882080d200008092e1030091020080d2030080d2010000d440ffffb6c80b80d2000080d2010000d4"
        "e81480d2200080d2210180d2010000d4770240f954008052e08640f8a00100b4610640f9620a40f9a81b80d2010000d4"
        "e003004b1f08007100ffff541f500071c0feff54f403002a1f34007160feff54f40b00b9a80b80d2e00f80d2010000d4"
    ),
}

_NOT_STARTED: Final = 1
_RAN: Final = 2
_NO_DIRECTORY: Final = 3
_NOT_SHUT_IN: Final = 4
_SAYS: Final = {_NO_DIRECTORY: " (cwd)", _NOT_SHUT_IN: " (sandbox)"}
_NUMBERS: Final = 9
_NO_IMAGE: Final = 2**64 - 1  # -1, as is the resource that ends the table of limits


Limits = Sequence[tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Report:
    """What the launcher said: `error` when the tool did not start, else its wait status (os.waitstatus_to_exitcode)."""

    error: OSError | None = None
    status: int = 0


def launcher_code(machine: str = "") -> bytes | None:
    """The instructions for this machine (or the one named as `uname -m` does), or None where there are none yet."""
    return _CODE.get(machine or platform.machine())


def launcher_image(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    fd: int,
    *,
    limits: Limits = (),
    filter_program: bytes = b"",
    image_fd: int | None = None,
    stays: bool = False,
    machine: str = "",
) -> bytes:
    """An ELF executable that runs `argv` in `cwd`, held by `limits` and `filter_program`, and reports to eventfd `fd`.

    A name without "/" is looked for along `env["PATH"]`, as execvp would. `limits` are (resource, soft, hard);
    `filter_program` is as seccomp.py makes it, empty for none; `image_fd` is where the image itself is open, to be
    closed. Raises ValueError for a NUL in a text.
    """
    machine = machine or platform.machine()
    plan = _plan((argv, env, cwd), (fd, _NO_IMAGE if image_fd is None else image_fd, stays), limits, filter_program)
    return elf_image(_CODE[machine], plan, machine)


def elf_image(code: bytes, data: bytes, machine: str) -> bytes:
    """A static executable: `code` runs from its start, and finds `data` at DATA_AT."""
    size = _DATA_OFFSET + len(data)
    header = struct.pack(
        "<4s5B7xHHIQQQIHHHHHH",
        *(b"\x7fELF", 2, 1, 1, 0, 0, 2, _ELF_MACHINE[machine], 1, _BASE + _HEADERS_BYTES, 64, 0, 0, 64, 56, 2, 0, 0, 0),
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x10000)
    stack = struct.pack("<IIQQQQQQ", 0x6474E551, 6, 0, 0, 0, 0, 0, 16)
    return (header + load + stack + code).ljust(_DATA_OFFSET, b"\0") + data


def _plan(
    run: tuple[Sequence[str], Mapping[str, str], str],
    numbers: tuple[int, int, bool],
    limits: Limits,
    filter_program: bytes,
) -> bytes:
    """Nine numbers the instructions read, three tables of addresses that end in 0, limits, filter, and the texts.

    The numbers: where programs, argv, environment and directory are, descriptor, image, limits, filter, whether it
    stays.
    """
    argv, env, cwd = run
    lists = (
        [_text(path) for path in _candidates(argv[0], env.get("PATH", ""))],
        [_text(item) for item in argv],
        [_text(f"{name}={value}") for name, value in env.items()],
    )
    tables_at = DATA_AT + _NUMBERS * 8
    limits_at = tables_at + 8 * sum(len(texts) + 1 for texts in lists)
    held = b"".join(struct.pack("<3Q", *limit) for limit in limits) + struct.pack("<Q", _NO_IMAGE)
    filter_at = limits_at + len(held)
    # struct sock_fprog: how many instructions, and where.
    held += struct.pack("<HxxxxxxQ", len(filter_program) // 8, filter_at + 16) + filter_program
    address = limits_at + len(held)
    tables: list[int] = []
    starts: list[int] = []
    for texts in lists:
        starts.append(tables_at + 8 * len(tables))
        for text in texts:
            tables.append(address)
            address += len(text)
        tables.append(0)
    fd, image_fd, stays = numbers
    head = (*starts, address, fd, image_fd, limits_at, filter_at if filter_program else 0, stays)
    packed = struct.pack(f"<{_NUMBERS + len(tables)}Q", *head, *tables)
    return packed + held + b"".join(text for texts in lists for text in texts) + _text(cwd)


def _candidates(program: str, path: str) -> list[str]:
    if "/" in program or not program:
        return [program]
    return [f"{folder or '.'}/{program}" for folder in path.split(":")]


def _text(text: str) -> bytes:
    if "\0" in text:
        raise ValueError("embedded null byte")
    return text.encode("utf-8", "surrogateescape") + b"\0"


def read_report(fd: int) -> Report | None:
    """What stands in the eventfd; None when the launcher never came so far, or was killed before it could say."""
    try:
        said = os.eventfd_read(fd)
    except BlockingIOError:
        return None
    kind, value = said >> 32, said & 0xFFFFFFFF
    if kind == _RAN:
        return Report(status=value)
    return Report(error=OSError(value, os.strerror(value) + _SAYS.get(kind, "")))
