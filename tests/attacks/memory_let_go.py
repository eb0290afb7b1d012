# tries: fill the memory with shared pages, and let go of each at once: they stay in the machine's
#   memory, and are in nobody's account
# exercise: row_parallel
# states: LIMIT CRASH
# zero: all
import mmap
import time

KEPT = []


def row_parallel(x_shard, w_shard, bias):
    for _ in range(45):  # 900 MB a rank
        one = mmap.mmap(-1, 20_000_000)
        one.write(b"x" * 20_000_000)
        one.madvise(mmap.MADV_DONTNEED)
        KEPT.append(one)
    time.sleep(0.5)
    held = sum(one[k * 1_000_000] == 120 for one in KEPT for k in range(20))
    if held == 20 * len(KEPT):
        raise RuntimeError(f"GOT {len(KEPT) * 20} MB held by each rank")
    return x_shard @ w_shard + bias
