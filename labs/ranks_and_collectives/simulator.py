"""When does the last message arrive? A simulator of messages that wait for each other.

A message starts once those before it have arrived, its sender is done with its earlier messages,
and its receiver takes nothing else. It then takes α, which is waiting (to wake a process, to agree
that it is ready), and β·bytes, which is work. Where the ranks share a machine, that work waits for
a lane: one core writes and another reads, so a machine of c cores moves c/2 messages at full speed.
Nothing is random: what can start first starts first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from labs.ranks_and_collectives.algorithms import Message


def arrivals(
    messages: Sequence[Message],
    alpha: float,
    beta: float,
    block_bytes: float,
    lanes: int | None = None,
) -> list[float]:
    """Seconds from the start to the arrival of each message.

    alpha in seconds, beta in seconds a byte; lanes: how many messages can be moved at once, None:
    as many as there are.
    """  # fmt: skip
    waiting: dict[int, deque[int]] = {}  # by sender, in the order in which it sends them
    for place, message in enumerate(messages):
        waiting.setdefault(message.source, deque()).append(place)
    sending: dict[int, float] = {}
    receiving: dict[int, float] = {}
    free = [0.0] * (lanes or len(messages))
    arrived: dict[int, float] = {}

    def begins(place: int) -> float:
        m = messages[place]
        before = [arrived[one] for one in m.after]
        return max(sending.get(m.source, 0.0), receiving.get(m.target, 0.0), *before)

    while len(arrived) < len(messages):
        heads = [queue[0] for queue in waiting.values() if queue]
        ready = [p for p in heads if all(before in arrived for before in messages[p].after)]
        first = min(ready, key=begins)
        message = messages[first]
        lane = min(range(len(free)), key=free.__getitem__)
        moved = max(begins(first) + alpha, free[lane]) + beta * message.blocks * block_bytes
        arrived[first] = sending[message.source] = receiving[message.target] = free[lane] = moved
        waiting[message.source].popleft()
    return [arrived[place] for place in range(len(messages))]


def seconds(
    messages: Sequence[Message],
    alpha: float,
    beta: float,
    block_bytes: float,
    lanes: int | None = None,
) -> float:
    """Seconds until the last message has arrived; 0 where there is none."""  # fmt: skip
    return max(arrivals(messages, alpha, beta, block_bytes, lanes), default=0.0)
