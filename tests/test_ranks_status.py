"""The live line of a run: in a log, on a terminal, and not at all."""

import io

import pytest

from labs.ranks import status

HEAD = "4 ranks on gloo/CPU: no GPU is visible"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Time that passes by a second at each look."""
    ticks = iter(range(1, 1000))
    monkeypatch.setattr(status.time, "monotonic", lambda: float(next(ticks)))
    monkeypatch.setattr(status, "_notebook_display", lambda head: None)


def test_a_log_gets_a_line_when_something_new_begins(clock):
    log = io.StringIO()
    line = status.Status(HEAD, stream=log)
    for text in ("rendezvous", "rendezvous", "running", "step 1/8", "step 2/8", "done"):
        line.show(text)
    line.done()
    assert log.getvalue().splitlines() == [
        f"{HEAD} · {text}" for text in ("rendezvous", "running", "step 1/8", "done")
    ]


def test_a_terminal_has_one_line_that_is_cleared_at_the_end(clock):
    screen = Terminal()
    line = status.Status(HEAD, stream=screen)
    line.show("step 1/8")
    line.show("step 2/8")
    line.done()
    shown = screen.getvalue()
    assert "\n" not in shown
    assert "· step 2/8" in shown
    assert shown.endswith("\r\x1b[2K")


def test_quick_changes_are_not_all_shown(monkeypatch):
    monkeypatch.setattr(status, "_notebook_display", lambda head: None)
    screen = Terminal()
    line = status.Status(HEAD, stream=screen)
    for step in range(10_000):
        line.show(f"step {step}/10000")
    assert screen.getvalue().count("step") < 20


def test_quiet_says_nothing(clock):
    log = io.StringIO()
    line = status.Status(HEAD, quiet=True, stream=log)
    line.show("running")
    line.done()
    assert log.getvalue() == ""


def test_what_to_show_is_found_out_ten_times_a_second(monkeypatch):
    """A look reads a file of each rank; the kernel asks fifty times a second."""
    monkeypatch.setattr(status, "_notebook_display", lambda head: None)
    at = [1000.0]
    monkeypatch.setattr(status.time, "monotonic", lambda: at[0])
    line, looks = status.Status(HEAD, stream=io.StringIO()), 0
    for _ in range(100):
        at[0] += 0.02
        looks += line.due()
    assert 15 <= looks <= 20
    line.show("running")
    assert not line.due()  # what was shown stays for a while
    assert not status.Status(HEAD, quiet=True).due()
