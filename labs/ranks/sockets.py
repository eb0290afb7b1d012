"""What really left this process: bytes its TCP sockets have sent, by the kernel's own account.

The ledger counts calls and works out their bytes; this is the measurement to hold them against. It
needs no privilege and sees each rank by itself. Linux only, and only what goes through sockets
(gloo; not NCCL on one machine).
"""

from __future__ import annotations

import os
import socket
import struct
import sys

# struct tcp_info of <linux/tcp.h> (Linux 4.19): 64-bit words tcpi_bytes_sent, tcpi_bytes_retrans
_AT = 200


def sent_and_again() -> tuple[int, int]:
    """(bytes sent once, bytes that TCP took for lost and sent again) of all open TCP sockets."""
    sent, again = 0, 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(fd))) as found:
                if found.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                told = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        except OSError:
            continue
        both = struct.unpack_from("QQ", told, _AT)
        sent, again = sent + both[0], again + both[1]
    return sent - again, again


def sockets_sent() -> int | None:
    """Bytes that this process's sockets have sent so far; None where the system does not tell."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return sent_and_again()[0]
    except (OSError, struct.error):
        return None
