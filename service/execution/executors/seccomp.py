"""The filter of system calls that a tool in the sandbox lives under: classic BPF, made here, installed by launcher.py.

A list of what is denied, as in contract/executors.md: what reaches past the namespaces (keyrings, vsock), hands out new
ones, changes what is mounted, looks into other processes, or is a part of the kernel with a history of holes and no use
for a tool. It is the second wall: most of it needs capabilities that a tool has not got. EPERM, so that programs say
what was not permitted; ENOSYS where libraries have another way that they take then.

Numbers: Linux 6.1's `arch/x86/entry/syscalls/syscall_64.tbl` and `include/uapi/asm-generic/unistd.h`; a test compares
them with the headers of the host. Arguments are compared by their lower 32 bits: the kernel takes these as 32 bits too.
"""

import errno
import functools
import platform
import socket
import struct
from collections.abc import Iterable
from typing import Final

# Number on x86-64, number on AArch64 (None: not there), what the call answers.
DENIED: Final[dict[str, tuple[int | None, int | None, int]]] = {
    # Keyrings know no namespaces but the user's.
    "keyctl": (250, 219, errno.EPERM),
    "add_key": (248, 217, errno.EPERM),
    "request_key": (249, 218, errno.EPERM),
    # New namespaces, and mounts by the old and the new interface. clone3 hides its flags from a filter.
    "unshare": (272, 97, errno.EPERM),
    "setns": (308, 268, errno.EPERM),
    "clone3": (435, 435, errno.ENOSYS),
    "mount": (165, 40, errno.EPERM),
    "umount2": (166, 39, errno.EPERM),
    "pivot_root": (155, 41, errno.EPERM),
    "chroot": (161, 51, errno.EPERM),
    "open_tree": (428, 428, errno.EPERM),
    "move_mount": (429, 429, errno.EPERM),
    "fsopen": (430, 430, errno.EPERM),
    "fsconfig": (431, 431, errno.EPERM),
    "fsmount": (432, 432, errno.EPERM),
    "fspick": (433, 433, errno.EPERM),
    "mount_setattr": (442, 442, errno.EPERM),
    "open_tree_attr": (467, 467, errno.EPERM),
    # Other processes' memory and descriptors.
    "ptrace": (101, 117, errno.EPERM),
    "process_vm_readv": (310, 270, errno.EPERM),
    "process_vm_writev": (311, 271, errno.EPERM),
    "process_madvise": (440, 440, errno.EPERM),
    "pidfd_getfd": (438, 438, errno.EPERM),
    "kcmp": (312, 272, errno.EPERM),
    "move_pages": (279, 239, errno.EPERM),
    "migrate_pages": (256, 238, errno.EPERM),
    # Large parts of the kernel that a tool has no need of. What io_uring does passes no filter.
    "bpf": (321, 280, errno.EPERM),
    "perf_event_open": (298, 241, errno.EPERM),
    "userfaultfd": (323, 282, errno.EPERM),
    "io_uring_setup": (425, 425, errno.ENOSYS),
    "io_uring_enter": (426, 426, errno.ENOSYS),
    "io_uring_register": (427, 427, errno.ENOSYS),
    # Memory that is no process's own: no limit counts it, and the one who is killed for it is somebody else.
    "memfd_create": (319, 279, errno.ENOSYS),
    "memfd_secret": (447, 447, errno.ENOSYS),
    "shmget": (29, 194, errno.ENOSYS),
    # Files past the mount namespace.
    "name_to_handle_at": (303, 264, errno.EPERM),
    "open_by_handle_at": (304, 265, errno.EPERM),
    "fanotify_init": (300, 262, errno.EPERM),
    "lookup_dcookie": (212, 18, errno.EPERM),
    # The host as a whole.
    "kexec_load": (246, 104, errno.EPERM),
    "kexec_file_load": (320, 294, errno.EPERM),
    "init_module": (175, 105, errno.EPERM),
    "finit_module": (313, 273, errno.EPERM),
    "delete_module": (176, 106, errno.EPERM),
    "create_module": (174, None, errno.EPERM),
    "query_module": (178, None, errno.EPERM),
    "get_kernel_syms": (177, None, errno.EPERM),
    "swapon": (167, 224, errno.EPERM),
    "swapoff": (168, 225, errno.EPERM),
    "reboot": (169, 142, errno.EPERM),
    "acct": (163, 89, errno.EPERM),
    "quotactl": (179, 60, errno.EPERM),
    "quotactl_fd": (443, 443, errno.EPERM),
    "nfsservctl": (180, 42, errno.EPERM),
    "syslog": (103, 116, errno.EPERM),
    "settimeofday": (164, 170, errno.EPERM),
    "clock_settime": (227, 112, errno.EPERM),
    "sethostname": (170, 161, errno.EPERM),
    "setdomainname": (171, 162, errno.EPERM),
    "vhangup": (153, 58, errno.EPERM),
    "iopl": (172, None, errno.EPERM),
    "ioperm": (173, None, errno.EPERM),
    "modify_ldt": (154, None, errno.EPERM),
    "uselib": (134, None, errno.EPERM),
    "sysfs": (139, None, errno.EPERM),
    "_sysctl": (156, None, errno.EPERM),
}
# Looked at by an argument: number on x86-64, number on AArch64.
EXAMINED: Final = {"clone": (56, 220), "ioctl": (16, 29), "personality": (135, 92), "socket": (41, 198)}

