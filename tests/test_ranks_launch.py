"""A run that goes well: values, modes, numbers of ranks, the environment a rank gets."""

import importlib
import os
import socket
import sys
import textwrap

import pytest
import torch

from labs import ranks
from labs.ranks import environment
from tests import leftovers, on_ranks

launching = importlib.import_module("labs.ranks.launching")  # the name is the function's too
pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("nothing_left")]


def run(function, n=2, *args, **options):
    return ranks.launch(function, ranks=n, args=args, status=False, **options)


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_every_rank_reports_its_value(n):
    done = run(on_ranks.total, n)
    assert [value.tolist() for value in done.values] == [[n * (n + 1) / 2] * 8] * n
    assert (done.world_size, done.backend, done.device) == (n, "gloo", "cpu")
    assert done.failure is None
    assert done.ledger.count(op="all_reduce") == n


def test_a_run_holds_values_kept_memory_timeline_threads():
    done = run(on_ranks.everything, 2)
    assert done.values == [torch.tensor(4.0)] * 2
    assert done.kept == [{"early": 0}, {"early": 10}]
    traced = [m for m in done.memory if m["name"] == "block"]
    assert [m["rank"] for m in traced] == [0, 1]
    assert all(4096 <= m["peak_bytes"] < 8192 and m["largest_bytes"] == 4096 for m in traced)
    assert all(m["peak_rss_bytes"] > 2**20 for m in done.memory if m["name"] == "process")
    assert len(done.threads) == 2
    assert [(e["op"], e["section"]) for e in done.timeline] == [("all_reduce", "sums")] * 4
    assert all(0 <= e["start"] <= e["end"] <= done.seconds + 1 for e in done.timeline)
    assert done.ledger.count(section="sums", op="all_reduce", rank=0) == 2
    assert done.ledger.count(section="", op="broadcast", rank=0) == 1


def test_cold_gives_what_warm_gives(monkeypatch):
    monkeypatch.setattr("labs.ranks.devices.cores", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    warm, cold = (run(on_ranks.everything, 2, mode=mode) for mode in ("warm", "cold"))
    assert (warm.mode, cold.mode) == ("warm", "cold")
    assert warm.values == cold.values
    assert warm.kept == cold.kept
    assert warm.ledger.to_list() == cold.ledger.to_list()
    assert warm.threads == cold.threads == [2, 2]
    assert "OMP" not in cold.output
    assert [m for m in warm.memory if m["name"] == "block"] == [
        m for m in cold.memory if m["name"] == "block"
    ]


def test_mode_and_limit_are_checked_first(monkeypatch):
    with pytest.raises(ValueError, match="'warm' or 'cold', got 'hot'"):
        run(on_ranks.total, mode="hot")
    for limit in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="limit must be a number of seconds above 0"):
            run(on_ranks.total, limit=limit)
    monkeypatch.setenv("LABS_MODE", "cold")
    assert environment.default_mode() == ("cold", "LABS_MODE=cold")


def test_rendezvous_ports_taken_by_others():
    """A02: somebody listens on torchrun's usual ports."""
    with socket.socket() as a, socket.socket() as b:
        for held, port in ((a, 29500), (b, 29400)):
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("0.0.0.0", port))
            held.listen()
        told = run(on_ranks.place_in_world)
    assert {value["port"] for value in told.values}.isdisjoint({29500, 29400})
    assert {value["master"] for value in told.values} == {"127.0.0.1"}


def test_port_taken_after_the_probe_is_tried_again(monkeypatch):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        taken, free = held.getsockname()[1], launching.free_port()
        offered = [taken, free]
        monkeypatch.setattr(launching, "free_port", lambda: offered.pop(0))
        done = run(on_ranks.place_in_world)
    assert offered == []
    assert [value["port"] for value in done.values] == [free] * 2


