"""Write the scores of `labs grade` into an nbgrader gradebook.

    python instructor/nbgrader_scores.py grades/gradebook.json gradebook.db --assignment labs

Run it with the Python that has nbgrader (tested: 0.9.6); it needs nothing of the course. Each
exercise becomes a cell with a manual score and the exercise's points, under its topic, for each
student; nbgrader's own pages and exports then show the sum. Running it again writes the same. What
the grader could not grade (GRADER_ERROR) is named and not written, so that it is no 0.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Returns 0; 1 where a grade could not be written; 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="Scores of `labs grade` into an nbgrader gradebook."
    )
    parser.add_argument("grades", help="the gradebook.json that `labs grade` wrote")
    parser.add_argument("database", help="nbgrader's gradebook.db")
    parser.add_argument("--assignment", required=True, help="its name in nbgrader")
    parser.add_argument(
        "--practice", action="store_true", help="write scores that are not for credit"
    )
    asked = parser.parse_args()
    try:
        book = json.loads(Path(asked.grades).read_text(encoding="utf-8"))
        students, for_credit = book["students"], book["for_credit"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{asked.grades} is no gradebook of `labs grade`: {error}", file=sys.stderr)
        return 2
    if not for_credit and not asked.practice:
        print(
            f"{asked.grades} is practice, not for credit: students' code ran without isolation; "
            "--practice writes it all the same",
            file=sys.stderr,
        )
        return 2
    if not Path(asked.database).is_file():
        print(f"there is no gradebook {asked.database}; `nbgrader db` makes one", file=sys.stderr)
        return 2
    try:
        from nbgrader.api import Gradebook
    except ImportError:
        print("nbgrader is not installed for this Python", file=sys.stderr)
        return 2
    with Gradebook(f"sqlite:///{Path(asked.database).resolve()}") as gradebook:
        left = write(gradebook, students, asked.assignment)
    print(f"{len(students)} students written to {asked.database}")
    for sentence in left:
        print(sentence, file=sys.stderr)
    return 1 if left else 0


def write(gradebook: Any, students: dict[str, dict], assignment: str) -> list[str]:
    """Write all grades. Returns a sentence for each that could not be.

    gradebook: an nbgrader.api.Gradebook; students: of gradebook.json.
    """
    left: list[str] = []
    cells = {
        (name, told["topic"]): told["of"]
        for one in students.values()
        for name, told in one["exercises"].items()
        if told["of"]
    }
    gradebook.update_or_create_assignment(assignment)
    for topic in sorted({topic for _, topic in cells}):
        gradebook.update_or_create_notebook(topic, assignment)
    for (name, topic), points in sorted(cells.items()):
        gradebook.update_or_create_grade_cell(
            name, topic, assignment, max_score=points, cell_type="code"
        )
    for student, one in sorted(students.items()):
        gradebook.update_or_create_student(student)
        gradebook.update_or_create_submission(assignment, student)
        for name, told in sorted(one["exercises"].items()):
            if not told["of"]:
                continue  # practice
            if told["points"] is None:
                left.append(f"{student}, {name}: not graded ({told['state']}); grade it again")
                continue
            grade = gradebook.find_grade(name, told["topic"], assignment, student)
            grade.manual_score, grade.needs_manual_grade = told["points"], False
    gradebook.db.commit()
    return left


if __name__ == "__main__":
    sys.exit(main())
