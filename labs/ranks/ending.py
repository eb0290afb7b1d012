"""How a run ended, and why: the first genuine cause, never the victim's "connection closed".

In this order: an error raised on a rank; a rank that ended without a word; ranks that can never go
on; the limit; calls that were matched and do not fit. What the ranks reported before is kept.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from labs.ranks import output
from labs.ranks.doctor import explain, stacks
from labs.ranks.doctor.diagnosis import LINES, Diagnosis
from labs.ranks.doctor.misfits import misfits, unmatched_sends
from labs.ranks.doctor.native import with_native_waits
from labs.ranks.doctor.stacks import Look
from labs.ranks.doctor.standing import Journals, Stand
from labs.ranks.doctor.stuck import Needs, stuck
from labs.ranks.doctor.words import Places
from labs.ranks.run import Run, is_victim, root_cause, tell
from labs.ranks.traces import Traces

# What usually stands behind a signal that nobody of the run has sent. By name: not every system
# has every signal.
_USUALLY = {
    "SIGKILL": "the system does that when memory runs out, or somebody did it",
    "SIGABRT": "native code gave up; gloo does when a message is longer than its buffer",
    "SIGSEGV": "native code touched memory that is not its own",
    "SIGBUS": "often no room is left in /dev/shm or on the disk",
    "SIGTERM": "somebody, or a scheduler, asked it to end",
}
_OF_GLOO = re.compile(r"gloo|enforce fail", re.IGNORECASE)


@dataclass
class Seen:
    """What was seen of a run from outside while it ran."""

    limit: float
    why: str | None = None  # the reason, when it was ended by the kernel: "ended", "stuck", …
    gone: list[int] = field(default_factory=list)  # ranks first seen to be gone without a report
    outlived: list[int] = field(default_factory=list)  # ranks that ran on some time after that
    stands: Sequence[Stand] = ()  # when it was stuck, or reached its limit
    needs: Needs = field(default_factory=dict)
    looks: Mapping[int, Look] = field(default_factory=dict)
    starved: tuple[float, float] | None = None  # at the limit: seconds others took, of how many
    out_of_memory: int = 0  # processes that the system killed for memory during the run


def how(code: int | None, out_of_memory: int = 0) -> str:
    """An exit code in words."""
    if code is None:
        return "its exit code is not known"
    if code == 0:
        return "exit code 0 (os._exit, or native code that ends the process: it never returned)"
    if code > 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time signal has no name
        name = "which has no name"
    usually = _USUALLY.get(name)
    if name == "SIGKILL" and out_of_memory:
        usually = "memory ran out: the system killed a process for it during this run"
    more = f" ({usually})" if usually else ""
    return f"killed by signal {-code}, {name}{more}"


def judge(
    run: Run, errors: list[dict | None], traces: Traces, seen: Seen, code: int,
    labels: Mapping[str, str], note: str | None,
) -> None:  # fmt: skip
    """Set `run`'s failure, culprit and diagnosis from what its ranks left and what was seen.

    code: torchrun's exit code; labels: the cell that each file of the run holds.
    """
    run.note = note
    found = _Ending(run, errors, traces, seen, code, labels, note).find()
    if found is None:
        return
    if trouble := traces.trouble():
        found = replace(found, kind="no place", headline=f"{trouble}\n{found.headline}")
    run.diagnosis, run.failure = found, found.told
    if run.output:
        run.failure += _printed(run.output, LINES - len(found.told.splitlines()) - 1)


def _flat(lines: list[str]) -> tuple[str, ...]:
    return tuple(line.removeprefix("  ") for line in lines)


def _printed(said: str, most: int) -> str:
    lines = said.splitlines()
    if most < 3:
        return "\nthe output of the ranks is in run.output"
    if len(lines) > most:
        left = len(lines) - most + 1
        lines = [f"[… {left} more lines: run.output has all …]", *lines[left:]]
    return "\noutput of the ranks:\n" + "\n".join(lines)


class _Ending:
    """One run's end, from all sides."""

    def __init__(
        self, run: Run, errors: list[dict | None], traces: Traces, seen: Seen, code: int,
        labels: Mapping[str, str], note: str | None,
    ) -> None:  # fmt: skip
        self.run, self.errors, self.traces, self.seen = run, errors, traces, seen
        self.code, self.note = code, note
        self.ranks = run.placement.ranks
        self.places = Places(traces.folder, labels)
        self.silent = traces.silent()
        journals = Journals(traces.folder, range(self.ranks))
        self.stands: list[Stand] = [
            replace(stand, state="gone") if stand.rank in traces.gone() and not stand.ended
            else stand
            for stand in journals.stands()
        ]  # fmt: skip
        journals.close()

    def find(self) -> Diagnosis | None:
        """The cause; None when all went well."""
        seen, cause = self.seen, root_cause(self.errors)
        genuine = cause is not None and not is_victim(cause[1])
        by_itself = seen.why in (None, "ended")
        died = self._died_silently()
        if genuine and (by_itself or seen.why == "stuck"):
            return self._raised(*cause)
        if self.code < 0 and seen.why is None:  # torchrun was killed, and its ranks died of that
            return self._all_died()
        if died and by_itself:
            self.run.culprit = died[0]
            return self._died(*died)
        if seen.why == "stuck":
            return explain.of_stuck(seen.stands, seen.needs, seen.looks, self.places)
        if cause and by_itself:
            return explain.of_victims(self.stands, self.places) or self._raised(*cause)
        if seen.why == "limit":
            return self._at_limit(seen)
        if seen.why and seen.why != "ended":
            return Diagnosis("ended", f"{seen.why}; ended: {self._left_over()}", ranks=self.ranks)
        if self.silent or (self.code and not self.note):
            return self._all_died()
        return self._well()

    def _at_limit(self, seen: Seen) -> Diagnosis:
        as_told = seen.stands or self.stands
        if needs := stuck(as_told):  # at the last moment
            return explain.of_stuck(as_told, needs, seen.looks, self.places)
        stands = with_native_waits(as_told, seen.looks)
        alone = [replace(stand, threads=len(stand.waits)) for stand in stands]
        if needs := stuck(alone):
            found = explain.of_stuck(alone, needs, seen.looks, self.places)
            others = any(as_told[r].waits and not as_told[r].stands_still for r in needs)
            unless = ", unless another thread of theirs acts" * others
            return replace(found, why=f"{found.why}{unless}")
        states = {rank: self.traces.state_of(rank) for rank in range(self.ranks)}
        found = explain.at_limit(seen.limit, stands, seen.looks, self.places, states)
        return explain.of_starved(found, *seen.starved) if seen.starved else found

    def _well(self) -> Diagnosis | None:
        """All ranks returned; yet what they sent may not have been what was received."""
        found = misfits(self.stands)
        for one in found:
            if one.harmless:
                a, b = one.calls
                self._note(
                    f"rank {one.ranks[0]} has {a.dtype} where rank {one.ranks[1]} has {b.dtype}, "
                    f"in {a.op}: of the same size, so the bytes arrived as they were"
                )
        if found := [one for one in found if not one.harmless]:
            return explain.of_misfits(found, self.ranks, self.places)
        for sender, receiver, count in unmatched_sends(self.stands):
            told = f"rank {sender} sent {count} more to rank {receiver} than it received"
            self._note(told)
        return None

    def _note(self, told: str) -> None:
        self.run.note = f"{self.run.note}; {told}" if self.run.note else told

    def _raised(self, rank: int, error: dict) -> Diagnosis:
        self.run.culprit = rank
        head, *lines = tell(rank, error).splitlines()
        found = misfits(self.stands) if _OF_GLOO.search(error["message"]) else []
        if found:
            fits = explain.of_misfits(found, self.ranks, self.places)
            return replace(fits, headline=head, lines=(*_flat(lines), *fits.lines))
        return Diagnosis("raised", head, _flat(lines), ranks=self.ranks)

    def _died(self, rank: int, code: int | None) -> Diagnosis:
        """A rank that ended without a word of its own."""
        kind = "exited" if code is not None and code >= 0 else "killed"
        head = f"rank {rank} ended without a word: {how(code, self.seen.out_of_memory)}"
        lines = [
            self.places.tell(frame.file, frame.line)
            for frame in stacks.last_words(self.traces.folder, rank)
            if self.places.own(frame.file) or not output.is_library(frame.file)
        ]
        lines = [line for line in lines if not line.startswith("labs/ranks/")][:5]
        found = misfits(self.stands) if code == -signal.SIGABRT else []
        found.sort(key=lambda one: not one.too_long)
        if found:
            fits = explain.of_misfits(found, self.ranks, self.places)
            return replace(fits, headline=head, lines=fits.lines)
        if not (self.traces.folder / f"out.{rank}").exists():  # before its output was its own
            lines += self._agent().splitlines()
        return Diagnosis(kind, head, tuple(lines), ranks=self.ranks)

    def _died_silently(self) -> tuple[int, int | None] | None:
        """The rank that ended without a word before the others, and its exit code.

        torchrun notes how each rank ended that it had not stopped itself (signal 15).
        """
        said = output.read_capped(self.traces.folder / "agent", 100_000)
        ends = re.findall(r"\n  rank +: (\d+) [^\n]*\n  exitcode +: (-?\d+)", said)
        codes = {int(rank): int(code) for rank, code in ends}
        mute = [rank for rank in self.silent if self.errors[rank] is None]
        noted = [rank for rank in mute if codes.get(rank, -15) != -15]
        if noted:
            return noted[0], codes[noted[0]]
        # It notes no end with 0, which it takes for success; any other it would have noted by now,
        # unless it still waits for the end of another rank. Of several that it finds ended at once
        # it notes one.
        success = self.seen.why is None or ("exitcode" not in said and not self.seen.outlived)
        success = success and not set(codes) & set(self.seen.gone)
        # Beside one that failed with a word, a silent one was ended by torchrun. A victim's word
        # is none: somebody had gone before.
        told = filter(None, (self.errors[rank] for rank in self.seen.gone))
        followed = not all(map(is_victim, told))
        gone = [rank for rank in self.seen.gone if rank in mute and not followed]
        if not gone and self.code == 0 and self.seen.why is None:
            gone = mute
        return (gone[0], codes.get(gone[0], 0 if success else None)) if gone else None

    def _all_died(self) -> Diagnosis:
        who = ", ".join(map(str, self.silent)) or "none"
        ended = how(self.code).replace("exit code", "ended with")
        head = f"torchrun {'was ' * (self.code < 0)}{ended}; ranks without a report: {who}"
        return Diagnosis("killed", head, tuple(self._agent().splitlines()), ranks=self.ranks)

    def _left_over(self) -> str:
        states = [f"rank {r} ({self.traces.state_of(r) or 'starting'})" for r in self.silent]
        return ", ".join(states) or "no rank was at work"

    def _agent(self) -> str:
        """What torchrun printed, its cause first."""
        folder: Path = self.traces.folder
        said = output.clean(output.read_capped(folder / "agent"), folder)
        return output.cause_first(said)
