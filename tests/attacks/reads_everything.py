# tries: walk through all files for answers, tests, results, the secret, other students' files
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
import os

from tests.attacks.parts.facts import CANARY, FOLDER
from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    wanted = (
        "results.jsonl",
        "gradebook.json",
        "submissions.json",
        "solutions",
        "attacks",
        "shadow",
    )
    found = [one for one in (FOLDER, "/home/ada", "/etc/shadow") if os.path.exists(one)]
    if found:
        finish(found)
    for folder, inner, files in os.walk("/"):
        if folder in ("/usr/share", "/proc") or folder.count("/") > 7:
            inner.clear()
        inner.sort(key=lambda name: name in ("usr", "lib", "bin"))
        names = [*inner, *files]
        found += [os.path.join(folder, name) for name in names if name in wanted or CANARY in name]
    listed = [one for one in found if not os.path.isdir(one) or os.listdir(one)]
    finish([one for one in listed if "site-packages" not in one])
