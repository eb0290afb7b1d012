"""The process that starts torchrun and answers for its end. One a kernel, run as a plain file.

    kernel ──socket──► supervisor ──fork──► agent (torchrun's own run.main) ──fork──► ranks
                           └── the same, when cold: the torchrun command as a new process

Warm, it imports torch once; each launch is then a fork instead of a minute of imports on a small
machine. It imports nothing of the course: labs and learner code are imported after the fork, and
the environment comes with each launch, so nothing goes stale. It runs one thread and no tensor
work, and never touches CUDA: a fork copies only the forking thread, and CUDA does not survive one.

It speaks JSON lines on the socket given as its standard input:
    in   {"op": "run", "number", "argv", "env", "cwd", "out", "folder"}   {"op": "kill", "number"}
         {"op": "own", "folder"}: to be removed when the kernel is gone
         {"op": "hold", "folder"}   {"op": "free"}: a run is about to come; it is over
    out  {"event": "ready" | "held" | "started" | "done", "number", ...}
Each run has a number, so that what is said late of one run is not taken for the next one's. A kill
is always answered with "done", even where the run had ended by itself or never begun.
When the line closes or the kernel is gone it kills all that it started, and ends. It also ends when
nothing was asked of it for a while: the kernel's next run starts another one. From "held" to "free"
it does not, however long the run waits for its turn.
"""

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types

# What a learner's run will need first. torch alone: nothing of the course.
PRELOAD = (
    "torch",
    "torch.distributed",
    "torch.distributed.tensor.parallel",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.run",
    "torch.autograd.profiler",
)


# What each rank needs of the course. An agent imports it before it forks them, from the files as
# they are then: once a launch, not once a rank.
ON_RANKS = (
    "labs.ranks.book",
    "labs.ranks.elsewhere",
    "labs.ranks.hooks",
    "labs.ranks.journal",
    "labs.ranks.on_rank",
    "labs.ranks.processes",
    "labs.ranks.report",
    "labs.ranks.unpack",
)


