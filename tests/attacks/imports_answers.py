# tries: import the course's answers, its tests and its grader
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
import importlib
import importlib.util
import sys

from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    found = [name for name in sys.modules if name.split(".")[0] in ("solutions", "tests")]
    for name in ("solutions.tp_linear_pair", "tests.conftest", "labs.grading.judge", "instructor"):
        try:
            found.append(importlib.import_module(name).__file__)
        except ImportError:
            continue
    try:
        from labs.answers import reference

        found.append(reference("tp_linear_pair.row_parallel"))
    except LookupError:
        pass
    for name in (
        "labs.grading.hidden.tp_linear_pair",
        "labs.grading.session",
        "labs.grading.judge",
    ):
        found += [name] if name in sys.modules else []
    finish(found)
