# tries: new namespaces, mounts, other processes' memory, programs in the kernel
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
# calls: yes
import ctypes
import os
import platform

from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    libc, found = ctypes.CDLL(None, use_errno=True), []
    intel = platform.machine() == "x86_64"
    room = ctypes.create_string_buffer(256)
    asked = {
        "unshare user": (272 if intel else 97, 0x10000000),
        "unshare net": (272 if intel else 97, 0x40000000),
        "mount": (165 if intel else 40, b"none", b"/home", b"tmpfs", 0, None),
        "umount": (166 if intel else 39, b"/proc", 2),
        "chroot": (161 if intel else 51, b"/usr"),
        "pivot_root": (155 if intel else 41, b".", b"."),
        "setns": (308 if intel else 268, os.open("/proc/self/ns/user", os.O_RDONLY), 0),
        "ptrace": (101 if intel else 117, 0, 0, 0, 0),
        "bpf": (321 if intel else 280, 5, room, 48),
        "io_uring": (425, 4, room),
        "perf": (298 if intel else 241, room, 0, -1, -1, 0),
        "userfaultfd": (323 if intel else 282, 1),
        "open_by_handle_at": (304 if intel else 265, -100, room, 0),
        "process_vm_readv": (310 if intel else 270, 1, room, 0, room, 0, 0),
        "kcmp": (312 if intel else 272, 1, 1, 0, 0, 0),
        "setuid 0": (105 if intel else 146, 0),
        "sethostname": (170 if intel else 161, b"owned", ctypes.c_size_t(5)),
        "syslog": (103 if intel else 116, 10, None, 0),
        "fsopen": (430, b"tmpfs", 0),
        "swapoff": (168 if intel else 225, b"/"),
    }
    for name, (number, *arguments) in asked.items():
        if libc.syscall(ctypes.c_long(number), *arguments) >= 0:
            found.append(name)
    finish(found)
