"""Where the ranks stand, one line each, equal ones together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from labs.ranks import output
from labs.ranks.doctor import words
from labs.ranks.doctor.stacks import Look
from labs.ranks.doctor.standing import Call, Stand
from labs.ranks.doctor.stuck import Needs
from labs.ranks.doctor.words import Places, some, verb
from labs.ranks.journal import RECV, SEND

NOTHING = Look()
_OUR_WAIT = os.path.join(
    "labs", "ranks", "hooks.py"
)  # what is not in the journal, and sleeps there


def at(place: str) -> str:
    return f" — {place}" if place else ""


class Telling:
    """One line for each rank, equal ones together."""

    def __init__(
        self, stands: Sequence[Stand], needs: Needs, looks: Mapping[int, Look], places: Places,
        states: Mapping[int, str] | None = None,
    ) -> None:  # fmt: skip
        self.stands, self.needs, self.looks, self.places = stands, needs, looks, places
        self.states = states or {}

    def calls(self) -> dict[int, str]:
        return {rank: words.short(found[0].wait.call) for rank, found in self.needs.items()}

    def ended(self) -> tuple[int, ...]:
        return tuple(s.rank for s in self.stands if s.state == "returned")

    def lines(self) -> tuple[str, ...]:
        together: dict[tuple[str, str, str], list[int]] = {}
        for stand in self.stands:
            together.setdefault(self._line(stand), []).append(stand.rank)
        return tuple(
            f"{some(ranks)} {verb(ranks, one, many)}{rest}"
            for (one, many, rest), ranks in together.items()
        )

    def _line(self, stand: Stand) -> tuple[str, str, str]:
        """Verb for one rank, verb for several, and the rest of the line."""
        look = self.looks.get(stand.rank, NOTHING)
        said = self.states.get(stand.rank, "")
        said = " ".join(output.clean(said).split())[:60]
        said = f" ({said})" if said not in ("", "running", "rendezvous", "done") else ""
        if look.stopped:
            return ("is", "are", f" stopped{said}{at(self._where(stand, look))}")
        if stand.state == "returned":
            return ("has", "have", " returned")
        if stand.state in ("failed", "gone"):
            return ("has", "have", " ended")
        if stand.state in ("", "starting"):
            return ("has", "have", " not started yet")
        if stand.waits:
            call = stand.waits[0].call
            met = stand.rank not in self.needs and call.kind in (SEND, RECV) and self._known(call)
            under_way = "; the other end is there" if met else ""
            where = self._where(stand, look)
            return ("waits", "wait", f" {words.doing(call)}{under_way}{said}{at(where)}")
        if look.frames and look.frames[0].file.endswith(_OUR_WAIT) and not look.busy:
            which = "was waited for before, or that has a time limit of its own"
            which = "was made long before" if stand.older else which
            rest = f" for a call that {which}{said}"
            return ("waits", "wait", f"{rest}{at(self._where(stand, look))}")
        if look.busy:
            rest = f", waiting for no rank{said}{at(self._where(stand, look))}"
            return ("runs", "run", rest)
        return ("is", "are", f" not waiting for a rank{said}{at(self._where(stand, look))}")

    def _known(self, call: Call) -> bool:
        """Whether all is known of the rank at the other end."""
        return call.peer is not None and self.stands[call.peer].complete

    def _where(self, stand: Stand, look: Look) -> str:
        """The learner's line, from the stack; else the line that the journal has; else any."""
        for frame in look.frames:
            if self.places.own(frame.file):
                return self.places.tell(frame.file, frame.line)
        for wait in stand.waits:
            if wait.file:
                return self.places.tell(wait.file, wait.line)
        for frame in look.frames:
            if not output.is_library(frame.file) and "labs/ranks/" not in frame.file:
                return self.places.tell(frame.file, frame.line)
        return ""
