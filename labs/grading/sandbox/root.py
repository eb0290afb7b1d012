"""The file system that a rank sees: Python, torch and the labs, read-only, and an empty home.

Not there: answers, tests, the gradebook, other submissions, anybody's home, credentials. A rank has
one small folder of its own to write to, gone with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from labs.grading.sandbox import system

_SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin")
_LINKER = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_FILES = {
    "etc/passwd": "student:x:1000:1000::/home/student:/bin/false\n",
    "etc/group": "student:x:1000:\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
# What /proc tells of the machine. Free memory, load and interrupts would be a signal between
# ranks; the others are nobody's affair in here. cpuinfo stays: libraries choose their kernels by
# it, and another choice is another rounding than the judge's.
_MASKED = (
    "meminfo", "stat", "loadavg", "vmstat", "diskstats", "interrupts", "softirqs", "schedstat",
    "buddyinfo", "zoneinfo", "pagetypeinfo", "slabinfo", "swaps", "locks", "keys", "key-users",
    "timer_list", "sched_debug", "kcore", "kallsyms", "kmsg", "sysrq-trigger", "vmallocinfo",
    "uptime", "acpi", "bus", "fs", "irq", "pressure", "scsi", "sysvipc", "tty", "driver",
)  # fmt: skip
_MASKED_SYS = (
    "fs",
    "kernel/pty",
    "kernel/keys",
    "dev",
)  # how many files the whole machine has open
SMALL_BYTES = 8 * 2**20
"""What fits in a rank's own folder."""
OWN = "/home/student"
"""That folder: a rank's home, and where its temporary files go."""


def make(folder: str, shown: Iterable[str], hidden: Iterable[str]) -> None:
    """Lay out the root in `folder`, in this mount namespace: the pattern of every rank's.

    shown: folders that are there under their own names. hidden: folders that are covered, empty.
    """
    system.mount(None, "/", None, system.REC | system.PRIVATE)
    system.mount("tmpfs", folder, "tmpfs", system.NOSUID | system.NODEV, "size=4m,mode=755")
    root = Path(folder)
    for name in ("proc", "dev", "etc", OWN.lstrip("/")):
        (root / name).mkdir(parents=True)
    for name, text in _FILES.items():
        (root / name).write_text(text)
    visible: list[str] = []
    for path in [*_SYSTEM, *_LINKER, *sorted(shown, key=len)]:
        inside = root / path.lstrip("/")
        if os.path.islink(path) and path in _SYSTEM:
            inside.symlink_to(os.readlink(path))
        elif os.path.exists(path) and not _below(path, visible):
            _show(path, inside)
            visible.append(path)
    if not (root / "tmp").exists():  # where Python or the course lies below it, it is read-only
        (root / "tmp").symlink_to(OWN)
    for device in _DEVICES:
        inside = root / "dev" / device
        inside.touch()
        system.mount(f"/dev/{device}", str(inside), None, system.BIND)
    for path in hidden:
        if os.path.isdir(path) and _below(path, visible):
            inside = str(root / os.path.realpath(path).lstrip("/"))
            system.mount("tmpfs", inside, "tmpfs", system.RDONLY, "size=4k,mode=755")
    system.mount(None, folder, None, system.BIND | system.REMOUNT | system.RDONLY | system.NOSUID)


def _show(path: str, inside: Path) -> None:
    if os.path.isdir(path):
        inside.mkdir(parents=True, exist_ok=True)
    else:
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.touch()
    system.bind_read_only(path, str(inside))


def _below(path: str, folders: Sequence[str]) -> bool:
    real = os.path.realpath(path)
    return any(
        real == one or real.startswith(one + os.sep) for one in map(os.path.realpath, folders)
    )


def enter(folder: str) -> None:
    """On a rank, in its own mount namespace: make the pattern its root, add what is its own."""
    system.enter_root(folder)
    system.mount(
        "tmpfs", OWN, "tmpfs", system.NOSUID | system.NODEV,
        f"size={SMALL_BYTES},nr_inodes=4096,mode=1777",
    )  # fmt: skip
    flags = system.NOSUID | system.NODEV | system.NOEXEC
    try:
        system.mount("proc", "/proc", "proc", flags)
    except OSError:  # inside some containers; Python and torch do without
        return
    for name in _MASKED:
        if os.path.isdir(f"/proc/{name}"):
            system.mount("tmpfs", f"/proc/{name}", "tmpfs", system.RDONLY, "size=4k")
        elif os.path.exists(f"/proc/{name}"):
            system.mount("/dev/null", f"/proc/{name}", None, system.BIND)
    system.bind_read_only("/proc/sys", "/proc/sys")
    for name in _MASKED_SYS:
        if os.path.isdir(f"/proc/sys/{name}"):
            system.mount("tmpfs", f"/proc/sys/{name}", "tmpfs", system.RDONLY, "size=4k")
