"""Cases of others that a run of the course must stand: see tests/cases.md."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from labs import exercise, ranks, ranks_and_collectives, tp_linear_pair
from labs.cells import read
from labs.ranks import supervised
from tests import leftovers, on_ranks

COURSE = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("nothing_left")]


def raises_on_rank_0(x_shard, w_shard, bias=None, group=None):
    if dist.get_rank() == 0:
        raise RuntimeError("boom-0")
    dist.barrier()


def test_a_lab_that_fails_leaves_no_process_and_the_next_starts_at_once():
    """A07: rank 0 raises in the middle of a lab while the others wait for it."""
    with pytest.raises(ranks.RunFailed, match="rank 0: RuntimeError: boom-0"):
        tp_linear_pair.run(2, only="pair", worlds=(), status=False, row_parallel=raises_on_rank_0)
    assert leftovers.of_runs() == []  # in sessions of their own too: all that carry our mark
    assert tp_linear_pair.run(2, only="pair", worlds=(), status=False).ok


def skips(odd):
    """All but one rank come to the second all-reduce."""
    for _ in range(1 if dist.get_rank() == odd else 2):
        dist.all_reduce(torch.ones(4))
    while dist.get_rank() == odd and odd == 1:  # it does not return either: it does something else
        pass


@pytest.mark.parametrize(
    ("odd", "limit", "kind", "told"),
    [
        (0, 60.0, "left early", "rank 0, which has returned"),
        (1, 4.0, "never came", "ranks 0 and 2 wait for rank 1, which has not come"),
    ],
)
def test_the_rank_that_did_not_come_is_named(odd, limit, kind, told):
    """A20: within the limit, and long before it when the missing rank can never come."""
    begun = time.monotonic()
    found = ranks.diagnose(skips, 3, args=(odd,), limit=limit)
    assert time.monotonic() - begun < min(limit, 10) + 5
    assert (found.kind, told in found.told) == (kind, True), found.told


class TestWindows:
    """A13: one sentence that points to WSL2, and nothing has started."""

    @pytest.fixture
    def windows(self, monkeypatch):
        def refused(*args):
            raise AssertionError("something was started")

        exercise.exercises()  # imports all: Matplotlib, new here, looks for a system's own fonts
        monkeypatch.setattr(supervised.Supervised, "_say", refused)
        monkeypatch.setattr(subprocess, "Popen", refused)
        monkeypatch.setattr(sys, "platform", "win32")

    @pytest.mark.parametrize(
        "start",
        [
            lambda: ranks.launch(on_ranks.total, 2),
            lambda: ranks.diagnose(on_ranks.total, 2),
            lambda: ranks.torchrun("labs.tp_linear_pair"),
            lambda: ranks.warm_up(),
            lambda: tp_linear_pair.run(2),
            lambda: ranks_and_collectives.run(2),
        ],
        ids=["launch", "diagnose", "torchrun", "warm_up", "lab 01", "lab 00"],
    )  # fmt: skip
    def test_one_sentence(self, start, windows):
        with pytest.raises(ValueError, match="WSL2") as refused:
            start()
        assert "\n" not in str(refused.value)

    def test_a_card_says_it(self, windows):
        answer = read(str(COURSE / "solutions" / "tp_linear_pair.py")).source("column_parallel")
        card = exercise.judged(answer)
        assert not card.ok and "WSL2" in repr(card)

    def test_without_what_only_other_systems_have(self):
        """The sentence comes before anything that Windows lacks is asked for."""
        code = """
            import os, select, signal, socket, subprocess, sys
            import psutil, sysconfig, torch, torch.distributed
            sysconfig.get_config_vars()
            for module, names in {
                signal: "SIGKILL SIGUSR1 SIGSTOP SIGBUS SIGCONT SIGCHLD", socket: "AF_UNIX",
                os: "fork register_at_fork setsid getuid sched_getaffinity statvfs posix_fallocate",
                select: "poll",
            }.items():
                for name in names.split():
                    delattr(module, name)
            sys.modules.update(fcntl=None, resource=None, pwd=None)
            sys.platform = "win32"
            from labs import ranks
            for start in (ranks.warm_up, lambda: ranks.launch(print, 2)):
                try:
                    start()
                except ValueError as refused:
                    print(refused)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], cwd=COURSE, capture_output=True,
            text=True, timeout=60,
        )  # fmt: skip
        assert done.stderr == ""
        first, second = done.stdout.splitlines()
        assert first == second and "open the course in WSL2" in first

    def test_the_readme_says_which(self):
        assert "**Windows**: use WSL2" in (COURSE / "README.md").read_text(encoding="utf-8")