# CLONE_NEWTIME (0x80) lies in clone's exit signal and can be asked of clone3 and unshare alone.
_NEW_NAMESPACES: Final = 0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000
# TIOCSTI types into a terminal, TIOCLINUX pastes into a console.
_TERMINAL_INPUT: Final = (0x5412, 0x541C)
# Linux, 32-bit, UNAME26 and both, "which?": as Docker's profile; the others change how memory is laid out or shared.
_PERSONALITIES: Final = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
# vsock reaches the hypervisor past every namespace; the rest is for the kernel's own tools. netlink: glibc's resolver.
# Not AF_UNIX: a socket of the host's that lies beneath /usr or a read path takes connections through a read-only bind,
# and a filter cannot see which socket is meant. Costs tools their own, by name (Python's forkserver, ssh-agent).
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)

_MACHINES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column, AUDIT_ARCH_*
_X32: Final = 0x4000_0000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_KILL: Final = 0x8000_0000
_ERRNO: Final = 0x0005_0000
_ALLOW: Final = 0x7FFF_0000

_Program = list[tuple[int, int, int, int]]


@functools.cache
def filter_program(machine: str = "") -> bytes:
    """The instructions (`struct sock_filter[]`, 8 bytes each) for this machine or the one named as `uname -m` does.

    socketpair stays. Raises KeyError for a machine that launcher.py does not know either.
    """
    column, arch = _MACHINES[machine or platform.machine()]
    program: _Program = [(_LOAD, 0, 0, _ARCH_AT), (_EQUAL, 1, 0, arch), _answer(_KILL), (_LOAD, 0, 0, _NUMBER_AT)]
    if column == 0:  # x32 has this architecture's name and numbers of its own
        program += [(_AT_LEAST, 0, 1, _X32), _refusal(errno.ENOSYS)]
    for entry in DENIED.values():
        if (number := entry[column]) is not None:
            program += [(_EQUAL, 0, 1, number), _refusal(entry[2])]
    examined = {name: numbers[column] for name, numbers in EXAMINED.items()}
    program += _when(examined["clone"], 0, [(_ANY_BIT, 0, 1, _NEW_NAMESPACES), _refusal(errno.EPERM), _answer(_ALLOW)])
    program += _when(examined["ioctl"], 1, _none_of(_TERMINAL_INPUT, errno.EPERM))
    program += _when(examined["personality"], 0, _only(_PERSONALITIES, errno.EPERM))
    program += _when(examined["socket"], 0, _only(_FAMILIES, errno.EAFNOSUPPORT))
    program.append(_answer(_ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def _when(number: int, argument: int, then: _Program) -> _Program:
    """`then`, which must end with an answer, has the argument's lower half to look at."""
    return [(_EQUAL, 0, 1 + len(then), number), (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument), *then]


def _none_of(values: Iterable[int], number: int) -> _Program:
    tests = [step for value in values for step in ((_EQUAL, 0, 1, value), _refusal(number))]
    return [*tests, _answer(_ALLOW)]


def _only(values: Iterable[int], number: int) -> _Program:
    tests = [step for value in values for step in ((_EQUAL, 0, 1, value), _answer(_ALLOW))]
    return [*tests, _refusal(number)]


def _refusal(number: int) -> tuple[int, int, int, int]:
    return _answer(_ERRNO | number)


def _answer(value: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, value)
