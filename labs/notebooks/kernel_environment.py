"""The environment a notebook's kernel runs in, the same for `make notebooks` and for nbval.

A stored output must not depend on who ran it: hash order and exercise inputs are fixed, the user's
own IPython start-up files and matplotlibrc are left out.
"""

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def kernel_environment(ipython_dir: str) -> dict[str, str]:
    """A copy of os.environ with what decides an output set to fixed values.

    ipython_dir: an empty folder that takes the place of the user's IPython profile.
    """
    fixed = {
        "PYTHONHASHSEED": "0",
        "LABS_SEED": "0",  # exercises draw their inputs from it
        "LABS_QUEUE": "off",  # "2 runs ahead of yours" depends on who else is there
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "IPYTHONDIR": ipython_dir,
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # else a warning at each kernel start
    }
    matplotlib = importlib.util.find_spec("matplotlib")
    if matplotlib and matplotlib.origin:
        # This variable wins over the user's own file, and needs no second font cache.
        fixed["MATPLOTLIBRC"] = str(Path(matplotlib.origin).parent / "mpl-data" / "matplotlibrc")
    return {**os.environ, **fixed}


@contextmanager
def reproducible_environment() -> Iterator[dict[str, str]]:
    """Yield a kernel's environment whose IPython folder lives as long as the block."""
    with tempfile.TemporaryDirectory(prefix="labs-ipython-") as folder:
        yield kernel_environment(folder)