CANARIES = {"HF_TOKEN": "canary-hf-7f3a", "JUPYTERHUB_API_TOKEN": "canary-hub-91bc"}


def shows_all_it_has():
    """Crash on one rank with the environment in what is printed, kept and raised."""
    from labs import ranks

    print(dict(os.environ), flush=True)
    print(dict(os.environ), file=sys.stderr, flush=True)
    ranks.keep("reached", dist.get_rank())
    dist.barrier()
    if dist.get_rank() == 1:
        raise RuntimeError(f"with {dict(os.environ)}")
    dist.all_reduce(torch.ones(1))


@pytest.mark.parametrize("mode", ["warm", "cold"])
def test_tokens_are_in_nothing_that_is_shown_or_stays(mode, private_tmp, monkeypatch):
    """G26: a crash with torch's debugging on, and a learner who prints the environment."""
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    debug = dict(
        TORCH_DISTRIBUTED_DEBUG="DETAIL", TORCH_CPP_LOG_LEVEL="INFO", LOGLEVEL="DEBUG",
        TORCH_SHOW_CPP_STACKTRACES="1",
    )  # fmt: skip
    with pytest.raises(ranks.RunFailed) as caught:
        ranks.launch(shows_all_it_has, 2, mode=mode, env=debug, status=False)
    run = caught.value.run
    shown = [
        str(caught.value), caught.value._repr_html_(), *caught.value._render_traceback_(),
        run.output, repr(run), repr(run.diagnosis), run.diagnosis._repr_html_(), repr(run.kept),
    ]  # fmt: skip
    assert "<HF_TOKEN>" in run.output and "rank 1: RuntimeError: with" in str(caught.value)
    assert not [text for text in shown if "canary" in text]
    stay = [path for path in private_tmp.rglob("*") if path.is_file()]
    assert not [path for path in stay if b"canary" in path.read_bytes()]


def test_a_canary_that_is_no_secret_is_seen():
    """The test above sees a canary where there is one."""
    with pytest.raises(ranks.RunFailed) as caught:
        ranks.launch(
            shows_all_it_has, 2, env={"HF_NOTE": "canary-x", "HF_TOKEN": "another"}, status=False
        )
    assert "canary" in caught.value.run.output


LOOPS = """
import signal, torch.distributed as dist
def row_parallel(x_shard, w_shard, bias=None, group=None):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while dist.get_rank() == 1:
        pass
    dist.barrier()
"""


def test_a_submission_that_never_ends_is_judged_in_time(tmp_path, monkeypatch):
    """G21: rank 1 loops for ever and ignores SIGTERM; a card, nothing left, the next is judged."""
    monkeypatch.setattr(tp_linear_pair.trial, "LIMIT", 3.0)
    (tmp_path / "submission.py").write_text(LOOPS)
    begun = time.monotonic()
    card = exercise.judged(read(str(tmp_path / "submission.py")).source("row_parallel"))
    assert time.monotonic() - begun < 3 + 5
    assert not card.ok
    told = repr(card)
    assert "the limit of 3 s was reached; rank 0 waits for rank 1, which has not come" in told
    assert leftovers.of_runs() == []
    assert threading.active_count() < 20
    answer = read(str(COURSE / "solutions" / "tp_linear_pair.py")).source("row_parallel")
    assert exercise.judged(answer).ok
