"""The ranks' network: each in a namespace of its own, joined by a switch that counts their bytes.

    rank 0 ── eth0 ═ v0 ─╮
    rank 1 ── eth0 ═ v1 ─┤ the switch: forwards, and is the zygote's own namespace
    rank 2 ── eth0 ═ v2 ─╯

Each pair of ends is a virtual cable. What a rank sends arrives at its end in the switch, and the
kernel counts it there, where no rank can reach: no call that a library hides from its own account,
no socket made by hand goes uncounted. There is no cable to anywhere else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labs.grading.sandbox import system

MOST = 8
"""Ranks that one switch joins."""
INTERFACE = "eth0"
PRIVATE = "/run"
"""Covered by a file system of the zygote's own: nothing that it makes there is on the machine."""
# Ethernet 14, IPv4 20, TCP 20 and its time stamps 12. A large send crosses a virtual cable as one
# packet with one head, and is counted so.
HEADER_BYTES = 66
SEGMENT_BYTES = 1514
"""The most that one segment has: what is sent once more is counted in segments."""


def address(rank: int) -> str:
    """Where a rank is found by the others."""
    return f"10.213.{rank}.2"


def _commands(ranks: int) -> str:
    lines = []
    for rank in range(ranks):
        lines += [
            f"netns add r{rank}",
            f"link add v{rank} type veth peer name {INTERFACE} netns r{rank}",
            f"addr add 10.213.{rank}.1/24 dev v{rank}",
            f"link set v{rank} up",
        ]
    return "\n".join(lines) + "\n"


def _inside(rank: int) -> str:
    return "\n".join(
        ["link set lo up", f"addr add {address(rank)}/24 dev {INTERFACE}",
         f"link set {INTERFACE} up", f"route add default via 10.213.{rank}.1"]
    ) + "\n"  # fmt: skip


def _ip(script: str, *options: str) -> None:
    done = subprocess.run(
        ["ip", *options, "-batch", "-"], input=script, text=True, capture_output=True, timeout=30
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[0]
        raise OSError(f"ip: {said}")


def make(ranks: int = MOST) -> list[int]:
    """Make the switch in this process's network namespace. Returns a descriptor a rank's namespace.

    Needs a mount namespace of its own, in which /run may be covered. Raises OSError.
    """
    if not shutil.which("ip"):
        raise OSError("the program `ip` is missing (package iproute2)")
    system.mount("tmpfs", PRIVATE, "tmpfs", data="size=1m")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    _quiet()
    _ip("link set lo up\n")
    return _joined(ranks)


def remake(before: Sequence[int]) -> list[int]:
    """Other cables and other namespaces of ranks: nothing that an answer has left is in them.

    A connection that was closed with bytes unsent goes on sending them for a minute. Raises
    OSError.
    """
    _ip("".join(f"link del v{rank}\nnetns del r{rank}\n" for rank in range(len(before))))
    for fd in before:
        os.close(fd)
    return _joined(len(before))


def _joined(ranks: int) -> list[int]:
    _ip(_commands(ranks))
    here, found = os.open("/proc/self/ns/net", os.O_RDONLY), []
    for rank in range(ranks):
        fd = os.open(f"/run/netns/r{rank}", os.O_RDONLY)
        system.setns(fd, system.NEWNET)
        _quiet()
        _ip(_inside(rank))
        system.setns(here, system.NEWNET)
        found.append(fd)
    os.close(here)
    return found


def _quiet() -> None:
    """No IPv6 in this network namespace: its own announcements would be counted."""
    for which in ("all", "default"):
        switch = Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6")
        if switch.exists():
            switch.write_text("1")


@dataclass(frozen=True)
class Count:
    """Bytes and packets that a rank has sent, heads included.

    again: segments that its kernel sent once more, as it does where an answer to them is late: on a
    busy machine a rank may wait for its turn that long.
    """

    bytes: int
    packets: int
    again: int = 0

    def __sub__(self, before: Count) -> Count:
        return Count(
            self.bytes - before.bytes, self.packets - before.packets, self.again - before.again
        )

    def __add__(self, other: Count) -> Count:
        return Count(
            self.bytes + other.bytes, self.packets + other.packets, self.again + other.again
        )

    @property
    def payload(self) -> int:
        """Bytes without the packets' heads."""
        return max(0, self.bytes - self.packets * HEADER_BYTES)


def sent_again(told: str) -> int:
    """Segments that were sent once more, from the text of /proc/PID/net/snmp."""
    names, numbers = (line.split() for line in told.splitlines() if line.startswith("Tcp:"))
    return int(numbers[names.index("RetransSegs")])


def read(told: str, interfaces: Sequence[str]) -> list[Count]:
    """What arrived at these interfaces, from the text of /proc/PID/net/dev."""
    rows = {}
    for line in told.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        fields = numbers.split()
        rows[name.strip()] = Count(int(fields[0]), int(fields[1]))
    return [rows[name] for name in interfaces]
