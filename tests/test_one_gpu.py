"""A machine with one GPU: every notebook runs from top to bottom, on the CPU where it must.

What people ran into: an example for several ranks, started on a machine with fewer GPUs, ends in
NCCL's "duplicate GPU" after a long start, and nothing says that there are too few GPUs.
"""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest

from labs import ranks
from labs.notebooks.kernel_environment import kernel_environment
from labs.ranks import devices

ROOT = Path(__file__).resolve().parents[1]
PRETEND = "from labs.ranks import devices; devices.visible_gpus = lambda: 1\n"


@pytest.mark.parametrize("name", ["00_ranks_and_collectives.ipynb", "01_tp_linear_pair.ipynb"])
def test_notebooks_run_with_one_gpu(name: str, tmp_path: Path) -> None:
    """A05: pretend one GPU (as on Colab) and run the notebook with its defaults."""
    startup = tmp_path / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "pretend.py").write_text(PRETEND, encoding="utf-8")
    notebook = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=60, resources={"metadata": {"path": str(ROOT / "notebooks")}}
    )
    client.execute(env=kernel_environment(str(tmp_path)))
    text = "\n".join(str(output) for cell in notebook.cells for output in cell.get("outputs", []))
    assert "4 ranks on gloo/CPU: 1 GPU is visible and NCCL wants one for each rank" in text
    smaller = "1 rank" if name.startswith("01") else "2 ranks"
    assert f"{smaller} on gloo/CPU" in text  # smaller worlds of one experiment stay beside it
    assert "uplicate GPU" not in text


def test_a_smaller_world_takes_the_device_of_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "visible_gpus", lambda: 2)
    assert ranks.place(2).backend == "nccl"
    assert ranks.place(2, largest=4).backend == "gloo"
    assert ranks.place(1, largest=2).device == "cuda"


def test_the_notebooks_tell_owners_of_one_gpu_what_differs() -> None:
    text = (ROOT / "notebooks" / "01_tp_linear_pair.ipynb").read_text(encoding="utf-8")
    assert "fewer GPUs than ranks" in text
