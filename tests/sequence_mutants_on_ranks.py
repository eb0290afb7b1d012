"""What the tests of the exercise run on ranks: many answers in one launch, each in its section."""

from __future__ import annotations

from labs.sequence_parallel import exercise_case
from labs.tp_linear_pair import trial


def all_of_them(answers, case):
    """{name: what a trial of the answer gives}, booked and traced under the answer's name."""
    found, section = {}, trial.SECTION
    for name, answer in answers.items():
        trial.SECTION = name
        inputs = [
            {key: value.detach().clone() for key, value in given.items()} for given in case.inputs
        ]
        rest = [cotangent.clone() for cotangent in case.cotangent]
        try:
            found[name] = exercise_case.on_rank(
                answer, inputs, rest, case.groups, case.axis, case.refused
            )
        finally:
            trial.SECTION = section
    return found