def test_a_foreign_torchrun_first_on_the_path(monkeypatch, tmp_path):
    """A14: the torchrun found first on PATH is another one's, and fails."""
    fake = tmp_path / "torchrun"
    fake.write_text(f"#!/bin/sh\necho called >> '{tmp_path}/called'\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    beside = module_beside(tmp_path / "another folder", monkeypatch, "beside_cold")
    assert run(beside.answer, 1, mode="cold").values == [42]
    assert run(on_ranks.total, 1, mode="warm").failure is None
    assert not (tmp_path / "called").exists()


def test_another_launchers_variables_do_not_decide(monkeypatch):
    """A15: the kernel itself lives in somebody's SLURM job or torchrun."""
    foreign = dict(
        RANK="3", WORLD_SIZE="8", LOCAL_RANK="3", LOCAL_WORLD_SIZE="8", GROUP_RANK="1",
        MASTER_ADDR="10.0.0.9", MASTER_PORT="1", SLURM_PROCID="3", SLURM_NTASKS="8",
        TORCHELASTIC_RUN_ID="other", PET_NNODES="2", OMPI_COMM_WORLD_RANK="3",
    )  # fmt: skip
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    told = run(on_ranks.place_in_world).values
    assert [(value["rank"], value["world"]) for value in told] == [(0, 2), (1, 2)]
    inherited = run(on_ranks.environment, 1, "SLURM_PROCID", "PET_NNODES", "OMPI_COMM_WORLD_RANK")
    assert set(inherited.values[0].values()) == {None}
    assert {name: os.environ[name] for name in foreign} == foreign


def test_a_variable_of_one_launch_stays_in_it():
    """A18: neither os.environ nor the next launch sees it, nor is a later change lost."""
    before = dict(os.environ)
    with_it = run(on_ranks.environment, 2, "LABS_TEST_FLAG", env={"LABS_TEST_FLAG": "on"})
    without = run(on_ranks.environment, 2, "LABS_TEST_FLAG")
    assert [value["LABS_TEST_FLAG"] for value in with_it.values] == ["on", "on"]
    assert [value["LABS_TEST_FLAG"] for value in without.values] == [None, None]
    assert dict(os.environ) == before


def test_the_environment_is_the_one_at_launch(monkeypatch):
    run(on_ranks.environment, 1, "LABS_LATER")
    monkeypatch.setenv("LABS_LATER", "set after the supervisor started")
    told = run(on_ranks.environment, 1, "LABS_LATER").values[0]
    assert told == {"LABS_LATER": "set after the supervisor started"}


def test_threads_are_shared_between_the_ranks(monkeypatch):
    """A19: cores // ranks threads a rank, and no banner about OMP_NUM_THREADS."""
    monkeypatch.setattr("labs.ranks.devices.cores", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    done = run(on_ranks.place_in_world, 2)
    assert [value["threads"] for value in done.values] == [2, 2] == done.threads
    assert "OMP" not in done.output
    assert run(on_ranks.place_in_world, 8).threads == [1] * 8


def module_beside(folder, monkeypatch, name):
    """A module in a folder that only this process's sys.path names."""
    folder.mkdir()
    (folder / f"{name}.py").write_text("def answer():\n    return 42\n")
    monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module(name)


def test_a_module_beside_the_notebook_can_be_imported(tmp_path, monkeypatch):
    beside = module_beside(tmp_path / "module folder ä", monkeypatch, "beside_warm")
    assert run(beside.answer, 1).values == [42]


def test_edited_modules_are_read_anew(tmp_path, monkeypatch):
    """Nothing of the learner's is kept in the warm supervisor."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "often_edited.py"
    file.write_text("def answer():\n    return 1\n")
    import often_edited

    assert run(often_edited.answer, 1).values == [1]
    file.write_text("def answer():\n    return 'two'\n")
    assert run(often_edited.answer, 1).values == ["two"]


def test_two_threads_that_launch_at_once_get_their_own_results():
    import threading

    got = {}

    def start(n):
        got[n] = run(on_ranks.total, n).values[0][0].item()

    threads = [threading.Thread(target=start, args=(n,)) for n in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {1: 1.0, 2: 3.0, 3: 6.0}


def test_a_forked_child_starts_a_supervisor_of_its_own():
    run(on_ranks.total, 1)
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            value = run(on_ranks.total, 2).values[0][0].item()
            os.write(writes, str(value).encode())
            launching.supervisor("warm").close()
            code = 0
        finally:
            os._exit(code)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        said = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert said == "3.0"
    assert leftovers.marked(child) == []
    assert run(on_ranks.total, 1).values[0][0] == 1


def test_importing_labs_imports_no_torch_and_starts_nothing():
    """A16: importing is light; nothing hangs waiting for a rank that does not exist."""
    import subprocess

    code = """
        import sys, labs
        assert "torch" not in sys.modules
        from labs import ranks
        import torch.distributed as dist
        assert not dist.is_initialized()
        with ranks.section("x"), ranks.phase("y"):
            ranks.keep("a", 1); ranks.step(1, 2)
        print("imported")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=60, cwd=launching.COURSE,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "imported\n"), done.stderr


@pytest.mark.parametrize("topic", ["ranks_and_collectives", "tp_linear_pair"])
def test_a_lab_run_by_hand_without_torchrun_says_how(topic):
    """A16: `python -m labs.topic` prints its launch line or runs alone, and does not hang."""
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", f"labs.{topic}"],
        capture_output=True, text=True, timeout=60, cwd=launching.COURSE,
    )  # fmt: skip
    assert "torchrun" in done.stdout + done.stderr or "torch.distributed.run" in done.stdout
    assert f"labs.{topic}" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("states", "began", "again"),
    [
        (("failed", "rendezvous"), False, True),
        (("failed", "failed"), False, True),
        (("failed", "running"), False, False),  # the other rank is in the learner's function
        (("failed", "failed"), True, False),
    ],
)
def test_only_ranks_that_never_met_are_started_again(tmp_path, states, began, again):
    """On an overloaded machine gloo may give up connecting; a function must not run twice."""
    for rank, state in enumerate(states):
        (tmp_path / f"state.{rank}").write_text(state)
    placement = ranks.place(len(states))
    attempt = launching._Attempt(tmp_path, placement, "warm", 10, {}, None)
    error = {"message": "Gloo connectFullMesh failed with [...]", "began": began}
    assert attempt._never_met([error, None]) is again
    assert not attempt._never_met([{"message": "boom", "began": False}, None])
