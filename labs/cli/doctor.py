"""`labs doctor`: what this machine offers to the labs, one finding a line.

Nothing here names a user, a host or a path. What a lab cannot do without is `needed`; the rest is
told because a lab chooses by it (GPUs, fork) or skips something without it (namespaces, a browser).
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import click

from labs import topics
from labs.ranks import default_mode, devices, environment, output, processes, queue, supervised
from labs.ranks.supervisor import free_port

SCHEMA = "model-parallelism-labs/doctor/1"
_GIB = 2**30


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ok None: neither good nor bad."""

    name: str
    told: str
    ok: bool | None = None
    needed: bool = False
    numbers: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        mark = {True: "ok  ", False: "FAIL" if self.needed else "no  ", None: "    "}[self.ok]
        return f"{mark} {self.name:<19} {self.told}"


def doctor(as_json: bool) -> int:
    """Print all findings. Returns 1 when something is missing that every lab needs, else 0."""
    with contextlib.suppress(Exception):  # the finding about it says what is wrong
        supervised.warm_up()  # it starts while the rest is looked at
    found = [_safely(look) for look in _LOOKS]
    well = not any(f.needed and f.ok is False for f in found)
    if as_json:
        told = dict(schema=SCHEMA, ok=well, findings=[asdict(f) for f in found])
        text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
        click.echo(text.encode(), nl=False)
    else:
        click.echo("\n".join(map(str, found)))
        click.echo("the labs can run here" if well else "a lab cannot run here; see FAIL above")
    return 0 if well else 1


def _safely(look: Callable[[], Finding]) -> Finding:
    """A look that fails is a finding too."""
    try:
        found = look()
    except Exception as error:
        name = look.__name__.strip("_").replace("_", " ")
        found = Finding(name, f"{type(error).__name__}: {error}", False, needed=True)
    return Finding(found.name, output.clean(found.told), found.ok, found.needed, found.numbers)


def _counted(number: float, noun: str) -> str:
    """1 rank, 2 ranks, 1.5 cores."""
    return f"{number:g} {noun}" + ("" if number == 1 else "s")


def _python() -> Finding:
    version = platform.python_version()
    told = f"{version} on {platform.system()} {platform.machine()}"
    return Finding("Python", told, sys.version_info >= (3, 11), True, {"version": version})


def _torch() -> Finding:
    import torch
    import torch.distributed as dist

    version, gloo = str(torch.__version__), dist.is_available() and dist.is_gloo_available()
    told = version + (", with gloo" if gloo else ", without gloo, which ranks on CPUs need")
    return Finding("torch", told, gloo, True, {"version": version})


def _gpus() -> Finding:
    import torch

    count = devices.visible_gpus()
    names = sorted({torch.cuda.get_device_name(i) for i in range(count)})
    told = f"{count} visible" + (f" ({', '.join(names)})" if names else "; ranks run on the CPU")
    return Finding("GPUs", told, numbers={"count": count, "names": names})


def _cores() -> Finding:
    mine, all_there, share = devices.cores(), os.cpu_count() or 1, devices.cpu_share()
    told = f"{mine} of {all_there} may be used" if mine != all_there else f"{mine}"
    if share is not None and share <= mine:
        told += f"; the container gives the time of {_counted(share, 'core')}"
    return Finding("cores", told, numbers={"usable": mine, "machine": all_there, "quota": share})


def _memory() -> Finding:
    free, whole = devices.available_bytes(), devices.whole_bytes()
    told = f"{free / _GIB:.1f} GiB free of {whole / _GIB:.1f}"
    return Finding("memory", told, numbers={"available_bytes": free, "total_bytes": whole})


def _largest_lab() -> Finding:
    largest = max(topics.TOPICS.values(), key=lambda topic: topic.ranks)
    need = largest.ranks * devices.RANK_BYTES
    fits, why = devices.most_ranks()
    told = (
        f"{largest.name}: {_counted(largest.ranks, 'rank')}, at most {need / _GIB:.1f} GiB; "
        f"{_counted(fits, 'rank')} {'fits' if fits == 1 else 'fit'} here ({why})"
    )
    numbers = {"ranks": largest.ranks, "bytes": need, "ranks_that_fit": fits}
    return Finding("largest lab", told, fits >= largest.ranks, True, numbers)


