"""The plain torchrun command, shown and run: what every launch of the course comes down to."""

from __future__ import annotations

import shutil
import time

from labs.ranks import devices, environment, output, queue
from labs.ranks.launching import COURSE, torchrun_arguments
from labs.ranks.status import Status
from labs.ranks.supervised import held, supervisor
from labs.ranks.supervisor import free_port


def torchrun(module: str, ranks: int = 2, limit: float = 120.0, lines: int = 20) -> None:
    """Print `torchrun --nproc-per-node RANKS -m MODULE`, run it, print the first of its lines.

    It is started with this interpreter's own torchrun, on loopback and a free port. Raises
    ValueError when the ranks do not fit, RuntimeError when it fails or takes over `limit` seconds
    from its turn.
    """
    placement = devices.place(ranks)
    folder = supervisor("cold").new_folder()
    line = Status(str(placement), late=True)
    print(f"$ torchrun --nproc-per-node {ranks} -m {module}")
    env = environment.for_ranks(placement.threads, [str(COURSE)])
    env.update(TMPDIR=str(folder))
    argv = [*torchrun_arguments(ranks, free_port()), "--log-dir", str(folder), "-m", module]
    try:
        on_cpu = placement.device == "cpu"
        with held("cold", folder) as process, queue.turn(ranks, on_cpu, line.show):
            line.done()
            out = str(folder / "agent")
            process.begin(
                folder=str(folder), warm=False, argv=argv, env=env, cwd=str(COURSE), out=out
            )
            code = _finish(process, time.monotonic() + limit)
        said = output.clean(output.read_capped(folder / "agent", 20000), folder).splitlines()
        print("\n".join(said[:lines]))
        if len(said) > lines:
            print(f"… {len(said) - lines} more lines")
        if code is None:
            raise RuntimeError(f"torchrun was ended after {limit:g} s")
        if code:
            raise RuntimeError(f"torchrun ended with exit code {code}")
    finally:
        line.done()
        shutil.rmtree(folder, ignore_errors=True)


def _finish(process, deadline: float) -> int | None:  # noqa: ANN001 - Supervised
    """Wait for the exit code; None when the time is up."""
    try:
        while time.monotonic() < deadline:
            message = process.news(0.1)
            if message and message["event"] == "done":
                return message["code"]
    except BaseException:
        process.kill()
        raise
    process.kill()
    return None
