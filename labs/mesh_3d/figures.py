"""The figures of the mesh. Each section's own figure is in a file of its own."""

from __future__ import annotations

from labs.figure import Picture
from labs.mesh_3d import training
from labs.mesh_3d.training_figure import curve
from labs.predictions_figure import predictions as predictions
from labs.result import Result


def plot(result: Result) -> Picture:
    """The loss curve of a result that trained.

    Raises ValueError, with what to run, where it did not.
    """
    trained = result.values.get(training.SECTION)
    if trained is None:
        raise ValueError(
            f"this result has no loss curve: run the lab with only={training.SECTION!r}"
        )
    return curve(trained)
