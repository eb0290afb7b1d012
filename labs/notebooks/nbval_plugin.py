"""A pytest plugin that makes nbval strict where nbval 0.11 is lenient. Loaded by pyproject.toml.

- a cell that runs out of time, or a kernel that dies, ends its notebook: later cells are "not run";
- a dead kernel is noticed at once, not at the end of the cell's time;
- a failure's heading quotes the first line of the cell;
- a cell tagged `raises-exception` must raise; a cell tagged `measured` runs uncompared;
- a display that is updated or cleared counts with its last content, as in a browser;
- the kernel gets the environment of `make notebooks` (kernel_environment.py).
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from nbformat import NotebookNode
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile

from labs.notebooks.kernel_environment import reproducible_environment
from labs.notebooks.outputs import without_widget_view


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Iterator[None]:
    """Put a StrictNotebook in the place of nbval's own collector."""
    collectors = yield
    return [
        StrictNotebook.from_parent(parent, path=file_path) if isinstance(one, IPyNbFile) else one
        for one in collectors
    ]


class WatchedKernel(RunningKernel):
    """A kernel whose death ends the wait for its answer."""

    def get_message(self, stream: str, timeout: float | None = None) -> dict[str, Any]:
        if stream != "shell" or timeout is None:
            return super().get_message(stream, timeout=timeout)
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            try:
                return super().get_message(stream, timeout=max(0.0, min(left, 0.5)))
            except Empty:
                if not self.is_alive():
                    raise RuntimeError("the kernel died while it ran this cell") from None
                if left <= 0.5:
                    raise


class StrictNotebook(IPyNbFile):
    """One notebook, one kernel, in the environment of `make notebooks`."""

    not_run: str | None = None  # why the cells that follow are not run
    running: "StrictCell | None" = None

    def collect(self) -> Iterator["StrictCell"]:
        for cell in super().collect():
            if "measured" in cell.cell.metadata.get("tags", []):
                cell.options["check"] = False
            yield StrictCell.from_parent(
                self, name=cell.name, cell_num=cell.cell_num, cell=cell.cell, options=cell.options
            )

    def setup(self) -> None:
        self._environment = reproducible_environment()
        environment = self._environment.__enter__()
        outside = dict(os.environ)
        os.environ.update(environment)  # nbval has no argument for it: set it while a kernel starts
        try:
            self.kernel = self._started()
        finally:
            os.environ.clear()
            os.environ.update(outside)
        self.setup_sanitize_files()
        self._displays: dict[str, list[NotebookNode]] = {}
        self._clear_next = False

    def _started(self) -> WatchedKernel:
        """A kernel. One that dies as it starts is replaced, once.

        Its ports are chosen before it takes them, and another kernel that starts at that moment can
        take one first.
        """
        limit = self.config.option.nbval_kernel_startup_timeout
        where = str(self.path.parent)
        try:
            return WatchedKernel(CURRENT_ENV_KERNEL_NAME, cwd=where, startup_timeout=limit)
        except RuntimeError as error:
            if "died" not in str(error):
                raise
            return WatchedKernel(CURRENT_ENV_KERNEL_NAME, cwd=where, startup_timeout=limit)

    def teardown(self) -> None:
        if self.kernel is not None and not self.kernel.is_alive():
            self.kernel.km.cleanup_resources()  # nbval leaves a dead kernel's connection file
        super().teardown()
        if hasattr(self, "_environment"):
            self._environment.__exit__(None, None, None)

    def get_kernel_message(self, timeout: float | None = None, stream: str = "iopub") -> Any:
        """The next message, with updates, clearing and widget views already taken in."""
        while True:
            message = super().get_kernel_message(timeout=timeout, stream=stream)
            kind, content = message["msg_type"], message["content"]
            if kind == "clear_output":
                self._clear_next = True
                if not content.get("wait"):
                    self._clear()
                continue
            if kind == "update_display_data":
                for shown in self._displays.get(content["transient"]["display_id"], []):
                    shown.clear()
                    shown.update(NotebookNode(content["data"]))
                continue
            if kind in ("display_data", "execute_result", "stream", "error"):
                self._clear()
            if kind in ("display_data", "execute_result"):
                data = without_widget_view(content["data"])
                if data is None:
                    continue
                # nbval keeps a NotebookNode by reference, so an update reaches what it compares.
                content["data"] = NotebookNode(data)
                name = content.get("transient", {}).get("display_id")
                if name:
                    self._displays.setdefault(name, []).append(content["data"])
            return message

    def _clear(self) -> None:
        if self._clear_next and self.running is not None and self.running.test_outputs:
            self.running.test_outputs.clear()
        self._clear_next = False


class StrictCell(IPyNbCell):
    """One code cell; its failure ends the notebook when the kernel can no longer be trusted."""

    parent: StrictNotebook

    def first_line(self) -> str:
        """The cell's first line that is not blank."""
        return next((line for line in self.cell.source.splitlines() if line.strip()), "(empty)")

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.nodeid}: {self.first_line()}"

    def setup(self) -> None:
        if self.parent.not_run:
            pytest.skip(f"not run: {self.parent.not_run}")

    def runtest(self) -> None:
        self.parent.running = self
        try:
            super().runtest()
        except RuntimeError as error:  # nbval's word for a kernel that is gone
            self.parent.not_run = f"the kernel was gone after {self.name} ({self.first_line()})"
            self.raise_cell_error(str(error))
        finally:
            if self.parent.timed_out:
                self.parent.not_run = f"{self.name} ({self.first_line()}) ran out of time"
        raised = any(output.output_type == "error" for output in self.test_outputs or [])
        if self.options["check_exception"] and not raised:
            self.raise_cell_error("This cell is tagged raises-exception, and nothing was raised")
