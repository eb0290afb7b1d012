"""Who is the cause of a run's failure, when others only followed; and what is told of it."""

import pytest

from labs import ranks
from labs.ranks import ending, output, supervised
from labs.ranks.doctor.words import Places
from labs.ranks.run import is_victim
from labs.ranks.traces import Traces
from tests import causes_on_ranks as causes

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("nothing_left")]
GONE = "Connection closed by peer [127.0.0.1]:4242"


def failed(function, *args, n=2, **options):
    with pytest.raises(ranks.RunFailed) as caught:
        ranks.launch(function, n, args=args, status=False, mode="warm", **options)
    return caught.value.run


class TestVictims:
    @pytest.mark.parametrize(
        ("chain", "victim"),
        [
            ([("/x/torch/distributed/c10d.py", GONE)], True),
            ([("/x/labs/ranks/hooks.py", GONE)], True),
            ([("/me/lesson.py", "step 3 failed"), ("/x/torch/distributed/c10d.py", GONE)], True),
            ([("/me/lesson.py", "Connection refused")], False),
            ([("/x/urllib3/connection.py", "Connection refused")], False),
            ([("/x/torch/distributed/c10d.py", "shapes differ")], False),
            ([("", GONE)], False),
        ],
    )
    def test_only_by_torchs_word(self, chain, victim):
        assert is_victim(dict(message=chain[0][1], chain=chain)) == victim

    @pytest.mark.parametrize(
        ("function", "said"),
        [
            (causes.refused_elsewhere, "rank 0: ConnectionRefusedError: [Errno 111] Connection"),
            (causes.converted, "rank 0: KeyError: 'the cause'"),
            (causes.cleans_up_first, "rank 0: KeyError: 'the cause'"),
        ],
    )
    def test_the_cause_is_told(self, function, said):
        done = failed(function)
        assert (done.culprit, done.diagnosis.kind) == (0, "raised")
        assert done.failure.startswith(said)

    def test_a_victim_that_does_not_wait_hides_the_cause(self):
        """What the test above can notice."""
        assert "the cause" not in failed(causes.cleans_up_first, False).failure


class TestEnds:
    @pytest.mark.parametrize(
        ("how", "everyone", "kind", "said"),
        [
            ("exits", False, "exited", "exit code 0 (os._exit, or native code that ends"),
            ("exits", True, "exited", "exit code 0 (os._exit, or native code that ends"),
            ("terminated", False, "killed", "killed by signal 15, SIGTERM (somebody, or a"),
            ("real-time signal", False, "killed", "killed by signal 40, which has no name"),
        ],
    )
    def test_how_it_ended(self, how, everyone, kind, said):
        done = failed(causes.ends, how, everyone)
        assert done.diagnosis.kind == kind
        assert done.culprit == 0 or everyone  # all at once: whichever was seen first
        assert f"rank {done.culprit} ended without a word: {said}" in done.failure

    @pytest.mark.parametrize(
        ("noted", "seen", "code", "found"),
        [
            ({0: 7}, dict(gone=[0]), 1, (0, 7)),
            ({0: -15}, dict(gone=[0]), 1, (0, -15)),
            ({2: 1}, dict(gone=[0]), 1, (0, 0)),  # rank 2 found that rank 0 had gone
            ({2: 1}, dict(gone=[0, 2]), 1, (0, None)),  # found at once; rank 2 is a victim
            ({2: 1, 0: -15}, dict(gone=[0, 2]), 1, (0, -15)),
            ({}, dict(), 0, (0, 0)),
            ({}, dict(gone=[1], why="ended"), -9, (1, 0)),
            ({}, dict(gone=[1], why="ended", outlived=[0]), -9, (1, None)),  # not known yet
        ],
    )
    def test_who_ended_silently_and_how(self, tmp_path, noted, seen, code, found):
        said = [
            f"\n  rank      : {r} (local_rank: {r})\n  exitcode  : {noted[r]} (pid: 9)"
            for r in noted
        ]
        (tmp_path / "agent").write_text("".join(said))
        one = ending._Ending.__new__(ending._Ending)
        one.traces, one.seen, one.code = Traces(tmp_path, 3), ending.Seen(9, **seen), code
        one.silent, one.errors = [0, 1, 2], [None, None, {"message": GONE}]
        assert one._died_silently() == found

    def test_what_torchrun_ended_for_anothers_error_did_not_end_by_itself(self, tmp_path):
        (tmp_path / "agent").write_text("\n  rank      : 2 (local)\n  exitcode  : 1 (pid: 9)")
        one = ending._Ending.__new__(ending._Ending)
        one.traces, one.seen = Traces(tmp_path, 3), ending.Seen(9, gone=[0, 2])
        one.silent, one.errors, one.code = [0, 1, 2], [None, None, {"message": "a typo"}], 1
        assert one._died_silently() is None

    def test_in_words(self):
        assert ending.how(None) == "its exit code is not known"
        assert ending.how(7) == "exit code 7"
        assert ending.how(-63) == "killed by signal 63, which has no name"


