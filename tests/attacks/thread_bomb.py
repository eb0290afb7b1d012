# tries: start 500 threads
# exercise: row_parallel
# states: LIMIT
# zero: all
import threading
import time


def row_parallel(x_shard, w_shard, bias):
    for _ in range(500):
        threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
    return x_shard @ w_shard + bias
