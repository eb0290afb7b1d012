"""Processes that leave nothing behind: die with the parent, adopt orphans, kill a whole tree.

Linux gives two guarantees that the endings of a run rest on. A process can ask to be killed when
its parent dies (PR_SET_PDEATHSIG), and a parent can adopt every orphan below it
(PR_SET_CHILD_SUBREAPER), so that not even a double fork or setsid escapes. Elsewhere psutil walks
the tree and the guarantees are weaker: a process that leaves its tree on purpose is not found.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
LINUX = sys.platform.startswith("linux")
_CHILDREN_FILES = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _prctl(option: int, value: int) -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Have this process killed when `parent` ends; leave at once if it has ended already.

    The signal follows the *thread* that forked, so a parent must fork from its main thread.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(97)


def adopt_orphans() -> None:
    """Make this process the new parent of every orphan among its descendants."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children(pid: int) -> list[int]:
    """Direct children of `pid`, of all its threads."""
    if not _CHILDREN_FILES:
        import psutil

        try:
            return [child.pid for child in psutil.Process(pid).children()]
        except psutil.Error:
            return []
    try:
        found = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += [int(child) for child in file.read().split()]
        return found
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Children, grandchildren and so on of `pid`, parents first."""
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def alive(pid: int) -> bool:
    """Whether `pid` runs (a zombie, ended but not yet reaped, does not)."""
    try:
        if LINUX:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] not in "ZX"
        os.kill(pid, 0)
    except (OSError, IndexError):
        return False
    return True


def readable(descriptor: int, wait: float) -> bool:
    """Whether there is something to read, or the end, within `wait` seconds.

    select.select cannot: it takes no descriptor above 1023, and a kernel may have many files open.
    """
    line = select.poll()
    line.register(descriptor, select.POLLIN)
    return bool(line.poll(1000 * wait))


def peak_rss_bytes() -> int:
    """The most memory this process has had resident, in bytes."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)


def memory_bytes(pid: int) -> int:
    """Memory that `pid` takes, in bytes; 0 when it has ended.

    On Linux the proportional set size: a page that n processes share counts a n-th in each.
    """
    import psutil

    try:
        if LINUX:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) << 10
        return psutil.Process(pid).memory_info().rss
    except (OSError, StopIteration, psutil.Error):
        return 0


def end_descendants(limit: float = 5.0) -> bool:
    """SIGKILL and reap everything below this process. True when nothing is left after `limit` s."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        time.sleep(0.002)
    return False


def kill_marked(mark: str, seconds: float = 3.0) -> None:
    """Kill all that have `mark`, a NAME=value, in their environment, and wait for their end."""
    import psutil

    name, _, value = mark.partition("=")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        left = [
            found.pid
            for found in psutil.process_iter(["environ", "status"])
            if (found.info["environ"] or {}).get(name) == value
            and found.info["status"] != psutil.STATUS_ZOMBIE
            and found.pid != os.getpid()
        ]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
