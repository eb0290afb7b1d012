"""Runs that are meant to break: launched like any other, and explained instead of raised."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from labs.ranks.doctor.diagnosis import ENDED_WELL, Diagnosis
from labs.ranks.launching import launch
from labs.ranks.run import RunFailed


def diagnose(
    function: Callable,
    ranks: int = 2,
    *,
    args: tuple = (),
    kwargs: Mapping[str, object] | None = None,
    limit: float = 10.0,
    mode: str | None = None,
    env: Mapping[str, str] | None = None,
    status: bool = False,
) -> Diagnosis:
    """Run `function` on real ranks and return what became of it, in words and as a picture.

    For a cell that breaks something on purpose: a run that fails, or hangs, raises nothing, and the
    notebook goes on. A run that ends well says so. Options as for `launch`, whose ValueErrors, for
    what cannot be started, are raised here too.
    """
    try:
        run = launch(
            function, ranks, args=args, kwargs=kwargs, limit=limit, mode=mode, env=env,
            status=status,
        )  # fmt: skip
    except RunFailed as failed:
        return failed.run.diagnosis or Diagnosis("not started", str(failed), ranks=ranks)
    plural = "the rank" if ranks == 1 else f"all {ranks} ranks"
    lines = (run.note,) if run.note else ()
    return Diagnosis(ENDED_WELL, f"{plural} came to the end", lines, ranks=ranks)
