"""The first code cell of every notebook: it finds the course's code, with no restart.

A kernel may start in the repository, in notebooks/, anywhere with the package installed, or (Colab)
in a folder above a fresh clone. A package installed after the kernel started is not seen by it, so
the cell looks for the checkout itself, and hands the place on to the ranks through PYTHONPATH.
A test holds that every notebook starts with exactly this text.
"""

BOOTSTRAP = """\
# Find the course: in this folder, in one above it, or in a clone inside it. No restart is needed.
import os, sys
from pathlib import Path

here = Path.cwd()
places = [here, *here.parents, *(found.parents[1] for found in sorted(here.glob("*/labs/ranks")))]
checkout = next((str(place) for place in places if (place / "labs" / "ranks").is_dir()), None)
if checkout and checkout not in sys.path:
    sys.path.insert(0, checkout)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [checkout, os.getenv("PYTHONPATH")]))
import labs  # not found? clone the repository and open this notebook inside the clone (README.md)
"""

# Stored without the last newline, as nbformat stores every cell.
BOOTSTRAP_SOURCE = BOOTSTRAP.rstrip("\n")
