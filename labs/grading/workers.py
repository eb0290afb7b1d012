"""Answers judged side by side: threads, each with a sandbox; a grade is written before the next."""

from __future__ import annotations

import contextlib
import queue
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from labs.exercise import Exercise
from labs.grading import judge
from labs.grading.points import Points
from labs.grading.records import GRADER_ERROR, Grade
from labs.grading.results import Results
from labs.grading.sandbox.launcher import Sandbox, SandboxError
from labs.ranks.ship import Source


@dataclass(frozen=True)
class Task:
    """One answer to grade."""

    student: str
    exercise: Exercise
    source: Source | None
    notes: tuple[str, ...]
    text: str  # digest of the answer


class Workers:
    """Threads, each with a sandbox: the work is done in the ranks.

    One thread judges at a time; the others wait for their ranks meanwhile. Judges draw models from
    torch's own generator, of which there is one in a process.
    """

    def __init__(
        self, sandbox: Callable[[], Sandbox], secret: bytes, points: Points, results: Results,
        log: Path, say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.sandbox, self.secret, self.points = sandbox, secret, points
        self.results, self.log, self.say = results, log, say
        self.todo: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self.stop, self.turn = threading.Event(), threading.Lock()
        self.failed: list[BaseException] = []

    def work(self, tasks: Sequence[Task], first: Sandbox, jobs: int) -> None:
        """Grade all tasks. Raises, when all have ended, KeyboardInterrupt or a worker's error."""
        for task in tasks:
            self.todo.put(task)
        jobs = min(jobs, len(tasks))
        # Waited for by events: a `join` that Ctrl-C breaks off takes a running thread for ended.
        ended = [threading.Event() for _ in range(jobs)]
        for number, event in enumerate(ended):
            mine = first if number == 0 else None
            threading.Thread(target=self._worker, args=(mine, event)).start()
        try:
            while not all(event.wait(0.1) for event in ended):
                pass
        except BaseException:
            self.stop.set()
            for event in ended:
                event.wait()
            raise
        if self.failed:
            raise self.failed[0]

    def _worker(self, sandbox: Sandbox | None, ended: threading.Event) -> None:
        try:
            with contextlib.ExitStack() as made:
                mine = sandbox or self._made(made)
                while not self.stop.is_set():
                    try:
                        task = self.todo.get_nowait()
                    except queue.Empty:
                        return
                    mine = self._grade(task, mine, made)
        except BaseException as error:
            self.failed.append(error)
            self.stop.set()
        finally:
            ended.set()

    def _made(self, made: contextlib.ExitStack) -> Sandbox:
        """Another sandbox, closed with the thread's others. Raises SandboxError."""
        sandbox = self.sandbox()
        made.callback(sandbox.close)
        return sandbox

    def _grade(self, task: Task, sandbox: Sandbox, made: contextlib.ExitStack) -> Sandbox:
        """Grade one answer and write it down. Returns the sandbox for the next one."""
        asked = judge.Asked(
            task.student, task.exercise, task.source, task.notes,
            self.results.rounds(task.student, task.exercise.name),
        )  # fmt: skip
        why = ""
        for _ in range(2):
            try:
                sandbox.turn = self.turn
                if task.student != sandbox.student:
                    sandbox.renew()
                    sandbox.student = task.student
                with self.turn:
                    grade = judge.grade(asked, sandbox, self.secret, self.points.shares)
                break
            except SandboxError as error:
                why = f"the sandbox failed: {error}"
                sandbox.close()
                sandbox = self._made(made)
            except Exception as error:
                self._log(task, error)
                why = f"the judge failed: {type(error).__name__}"
        else:
            grade = self._error(task, why, sandbox)
        self.results.add(grade, task.text)
        points = "" if grade.points is None else f" {grade.points:g}/{grade.of:g}"
        points = points if grade.of else " (practice, not for credit)"
        self.say(f"{task.student}  {task.exercise.name}  {grade.state}{points}")
        return sandbox

    def _log(self, task: Task, error: Exception) -> None:
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"{task.student} {task.exercise.name}\n")
            file.write("".join(traceback.format_exception(error)) + "\n")

    def _error(self, task: Task, why: str, sandbox: Sandbox) -> Grade:
        one = task.exercise
        return Grade(
            task.student, one.topic, one.name, one.kind, GRADER_ERROR, None,
            self.points.of(one.name), sandbox.isolation, notes=(*task.notes, why),
        )  # fmt: skip
