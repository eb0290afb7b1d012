"""Thirty people on one machine: as many Jupyter kernels at once, each running the 4-rank lab.

Five of them share a home folder with each other, every second one has temporary files of its own.
About five minutes on two cores. Linux only.
"""

import os
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_client import KernelManager

from benchmarks.figure import Figure
from labs.ranks import devices, processes, queue

HOMES = 5
LIMIT = 1800.0  # seconds for all
COURSE = Path(__file__).resolve().parents[1]

CODE = """
from labs import ranks
ranks.warm_up()
from labs import tp_linear_pair
result = tp_linear_pair.run(ranks=4)
print("right" if result.ok else repr(result))
"""


@dataclass
class Person:
    """One kernel and what became of it."""

    number: int
    folder: Path
    said: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def environment(self, name: str) -> dict[str, str]:
        home = self.folder / f"home{self.number % HOMES}"
        own = self.folder / (f"tmp{self.number}" if self.number % 2 else "tmp")
        for each in (home, own):
            each.mkdir(exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("LABS_", "XDG_"))}
        return {**env, "HOME": str(home), "TMPDIR": str(own), "LABS_QUEUE": name}

    def hears(self, message: dict) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind == "stream" and content["name"] == "stdout":
            self.said.append(content["text"].strip())
        elif kind == "error":
            self.said.append(f"{content['ename']}: {content['evalue']}")

    def works(self, name: str) -> None:
        begun = time.monotonic()
        # Sockets in files: thirty kernels that look for free ports at once would meet.
        kernel = KernelManager(transport="ipc", connection_file=str(self.folder / f"{self.number}"))
        kernel.start_kernel(env=self.environment(name), cwd=str(COURSE))
        line = kernel.client()
        line.start_channels()
        try:
            line.wait_for_ready(timeout=LIMIT)
            line.execute_interactive(CODE, timeout=LIMIT, output_hook=self.hears)
            self.seconds = time.monotonic() - begun
        except (RuntimeError, TimeoutError) as error:
            self.said.append(f"{type(error).__name__}: {error}")
        finally:
            line.stop_channels()
            kernel.shutdown_kernel()

    @property
    def right(self) -> bool:
        return self.said == ["right"]


@dataclass
class Seen:
    """What was seen of the whole, in samples."""

    memory: list[float] = field(default_factory=list)  # MB, of all processes together
    at_work: list[int] = field(default_factory=list)  # ranks of the runs that have their turn
    waiting: list[int] = field(default_factory=list)  # runs

    def look(self, name: str) -> None:
        below = processes.descendants(os.getpid())
        self.memory.append(sum(map(processes.memory_bytes, below)) / 1e6)
        there = queue.tickets(name)
        self.at_work.append(sum(one.ranks for one in there if one.began))
        self.waiting.append(sum(one.began == 0 for one in there))


def hub(people: int = 30) -> list[Figure]:
    """All kernels start at the same moment; what is left is looked for when all have ended."""
    name, seen, begun = f"hub-{os.getpid()}", Seen(), time.monotonic()
    already = set(processes.descendants(os.getpid()))
    with tempfile.TemporaryDirectory(prefix="hub-") as folder:
        all_there = [Person(number, Path(folder)) for number in range(people)]
        threads = [threading.Thread(target=one.works, args=(name,)) for one in all_there]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            seen.look(name)
            time.sleep(1)
        whole = time.monotonic() - begun
        left = _left(Path(folder), name, already)
    wrong = [one for one in all_there if not one.right]
    for one in wrong[:5]:
        print(f"kernel {one.number}: {' '.join(one.said) or 'said nothing'}")
    for what in left[:5]:
        print(f"left: {what}")
    most = max(devices.cores(), 4)  # one run may be larger than the machine
    return [
        Figure(f"{people} kernels at once: not right, or refused", [len(wrong)], "", 0),
        Figure(f"{people} kernels at once: all of it", [whole], "s"),
        Figure("from a kernel's start to its result", [one.seconds for one in all_there], "s"),
        Figure("memory of all processes, most", [max(seen.memory)], "MB"),
        Figure("ranks at work, most at once", [max(seen.at_work)], "", most),
        Figure("runs that wait, most at once", [max(seen.waiting)], ""),
        Figure("processes, folders and tickets left", [len(left)], "", 0),
    ]


def _left(folder: Path, name: str, already: set[int], limit: float = 15.0) -> list[str]:
    """What is still there of the kernels when their supervisors have had time to end."""
    deadline = time.monotonic() + limit
    while True:
        below = set(processes.descendants(os.getpid())) - already
        found = [f"process {pid}" for pid in below if processes.alive(pid)]
        found += [f"folder {path.name}" for path in folder.glob("tmp*/labs-*")]
        found += [f"ticket of {one.pid}" for one in queue.tickets(name)]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)
