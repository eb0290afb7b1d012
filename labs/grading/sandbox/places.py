"""Folders that a rank sees, and those that are covered where they lie inside of one."""

from __future__ import annotations

import sys
from pathlib import Path

COURSE = Path(__file__).resolve().parents[3]


def shown() -> list[str]:
    """Python, its packages and the labs: what imports need, and no other folder of a course."""
    paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, str(COURSE / "labs")}
    paths |= {path for path in sys.path if path and Path(path).is_dir()}
    paths |= {str(Path(path).resolve()) for path in paths}
    return sorted(path for path in paths if not _holds_a_course(Path(path)))


def _holds_a_course(path: Path) -> bool:
    """Its root, as an editable installation puts it on the path, or a folder above this one."""
    return (path / "labs" / "__init__.py").exists() or COURSE.is_relative_to(path.resolve())


def hidden() -> list[str]:
    """What must not be seen even where it lies inside of a folder that is shown."""
    inside = [Path(path) for path in sys.path if path]
    found = [base / name for base in inside for name in ("solutions", "tests", "instructor")]
    course = [COURSE / name for name in ("solutions", "tests", "instructor", ".git")]
    grading = [COURSE / "labs" / "grading"]
    return sorted({str(path) for path in [*found, *course, *grading] if path.is_dir()})
