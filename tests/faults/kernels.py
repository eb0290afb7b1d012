"""A Jupyter kernel whose run is interrupted, or which is itself restarted or killed amid a run.

The kernel is a real ipykernel, spoken to as JupyterLab does. Its ranks are deaf to SIGTERM and have
left a child behind that is in no process tree of theirs.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty

import psutil
from jupyter_client import KernelManager

from tests import leftovers
from tests.faults.trial import GRACE, How, Places, Seen, in_shared_memory, left_behind

COURSE = Path(__file__).resolve().parents[2]
_BEGIN = f"""
import sys
sys.path.insert(0, {str(COURSE)!r})
from labs import ranks
ranks.warm_up(%r)
from tests.faults import broken
"""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LINES = 3  # of a message about an interrupt, at most


class Kernel:
    """One kernel with its folders, for runs of one mode."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.folder = tempfile.TemporaryDirectory(prefix="faults-")
        self.places = Places(Path(self.folder.name))
        own = {name: str(self.places.root / name) for name in ("IPYTHONDIR", "JUPYTER_DATA_DIR")}
        self.env = {
            **os.environ, **own, "TMPDIR": str(self.places.tmp), "HOME": str(self.places.home),
        }  # fmt: skip
        self.manager = KernelManager(
            transport="ipc", connection_file=str(self.places.root / "kernel.json")
        )
        self.manager.start_kernel(
            env=self.env, cwd=str(self.places.cwd),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.line = None
        self.ready()

    @property
    def pid(self) -> int:
        return self.manager.provisioner.pid

    def ready(self) -> None:
        """Wait for a kernel that was just started, and begin."""
        if self.line is not None:
            self.line.stop_channels()
        self.line = self.manager.client()
        self.line.start_channels()
        self.line.wait_for_ready(timeout=120)
        said = self.says(_BEGIN % self.mode)
        assert said == "", said

    def says(self, code: str, timeout: float = 120.0) -> str:
        """What a cell prints, or the error that it ends with."""
        told: list[str] = []

        def hear(message: dict) -> None:
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                told.append(content["text"])
            elif kind == "error":
                told.append(f"{content['ename']}: {content['evalue']}")

        self.line.execute_interactive(code, timeout=timeout, output_hook=hear)
        return "".join(told).strip()

    def supervisors(self) -> set[int]:
        """Supervisors of the kernel: they stay as long as it does."""
        return {
            one.pid
            for one in leftovers.marked(self.pid)
            if one.ppid() == self.pid and any("supervisor.py" in word for word in one.cmdline())
        }

    def close(self) -> None:
        self.line.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.folder.cleanup()


@dataclass(frozen=True)
class KernelFault:
    """Something that happens to a kernel while its ranks run."""

    name: str
    happens: Callable[[Kernel], str]  # returns what the cell told, if there is a cell any more
    judged: bool = False
    worlds: tuple[int, ...] = (2, 4, 8)
    namespace: bool = False
    around: None = None
    whole_limit: bool = False

    def trial(self, how: How, tmp: Path | None = None, kernel: Kernel | None = None) -> Seen:
        """Let it happen once, to `kernel` or to one of its own."""
        mine = kernel or Kernel(how.mode)
        try:
            return self._trial(how, mine)
        finally:
            for note in mine.places.notes.iterdir():
                note.unlink()
            if kernel is None:
                mine.close()

    def _trial(self, how: How, kernel: Kernel) -> Seen:
        seen = Seen(self.name, how.mode, how.ranks, judged=self.judged)
        mine, shared = kernel.places, in_shared_memory()
        options = f"mode={how.mode!r}, status=False, limit=60"
        args = f"{str(mine.notes)!r}, {how.odd}"
        kernel.line.execute(f"ranks.launch(broken.deaf, {how.ranks}, args=({args}), {options})")
        everybody = leftovers.wait_until(lambda: len(mine.noted("at")) == how.ranks, 90)
        if not everybody:
            seen.wrong.append("the run did not begin")
        time.sleep(0.1)
        owner, begun = kernel.pid, time.monotonic()
        seen.told = self.happens(kernel)
        stay = kernel.supervisors() if kernel.pid == owner else set()
        while time.monotonic() - begun < GRACE:  # it may be dead before its children are
            seen.left = left_behind(mine, owner, stay, shared)
            if not seen.left:
                break
        seen.seconds = seen.over = time.monotonic() - begun
        if self.judged:
            seen.wrong += unlike_an_interrupt(seen.told)
        works = f"ranks.launch(broken.works, 2, {options}).values"
        if kernel.pid != owner:
            kernel.ready()
        if (said := kernel.says(f"print({works})")) != "[3.0, 3.0]":
            seen.after.append(said)
        seen.left += [f"after the next run: {what}" for what in mine.files()]
        return seen


def unlike_an_interrupt(told: str) -> list[str]:
    lines = told.splitlines()
    wrong = [] if "KeyboardInterrupt" in told else ["KeyboardInterrupt is not told"]
    return wrong + ([f"{len(lines)} lines are told"] if len(lines) > _LINES else [])


def interrupt(kernel: Kernel) -> str:
    kernel.manager.interrupt_kernel()
    try:
        while True:
            message = kernel.line.get_iopub_msg(timeout=60)
            if message["msg_type"] == "error":
                kernel.line.get_shell_msg(timeout=10)
                return _COLOUR.sub("", "\n".join(message["content"]["traceback"]))
    except Empty:
        return "no word from the cell within 60 s"


def restart(kernel: Kernel) -> str:
    kernel.manager.restart_kernel()  # as the server does: a request to shut down, then a new one
    return ""


def kill(kernel: Kernel) -> str:
    pid = kernel.pid
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=0.1)
    kernel.manager.restart_kernel(now=True)
    return ""


FAULTS = [
    KernelFault("the kernel is interrupted", interrupt, judged=True),
    KernelFault("the kernel is restarted", restart),
    KernelFault("the kernel is killed (SIGKILL)", kill),
]