class TestTold:
    def test_at_most_thirty_lines_no_secret_and_fit_for_a_file(self):
        secret = "hunter2hunter2"
        done = failed(causes.says_too_much, env={"JOB_PASSWORD": secret})
        shown = done.failure + done.output
        assert len(done.failure.splitlines()) <= 30
        assert secret not in shown
        assert "bad password <JOB_PASSWORD> of caf? ?" in done.failure
        assert shown.encode("utf-8")
        assert "\x00" not in shown

    def test_a_secret_in_a_line_of_the_program(self, monkeypatch):
        monkeypatch.setenv("MY_API_KEY", "sk-canary-5471")
        found = ranks.diagnose(causes.waits_beside, 2, args=("",))
        shown = found.told + found._repr_html_()
        assert found.kind == "all receive first"
        assert "# <MY_API_KEY> <script> & '" in found.told
        assert "sk-canary-5471" not in shown
        assert "<script>" not in found._repr_html_()

    def test_what_is_no_secret_is_shown(self, monkeypatch, tmp_path):
        """What the test above can notice."""
        file = tmp_path / "lesson.py"
        file.write_text("x = 1  # sk-canary-5471\n")
        told = Places().tell(str(file), 1)
        assert told.endswith("line 1: x = 1  # sk-canary-5471")
        monkeypatch.setenv("SOME_NAME", "sk-canary-5471")
        assert Places().tell(str(file), 1) == told
        monkeypatch.setenv("SOME_SECRET", "sk-canary-5471")
        assert Places().tell(str(file), 1).endswith("line 1: x = 1  # <SOME_SECRET>")

    def test_half_a_character(self):
        assert output.clean("caf\udce9 \ud800x").encode() == b"caf? ?x"


class TestAtTheLimit:
    """What is no deadlock for sure, but is known well enough to be told."""

    def test_a_thread_that_sleeps_may_yet_act(self):
        found = failed(causes.waits_beside_a_thread, limit=2).diagnosis
        assert found.kind == "all send first"
        assert found.why.endswith(", unless another thread of theirs acts")

    def test_a_wait_for_what_was_waited_for(self):
        (line,) = failed(causes.waits_twice, limit=2).diagnosis.lines
        assert line.startswith("ranks 0 and 1 wait for a call that was waited for before, or that")
        assert line.endswith(": work.wait()")

    def test_the_waits_of_a_backward_pass_in_native_code(self):
        found = failed(causes.parallel, limit=4).diagnosis
        assert found.kind == "other operation"
        assert "waits in all_reduce of (20,) float32, its 7th collective" in found.lines[0]
        assert "tests/causes_on_ranks.py, line" in found.lines[0]
        assert "loss.backward()" in found.lines[0]
        assert found.why == "the 7th collective has all_reduce on rank 0 and barrier on rank 1"


def test_a_launch_inside_another_of_the_same_thread(nothing_left):
    """From a signal handler, or a callback: it would take the first one's messages."""
    process = supervised.supervisor("warm")
    folder = process.new_folder()
    with supervised.held("warm", folder):
        refused = pytest.raises(RuntimeError, match="inside another one of the same thread")
        with refused:
            ranks.launch(causes.refused_elsewhere, 2, status=False, mode="warm")
        process.holder = 0  # without the note of who has it, it would begin
        assert "Connection refused" in failed(causes.refused_elsewhere).failure
    folder.rmdir()
