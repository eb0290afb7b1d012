"""The process that ranks are forked from: torch imported, one thread, no secrets. Run as a file.

    judge ──socket (standard input, or named by the argument)──► zygote ──fork──► ranks

One JSON message a packet:
    in   {"op": "start", "ranks": n, "limits": {…}} | {"op": "kill", "pids": […]}
    out  {"event": "ready", "isolation": …} | {"event": "started", "pids", "where"} + descriptors
         {"event": "ended", "pid", "status"} | {"event": "failed", "why"}
With "started" come two descriptors a rank: its line, and what it prints. When the judge is gone the
zygote ends, and its ranks with it.

Shut in as "namespaces": a rank has a mount, process, IPC, host name and user namespace of its
own, and one of the switch's network namespaces. As "user": another user id and limits. As "none":
limits.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import resource
import select
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from labs.grading.sandbox import becoming, folder, limits, network, places, root, system

_PACKET = 64 * 1024
_FIRST_PORT = 20000
_E = TypeVar("_E", socket.socket, io.FileIO)


class Zygote:
    """Forks ranks, and says how they ended."""

    def __init__(self, line: socket.socket, asked: dict) -> None:
        self.line, self.asked = line, asked
        self.how, self.folder = asked["isolation"], asked["folder"]
        self.is_root = os.geteuid() == 0
        self.networks: list[int] = []
        self.living: dict[int, int] = {}  # a rank's process id: that of the child to wait for
        self.folders: dict[int, str] = {}  # by the rank's process id, where it works in one
        self.launches = 0

    def shut_in(self) -> None:
        """Make what ranks share: the switch, and the pattern of their root. Raises OSError."""
        if self.how != "namespaces":
            return
        flags = system.NEWNS | system.NEWNET | system.NEWIPC | system.NEWUTS
        if self.is_root:
            system.unshare(flags)
        else:
            uid, gid = os.geteuid(), os.getegid()
            system.unshare(system.NEWUSER | flags)
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
            Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
        system.mount(None, "/", None, system.REC | system.PRIVATE)
        self.networks = network.make(self.asked["most"])
        self.folder = f"{network.PRIVATE}/root"  # in this mount namespace alone: nothing is left
        Path(self.folder).mkdir()
        root.make(self.folder, places.shown(), [*places.hidden(), *self.asked["hidden"]])
        self.own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY)

    def tell(self, fds: list[int] | None = None, **message: object) -> None:
        packet = json.dumps(message).encode()
        socket.send_fds(self.line, [packet], fds or [])

    def serve(self) -> None:
        """Until the judge is gone."""
        wake, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking)
        self.private = [wake, waking]
        self.tell(event="ready", isolation=self.how)
        while True:
            ready, _, _ = select.select([self.line, wake], [], [], 1.0)
            if wake in ready:
                os.read(wake, 4096)
            self._reap()
            if self.line in ready:
                packet = self.line.recv(_PACKET)
                if not packet:
                    return
                message = json.loads(packet)
                if message["op"] == "start":
                    self._start(message)
                for pid in message.get("pids", ()):
                    self._end(pid)

    def _reap(self) -> None:
        while self.living:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            pid = next(pid for pid, known in self.living.items() if known == child)
            del self.living[pid]
            self.tell(event="ended", pid=pid, status=os.waitstatus_to_exitcode(status))
            if pid in self.folders:  # before the next start: nobody finds what this one has left
                folder.remove(self.folders.pop(pid))

    def _end(self, pid: int) -> None:
        """End a rank; not one that is reaped: its number may be another process's by now."""
        if pid in self.living:
            os.kill(self.living[pid], signal.SIGKILL)

    def _fork(self) -> tuple[int, int]:
        """(child, rank): the process ids of what to wait for and of the rank; zeros in the rank.

        The rank is the first process of its namespace. Only root comes back from having asked for
        one; for others a child asks, and stays to say how the rank ended.
        """
        if self.how != "namespaces":
            pid = os.fork()
            return pid, pid
        if self.is_root:
            system.unshare(system.NEWPID)
            pid = os.fork()
            if pid:
                system.setns(self.own_pids, system.NEWPID)
            return pid, pid
        read, write = os.pipe()
        child = os.fork()
        if child:
            os.close(write)
            with open(read, "rb") as told:
                return child, int(told.read() or 0) or child
        try:
            signal.set_wakeup_fd(-1)
            system.die_with_parent()
            system.unshare(system.NEWPID)
            pid = os.fork()
        except OSError:
            os._exit(97)
        if not pid:
            os.close(read)
            os.close(write)
            return 0, 0
        os.write(write, str(pid).encode())
        _stay(pid)

    def _start(self, job: dict) -> None:
        ranks, bounds = job["ranks"], limits.Limits(**job["limits"])
        self.launches += 1
        alone = self.how == "namespaces"
        port = _FIRST_PORT + self.launches % 12000 if alone else _free_port()
        where = f"{network.address(0) if alone else '127.0.0.1'}:{port}"
        pids, theirs, mine = [], [], []
        with contextlib.ExitStack() as kept:
            try:
                for rank in range(ranks):
                    pid, line, out, mapped = self._begin(rank, ranks, where, bounds, kept)
                    pids.append(pid)
                    theirs += [line.fileno(), out.fileno()]
                    mine.append(mapped)
                if alone:
                    for rank, (pid, mapped) in enumerate(zip(pids, mine, strict=True)):
                        self._map(pid, mapped, rank)
                self.tell(theirs, event="started", pids=pids, where=where)
            except OSError as error:
                for pid in pids:
                    self._end(pid)
                self.tell(event="failed", why=str(error))

    def _begin(
        self, rank: int, ranks: int, where: str, bounds: limits.Limits, kept: contextlib.ExitStack
    ) -> tuple[int, socket.socket, io.FileIO, socket.socket]:
        """Fork a rank: its process id, and the ends for the judge (line, what it prints) and here.

        kept: closes these ends. Those that are the rank's alone are closed whatever happens.
        """
        with contextlib.ExitStack() as its:
            line, far = _ends(kept, its, *socket.socketpair())
            read, write = os.pipe()
            out, said = _ends(kept, its, io.FileIO(read), io.FileIO(write, "w"))
            mapped, mapping = _ends(kept, its, *socket.socketpair())
            parent, place = os.getpid(), self._place(rank)
            child, pid = self._fork()
            if pid == 0:
                becoming.become(
                    becoming.Fork(
                        rank, ranks, where, self.how, self.is_root, place,
                        becoming.user(self.launches, rank),
                        self.networks[rank] if self.how == "namespaces" else None,
                        parent, bounds, far, write, mapping,
                    )
                )  # fmt: skip
        self.living[pid] = child
        if self.how != "namespaces":
            self.folders[pid] = place
        return pid, line, out, mapped

    def _place(self, rank: int) -> str:
        """The pattern of a rank's root; where it has no mount namespace, a folder of its own."""
        if self.how == "namespaces":
            return self.folder
        return f"{self.folder}/{self.launches}.{rank}"

    def _map(self, pid: int, mapped: socket.socket, rank: int) -> None:
        """Say who a rank is outside of its own user namespace: nobody, and no other rank.

        What the kernel counts for a user, such as descriptors on their way, would be a signal.
        """
        mapped.settimeout(10)
        if mapped.recv(1) != b"u":
            return  # it goes on without one
        outside = becoming.OUTSIDE - 1 - rank if self.is_root else 0
        if not self.is_root:
            Path(f"/proc/{pid}/setgroups").write_text("deny")
        Path(f"/proc/{pid}/uid_map").write_text(f"{becoming.INSIDE} {outside} 1")
        Path(f"/proc/{pid}/gid_map").write_text(f"{becoming.INSIDE} {outside} 1")
        mapped.send(b"m")


