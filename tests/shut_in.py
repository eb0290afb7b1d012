"""Functions of tests on ranks that are shut in, and how they ended."""

from __future__ import annotations

import contextlib
import inspect
import textwrap
from collections.abc import Callable, Iterator

import pytest

from labs.grading.sandbox import probe
from labs.grading.sandbox.launcher import Launched, Sandbox
from labs.grading.sandbox.limits import MIB, Limits
from labs.ranks import RunFailed
from labs.ranks.ship import Cell, Source

LIMITS = Limits(wall_seconds=6.0, idle_seconds=1.5, resident_bytes=512 * MIB)


@contextlib.contextmanager
def namespaces() -> Iterator[Sandbox]:
    """A sandbox with small limits; where there are no namespaces the test is skipped."""
    made = Sandbox("namespaces", limits=LIMITS)
    why = probe.works(made)
    if why:
        made.close()
        pytest.skip(f"no namespaces here: {why}")
    yield made
    made.close()


def on_rank(function: Callable) -> Source:
    """A function of this file as a rank gets it: by its text, for tests are not mounted there."""
    text = textwrap.dedent(inspect.getsource(function))
    return Source(function.__name__, [Cell("test", f"import os\nimport torch\n{text}")])


def launched(sandbox: Sandbox, function: Callable, ranks: int, *args: object) -> Launched:
    sandbox.launched.clear()
    sandbox.launch(on_rank(function), ranks, args=args)
    return sandbox.launched[-1]


def failed(sandbox: Sandbox, function: Callable, ranks: int, *args: object) -> Launched:
    sandbox.launched.clear()
    with pytest.raises(RunFailed):
        sandbox.launch(on_rank(function), ranks, args=args)
    return sandbox.launched[-1]
