"""A fork of the zygote becomes a rank: shut in first, then at work. It never comes back."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import resource
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from labs.grading.sandbox import calls, limits, network, root, system, worker

OUTSIDE = 65534
"""The user "nobody": rank r of root's is the r-th below it, outside of its own namespace."""
INSIDE = 1000
"""Whom a rank runs as in a user namespace of its own."""
_FIRST_USER, _USERS = 61184, 4336
"""Numbers that belong to nobody: systemd gives them to services for as long as these run."""


@dataclass(frozen=True)
class Fork:
    """What a fork is told: who it becomes, how it is shut in, and its ends of the lines."""

    rank: int
    ranks: int
    where: str  # the address of rank 0, and its port
    how: str  # "namespaces", "user" or "none"
    is_root: bool
    root: str  # the pattern of its root; where it has no mount namespace, a folder of its own
    user: int  # whom it runs as where it is shut in as "user"
    network: int | None  # a descriptor of its network namespace
    parent: int
    bounds: limits.Limits
    line: socket.socket
    said: int
    mapping: socket.socket

    @property
    def apart(self) -> bool:
        """Whether it gets namespaces of its own."""
        return self.how == "namespaces"


def user(launch: int, rank: int) -> int:
    """Whom a rank of "user" runs as: another one for each rank of each launch, 542 launches long.

    As the same one it could read what an earlier student's rank has left, and end another's.
    """
    return _FIRST_USER + (launch * network.MOST + rank) % _USERS


def become(fork: Fork) -> NoReturn:
    """Shut in, then work, then end."""
    code = 97
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        with contextlib.suppress(OSError):  # where memory runs out, a rank ends, not the judge
            Path("/proc/self/oom_score_adj").write_text("1000")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(fork.said, 1)
        os.dup2(fork.said, 2)
        if fork.apart:
            system.setns(fork.network, system.NEWNET)
        _close_all_but(fork.line, fork.mapping)
        folder = _namespaces(fork) if fork.apart else _folder(fork)
        fork.mapping.close()
        _environment(fork, folder)
        limits.apply(fork.bounds, fork.how != "none")
        system.drop_capabilities()
        system.die_with_parent()
        if not fork.apart and os.getppid() != fork.parent:
            os._exit(96)  # the zygote was gone before
        if fork.how != "none":
            calls.refuse()
        gc.unfreeze()
        sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)
        worker.work(fork.line, fork.rank, fork.ranks, fork.where, folder)
        code = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode()[:2000])
    finally:
        os._exit(code)


def _close_all_but(line: socket.socket, mapping: socket.socket) -> None:
    """Nothing of the zygote's stays open in a rank: a descriptor would be a way out."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    kept = sorted([2, line.fileno(), mapping.fileno(), most])
    for before, after in itertools.pairwise(kept):
        os.closerange(before + 1, after)


def _namespaces(fork: Fork) -> Path:
    """Into namespaces of its own; gives the folder it works in."""
    system.unshare(system.NEWNS | system.NEWIPC | system.NEWUTS)
    root.enter(fork.root)
    socket.sethostname("rank")
    system.unshare(system.NEWUSER)
    fork.mapping.send(b"u")
    if fork.mapping.recv(1) != b"m":
        os._exit(95)
    if fork.is_root:
        os.setgroups([])
    os.setresgid(INSIDE, INSIDE, INSIDE)
    os.setresuid(INSIDE, INSIDE, INSIDE)
    return worker.FOLDER


def _folder(fork: Fork) -> Path:
    """Make the folder it works in, and become another user where that is asked for."""
    folder = Path(fork.root)
    folder.mkdir()
    if fork.how == "user":
        uid = fork.user
        os.chown(folder, uid, uid)
        folder.chmod(0o700)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    return folder


def _environment(fork: Fork, folder: Path) -> None:
    """A rank's environment: what torchrun would set, and nothing of this machine."""
    address, _, port = fork.where.rpartition(":")
    own = root.OWN if fork.apart else str(folder)
    rank, ranks = str(fork.rank), str(fork.ranks)
    os.environ.clear()
    os.environ.update(
        PATH="/usr/local/bin:/usr/bin:/bin", HOME=own, LANG="C.UTF-8", TMPDIR=own,
        OMP_NUM_THREADS="1", RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=ranks, LOCAL_WORLD_SIZE=ranks,
        MASTER_ADDR=address, MASTER_PORT=port, RES_OPTIONS="attempts:0",
        TORCH_DIST_INIT_BARRIER="1", TORCH_CPP_LOG_LEVEL="ERROR", KINETO_LOG_LEVEL="99",
        GLOO_SOCKET_IFNAME=network.INTERFACE if fork.apart else "lo",
    )  # fmt: skip
    os.chdir(own)