def _stay(pid: int) -> NoReturn:
    """Wait for a rank, holding nothing of it open, and end as it ended."""
    os.closerange(0, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(-code, signal.SIG_DFL) if -code not in (9, 19) else None
        os.kill(os.getpid(), -code)
    os._exit(max(code, 0))


def _ends(
    kept: contextlib.ExitStack, its: contextlib.ExitStack, mine: _E, far: _E
) -> tuple[_E, _E]:
    """Both ends of a line, each closed with the stack it belongs to."""
    return kept.enter_context(mine), its.enter_context(far)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


_PRELOAD = (
    "torch.distributed.fsdp", "torch.distributed.pipelining", "torch.distributed.tensor.parallel",
    "torch.autograd.profiler", "torch.fx.experimental.symbolic_shapes",
    "labs.grading.hidden.changes", "labs.grading.hidden.refusals", "labs.grading.hidden.shorter",
    "labs.grading.hidden.ring_outside", "labs.grading.hidden.step_outside",
    "labs.grading.extract", "labs.grading.sandbox.probe", "encodings.utf_8_sig",
)  # fmt: skip


def _preload() -> None:
    """Import what a rank needs, so that a fork has it. No tensor is made here: no thread starts."""
    for name in _PRELOAD:
        importlib.import_module(name)
    from labs import exercise

    exercise.exercises()


def main() -> None:
    if len(sys.argv) > 1:  # in a container, whose standard input is not the judge's socket
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.connect(sys.argv[1])
    else:
        line = socket.socket(fileno=os.dup(0))
    asked = json.loads(line.recv(_PACKET))
    if asked["parent"]:
        system.die_with_parent()
        if os.getppid() != asked["parent"]:
            os._exit(96)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    zygote = Zygote(line, asked)
    try:
        _preload()
        zygote.shut_in()
    except OSError as error:
        zygote.tell(event="failed", why=str(error))
        return
    gc.collect()
    gc.freeze()  # or each fork copies the pages that collecting touches
    zygote.serve()


if __name__ == "__main__":
    main()
