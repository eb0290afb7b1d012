"""From a function to a finished run: start torchrun, watch it, end it, read what the ranks wrote.

launch(fn, ranks=4) ─► folder with the job ─► supervisor ─► torchrun ─► ranks ─► reports ─► Run
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from labs.ranks import (
    crowding,
    devices,
    elsewhere,
    ending,
    environment,
    output,
    processes,
    queue,
    ship,
)  # fmt: skip
from labs.ranks.doctor import stacks
from labs.ranks.doctor.standing import Stand
from labs.ranks.doctor.watch import Watch
from labs.ranks.run import Interrupted, Run, RunFailed, gather, root_cause
from labs.ranks.status import Status
from labs.ranks.supervised import SupervisorGone, held, supervisor
from labs.ranks.supervisor import free_port
from labs.ranks.traces import Traces

COURSE = Path(__file__).resolve().parents[2]
_RANK = Path(__file__).with_name("rank.py")
_POLL = 0.02
_GRACE = 1.5  # seconds the other ranks get after the first error or death
_OUTPUT_LIMIT = 256 * 2**20  # bytes printed by one rank


def launch(
    function: Callable,
    ranks: int = 4,
    *,
    args: tuple = (),
    kwargs: Mapping[str, object] | None = None,
    limit: float = 60.0,
    mode: str | None = None,
    env: Mapping[str, str] | None = None,
    status: bool = True,
    largest: int = 0,
) -> Run:
    """Run `function(*args, **kwargs)` on `ranks` real torchrun ranks and return what they report.

    function, and functions among the arguments: of an importable module, or of the notebook.
    limit: seconds until the run is ended, without those for which other programs had the cores
    (crowding.py), three times as many at most. mode: "warm", "cold" or None (the default of this
    machine). env: variables of this launch alone. largest: see `devices.place`.

    It waits for its turn on this machine (queue.py); `limit` counts from then.

    Raises ValueError before anything starts when `ranks` cannot be; RunFailed, which holds what
    the ranks had reported, when a rank fails, is killed, or the limit is reached; Interrupted, a
    KeyboardInterrupt, when all is gone.
    """
    if other := elsewhere.launcher():
        return other(function, ranks, args=args, kwargs=kwargs, limit=limit)
    placement = devices.place(ranks, largest)
    mode = mode or environment.default_mode()[0]
    if mode not in ("warm", "cold"):
        raise ValueError(f"mode must be 'warm' or 'cold', got {mode!r}")
    if not 0 < limit < 1e6:
        raise ValueError(f"limit must be a number of seconds above 0 and below 1e6, got {limit!r}")
    job = dict(
        backend=placement.backend, device=placement.device, limit=limit, path=_import_path(),
        longest=crowding.MOST * limit,
    )  # fmt: skip
    files, labels = ship.pack(job, function, args, dict(kwargs or {}))
    output.also_secret(env or {})
    line, folder = Status(str(placement), quiet=not status), None
    try:
        process = supervisor(mode)
        try:
            folder = process.new_folder()
            for name, content in files.items():
                (folder / name).write_bytes(content)
        except OSError as error:
            raise RunFailed(Run(placement, mode, failure=_no_place(error, folder))) from None
        del files
        # Another program may take the port between the test and torchrun, and on an overloaded
        # machine gloo may give up connecting: nobody's function has run then.
        for _ in range(3):
            attempt = _Attempt(folder, placement, mode, limit, dict(env or {}), line, labels)
            run = attempt.run()
            if not attempt.traces.port_taken() and not attempt.never_met:
                break
            attempt.traces.forget()
        if run.failure:
            raise RunFailed(run)
        return run
    except KeyboardInterrupt:
        raise Interrupted from None
    finally:
        line.done()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _no_place(error: OSError, folder: Path | None) -> str:
    """Why the job could not be written, in words."""
    where = folder or Path(tempfile.gettempdir())
    trouble = Traces(where, 0).trouble() or error.strerror or type(error).__name__
    return f"the ranks' function and arguments could not be written to a file: {trouble}"


def _cwd() -> str:
    """The current folder; the course's where the current one was removed."""
    try:
        return os.getcwd()
    except OSError:
        return str(COURSE)


def _import_path() -> list[str]:
    """The folders this process imports from, as others can name them."""
    known = (os.path.normpath(os.path.join(_cwd(), path)) for path in sys.path)
    return [path for path in known if os.path.isdir(path)]


def torchrun_arguments(ranks: int, port: int) -> list[str]:
    """The options of every launch: this machine alone, by addresses that need no resolver."""
    return [
        "--nnodes", "1", "--node-rank", "0", "--nproc-per-node", str(ranks),
        "--master-addr", "127.0.0.1", "--master-port", str(port), "--local-addr", "127.0.0.1",
        "--monitor-interval", "0.02",
    ]  # fmt: skip


