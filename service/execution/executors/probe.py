"""The start-up self-test's program: a static executable that makes the system calls it is given and says what came back.

It needs nothing of what is inside the sandbox, no interpreter and no library, and asks the kernel itself instead of a
program that has ideas of its own. The instructions are assembled from `probe_<machine>.s`.
"""

import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.execution.executors.launcher import DATA_AT, elf_image

_CODE: Final = {
    "x86_64": bytes.fromhex(
        "41bc000440004881ec001000004989e5498b04244885c07840498b7c2408498b742410498b5424184d8b5424204d8b44"
        "24284d8b4c24300f05498945004983c508498b5c24384983c4404885c075c14885db74bc4989dcebb7b801000000bf01"
        "0000004889e64c89ea4829e20f0531ffb8e70000000f05"
    ),
    "aarch64": bytes.fromhex(
        "1308a0d2138080f2ff0740d1f4030091680240f98801f8b7608640a9628e41a9649642a9010000d4808600f8751e40f9"
        "73020191e0feffb5d5feffb4f30315aaf4ffff17080880d2200080d2e1030091820201cb010000d4c80b80d2000080d2"
        "010000d4"
    ),
}
# What the table's columns are for both machines; seccomp.py has those that a tool may not call.
NUMBERS: Final = {
    "close": (3, 57),
    "mmap": (9, 222),
    "nanosleep": (35, 101),
    "getpid": (39, 172),
    "connect": (42, 203),
    "wait4": (61, 260),
    "getuid": (102, 174),
    "prctl": (157, 167),
    "fcntl": (72, 25),
    "setsid": (112, 157),
    "exit_group": (231, 94),
    "openat": (257, 56),
    "mknodat": (259, 33),
    "faccessat": (269, 48),
    "fallocate": (285, 47),
    "dup3": (292, 24),
}
COLUMNS: Final = {"x86_64": 0, "aarch64": 1}
MAX_CALLS: Final = 500  # results have 4 KiB of stack
_ENTRY_BYTES: Final = 64
_U64: Final = 0xFFFF_FFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True)
class SystemCall:
    """`number` with up to six `arguments`: numbers, or bytes that are passed by their address.

    `if_zero`: what goes on instead of the next call where the result is 0, as in the child of a clone; its last call
    must not return.
    """

    number: int
    arguments: tuple[int | bytes, ...] = ()
    if_zero: "tuple[SystemCall, ...]" = ()


def probe_image(calls: Sequence[SystemCall], *, machine: str = "") -> bytes:
    """An executable that makes `calls` in order, writes their results to standard output and exits with 0."""
    machine = machine or platform.machine()
    tables = [tuple(calls)]
    for table in tables:  # grows while it is walked
        tables += [call.if_zero for call in table if call.if_zero]
    starts, address = {}, DATA_AT
    for table in tables:
        starts[id(table)] = address
        address += _ENTRY_BYTES * (len(table) + 1)
    entries, texts = bytearray(), bytearray()
    for table in tables:
        for call in table:
            numbers = []
            for argument in call.arguments:
                if isinstance(argument, bytes):
                    numbers.append(address + len(texts))
                    texts += argument.ljust(len(argument) + 8 - len(argument) % 8, b"\0")
                else:
                    numbers.append(argument & _U64)
            numbers += [0] * (6 - len(numbers))
            entries += struct.pack("<8Q", call.number, *numbers, starts[id(call.if_zero)] if call.if_zero else 0)
        entries += struct.pack("<q56x", -1)
    return elf_image(_CODE[machine], bytes(entries + texts), machine)


def probe_code(machine: str) -> bytes:
    """The instructions, for a test to compare with their source."""
    return _CODE[machine]


def probe_results(said: bytes) -> tuple[int, ...]:
    """What each call came to: a result, or an error's number below zero. Empty where the probe did not get so far."""
    return struct.unpack(f"<{len(said) // 8}q", said[: len(said) // 8 * 8])
