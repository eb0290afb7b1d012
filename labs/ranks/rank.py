"""What runs on a rank first. torchrun starts this file with the folder of the run.

It ties its life to torchrun's, sends its output to its own file, opens the account of its traffic,
joins the process group, calls the function it was sent, and reports.
"""

import datetime
import faulthandler
import os
import signal
import sys
import sysconfig
import time
from pathlib import Path


def _wait_for_siblings(agent: int, ranks: int) -> None:
    """Go on when the agent has forked all its ranks.

    A fork copies a lock that another thread of the agent holds at that moment (the resolver's, by
    the store's thread), and it stays locked in the child. No rank may make the agent's store
    resolve a name before the last fork is over.
    """
    from labs.ranks import processes

    deadline = time.monotonic() + 5  # only where the system does not tell who is whose child
    while len(processes.children(agent)) < ranks and time.monotonic() < deadline:
        if os.getppid() != agent:
            os._exit(98)
        time.sleep(0.001)


def _redirect(path: Path) -> None:
    out = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)


def _wait_for_the_cause(folder: Path, others: list[int], most: float = 4.0) -> None:
    """Let another rank end first, of which this one is a victim: torchrun shall note how it ended.

    It may still be busy with a `finally`, and torchrun would end it before its error is told.
    """
    from labs.ranks import processes, report
    from labs.ranks.run import is_victim
    from labs.ranks.traces import Traces

    traces, begun = Traces(folder, max(others, default=0) + 1), time.monotonic()

    def ended_by_itself(other: int) -> bool:
        if traces.state_of(other) not in ("failed", "done"):
            return not processes.alive(traces.pid_of(other))
        try:
            error = (report.load(folder / f"report.{other}") or {}).get("error")
        except ValueError:
            return True
        return error is None or not is_victim(error)

    while (passed := time.monotonic() - begun) < most:
        if passed > 0.5 and any(map(ended_by_itself, others)):
            return
        time.sleep(0.05)


def _also_import_from(folders: list[str]) -> None:
    """Put the kernel's folders on the path: after the standard library, before what is installed.

    A learner's `random.py` beside the notebook is then no danger to torch, and a `common.py` there
    is found before an installed one, as in the kernel. A forked rank has not read PYTHONPATH.
    """
    asked = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    python = sysconfig.get_paths()["stdlib"]
    library = [path for path in sys.path if path.startswith(python) and "-packages" not in path]
    sys.path[:] = dict.fromkeys([sys.path[0], *library, *asked, *folders, *sys.path])


def main(folder: Path) -> None:
    agent = os.getppid()
    from labs.ranks import journal, processes

    processes.die_with_parent(agent)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a forked rank inherits torchrun's handlers
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    (folder / f"pid.{rank}").write_text(str(os.getpid()))
    _redirect(folder / f"out.{rank}")
    diary = journal.Journal(folder, rank)
    os.register_at_fork(after_in_child=lambda: diary.detach())
    stacks = open(folder / f"stack.{rank}", "w")  # noqa: SIM115 - open as long as the rank lives
    faulthandler.enable(file=stacks)
    faulthandler.register(signal.SIGUSR1, file=stacks)  # the doctor asks: where do you stand?
    if os.environ.get("LABS_MODE") == "warm":
        _wait_for_siblings(agent, int(os.environ["LOCAL_WORLD_SIZE"]))

    import torch
    import torch.distributed as dist

    # Few modules: what is imported here is imported once a rank, in every warm launch.
    from labs.ranks import book, elsewhere, hooks, on_rank, report, unpack

    error = value = None
    began = False
    me = on_rank.Rank(rank, world, "cpu", book.Book(rank, diary), diary, folder)
    try:
        job = unpack.read(folder / "job")
        _also_import_from(job["path"])
        torch.set_num_threads(int(os.environ["LABS_THREADS"]))
        me.device = job["device"]
        if me.device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        me.book.limit = job["limit"]
        me.hooks = hooks.Hooks(me.book, diary)
        on_rank.here = me
        on_rank.say("rendezvous")
        dist.init_process_group(
            job["backend"], timeout=datetime.timedelta(seconds=job["longest"] + 5)
        )
        function, args, kwargs = unpack.unpack(job, folder)
        on_rank.say("running")
        diary.state("running")
        began = True
        own = os.getpid()
        try:
            returned = function(*elsewhere.of_rank(args, rank), **kwargs)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
            returned = None  # torchrun too takes that for success
        if os.getpid() != own:  # a child that the function forked, and that came back
            os._exit(0)
        diary.state("returned")
        value = report.plain(returned, "what the function returned")
    except BaseException as caught:
        from labs.ranks import errors

        error = {**errors.told(caught), "began": began}
    if error:
        diary.state("failed")
    on_rank.say("failed" if error else "done")
    report.save(
        folder / f"report.{rank}",
        dict(
            value=value, error=error, kept=me.kept, memory=me.memory,
            account=report.account(me.book.rows(), me.book.events),
            threads=torch.get_num_threads(),
            peak_rss_bytes=processes.peak_rss_bytes(), ended=time.time(),
        ),
    )  # fmt: skip
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except (OSError, ValueError, AttributeError):  # the function closed it
            setattr(sys, name, None)
    if error:
        from labs.ranks.run import is_victim

        if is_victim(error):
            _wait_for_the_cause(folder, [other for other in range(world) if other != rank])
        os._exit(1)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    # torchrun put this file's folder first; the neighbours here are not top-level modules.
    here = Path(__file__).resolve()
    sys.path[:] = [str(here.parents[2]), *(p for p in sys.path if p != str(here.parent))]
    main(Path(sys.argv[1]))
