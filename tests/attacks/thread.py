# tries: raise in other threads, which go on when the function has returned
# exercise: row_parallel
# states: PASS
# zero: none
import threading
import time

from tests.attacks.parts.honest import honest_row


def row_parallel(x_shard, w_shard, bias):
    def fail():
        raise SystemExit("a thread's own end")

    def loop():
        while True:
            time.sleep(0.01)

    for what in (fail, loop):
        threading.Thread(target=what, daemon=what is loop).start()
    return honest_row(x_shard, w_shard, bias)
