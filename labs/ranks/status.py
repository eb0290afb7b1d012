"""One live line while a run is on: "4 ranks on gloo/CPU · rendezvous · step 3/8".

In a notebook (JupyterLab, VS Code) it is one display that changes in place; on a terminal one line
that is rewritten; in a log a line only when something new begins. The last state shown is the
first one, so what a notebook stores does not depend on how long the run took.
"""

import os
import sys
import time
from typing import TextIO

_EVERY = 0.25  # seconds between two changes of a live line
_LOOK = 0.1  # seconds between two looks at what it could change to


class Status:
    """The line of one run. `show` may be called often; `done` ends it.

    late: nothing is shown, in a notebook either, before the first `show`.
    """

    def __init__(
        self, head: str, quiet: bool = False, stream: TextIO | None = None, late: bool = False
    ) -> None:
        self.head, self.quiet, self._late = head, quiet, late
        self._stream = stream or sys.stderr
        self._shown, self._at, self._looked = "", 0.0, 0.0
        self._display = None if quiet or late else _notebook_display(head)

    def due(self) -> bool:
        """Whether to find out what the line should say now; True at most ten times a second."""
        now = time.monotonic()
        if self.quiet or now - self._at < _EVERY or now - self._looked < _LOOK:
            return False
        self._looked = now
        return True

    def show(self, text: str) -> None:
        now = time.monotonic()
        if self.quiet or text == self._shown or now - self._at < _EVERY:
            return
        if self._late:
            self._display, self._late = _notebook_display(self.head), False
        new_step = text.split(" ")[0] != self._shown.split(" ")[0]
        self._shown, self._at = text, now
        line = f"{self.head} · {text}"
        if self._display is not None:
            self._display.update(_Line(line))
        elif self._stream.isatty():
            self._stream.write("\r\x1b[2K" + line[: _width()])
            self._stream.flush()
        elif new_step:
            self._stream.write(line + "\n")
            self._stream.flush()

    def done(self) -> None:
        if self.quiet or self._late:
            return
        if self._display is not None:
            self._display.update(_Line(self.head))
        elif self._stream.isatty():
            self._stream.write("\r\x1b[2K")
            self._stream.flush()


class _Line:
    """Shown as it is, without the quotes of a string."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _width() -> int:
    try:
        return os.get_terminal_size().columns - 1
    except OSError:
        return 79


def _notebook_display(head: str):  # noqa: ANN202 - IPython's DisplayHandle, or None
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython
    from IPython.display import display

    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):  # IPython on a terminal
        return None
    return display(_Line(head), display_id=True)
