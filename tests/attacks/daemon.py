# tries: leave a process behind, in a session of its own, with all output closed
# exercise: row_parallel
# states: PASS
# zero: none
import os
import signal
import time

from tests.attacks.parts.honest import honest_row


def row_parallel(x_shard, w_shard, bias):
    try:
        started = os.fork()
    except OSError:
        started = None
    if started == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.closerange(0, 256)
            time.sleep(60)
        os._exit(0)
    return honest_row(x_shard, w_shard, bias)