def _mode() -> Finding:
    mode, why = default_mode()
    how = {"warm": "ranks are forked from a warm process", "cold": "each run is a new torchrun"}
    return Finding("mode", f"{mode}: {why}; {how[mode]}", numbers={"mode": mode, "why": why})


def _warm_process() -> Finding:
    """What the process costs that starts this user's ranks, measured on one that waits."""
    mode, idle = default_mode()[0], environment.idle_seconds()
    own = supervised.supervisor(mode)
    own.wait_ready()
    size = processes.memory_bytes(own.process.pid)
    others = [pid for pid in supervised.all_of_this_user() if pid != own.process.pid]
    whole = sum(map(processes.memory_bytes, others))
    after = _counted(idle / 60, "minute") if idle >= 60 else f"{idle:g} s"
    told = (
        f"{size / 1e6:.0f} MB while it waits; it ends with its notebook, and by itself after "
        f"{after} without work (LABS_IDLE); "
    )
    run = "run" if len(others) > 1 else "runs"
    told += f"{len(others) or 'none'} of yours {run} now"
    told += f", {whole / 1e6:.0f} MB" if others else ""
    numbers = {
        "bytes": size, "idle_seconds": idle, "running": len(others), "running_bytes": whole
    }  # fmt: skip
    return Finding(f"{mode} process", told, numbers=numbers)


def _queue() -> Finding:
    name, capacity = queue.name(), devices.cores()
    if name is None:
        told = f"off: {queue.why_none()}; runs do not wait for each other"
        return Finding("queue", told, numbers={"name": None, "capacity": capacity})
    there = queue.tickets(name)
    at_work = sum(one.began > 0 for one in there)
    told = (
        f"{_counted(capacity, 'rank')} at once, or one larger run; first come, first served, for "
        f"all people on this machine; at work now: {at_work}, waiting: {len(there) - at_work}"
    )
    numbers = {
        "name": name, "capacity": capacity, "at_work": at_work, "waiting": len(there) - at_work
    }  # fmt: skip
    return Finding("queue", told, numbers=numbers)


def _loopback() -> Finding:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=5) as line,
        server.accept()[0] as there,
    ):
        line.sendall(b"x")
        there.settimeout(5)
        heard = there.recv(1) == b"x"
    told = f"{environment.loopback()}, 127.0.0.1 " + ("answers" if heard else "does not answer")
    return Finding("loopback", told, heard, True)


def _ports() -> Finding:
    free_port()
    return Finding("ports", "a free one is taken for each run, between 20000 and 32000", True, True)


def _shared_memory() -> Finding:
    usable = environment.can_make_semaphores()
    try:
        free = shutil.disk_usage("/dev/shm").free
        told = f"{free / _GIB:.1f} GiB free"
    except OSError:
        free, told = None, "no /dev/shm"
    told += ", semaphores can be made" if usable else ", no semaphore can be made"
    told += "; warm mode and NCCL need it, gloo and cold mode do not"
    return Finding("shared memory", told, usable, numbers={"free_bytes": free})


def _namespaces() -> Finding:
    command = ["unshare", "--user", "--map-root-user", "--net", "true"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=10)
        allowed = done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        allowed = False
    told = "allowed" if allowed else "not allowed; tests of bytes on the wire are skipped"
    return Finding("network namespaces", told, allowed)


def _browser() -> Finding:
    known = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = any(shutil.which(name) for name in known)
    told = "Chromium is there" if found else "no Chromium; tests in a browser are skipped"
    return Finding("browser", told, found)


_LOOKS = (
    _python, _torch, _gpus, _cores, _memory, _largest_lab, _mode, _loopback, _ports,
    _shared_memory, _namespaces, _browser, _queue, _warm_process,
)  # fmt: skip
