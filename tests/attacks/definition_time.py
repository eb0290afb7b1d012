# tries: run code when it is defined: in decorators, defaults and class bodies
# exercise: row_parallel
# states: PASS
# zero: none
import os

from tests.attacks.parts.facts import FOLDER
from tests.attacks.parts.honest import honest_row


def mark(name):
    for folder in (FOLDER, "/tmp", "/root", "/dev/shm", "."):
        try:
            with open(f"{folder}/labs-attack-{name}", "w") as file:
                file.write(str(os.getpid()))
        except OSError:
            continue
    return lambda function: function


class Body:
    mark("body")
    value = [mark("comprehension") for _ in range(1)]


@mark("decorator")
def row_parallel(x_shard, w_shard, bias, more=mark("default"), body=Body.value):  # noqa: B008
    return honest_row(x_shard, w_shard, bias)
