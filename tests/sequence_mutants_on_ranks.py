"""What the tests of the exercise run on ranks: many answers in one launch, each in its section."""

from __future__ import annotations

import torch.distributed as dist

from labs import ranks
from labs.sequence_parallel import exercise_case
from labs.tp_linear_pair import trial


def all_of_them(answers, case):
    """{name: what a trial of the answer gives}, booked and traced under the answer's name."""
    found, section = {}, trial.SECTION
    for name, answer in answers.items():
        trial.SECTION = name
        rank = dist.get_rank()
        inputs = {key: value.detach().clone() for key, value in case.inputs[rank].items()}
        given = ranks.Handed(inputs), ranks.Handed(case.cotangent[rank].clone())
        try:
            found[name] = exercise_case.on_rank(
                answer, *given, case.groups, case.axis, ranks.Handed(case.refused)
            )
        finally:
            trial.SECTION = section
    return found
