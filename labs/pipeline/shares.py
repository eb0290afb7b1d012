"""What each rank of a pipeline is handed where it may not have what is another's.

A rank makes its whole model and batch from the job's seed, as a rule. Where a learner's function
runs in that process, this would let it work out what every rank must report: there each gets the
weights of its own stages, the tokens if it has the first one, targets if it has the last.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from labs.gpt import GPT
from labs.pipeline.jobs import Data, Job, data
from labs.pipeline.partition import cut


def without_seed(job: Job) -> Job:
    """The job as ranks get it that are handed their shares."""
    return replace(job, seed=0)


def shares(job: Job) -> list[dict]:
    """By rank: weights of its stages by their names, and its part of the batch, or None."""
    model, of, schedule = GPT(job.model, job.seed).to(job.dtype), data(job), job.schedule
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    stages, found = cut(model, schedule.stages), []
    for rank in range(schedule.ranks):
        held = {schedule.stage(rank, chunk) for chunk in range(schedule.chunks)}
        first, last = 0 in held, schedule.stages - 1 in held
        found.append(
            dict(
                weights={
                    names[id(parameter)]: parameter.detach()
                    for stage in held
                    for parameter in stages[stage].parameters()
                },
                tokens=of.tokens if first else None,
                targets=of.targets if last else None,
                valid=of.valid if last else None,
            )
        )
    return found


def fill(model: GPT, weights: dict[str, torch.Tensor]) -> None:
    """On a rank: put the weights that were handed over in their places."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in weights:
                parameter.copy_(weights[name])


def batch(share: dict) -> Data:
    """On a rank: what it has of the batch."""
    return Data(share["tokens"], share["targets"], share["valid"])
