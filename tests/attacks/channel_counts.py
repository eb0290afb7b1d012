# tries: read from the kernel's own counts what other ranks do: memory, files, load, free disk
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
# calls: yes
import ctypes
import os

from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    found = []
    for name in (
        "meminfo", "stat", "loadavg", "vmstat", "diskstats", "interrupts", "softirqs", "schedstat",
        "buddyinfo", "zoneinfo", "uptime", "pressure/memory", "sys/fs/file-nr", "sys/fs/inode-nr",
        "sys/fs/dentry-state", "sys/fs/inode-state", "sys/kernel/pty/nr",
        "sys/fs/aio-nr",
    ):  # fmt: skip
        try:
            with open(f"/proc/{name}") as file:
                found += [name] if file.read() else []
        except OSError:
            pass
    if ctypes.CDLL(None).sysinfo(ctypes.create_string_buffer(256)) == 0:
        found.append("sysinfo")
    try:
        os.getloadavg()
        found.append("load")
    except OSError:
        pass
    finish(found)
