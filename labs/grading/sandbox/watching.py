"""One start of ranks, watched from the first frame to the last: what came, what was counted, why.

A rank's line carries, in this order: hello (it is shut in), joined (it has met the others; then it
waits until all have), kept and ask (any number), and the report. Whatever else comes, or nothing,
is told in words.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

from labs.grading.records import CRASH, LIMIT, TIMEOUT
from labs.grading.sandbox import frames, outside, told
from labs.grading.sandbox.limits import Limits
from labs.grading.sandbox.measures import Measures
from labs.grading.sandbox.rank import Rank, can_read
from labs.ranks import crowding, output
from labs.ranks.devices import Placement
from labs.ranks.elsewhere import Later
from labs.ranks.ending import how
from labs.ranks.ledger import Ledger, Row
from labs.ranks.run import Run, tell

_POLL = 0.05
_GRACE = 1.0  # seconds the other ranks get after the first that failed
_MOST_GRACE = 5.0  # where they still work: which errors are told must not depend on the machine
_SEND_SECONDS = 5.0
_ANSWER_SECONDS = 3.0  # for ranks to say where they stand
_OF_LIMITS = re.compile(
    r"^(MemoryError|BlockingIOError)\b|can't start new thread|No space left|File too large|"
    r"Cannot allocate memory|can't allocate memory|Too many open files|DefaultCPUAllocator",
    re.MULTILINE,
)
_BY_SIGNAL = {-signal.SIGXFSZ: LIMIT, -signal.SIGXCPU: TIMEOUT}


class Watching:
    """Follows ranks to their end; then `run`, `outside`, and `state` where they failed."""

    def __init__(
        self, zygote: int, pids: list[int], fds: list[int], jobs: list[tuple[dict, dict]],
        later: list[Later], bounds: Limits, apart: bool, ended: Callable[[], dict[int, int]],
    ) -> None:  # fmt: skip
        self.ranks = [
            Rank(number, pid, socket.socket(fileno=fds[2 * number]), fds[2 * number + 1])
            for number, pid in enumerate(pids)
        ]
        self.jobs, self.later, self.bounds, self._ended = jobs, later, bounds, ended
        self._measures = Measures(zygote, apart, pids)
        self._select = selectors.DefaultSelector()
        self.state, self.why = "", ""
        self.culprit: int | None = None
        self._begun, self._crowd, self._next_limit = time.monotonic(), crowding.Crowd(), 0.0
        self._sleep, self._slept, self._next_look = outside.Sleep(), 0.0, 0.0
        self._failed_at: float | None = None
        for rank in self.ranks:
            rank.line.settimeout(_SEND_SECONDS)
            rank.register(self._select)

    @property
    def never_began(self) -> bool:
        """Whether it failed before any of the student's code ran: the sandbox's own fault."""
        return bool(self.state) and not any(rank.joined for rank in self.ranks)

    def follow(self) -> None:
        """Until all have reported, or one has failed and the others had their time."""
        while not self.state:
            for key, _ in self._select.select(_POLL):
                self._read(*key.data)
            self._look()
            if all(rank.report is not None for rank in self.ranks):
                break
            if self._failed_at and self._grace_is_over(time.monotonic() - self._failed_at):
                break
            if not any(rank.at_work for rank in self.ranks):
                break
        self._measures.mark("end")
        self._measures.memory()
        if not self.state:
            self._judge_ends()

    def _grace_is_over(self, seconds: float) -> bool:
        """Whether the other ranks have had their time since the first failed."""
        return seconds > (_GRACE if self._slept > _GRACE / 2 else _MOST_GRACE)

    def _read(self, rank: Rank, is_line: bool) -> None:
        piece = rank.read(is_line)
        if not piece:
            self._select.unregister(rank.line if is_line else rank.out)
            return
        if not is_line:
            rank.prints(piece)
            if rank.written > self.bounds.printed_bytes:
                self._stop(LIMIT, f"rank {rank.number} printed more than "
                                  f"{self.bounds.printed_bytes / 2**20:g} MiB")  # fmt: skip
            return
        try:
            rank.incoming.feed(piece)
            while (frame := rank.incoming.take()) is not None:
                self._take(rank, frame[0])
        except frames.BadFrame as bad:
            self._stop(CRASH, f"rank {rank.number} reported what cannot be read: {bad}")

    def _take(self, rank: Rank, frame: object) -> None:
        if not isinstance(frame, dict) or rank.report is not None:
            raise frames.BadFrame("a message out of its turn")
        if not rank.hello:
            if frame.get("hello") != rank.number:
                raise frames.BadFrame("a message out of its turn")
            rank.hello, rank.folder = True, Path(frame["folder"])
            if self.ranks[0].hello:
                for other in [rank] if rank.number else self.ranks:
                    self._begin(other)
        elif not rank.joined:
            if "joined" not in frame:
                raise frames.BadFrame("a message out of its turn")
            rank.joined = True
            self._sleep.begin()
            if all(one.joined for one in self.ranks):
                self._go()
        elif "kept" in frame:
            rank.kept = frame["kept"] if isinstance(frame["kept"], dict) else {}
        elif "ask" in frame:
            if type(frame["ask"]) is not int or rank.asks is not None:
                raise frames.BadFrame("a message out of its turn")
            rank.asks = frame["ask"]
            self._hand_over()
        else:
            rank.report = told.report(frame.get("report"), rank.number)
            if rank.report["error"] is not None and self._failed_at is None:
                self._failed_at = time.monotonic()

    def _go(self) -> None:
        """All have met, and none of the student's code has run: what is sent from now on counts."""
        self._measures.before_memory()
        if not self.later:
            self._measures.mark("run")
        for rank in self.ranks:
            self._send(rank, {"go": True})

    def _begin(self, rank: Rank) -> None:
        if rank.hello:
            job = self.jobs[rank.number][0]
            self._send(rank, {"files": job, "limit": self.bounds.wall_seconds})

    def _send(self, rank: Rank, message: dict) -> None:
        try:
            rank.line.sendall(frames.pack(message))
        except TimeoutError:
            self._stop(TIMEOUT, f"rank {rank.number} does not take what it asked for")
        except OSError:
            return  # it has gone: its end is told as such

    def _hand_over(self) -> None:
        """When all have asked for the next thing: count, then hand each its own."""
        number = self._measures.phases
        if any(rank.asks is None for rank in self.ranks):
            return
        if number >= len(self.later) or {rank.asks for rank in self.ranks} != {number}:
            raise frames.BadFrame("a message out of its turn")
        if not number:
            self._measures.begin_memory()
        self._measures.mark(self.later[number].phase)
        for rank in self.ranks:
            rank.asks = None
            self._send(rank, {"item": self.later[number].items[rank.number]})
        self._sleep.begin()

    def _look(self) -> None:
        """Every twentieth of a second: who has ended, what is used, whether they all sleep."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _POLL
        codes = self._ended()
        for rank in self.ranks:
            if rank.code is None and rank.pid in codes:
                self.drain(rank)
                rank.code = codes[rank.pid]
                if rank.report is None and self._failed_at is None:
                    self._failed_at = now
        below = outside.tree([rank.pid for rank in self.ranks if rank.code is None])
        for rank in self.ranks:
            used = sum(outside.resident(pid)[0] for pid in below.get(rank.pid, []))
            if used > self.bounds.resident_bytes:
                most = (
                    f"{self.bounds.resident_bytes / 2**20:,.0f} MiB"  # not what was seen by chance
                )
                self._stop(LIMIT, f"rank {rank.number} held more than {most} in memory")
                return
        self._measures.memory()
        everyone = [pid for pids in below.values() for pid in pids]
        self._slept = self._sleep.seconds(everyone, self._measures.counts())
        if self._failed_at is None and self._slept > self.bounds.idle_seconds:
            self._stop(TIMEOUT, "the ranks wait and nothing is on its way", look=True)
        elif now - self._begun > self.bounds.wall_seconds and now > self._next_limit:
            self._next_limit = now + self.bounds.wall_seconds / 10
            ran = now - self._begun
            left = ran - self._crowd.took([rank.pid for rank in self.ranks])
            if left > self.bounds.wall_seconds or ran > crowding.MOST * self.bounds.wall_seconds:
                self._stop(
                    TIMEOUT, f"not at its end after {self.bounds.wall_seconds:g} s", look=True
                )

    def drain(self, *ranks: Rank) -> None:
        """Take in what these ranks, or all, had still written. After their processes have ended."""
        for rank in ranks or self.ranks:
            for fileno, is_line in ((rank.line, True), (rank.out, False)):
                while can_read(self._select, fileno):
                    self._read(rank, is_line)

    def _stop(self, state: str, why: str, look: bool = False) -> None:
        if self.state:
            return
        self.state, self.why = state, why
        if look:
            self._where()

    def _where(self) -> None:
        """Ask each rank where it stands, if it answers: for the student, never for points."""
        before = {rank.number: rank.written for rank in self.ranks}
        asked = []
        for rank in self.ranks:
            if rank.at_work and rank.joined:
                with contextlib.suppress(OSError):
                    os.kill(rank.pid, signal.SIGUSR1)
                    asked.append(rank)
        deadline, quiet = time.monotonic() + _ANSWER_SECONDS, False
        while time.monotonic() < deadline and not quiet:
            ready = self._select.select(4 * _POLL)
            for key, _ in ready:
                self._read(*key.data)
            quiet = not ready and all(one.written > before[one.number] for one in asked)
        for rank in self.ranks:
            if rank.at_work and (said := rank.take_back(before[rank.number])):
                self.why += told.standing(rank.number, said, self.jobs[rank.number][1])

    def _judge_ends(self) -> None:
        """The state and the reason, where a rank failed by itself."""
        errors = [rank.report and rank.report["error"] for rank in self.ranks]
        for rank, error in zip(self.ranks, errors, strict=True):
            if error:
                told.tidy(error, self.jobs[rank.number][1], rank.folder)
        silent = [rank for rank in self.ranks if rank.report is None and rank.code is not None]
        cause = told.cause(errors)
        if cause and not (silent and told.is_victim(cause[1])):
            text = tell(*cause)
            over = _OF_LIMITS.search(f"{cause[1]['type']}: {cause[1]['message']}")
            self._stop(LIMIT if over else CRASH, text)
            self.culprit = cause[0]
        elif silent:
            rank = silent[0]
            self._stop(
                _BY_SIGNAL.get(rank.code, CRASH),
                f"rank {rank.number} ended without an answer: {how(rank.code)}",
            )
        elif any(rank.report is None for rank in self.ranks):
            self._stop(TIMEOUT, "not all ranks came to their end")

    def close(self) -> None:
        """Close the lines."""
        for rank in self.ranks:
            rank.close()
        self._select.close()

    @property
    def run(self) -> Run:
        """What `labs.ranks.launch` would give: values, the ranks' own ledger, what they printed."""
        placement = Placement(len(self.ranks), "gloo", "cpu", "grading", 1)
        run = Run(placement, "warm", seconds=time.monotonic() - self._begun)
        rows, printed = [], {}
        for rank in self.ranks:
            report = rank.report or {}
            run.values.append(report.get("value"))
            run.kept.append(report.get("kept") or rank.kept)
            rows += [Row(*row) for row in report.get("ledger", ())]
            run.timeline += report.get("timeline", [])
            run.memory += report.get("memory", [])
            run.threads.append(1)
            text = rank.printed.decode("utf-8", "replace")
            printed[rank.number] = told.clean(text, self.jobs[rank.number][1], rank.folder)
        run.ledger = Ledger(rows)
        run.output = output.ordered(printed)
        run.failure, run.culprit = (self.why, self.culprit) if self.state else (None, None)
        return run

    @property
    def outside(self) -> outside.Outside:
        """The phases that all ranks went through, and by how much their memory grew."""
        return self._measures.outside
