"""What the folder of a run tells of its ranks while they run (its files: see labs/ranks/report.py).

Needs no torch: the kernel looks here fifty times a second.
"""

import contextlib
import os
from pathlib import Path

from labs.ranks import output, processes

_ROOM = 256 * 2**10  # bytes: with less the disk is full


class Traces:
    """The traces that `ranks` ranks leave in `folder`."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self.folder, self.ranks = folder, range(ranks)
        self._pids: dict[int, int] = {}  # by rank, once told

    def _path(self, name: str, rank: int) -> str:
        return f"{self.folder}/{name}.{rank}"

    def state_of(self, rank: int) -> str:
        """The rank's own line: "rendezvous", "running", "step 3/8", "done"; "" before the first."""
        try:
            with open(self._path("state", rank), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def state(self) -> str:
        """The line of the rank that is least far."""
        states = [self.state_of(rank) for rank in self.ranks]
        if not all(states):
            return "starting"
        order = {"rendezvous": 0, "running": 1, "done": 3}
        return min(states, key=lambda state: (order.get(state, 2), len(state), state))

    def pid_of(self, rank: int) -> int:
        """The rank's process id, or 0 before it has told it."""
        if rank not in self._pids:
            try:
                with open(self._path("pid", rank)) as file:
                    self._pids[rank] = int(file.read())
            except (OSError, ValueError):  # not there, or nothing in it yet
                return 0
        return self._pids[rank]

    def reported_well(self, rank: int) -> bool:
        """Whether the rank's function has returned and its report is written."""
        return os.path.exists(self._path("report", rank)) and self.state_of(rank) == "done"

    def all_reported_well(self) -> bool:
        """Whether every rank has; asks no further than the first that has not."""
        return all(self.reported_well(rank) for rank in self.ranks)

    def silent(self) -> list[int]:
        """The ranks that have not reported that all was well."""
        return [rank for rank in self.ranks if not self.reported_well(rank)]

    def alive(self) -> list[int]:
        """The ranks whose process runs."""
        return [rank for rank in self.ranks if (pid := self.pid_of(rank)) and processes.alive(pid)]

    def gone(self) -> list[int]:
        """The ranks whose process has ended, and that have not reported that all was well."""
        ended = {r for r in self.ranks if (pid := self.pid_of(r)) and not processes.alive(pid)}
        return [rank for rank in self.ranks if rank in ended and not self.reported_well(rank)]

    def most_printed(self) -> int:
        """Bytes printed by the rank that printed most."""
        sizes = [0]
        for rank in self.ranks:
            with contextlib.suppress(OSError):
                sizes.append(os.stat(self._path("out", rank)).st_size)
        return max(sizes)

    def trouble(self) -> str | None:
        """What is wrong with the folder itself, which the ranks then have no place to report in."""
        try:
            disk = os.statvfs(self.folder)
        except OSError:
            return "the temporary folder of the run was removed while it ran"
        full = disk.f_bavail * disk.f_frsize < _ROOM or (disk.f_files and not disk.f_favail)
        return "the disk of the temporary folder is full; TMPDIR may name another" if full else None

    def port_taken(self) -> bool:
        """Whether torchrun could not listen on its port."""
        said = output.read_capped(self.folder / "agent", 20000)
        return "EADDRINUSE" in said or "address already in use" in said.lower()

    def forget(self) -> None:
        """Remove the traces, so that the next attempt is not judged by them."""
        self._pids.clear()
        for name in ("pid", "state", "out", "kept", "report", "stack", "journal", "names"):
            for rank in self.ranks:
                (self.folder / f"{name}.{rank}").unlink(missing_ok=True)
        (self.folder / "agent").unlink(missing_ok=True)
