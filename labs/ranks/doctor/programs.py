"""Find a deadlock before anything is launched, where what each rank does is known as data.

    lint([[send(1), receive(1)], [send(0), receive(0)]])      # all send first
    lint([[send(1), receive(1)], [receive(0), send(0)]])      # None: it comes to its end

The programs are carried out on paper with the doctor's own rules: a call is over when what
`stuck.need` names has acted. The order in which ranks move does not matter: each call that can end
still can after any other has (a message, once sent, is never taken back), so one order shows all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labs.ranks.doctor import explain
from labs.ranks.doctor.diagnosis import Diagnosis
from labs.ranks.doctor.standing import Call, Group, Stand, Wait
from labs.ranks.doctor.stuck import need, stuck
from labs.ranks.doctor.words import Places


@dataclass(frozen=True)
class Step:
    """One thing that a rank does.

    op: as in journal.OPS, "wait" for the call named `name`, or "compute": nothing that can wait.
    """

    op: str
    peer: int | None = None  # of a send or receive; the root of a rooted collective
    tag: int = 0
    group: tuple[int, ...] | None = None  # ranks; None: all
    name: str = ""  # of a call that does not wait, to be waited for later
    text: str = ""  # what the program calls this step


def send(to: int, tag: int = 0, name: str = "") -> Step:
    """A send; with a name an isend, which ends at `wait(name)`."""
    return Step("send", to, tag, name=name)


def receive(source: int, tag: int = 0, name: str = "") -> Step:
    """A receive; with a name an irecv, which ends at `wait(name)`."""
    return Step("recv", source, tag, name=name)


def collective(op: str, *group: int, root: int | None = None, name: str = "") -> Step:
    """A collective on the ranks of `group` (none named: all ranks)."""
    return Step(op, root, group=group or None, name=name)


def compute(text: str = "") -> Step:
    """Something that the rank does by itself."""
    return Step("compute", text=text)


def wait(name: str) -> Step:
    """Wait for the call of this rank that was given `name`."""
    return Step("wait", name=name)


class _Steps(Places):
    """Lines of a program on paper are its steps."""

    def tell(self, file: str, line: int) -> str:
        return f"step {line} of its {file}" if file else ""


def lint(programs: Sequence[Sequence[Step]], name: str = "program") -> Diagnosis | None:
    """The deadlock that these programs, one for each rank, run into; None when there is none.

    Raises ValueError, with the rank and the step, for a peer that is no other rank, a group
    without the rank itself, or a wait for a call that was not made.
    """
    stands = on_paper(programs, name)
    needs = stuck(stands)
    return explain.of_stuck(stands, needs, {}, _Steps()) if needs else None


def on_paper(programs: Sequence[Sequence[Step]], name: str = "program") -> list[Stand]:
    """Where each rank stands when none can go on any more."""
    ranks = [_OnPaper(rank, steps, len(programs), name) for rank, steps in enumerate(programs)]
    stands = [rank.stand for rank in ranks]
    while any([rank.go_on(stands) for rank in ranks]):  # a list: each of them moves
        pass
    return stands


class _OnPaper:
    """One rank, as far as it has come."""

    def __init__(self, rank: int, steps: Sequence[Step], ranks: int, name: str) -> None:
        self.steps, self.ranks, self.name = list(steps), ranks, name
        self.stand = Stand(rank, "running")
        self.at = 0
        self.named: dict[str, Call] = {}
        for number, step in enumerate(self.steps):
            self._refuse(number, step)

    def go_on(self, stands: Sequence[Stand]) -> bool:
        """Carry out steps until one has to wait. Returns whether anything was done."""
        before = (self.at, self.stand.made, self.stand.state)
        while self.at < len(self.steps):
            step = self.steps[self.at]
            if step.op == "compute":
                self.at += 1
                continue
            if not self.stand.waits:
                call = self.named[step.name] if step.op == "wait" else self._post(step)
                if step.name and step.op != "wait":
                    self.named[step.name] = call
                    self.at += 1
                    continue
                name = f"{self.name} ({step.text})" if step.text else self.name
                self.stand.waits = (Wait(call, name, "", self.at + 1),)
            if need(self.stand.rank, self.stand.waits[0], stands).ranks:
                break
            self.stand.waits = ()
            self.at += 1
        else:
            self.stand.state = "returned"
        return before != (self.at, self.stand.made, self.stand.state)

    def _post(self, step: Step) -> Call:
        members = step.group or tuple(range(self.ranks))
        whole = len(members) == self.ranks
        axis = "world" if whole else "ranks " + ",".join(map(str, members))
        call = Call(step.op, Group(axis, members, axis), 0, step.peer, step.tag)
        place = self.stand.counts.get(call.key, 0) + 1
        call = Call(step.op, call.group, place, step.peer, step.tag, line=self.at + 1)
        self.stand.counts[call.key] = place
        self.stand.calls[call.key, place] = call
        self.stand.made += 1
        return call

    def _refuse(self, number: int, step: Step) -> None:
        rank = self.stand.rank
        where = f"step {number + 1} of rank {rank} ({step.op})"
        if step.op in ("send", "recv") and (
            step.peer is None or step.peer == rank or not 0 <= step.peer < self.ranks
        ):
            raise ValueError(
                f"{where} names peer {step.peer}; there are ranks 0 to {self.ranks - 1}"
            )
        if step.group is not None and rank not in step.group:
            raise ValueError(f"{where} is on the group {step.group}, of which rank {rank} is none")
        made = {earlier.name for earlier in self.steps[:number] if earlier.op != "wait"}
        if step.op == "wait" and step.name not in made:
            raise ValueError(f"{where} waits for {step.name!r}, which it has not begun")