class _Attempt:
    """One start of torchrun, watched to its end."""

    def __init__(
        self, folder: Path, placement: devices.Placement, mode: str, limit: float,
        env: dict[str, str], line: Status, labels: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.placement, self.mode = folder, placement, mode
        self.limit, self.env, self.line, self.labels = limit, env, line, labels or {}
        self.traces = Traces(folder, placement.ranks)
        self.origin, self.threads = time.time(), placement.threads
        self.seen = ending.Seen(limit, out_of_memory=devices.kills_for_memory())
        self._next_look = limit  # the seconds after which it is asked whether the limit is reached
        self.note: str | None = None  # what ran on when all ranks had returned
        self.agent = 0  # torchrun's process id
        self.never_met = False  # gloo could not connect the ranks, and none got to the function

    def run(self) -> Run:
        ranks, on_cpu = self.placement.ranks, self.placement.device == "cpu"
        with (
            held(self.mode, self.folder) as process,
            queue.turn(ranks, on_cpu, self.line.show) as beside,
        ):
            self.origin, begun = time.time(), time.monotonic()
            self.threads = devices.threads_for(ranks, beside)
            try:
                process.begin(folder=str(self.folder), **self._command())
                code = self._watch(process)
            except SupervisorGone as gone:
                self.seen.why, code = output.clean(str(gone), self.folder), -9
                self._until_gone()
            except BaseException:  # an interrupt: nothing of the run may be left
                process.kill()
                raise
        run = self._gathered(code)
        run.seconds = time.monotonic() - begun
        return run

    def _until_gone(self, seconds: float = 3.0) -> None:
        """Wait for the end of the ranks and of torchrun, which die with a supervisor that is dead.

        While a process is ending its mark can no longer be read, and its port is still taken.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            agent = bool(self.agent) and processes.alive(self.agent)
            if not agent and not self.traces.alive():
                return
            time.sleep(0.005)

    def _command(self) -> dict:
        warm = self.mode == "warm"
        env = environment.for_ranks(self.threads, extra=self.env)
        env.update(LABS_MODE=self.mode, LABS_THREADS=str(self.threads), TMPDIR=str(self.folder))
        argv = torchrun_arguments(self.placement.ranks, free_port())
        argv += ["--log-dir", str(self.folder)]
        argv += ["--run-path", "--start-method", "fork"] if warm else []
        argv += [str(_RANK), str(self.folder)]
        out = str(self.folder / "agent")
        return dict(warm=warm, argv=argv, env=env, cwd=_cwd(), out=out)

    def _watch(self, process) -> int:  # noqa: ANN001 - labs.ranks.supervised.Supervised
        """Follow the run to its end. Returns torchrun's exit code."""
        started, first_end, all_done, crowd = None, None, None, crowding.Crowd()
        watch, seen = Watch(self.folder, range(self.placement.ranks)), self.seen
        while True:
            message = process.news(_POLL)
            now = time.monotonic()
            if message and message["event"] == "started":
                started, self.agent = now, message["agent"]
            if message and message["event"] == "done":
                watch.close()
                return message["code"]
            if started is None:
                continue
            if self.line.due():
                self.line.show(self.traces.state())
            if seen.why is None:
                if first_end is None:
                    seen.gone = self.traces.gone()
                    first_end = now if seen.gone else None
                if all_done is None and self.traces.all_reported_well():
                    all_done = now
                if first_end is not None and now - first_end > _GRACE:
                    seen.why, seen.outlived = "ended", self.traces.alive()
                elif all_done is not None and now - all_done > _GRACE:
                    # What is left but torchrun, which ends by itself, however slowly.
                    self.note = self._lingering(process.process.pid)
                    seen.why = "ended" if self.note else None
                elif first_end is None and (found := watch.look(now)):
                    seen.why, (seen.stands, seen.needs) = "stuck", found
                    seen.looks = self._looks(seen.stands)
                elif self._over(now - started, crowd):
                    seen.why, seen.stands = "limit", watch.journals.stands()
                    seen.looks = self._looks(seen.stands)
                elif self.traces.most_printed() > _OUTPUT_LIMIT:
                    seen.why = f"a rank printed more than {_OUTPUT_LIMIT // 2**20} MiB"
                if seen.why:
                    process.end()

    def _over(self, ran: float, crowd: crowding.Crowd) -> bool:
        """Whether the limit is reached after `ran` seconds. Looks at each tenth of a limit only."""
        if ran <= self._next_look:
            return False
        pids = processes.descendants(self.agent) if self.agent else []
        took = crowd.took(pids)
        if ran - took > self.limit:
            return True
        self._next_look = ran + self.limit / 10
        if ran <= crowding.MOST * self.limit:
            return False
        self.seen.starved = (took, ran)
        return True

    def _looks(self, stands: list[Stand]) -> dict[int, stacks.Look]:
        """What the processes of the ranks that are still at work say of themselves."""
        pids = {s.rank: self.traces.pid_of(s.rank) for s in stands if not s.ended}
        pids = {rank: pid for rank, pid in pids.items() if pid}
        ready = {s.rank: s.state not in ("", "starting") for s in stands}
        return stacks.look(self.folder, pids, ready)

    def _lingering(self, supervisor: int) -> str | None:
        """What keeps a run from its end though all ranks have returned; None: nothing of theirs."""
        below = set(processes.descendants(supervisor)) - {self.agent}
        left = list(filter(processes.alive, below))
        if not left:
            return None
        alive = self.traces.alive()
        if alive:
            who = ", ".join(f"rank {rank}" for rank in alive)
            what = f"{who} had returned but still ran (a thread that does not end?)"
        else:
            what = f"all ranks had returned but {len(left)} process(es) that they started still ran"
        return f"{what}; ended after {_GRACE:g} s"

    def _never_met(self, errors: list[dict | None]) -> bool:
        """Gloo gave up connecting some ranks, and no rank had begun with its function."""
        before = ("", "rendezvous", "failed")
        return (
            any(error and "connectFullMesh" in error["message"] for error in errors)
            and not any(error and error["began"] for error in errors)
            and all(self.traces.state_of(rank) in before for rank in range(self.placement.ranks))
        )

    def _gathered(self, code: int) -> Run:
        run, errors = gather(self.folder, self.placement, self.mode, self.labels, self.origin)
        cause = root_cause(errors)
        self.never_met = cause is not None and self._never_met(errors)
        self.seen.out_of_memory = devices.kills_for_memory() - self.seen.out_of_memory
        ending.judge(run, errors, self.traces, self.seen, code, self.labels, self.note)
        return run
