"""Run faults in the ways that are asked, here or in namespaces, and hand on what was seen."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from tests.faults import surroundings
from tests.faults.faults import AROUND, ON_RANKS
from tests.faults.kernels import FAULTS as OF_KERNELS
from tests.faults.kernels import KernelFault
from tests.faults.surroundings import NotHere
from tests.faults.trial import Fault, How, Seen

COURSE = Path(__file__).resolve().parents[2]
ALL: dict[str, Fault | KernelFault] = {
    fault.name: fault for fault in (*ON_RANKS, *OF_KERNELS, *AROUND)
}  # fmt: skip
Ways = dict[str, list[How]]  # fault: how it is tried, in this order
Hear = Callable[[Seen], None]


def find(name: str) -> str:
    """The fault that is meant. Raises ValueError when none or several contain `name`."""
    found = [known for known in ALL if name.lower() in known.lower()]
    exact = [known for known in found if known.lower() == name.lower()]
    if len(exact or found) != 1:
        raise ValueError(f"{name!r} is in the names of {found or 'none'} of {list(ALL)}")
    return (exact or found)[0]


def once(fault: Fault | KernelFault, how: How, tmp: Path | None = None) -> Seen:
    """One trial. A machine so busy that the limit ends a run before it has come to what breaks it
    has tried nothing: then again, twice at most, with more time."""
    for more in (1, 2, 4):
        seen = fault.trial(replace(how, limit=more * how.limit), tmp)
        if seen.came or seen.left or seen.after or not seen.told.startswith("the limit of"):
            break
    return seen


def here(ways: Ways, hear: Hear) -> dict[str, str]:
    """Try faults in this process. Returns those that cannot be made here, and why."""
    not_here = {}
    for name, hows in ways.items():
        around = ALL[name].around or contextlib.nullcontext
        try:
            with around() as tmp:
                for how in hows:
                    hear(once(ALL[name], how, tmp))
        except NotHere as why:
            not_here[name] = str(why)
    return not_here


class Apart:
    """Faults that are tried in a process with namespaces of its own, which starts at once."""

    def __init__(self, ways: Ways) -> None:
        """Raises NotHere when there are no such namespaces."""
        asked = {name: [vars(how) for how in hows] for name, hows in ways.items()}
        self.child = subprocess.Popen(
            [*surroundings.enter(), sys.executable, "-m", "tests.faults.apart", json.dumps(asked)],
            cwd=COURSE, stdout=subprocess.PIPE, encoding="utf-8",
        )  # fmt: skip

    def result(self, hear: Hear) -> dict[str, str]:
        """Hand on what is seen, to the end. Returns faults that cannot be made, and why."""
        not_here: dict[str, str] = {}
        with self.child:
            for line in self.child.stdout:
                told = json.loads(line)
                if "not here" in told:
                    not_here = told["not here"]
                else:
                    hear(Seen(**told))
        if self.child.returncode:
            ended = self.child.returncode
            raise RuntimeError(f"the process with namespaces ended with {ended}")
        return not_here


def apart(ways: Ways, hear: Hear) -> dict[str, str]:
    """Try faults in namespaces. Returns those that cannot be made here, and why."""
    try:
        return Apart(ways).result(hear)
    except NotHere as why:
        return dict.fromkeys(ways, str(why))


def run(ways: Ways, hear: Hear) -> dict[str, str]:
    """Try faults, each where it can be. Returns those that cannot be made here, and why."""
    private = {name: hows for name, hows in ways.items() if ALL[name].namespace}
    open_ = {name: hows for name, hows in ways.items() if not ALL[name].namespace}
    return here(open_, hear) | (apart(private, hear) if private else {})


def names(asked: Iterable[str]) -> list[str]:
    """The faults that are meant; all, if none is named. Raises ValueError."""
    return [find(name) for name in asked] or list(ALL)
