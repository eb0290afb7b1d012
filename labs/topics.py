"""The topics of the course, in its order: what each is called and where its parts lie.

One list for everything that goes through all topics: the exercises, the command line, the tour.
Light: importing this imports no lab.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from types import ModuleType


@dataclass(frozen=True)
class Topic:
    """One notebook with its lab, exercises and answers."""

    name: str
    title: str
    notebook: str  # from the root of the course
    ranks: int  # how many its lab starts when nobody asks for another number

    @property
    def lesson(self) -> str:
        """The notebook's name: "01_tp_linear_pair"."""
        return PurePath(self.notebook).stem

    @property
    def module(self) -> str:
        """The lab's importable name; it has `run(ranks=..., ...) -> labs.result.Result`."""
        return f"labs.{self.name}"

    def lab(self) -> ModuleType:
        """The lab's module, imported now."""
        return importlib.import_module(self.module)

    def exercises(self) -> dict[str, object]:
        """Its exercises (labs.exercise.Exercise) by name, imported now."""
        return importlib.import_module(f"{self.module}.exercises").EXERCISES


_ALL = (
    Topic(
        "ranks_and_collectives",
        "Ranks and collectives: processes that exchange tensors, what it costs, how it hangs",
        "notebooks/00_ranks_and_collectives.ipynb",
        4,
    ),
    Topic(
        "tp_linear_pair",
        "Tensor parallelism: a column-parallel and a row-parallel layer",
        "notebooks/01_tp_linear_pair.ipynb",
        4,
    ),
    Topic(
        "bubble_math",
        "Bubble math: what share of a pipeline's time is idle",
        "notebooks/02_bubble_math.ipynb",
        4,
    ),
    Topic(
        "one_f_one_b",
        "1F1B and its kin: orders of a pipeline, what they take and store",
        "notebooks/03_one_f_one_b.ipynb",
        4,
    ),
    Topic(
        "ring_attention",
        "Sequence parallelism and ring attention: a sequence that no rank holds whole",
        "notebooks/04_ring_attention.ipynb",
        4,
    ),
    Topic(
        "mesh_3d",
        "The 3D mesh: data, pipeline and tensor parallelism together, and ZeRO",
        "notebooks/05_mesh_3d.ipynb",
        8,
    ),
    Topic(
        "planner_widget",
        "The mesh planner: which layout for a model on a cluster, and how wrong that may be",
        "notebooks/06_planner_widget.ipynb",
        8,
    ),
)
TOPICS: dict[str, Topic] = {topic.name: topic for topic in _ALL}


def find(name: str) -> Topic:
    """The topic of that name, or of that notebook: one_f_one_b, 03, 03_one_f_one_b, its file.

    Raises ValueError, with the names that are near.
    """
    stem = PurePath(name).stem if name.endswith(".ipynb") else name
    for topic in TOPICS.values():
        number = topic.lesson.partition("_")[0]
        is_number = stem.isdecimal() and stem.lstrip("0") == number.lstrip("0")
        if is_number or stem in (topic.name, topic.lesson):
            return topic
    if stem != name or stem[:1].isdecimal():
        lessons = [topic.lesson for topic in TOPICS.values()]
        raise ValueError(f"there is no notebook {name!r}; {nearest(stem, lessons)}")
    raise ValueError(f"there is no topic {name!r}; {nearest(name, TOPICS)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """The names that were probably meant, to end a sentence with; all where none is near."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    close += [k for k in known if k not in close and len(name) > 1 and (name in k or k in name)]
    if close:
        return f"did you mean {' or '.join(close[:3])}?"
    return f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)}"
