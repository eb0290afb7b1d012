"""The course's own answers graded again and again: full marks every time?

    python -m tests.grading_repeat 20                          each exercise 20 times
    python -m tests.grading_repeat 100 --topic tp_linear_pair
    python -m tests.grading_repeat 20 --exercise ring_forward --isolation user

Each time with another secret, so with other inputs. A line for each exercise: how often it had full
marks, and how near it came to a bound (1: at it). Whatever is refused is shown whole.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Sequence

from labs.exercise import exercises
from labs.grading.records import PASS, Grade
from labs.grading.sandbox.launcher import Sandbox
from tests.grading_answers import Extremes, Handed, judging, own, watched


def secret(number: int) -> bytes:
    """Another one for each number."""
    return hashlib.sha256(f"repeat {number}".encode()).digest()


def full(grade: Grade) -> bool:
    """Whether nothing was taken off."""
    held = all(one.hidden_passed == one.hidden for one in grade.properties)
    return grade.state == PASS and grade.points == grade.of and held


def repeated(
    name: str, times: Sequence[int], sandbox: Sandbox, hear: Callable[[str], None]
) -> tuple[int, Extremes]:
    """How often full marks, and the extremes. times: numbers, each of another secret."""
    handed = Handed(own(exercises()[name].topic).encode(), ".py")
    extremes, right = Extremes(), 0
    with watched(extremes):
        for number in times:
            grade = handed.grade(name, sandbox, secret(number))
            extremes.seconds = max(extremes.seconds, grade.seconds)
            right += full(grade)
            if not full(grade):
                hear(f"REFUSED {name}, secret {number}: {grade}")
    return right, extremes


def line(name: str, times: int, right: int, seen: Extremes) -> str:
    """One exercise, in words."""
    least = "-" if seen.least == float("inf") else f"{seen.least:.3f}"
    return (
        f"{name:24} {right}/{times} full marks; counted/most {seen.most:.3f}, counted/least "
        f"{least}, counted/told {seen.ratio:.4f}, memory {seen.grown:.2f}, at most "
        f"{seen.seconds:.1f} s"
    )


def main() -> int:
    """Returns 1 where a right answer was refused."""
    parser = argparse.ArgumentParser(prog="python -m tests.grading_repeat", description=__doc__)
    parser.add_argument("times", nargs="?", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first secret")
    parser.add_argument("--topic", action="append", help="a notebook; several times for several")
    parser.add_argument("--exercise", action="append")
    parser.add_argument("--isolation", default="auto")
    asked = parser.parse_args()
    chosen = [
        one.name
        for one in exercises().values()
        if (not asked.topic or one.topic in asked.topic)
        and (not asked.exercise or one.name in asked.exercise)
    ]
    refused = 0
    with judging(asked.isolation) as sandbox:
        print(f"isolation: {sandbox.isolation}", flush=True)
        for name in chosen:
            numbers = range(asked.first, asked.first + asked.times)
            right, seen = repeated(name, numbers, sandbox, lambda told: print(told, flush=True))
            refused += asked.times - right
            print(line(name, asked.times, right, seen), f"[{seen.where}]", flush=True)
    print(f"{len(chosen)} exercises, {asked.times} times each: {refused} refused")
    return int(refused > 0)


if __name__ == "__main__":
    sys.exit(main())
