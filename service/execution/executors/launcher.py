"""The first process inside a sandbox: starts the tool, waits for it, and says exactly how that went.

bubblewrap alone cannot keep three promises (found with 0.8.0; its `--json-status-fd` does not help):
- its command stands in its own argument vector, `--args` takes options only: parameters would show in the process
  list (X34);
- its `execvp` gives a file of no known format to `/bin/sh`, and a program that cannot start is exit code 1 with
  bubblewrap's text on standard error, as if the tool had said so (X4);
- death by a signal arrives as 128 + n, which a shell may also say of its own: `exit 139` and SIGSEGV look alike (X5).

So bubblewrap runs this as process 1 (`--as-pid-1`): a static program of a few instructions, made anew for each run,
with the tool's arguments, environment and directory inside. It joins a session keyring of its own, makes itself
undumpable (the tool cannot reach its memory or descriptors), changes directory, starts the tool by vfork and execve,
reaps orphans, and writes one 64-bit number to an eventfd: `kind << 32 | value`. When it leaves, the kernel kills all
else in the PID namespace before bubblewrap hears of it: a run that is over has no survivors.

The instructions are assembled from `launcher_<machine>.s`. What may come here, since it runs last before the tool:
prlimit and the seccomp filter (after the keyring, which the filter forbids).
"""

import os
import platform
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_BASE: Final = 0x400000
_PLAN_AT: Final = 0x400
_HEADERS_BYTES: Final = 64 + 2 * 56
_ELF_MACHINE: Final = {"x86_64": 62, "aarch64": 183}
_CODE: Final = {
    "x86_64": bytes.fromhex(
        "bd000440004883ec10c744240800000000b8fa000000bf0100000031f60f05b89d000000bf0400000031f60f05b84800"
        "0000488b7d20be02000000ba010000000f0541bd03000000b850000000488b7d180f054189c441f7dc754841bd010000"
        "00b83a0000000f054189c441f7dc85c0783174564189c64883cfff4889e631d24531d2b83d0000000f054439f075e844"
        "8b6424084585e4750a41bd02000000448b242449c1e5204d09e54c892c24b801000000488b7d204889e6ba080000000f"
        "0531ffb8e70000000f05488b5d0041bc02000000488b3b4885ff7427488b7508488b5510b83b0000000f05f7d84883c3"
        "0883f80274de83f81474d94189c483f80d74d14489642408bf7f000000b83c0000000f05"
    ),
    "aarch64": bytes.fromhex(
        "1308a0d2138080f2ff4300d1ff0b00b9681b80d2200080d2010080d2010000d4e81480d2800080d2010080d2010000d4"
        "280380d2601240f9410080d2220080d2010000d4750080d2280680d2600e40f9010000d4f403004b34030035350080d2"
        "881b80d2202288d2010080d2020080d2030080d2040080d2010000d4f403004b20030034c001f837f603002a882080d2"
        "00008092e1030091020080d2030080d2010000d41f00166b21ffff54f40b40b974000035550080d2f40340b9948215aa"
        "f40300f9080880d2601240f9e1030091020180d2010000d4c80b80d2000080d2010000d4770240f954008052e08640f8"
        "a00100b4610640f9620a40f9a81b80d2010000d4e003004b1f08007100ffff541f500071c0feff54f403002a1f340071"
        "60feff54f40b00b9a80b80d2e00f80d2010000d4"
    ),
}

_NOT_STARTED: Final = 1
_RAN: Final = 2
_NO_DIRECTORY: Final = 3


@dataclass(frozen=True, slots=True)
class Report:
    """What the launcher said: `error` when the tool did not start, else its wait status (os.waitstatus_to_exitcode)."""

    error: OSError | None = None
    status: int = 0


def launcher_code(machine: str = "") -> bytes | None:
    """The instructions for this machine (or the one named as `uname -m` does), or None where there are none yet."""
    return _CODE.get(machine or platform.machine())


def launcher_image(argv: Sequence[str], env: Mapping[str, str], cwd: str, fd: int, *, machine: str = "") -> bytes:
    """An ELF executable that runs `argv` in `cwd` and reports to the eventfd `fd`.

    A name without "/" is looked for along `env["PATH"]`, as execvp would. Raises ValueError for a NUL in any of them.
    """
    machine = machine or platform.machine()
    plan = _plan(argv, env, cwd, fd)
    size = _PLAN_AT + len(plan)
    header = struct.pack(
        "<4s5B7xHHIQQQIHHHHHH",
        *(b"\x7fELF", 2, 1, 1, 0, 0, 2, _ELF_MACHINE[machine], 1, _BASE + _HEADERS_BYTES, 64, 0, 0, 64, 56, 2, 0, 0, 0),
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x10000)
    stack = struct.pack("<IIQQQQQQ", 0x6474E551, 6, 0, 0, 0, 0, 0, 16)
    return (header + load + stack + _CODE[machine]).ljust(_PLAN_AT, b"\0") + plan


def _plan(argv: Sequence[str], env: Mapping[str, str], cwd: str, fd: int) -> bytes:
    """Five numbers the instructions read, three tables of addresses that end in 0, and the texts they point to."""
    lists = (
        [_text(path) for path in _candidates(argv[0], env.get("PATH", ""))],
        [_text(item) for item in argv],
        [_text(f"{name}={value}") for name, value in env.items()],
    )
    tables_at = _BASE + _PLAN_AT + 5 * 8
    address = tables_at + 8 * sum(len(texts) + 1 for texts in lists)
    tables: list[int] = []
    starts: list[int] = []
    for texts in lists:
        starts.append(tables_at + 8 * len(tables))
        for text in texts:
            tables.append(address)
            address += len(text)
        tables.append(0)
    numbers = struct.pack(f"<{5 + len(tables)}Q", *starts, address, fd, *tables)
    return numbers + b"".join(text for texts in lists for text in texts) + _text(cwd)


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
    return Report(error=OSError(value, os.strerror(value) + (" (cwd)" if kind == _NO_DIRECTORY else "")))
