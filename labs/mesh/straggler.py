"""Real ranks that follow the programs of labs/mesh/programs.py, one of them slower than the others.

Computing is a sleep on a device clock (labs/pipeline/device_clock.py), so that two cores are enough
for eight ranks. All-reduces and messages are real, gloo's; with each travels the time at which its
sender's device was ready. What a rank waited is taken from the machine's clock, around the call in
which it waited, and the wall time outside of it all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from labs import ranks
from labs.mesh.layout import Layout
from labs.mesh.programs import COMPUTE, MEET, RECEIVE, Act, Program, Span, Work, programs
from labs.pipeline.device_clock import SLACK, DeviceClock
from labs.pipeline.on_rank import together
from labs.schedules.instructions import make

_QUIET = 0.005  # seconds after a try in which a rank leaves the cores to those that end it too
_WIDTH = 256  # numbers of a message, besides the time that travels with it


@dataclass(frozen=True)
class Timed:
    """One layout and who is slow on it, run a few times. `name` is its section in the ledger."""

    name: str
    layout: Layout = Layout(dp=2, pp=2, tp=2)
    micro_batches: int = 4
    work: Work = field(default_factory=Work)
    tries: int = 3

    def programs(self, order: Callable) -> list[list[Act]]:
        """What each rank does; order: the exercise one_f_one_b_order."""
        schedule = make("1F1B", order, self.layout.pp, self.micro_batches)
        return programs(self.layout, schedule, self.work)


def on_rank(jobs: Sequence[Timed], order: Callable) -> list[list[dict] | None]:
    """Of each job, its tries: `wall`, seconds from the common start to this rank's end, and
    `spans`, what the rank did when; None for a job that it takes no part in."""
    torch.set_num_threads(1)
    groups: dict[Layout, dict[tuple[int, ...], dist.ProcessGroup]] = {}
    found: list[list[dict] | None] = []
    for number, job in enumerate(jobs):
        if job.layout not in groups:
            groups[job.layout] = _groups(job.layout)
        ranks.step(number + 1, len(jobs))
        if dist.get_rank() >= job.layout.ranks:
            found.append(None)
            continue
        program = job.programs(order)[dist.get_rank()]
        found.append([_once(job, program, groups[job.layout]) for _ in range(job.tries)])
    return found


def _groups(layout: Layout) -> dict[tuple[int, ...], dist.ProcessGroup]:
    """Gloo's, of this rank: a device that sleeps is on the CPU, whatever the machine has."""
    mine, found = dist.get_rank(), {}
    asked = [(axis, layout.groups(axis)) for axis in ("dp", "pp", "tp") if layout.sizes[axis] > 1]
    asked.append(("mesh", [list(range(layout.ranks))]))  # unless an axis is all of it
    for axis, groups in asked:
        for members in groups:
            made = dist.new_group(members, backend="gloo")
            if mine in members and tuple(members) not in found:
                ranks.name_axis(made, axis)
                found[tuple(members)] = made
    return found


def _once(job: Timed, program: Program, groups: dict) -> dict:
    whole = groups[tuple(range(job.layout.ranks))]
    origin = together(whole)
    with ranks.section(job.name, timeline=True):
        one = _Following(program, groups, origin, job.layout)
        for act in program:
            one.do(act)
        wall = time.monotonic() - origin
        time.sleep(_QUIET)
        one.done()
    return dict(wall=wall, spans=[tuple(span) for span in one.spans])


class _Following:
    """One rank on its way through its program. `now`: its device's time, from the origin on."""

    def __init__(self, program: Program, groups: dict, origin: float, layout: Layout) -> None:
        took = {(act.label[0], 0): act.seconds for act in program if act.what == COMPUTE}
        self.clock, self.groups = DeviceClock(took), groups
        self.pipeline = groups.get(tuple(layout.group(dist.get_rank(), "pp")))
        self.spans: list[Span] = []
        self.now, self.sent = 0.0, []
        self.clock.start(origin)

    def do(self, act: Act) -> None:
        begun = self._time()
        if act.what == COMPUTE:
            _, self.now = self.clock.compute(act.label[0], 0, self.now, 0.0)
        elif act.what == MEET:
            told = self._message()
            dist.all_reduce(told, dist.ReduceOp.MAX, self.groups[act.ranks])
            self._goes_on(told)
        elif act.what == RECEIVE:
            told = self._message()
            dist.recv(told, act.ranks[0], self.pipeline, act.tag)
            self._goes_on(told)
        else:
            told = self._message()
            work = dist.isend(told, act.ranks[0], self.pipeline, act.tag)
            self.sent.append((work, told))
            return
        axis = "" if act.what == COMPUTE else act.axis
        self.spans.append(Span(axis, act.label, begun, self._time()))

    def _time(self) -> float:
        return time.monotonic() - self.clock.origin

    def _message(self) -> torch.Tensor:
        """Numbers that nobody reads, and the time at which this rank's device is ready."""
        told = torch.zeros(_WIDTH + 1, dtype=torch.float64)
        told[-1] = self.now
        return told

    def _goes_on(self, told: torch.Tensor) -> None:
        """When all was ready; no earlier than a little before it was truly here."""
        self.now = max(self.now, told[-1].item(), self._time() - SLACK)

    def done(self) -> None:
        for work, _ in self.sent:
            work.wait()
