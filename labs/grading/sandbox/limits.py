"""What a rank may use, as limits of the kernel that it cannot raise again."""

from __future__ import annotations

import resource
from dataclasses import asdict, dataclass

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Bounds of one rank. Memory of all ranks together is watched from outside besides."""

    cpu_seconds: int = 30
    data_bytes: int = 2048 * MIB  # private memory of one process, threads' stacks included
    file_bytes: int = 16 * MIB  # one file
    processes: int = 64  # and threads: of this rank alone
    files: int = 256  # open at a time
    wall_seconds: float = 20.0
    idle_seconds: float = 3.0  # all ranks asleep and nothing on its way: they wait for each other
    resident_bytes: int = 1024 * MIB  # all processes of one rank together
    printed_bytes: int = 8 * MIB

    def to_json(self) -> dict:
        """The limits as plain data."""
        return asdict(self)


def apply(limits: Limits, own_processes: bool) -> None:
    """On a rank, before any of its code runs. own_processes: processes are counted for it alone."""
    bounds = {
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_DATA: limits.data_bytes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.files,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 64 * 1024,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if own_processes:
        bounds[resource.RLIMIT_NPROC] = limits.processes
    for kind, most in bounds.items():
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
