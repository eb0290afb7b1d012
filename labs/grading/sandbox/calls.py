"""System calls that a rank has no use for, refused by the kernel before it looks at them.

Two kinds. Calls that widen what a process may do, or reach deep into the kernel: they stand between
a student and the host. And calls by which two ranks could signal each other past the network whose
bytes are counted: locks on files that both can read, watches on them, keys, free memory, sockets of
families that no network namespace divides. A refused call fails with EPERM, as if it were not
allowed to this user; `clone3` with ENOSYS, so that libraries fall back to `clone`.

A classic BPF program, made here: struct sock_filter of <linux/filter.h>, numbers of <asm/unistd.h>.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*
# name: (x86_64, aarch64); None: that machine does not have it
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # namespaces, mounts, roots
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442),
    # other processes; a rank is one, with threads: what it holds and how long it runs is its own
    "fork": (57, None), "vfork": (58, None),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    # deep in the kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "userfaultfd": (323, 282),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60),
    "syslog": (103, 116), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "modify_ldt": (154, None), "iopl": (172, None), "ioperm": (173, None),
    # the clock
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    # ways round the network that is counted
    "flock": (73, 32), "inotify_init": (253, None), "inotify_init1": (294, 26),
    "fanotify_init": (300, 262), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186),
    "mq_open": (240, 180), "mincore": (27, 232), "cachestat": (451, 451), "sysinfo": (99, 179),
    "fadvise64": (221, 223), "readahead": (187, 213), "preadv2": (327, 286),  # what is cached
    # memory that no limit of a process counts
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
}  # fmt: skip
_CLONE, _CLONE3, _FCNTL = (56, 220), (435, 435), (72, 25)
_IOCTL, _SOCKET, _SOCKETPAIR = (16, 29), (41, 198), (53, 199)
_MMAP, _SHARED = (9, 222), 1  # MAP_SHARED: what is let go of it is in memory, and in no account
_PRCTL, _SET_PDEATHSIG = (157, 167), 1  # a rank that clears it would outlive a judge that is killed
_THREAD = 0x00010000  # CLONE_THREAD
_NEW_NAMESPACES = 0x7E020080  # CLONE_NEW*: cgroup, uts, ipc, user, pid, net, mount, time
# F_GETLK … F_OFD_SETLKW, F_SETLEASE, F_NOTIFY, and pipes' sizes, which count for a user together
_LOCKS = (5, 6, 7, 36, 37, 38, 1024, 1026, 1031, 1032)
_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: type on somebody's terminal
_FAMILIES = (2, 10, 16)  # IPv4, IPv6, netlink, which tells the names of interfaces

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000
_PR_SET_SECCOMP, _FILTER = 22, 2


def program(machine: str) -> list[tuple[int, int, int, int]]:
    """The filter as (code, jump if true, jump if false, operand). Raises OSError: not known."""
    if machine not in _ARCH:
        raise OSError(f"no filter of system calls is known for {machine}")
    column = 0 if machine == "x86_64" else 1
    refused = _RETURN, 0, 0, 0x00050000 | errno.EPERM
    code = [
        (_LOAD, 0, 0, _MACHINE),
        (_JUMP_EQUAL, 1, 0, _ARCH[machine]),
        (_RETURN, 0, 0, _KILL),  # another machine's numbers: they would mean other calls
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_AT_LEAST, 0, 1, _X32),
        refused,
        (_JUMP_EQUAL, 0, 1, _CLONE3[column]),
        (_RETURN, 0, 0, 0x00050000 | errno.ENOSYS),
    ]
    for numbers in _REFUSED.values():
        if numbers[column] is not None:
            code += [(_JUMP_EQUAL, 0, 1, numbers[column]), refused]
    code += _by_argument(_CLONE[column], 0, [(_JUMP_ANY_BIT, _NEW_NAMESPACES)], refused)
    code += _only_with(_CLONE[column], 0, _THREAD, refused)
    code += _by_argument(_FCNTL[column], 1, [(_JUMP_EQUAL, lock) for lock in _LOCKS], refused)
    code += _by_argument(_IOCTL[column], 1, [(_JUMP_EQUAL, call) for call in _TERMINAL], refused)
    code += _by_argument(_MMAP[column], 3, [(_JUMP_ANY_BIT, _SHARED)], refused)
    code += _by_argument(_PRCTL[column], 0, [(_JUMP_EQUAL, _SET_PDEATHSIG)], refused)
    for call in (_SOCKET, _SOCKETPAIR):
        code += _only(call[column], 0, _FAMILIES, refused)
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _by_argument(number: int, place: int, tests: list[tuple[int, int]], refused: tuple) -> list:
    """Of the call `number`: refused where its argument at `place` meets one of the tests."""
    inner = [(_LOAD, 0, 0, _ARGUMENTS + 8 * place)]
    for test, value in tests:
        inner += [(test, 0, 1, value), refused]
    inner.append((_LOAD, 0, 0, _NUMBER))
    return [(_JUMP_EQUAL, 0, len(inner), number), *inner]


def _only(number: int, place: int, values: tuple[int, ...], refused: tuple) -> list:
    """Of the call `number`: refused unless its argument at `place` is one of the values."""
    inner = [(_LOAD, 0, 0, _ARGUMENTS + 8 * place)]
    for at, value in enumerate(values):
        inner.append((_JUMP_EQUAL, len(values) - at, 0, value))
    inner += [refused, (_LOAD, 0, 0, _NUMBER)]
    return [(_JUMP_EQUAL, 0, len(inner), number), *inner]


def _only_with(number: int, place: int, bit: int, refused: tuple) -> list:
    """Of the call `number`: refused unless its argument at `place` has this bit."""
    inner = [
        (_LOAD, 0, 0, _ARGUMENTS + 8 * place),
        (_JUMP_ANY_BIT, 1, 0, bit),
        refused,
        (_LOAD, 0, 0, _NUMBER),
    ]
    return [(_JUMP_EQUAL, 0, len(inner), number), *inner]


def refuse() -> None:
    """Put the filter on this process and all it will start, for good. Raises OSError.

    The process must have given up new privileges (labs.grading.sandbox.system.drop_capabilities).
    """
    code = program(platform.machine())
    packed = b"".join(struct.pack("<HBBI", *one) for one in code)
    buffer = ctypes.create_string_buffer(packed, len(packed))
    whole = struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, whole, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")
