"""Which notebook `make lab NOTEBOOK=...` opens: prints its place from the root, or says no.

    python -m labs.notebooks.opened 03      # notebooks/03_one_f_one_b.ipynb

A notebook is named by its file, its name or its number. JupyterLab itself would open an empty page
for one that is not there.
"""

import difflib
import sys
from pathlib import Path
from urllib.parse import quote

from labs import topics
from labs.notebooks.problem import NotebookProblem

ROOT = Path(__file__).resolve().parents[2]


def opened(asked: str, root: Path) -> str:
    """The notebook's path from `root`, with slashes.

    Raises NotebookProblem, with all the names that there are, for one that is not there or that
    lies outside of `root`, where JupyterLab cannot reach.
    """
    file = (root / asked).resolve()
    if file.suffix == ".ipynb" and file.is_file():
        if not file.is_relative_to(root.resolve()):
            raise NotebookProblem(
                f"{asked} lies outside of this clone, and JupyterLab opens what lies inside: copy "
                "it into notebooks/ and name it there."
            )
        return file.relative_to(root.resolve()).as_posix()
    there = [p.relative_to(root).as_posix() for p in sorted((root / "notebooks").glob("*.ipynb"))]
    try:
        meant = topics.find(asked).notebook
    except ValueError:
        meant = ""
    if meant in there:
        return meant
    nearest = sorted(there, key=lambda name: -_likeness(asked, name))
    raise NotebookProblem(
        "\n  ".join([f"There is no notebook {asked!r}. There are, the nearest first:", *nearest])
    )


def _likeness(asked: str, name: str) -> float:
    """How near two notebooks' names are, 0 to 1; folder and ending count for nothing."""
    return difflib.SequenceMatcher(None, Path(asked).stem, Path(name).stem).ratio()


def main() -> int:
    """Print the path as it stands in an address. Returns 2 where there is no such notebook."""
    try:
        print(quote(opened(sys.argv[1], ROOT)))
    except NotebookProblem as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
