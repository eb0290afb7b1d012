"""Right answers to every graded exercise, each written differently: all must have full marks.

A text is the cells of a notebook, with `# %%` between them. One that begins with the two imports of
every notebook stands alone; the others below the course's answers, as a student goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import dedent

from labs.exercise import exercises, find
from tests.grading_answers import own
from tests.grading_ways import attention_and_loss, f_and_g, layers, mesh, messages, pipeline, ring
from tests.mutants import sequence
from tests.mutants.mesh import RIGHT as MESH
from tests.mutants.pipeline.right import RIGHT as PIPELINE
from tests.mutants.planner.right import RIGHT as PLANNER
from tests.mutants.ranks_and_collectives import RIGHT as MESSAGES
from tests.mutants.ring import RIGHT as RING

ALONE = "import torch\nimport torch.distributed as dist\n"
_HERE = (attention_and_loss, f_and_g, layers, mesh, messages, pipeline, ring)


def ways() -> dict[str, dict[str, str]]:
    """By graded exercise and by what is special: the text. Those of the checks' tests too."""
    found: dict[str, dict[str, str]] = {
        name: {} for name, one in exercises().items() if one.kind == "graded"
    }
    for module in _HERE:
        for name, texts in module.WAYS.items():
            found[name].update(texts)
    for right in (MESH, PIPELINE, PLANNER, MESSAGES, RING):
        for label, (name, text) in right.items():
            if name in found:
                found[name][label] = dedent(text)
    found["sequence_scatter_gather"].update(sequence.RIGHT)
    return found


def cells(name: str, text: str) -> list[str]:
    """The code cells of the notebook that is handed in."""
    own_cells = [cell.strip() + "\n" for cell in text.split("# %%") if cell.strip()]
    return own_cells if text.lstrip().startswith(ALONE) else [own(find(name).topic), *own_cells]


def every() -> Iterator[tuple[str, str, str]]:
    """(exercise, what is special, text), in the course's order."""
    for name, texts in ways().items():
        for label, text in texts.items():
            yield name, label, text
