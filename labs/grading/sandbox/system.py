"""The calls to Linux that shut a process in; Python 3.11 has none of them.

Each raises OSError with the call's name. Numbers are those of <linux/sched.h>, <linux/mount.h>,
<linux/prctl.h> and <linux/capability.h>.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

NEWNS, NEWUTS, NEWIPC = 0x00020000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET, NEWCGROUP = 0x10000000, 0x20000000, 0x40000000, 0x02000000

RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT = 1, 2, 4, 8, 32
BIND, REC, PRIVATE = 4096, 16384, 1 << 18
DETACH = 2  # umount2

_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_PR_CAP_AMBIENT, _CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> int:
    result = getattr(_libc, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones."""
    _call("unshare", ctypes.c_int(flags))


def setns(fd: int, kind: int = 0) -> None:
    """Enter the namespace that `fd` stands for."""
    _call("setns", ctypes.c_int(fd), ctypes.c_int(kind))


def mount(
    source: str | None, target: str, kind: str | None, flags: int = 0, data: str = ""
) -> None:
    """mount(2)."""
    _call(
        "mount",
        source.encode() if source is not None else None,
        target.encode(),
        kind.encode() if kind is not None else None,
        ctypes.c_ulong(flags),
        data.encode() if data else None,
    )


def bind_read_only(source: str, target: str) -> None:
    """Show `source` at `target`, which exists: nobody writes there, no set-user-id counts."""
    mount(source, target, None, BIND)
    mount(None, target, None, BIND | REMOUNT | RDONLY | NOSUID | NODEV)


def detach(target: str) -> None:
    """Take a mount away from this mount namespace."""
    _call("umount2", target.encode(), ctypes.c_int(DETACH))


def enter_root(folder: str) -> None:
    """Make `folder`, a mount, the root of this mount namespace; the old one is gone afterwards."""
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(f"pivot_root: not known for {platform.machine()}")
    os.chdir(folder)
    _call("syscall", ctypes.c_long(number), b".", b".")
    detach(".")  # the old root lies on the new one now
    os.chdir("/")


def drop_capabilities() -> None:
    """Give up every privilege, for good: also programs started from here get none."""
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # beyond the last one this kernel knows
    _libc.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    head = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    _call("capset", head, bytes(24))


def die_with_parent() -> None:
    """SIGKILL for this process when the thread that forked it ends."""
    _call("prctl", _PR_SET_PDEATHSIG, 9, 0, 0, 0)
