# tries: go on for ever on one rank, deaf to what asks it to end
# exercise: row_parallel
# states: TIMEOUT
# zero: all
import signal

import torch.distributed as dist


def row_parallel(x_shard, w_shard, bias):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    while dist.get_rank() == 1:
        pass
    return x_shard @ w_shard + bias
