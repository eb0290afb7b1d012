"""What the ranks computed in each step of each job, on the time of the run's own timeline."""

from __future__ import annotations

from collections.abc import Sequence

from labs.pipeline.jobs import Job
from labs.ranks.run import Run
from labs.schedules.instructions import Instruction, Schedule
from labs.schedules.timeline import Timeline
from labs.schedules.trace import Computed


def computed(jobs: Sequence[Job], run: Run) -> list[Computed]:
    """A timeline a step, each computation under the name of what was in truth done."""
    found = []
    for number, job in enumerate(jobs):
        s = job.schedule
        told = [value[number] for value in run.values[: s.ranks]]
        for n in range(job.tries):
            steps = [of_rank["steps"][n] for of_rank in told]
            orders = tuple(tuple(Instruction(*at) for at in step["done"]) for step in steps)
            done = Schedule(s.name, s.ranks, s.micro_batches, orders, s.chunks)
            timeline = Timeline(done, [x["starts"] for x in steps], [x["ends"] for x in steps])
            began = tuple(of_rank["began"][n] - run.origin for of_rank in told)
            found.append(Computed(f"{job.name}, step {n + 1}", timeline, began))
    return found