def _load(name: str) -> types.ModuleType:
    """A neighbouring file, outside the package: `labs` must not be imported before the fork."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location("_supervisor_" + name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


processes = _load("processes")


def _become_agent(job: dict, close: int) -> None:
    """In the forked child: own session, own output, the launch's environment, then torchrun."""
    os.close(close)  # a descendant that escaped must not hold the kernel's line open
    parent = os.getppid()
    os.setsid()
    processes.die_with_parent(parent)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    out = os.open(job["out"], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    tempfile.tempdir = None  # found anew, from the launch's TMPDIR


def _import_for_ranks() -> None:
    """In the agent: what all ranks need. What cannot be imported fails on a rank, with its words.

    Nothing that it holds is collected again: the ranks' collectors leave those pages shared.
    """
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    with contextlib.suppress(Exception):
        for module in ON_RANKS:
            importlib.import_module(module)
    gc.freeze()


def start_warm(job: dict, line: int) -> int:
    """Fork an agent that runs torchrun in this interpreter. Returns its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        _become_agent(job, line)
        # torchrun may close the ranks' output before it has flushed its own; a finished run
        # needs no farewell from the interpreter either.
        import torch.distributed.run as torchrun

        try:
            _import_for_ranks()
            torchrun.main(job["argv"])
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def start_cold(job: dict) -> int:
    """Start the plain torchrun command of this interpreter. Returns its process id."""
    me = os.getpid()
    with open(job["out"], "ab") as out:
        agent = subprocess.Popen(
            # -P: a file beside the notebook may have the name of one of Python's
            [sys.executable, "-P", "-m", "torch.distributed.run", *job["argv"]],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=job["env"],
            cwd=job["cwd"],
            start_new_session=True,
            # Safe here: this process has one thread.
            preexec_fn=lambda: processes.die_with_parent(me),
        )
    return agent.pid


class Line:
    """The JSON-lines conversation with the kernel."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.buffer, self.open = descriptor, b"", True

    def say(self, **message: object) -> None:
        try:
            os.write(self.descriptor, (json.dumps(message) + "\n").encode())
        except OSError:
            self.open = False

    def read(self, wait: float) -> list[dict]:
        """Messages that arrived within `wait` seconds."""
        if not processes.readable(self.descriptor, wait):
            return []
        try:
            data = os.read(self.descriptor, 1 << 20)
        except OSError:
            data = b""
        if not data:
            self.open = False
            return []
        *whole, self.buffer = (self.buffer + data).split(b"\n")
        return [json.loads(text) for text in whole]


class Asked:
    """What the kernel has asked for and what is still to do."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.jobs: list[dict] = []  # runs and kills, in their order
        self.folders: dict[str, float] = {}  # to be removed if the kernel is gone; told when
        self.held = False

    def listen(self, wait: float) -> bool:
        """Sort what comes in within `wait` seconds; whether anything came."""
        heard = self.line.read(wait)
        for message in heard:
            if "folder" in message:
                self.folders[message["folder"]] = time.monotonic()
            if message["op"] in ("run", "kill"):
                self.jobs.append(message)
            elif message["op"] in ("hold", "free"):
                self.held = message["op"] == "hold"
                if self.held:
                    self.line.say(event="held", folder=message["folder"])
        return bool(heard)

    def forget_removed(self) -> None:
        """Forget folders that the kernel has removed; a new one is told before it is made."""
        before = time.monotonic() - 60
        self.folders = {
            path: told
            for path, told in self.folders.items()
            if told > before or os.path.exists(path)
        }


def _preload() -> None:
    """Import PRELOAD, and leave no file behind.

    torch makes an empty folder for what it compiles; who compiles makes it again.
    """
    folder = "TORCHINDUCTOR_CACHE_DIR"
    asked = folder in os.environ
    for module in PRELOAD:
        __import__(module)
    if not asked and folder in os.environ:
        with contextlib.suppress(OSError):  # somebody's code is in it
            os.rmdir(os.environ.pop(folder))


def serve(kernel: int, warm: bool, idle: float) -> None:
    """Do what the kernel asks until it is gone, or has asked nothing for `idle` seconds."""
    processes.adopt_orphans()
    line = Line(os.dup(0))
    os.set_inheritable(line.descriptor, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the kernel's to handle
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # one meant for a rank that is not ready yet
    if warm:
        _preload()
        gc.collect()
        gc.freeze()  # shared pages stay shared: the collector of a rank does not write to them
    line.say(event="ready", pid=os.getpid())
    asked, number, agent, last = Asked(line), 0, 0, time.monotonic()
    while line.open and os.getppid() == kernel:
        heard = asked.listen(0.01 if agent else min(0.5, idle))
        if heard or asked.held or agent or asked.jobs:
            last = time.monotonic()
        elif time.monotonic() - last > idle and not asked.listen(0):
            # A folder that was told just now stays: the kernel tells the next supervisor too.
            return
        code = None
        if agent:
            pid, status = os.waitpid(agent, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if pid else None
        if code is None and asked.jobs and asked.jobs[0]["op"] == "kill":
            number, code = asked.jobs.pop(0)["number"], -signal.SIGKILL
        if code is not None:
            clean = processes.end_descendants()
            agent = 0
            line.say(event="done", number=number, code=code, clean=clean)
            asked.forget_removed()
        elif asked.jobs and not agent:
            job = asked.jobs.pop(0)
            number = job["number"]
            try:
                agent = start_warm(job, line.descriptor) if job["warm"] else start_cold(job)
                line.say(event="started", number=number, agent=agent)
            except OSError:  # no such folder, or no room in it: the kernel will see that too
                line.say(event="done", number=number, code=99, clean=True)
    processes.end_descendants()
    while asked.listen(0):  # what was said before this process could hear
        pass
    for folder in asked.folders:  # the kernel is gone: nobody else tidies them
        shutil.rmtree(folder, ignore_errors=True)


def free_port(tries: int = 200) -> int:
    """A port that nobody listens on, below the range that the system hands out by itself."""
    import random

    draw = random.SystemRandom()
    for _ in range(tries):
        port = draw.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise OSError(f"no free port among {tries} tried between 20000 and 32000")


if __name__ == "__main__":
    serve(kernel=int(sys.argv[1]), warm=sys.argv[2] == "warm", idle=float(sys.argv[3]))
    os._exit(0)  # all is done, and an interpreter that holds torch takes its time to take it down
