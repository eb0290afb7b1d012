"""Execute a notebook in a fresh kernel of this interpreter, each cell within a bound."""

from collections.abc import Callable
from pathlib import Path

import nbformat
from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from labs.notebooks.kernel_environment import reproducible_environment
from labs.notebooks.problem import NotebookProblem

CELL_SECONDS = 60.0
STARTUP_SECONDS = 180  # a cold disk and one core need more than the usual 60


class ThisInterpreter(KernelSpecManager):
    """Knows one kernel: the running interpreter. A `python3` installed elsewhere is not asked."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(resource_dir=RESOURCES, **get_kernel_dict())


def execute(
    notebook: NotebookNode,
    path: Path,
    *,
    cell_seconds: float = CELL_SECONDS,
    progress: Callable[[int, NotebookNode], None] | None = None,
) -> None:
    """Run every code cell of `notebook` in order and put its outputs in place.

    path: where the notebook lies or will lie; its folder is the kernel's working folder.
    cell_seconds: the bound of each cell, in seconds.
    progress: called with (index, cell) before each code cell.

    Raises NotebookProblem that quotes the cell's first line when a cell fails, runs too long,
    ends the kernel, or is tagged `raises-exception` and raises nothing.
    """
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=ThisInterpreter())
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=cell_seconds,
        startup_timeout=STARTUP_SECONDS,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.reset_execution_trackers()
    nbformat.validate(notebook)
    # cleanup_kc: a kernel whose manager was given would live on, and so would its connection file
    with (
        reproducible_environment() as environment,
        client.setup_kernel(env=environment, cleanup_kc=True),
    ):
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            if progress:
                progress(index, cell)
            _execute_cell(client, cell, index, path.name, cell_seconds)


def _execute_cell(
    client: NotebookClient, cell: NotebookNode, index: int, name: str, cell_seconds: float
) -> None:
    where = f"{name}, cell {index} (`{first_line(cell)}`)"
    try:
        client.execute_cell(cell, index)
    except CellTimeoutError as error:
        raise NotebookProblem(
            f"{where} ran longer than {cell_seconds:g} s and was stopped."
        ) from error
    except DeadKernelError as error:
        raise NotebookProblem(f"{where}: the kernel died while it ran this cell.") from error
    except CellExecutionError as error:
        raise NotebookProblem(f"{where} failed.\n{error.traceback}") from error
    raised = any(output.output_type == "error" for output in cell.outputs)
    if "raises-exception" in cell.metadata.get("tags", []) and not raised:
        raise NotebookProblem(f"{where} is tagged raises-exception, and nothing was raised.")


def first_line(cell: NotebookNode) -> str:
    """The first line of a cell that is not blank."""
    return next((line for line in cell.source.splitlines() if line.strip()), "(empty)")
