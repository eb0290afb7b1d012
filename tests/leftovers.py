"""What a run may have left: processes with its supervisor's mark, folders, listening ports."""

import os
import socket
import time
from pathlib import Path

import psutil

from labs.ranks import supervised


def marked(owner: int) -> list[psutil.Process]:
    """Processes started for process `owner`: they carry its mark in their environment."""
    start = f"{owner}-"
    found = []
    for process in psutil.process_iter(["environ", "status"]):
        mark = (process.info["environ"] or {}).get("LABS_SUPERVISOR", "")
        if mark.startswith(start) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def of_runs() -> list[str]:
    """Processes of this process's runs; its supervisors themselves are meant to stay."""
    kept = {s.process.pid for s in supervised._running.values()}
    return [f"{p.pid} {p.cmdline()}" for p in marked(os.getpid()) if p.pid not in kept]


def folders(where: Path) -> list[str]:
    """Folders of runs that are still there."""
    return [path.name for path in where.glob("labs-*")]


def files(where: Path) -> list[str]:
    """All that lies in a folder of temporary files, by name.

    But for the empty folder that torch leaves when it makes its first optimizer, one a user.
    """

    def torchs(path: Path) -> bool:
        return path.name.startswith("torchinductor_") and not any(path.iterdir())

    return sorted(path.name for path in where.iterdir() if not torchs(path))


def listens(port: int) -> bool:
    """Whether anybody listens on the loopback port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(true: object, seconds: float = 15.0, every: float = 0.02) -> bool:
    """Whether `true()` became true within `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(every)
    return False
