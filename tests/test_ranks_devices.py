"""Where ranks run, how many there may be, and the sentence that says why."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from labs import ranks
from labs.ranks import devices, environment
from tests import leftovers, on_ranks

COURSE = Path(__file__).resolve().parents[1]


@pytest.fixture
def machine(monkeypatch):
    """A machine of a given size."""

    def sized(gpus=0, cores=4, free=16 * 2**30, whole=16 * 2**30):
        monkeypatch.setattr(devices, "visible_gpus", lambda: gpus)
        monkeypatch.setattr(devices, "cores", lambda: cores)
        monkeypatch.setattr(devices, "available_bytes", lambda: free)
        monkeypatch.setattr(devices, "whole_bytes", lambda: whole)

    return sized


def test_without_a_gpu(machine):
    machine(gpus=0)
    assert str(devices.place(4)) == "4 ranks on gloo/CPU: no GPU is visible"


@pytest.mark.parametrize("n", [2, 4, 8])
def test_more_ranks_than_gpus_get_gloo_with_the_reason_in_one_line(machine, n):
    """A04: one GPU, several ranks. A05: the owner of a single GPU follows the notebook."""
    machine(gpus=1)
    placed = devices.place(n)
    assert (placed.backend, placed.device) == ("gloo", "cpu")
    assert str(placed) == (
        f"{n} ranks on gloo/CPU: 1 GPU is visible and NCCL wants one for each rank"
    )


@pytest.mark.ranks
def test_a_run_on_a_machine_with_one_gpu(machine, nothing_left):
    """A05: pretend one GPU; the run works and says where it ran."""
    machine(gpus=1)
    done = ranks.launch(on_ranks.place_in_world, 2, status=False, mode="warm")
    assert [value["backend"] for value in done.values] == ["gloo", "gloo"]
    assert "1 GPU is visible" in done.placement.reason
    assert "\n" not in str(done.placement)


def test_one_visible_device_in_the_environment():
    """A04: CUDA_VISIBLE_DEVICES=0 gives a placement within seconds, whatever the machine has."""
    code = "from labs import ranks; print(ranks.place(4))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=COURSE,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 ranks on gloo/CPU: ")
    assert done.stdout.count("\n") == 1
    assert "Duplicate GPU" not in done.stdout + done.stderr


@pytest.mark.parametrize(("n", "gpus"), [(1, 1), (4, 4), (2, 8)])
def test_enough_gpus_get_nccl(machine, n, gpus):
    machine(gpus=gpus)
    placed = devices.place(n)
    assert (placed.backend, placed.device) == ("nccl", "cuda")
    assert str(gpus) in placed.reason


@pytest.mark.parametrize(
    ("n", "sentence"),
    [
        (0, "0 ranks asked for; a run needs at least 1"),
        (-1, "-1 ranks asked for; a run needs at least 1"),
        (
            1000,
            "1000 ranks asked for, but 64 fit on this machine (4 cores, at most 16 ranks on each)",
        ),
        (2.0, "ranks must be a whole number, got 2.0"),
        (True, "ranks must be a whole number, got True"),
        ("4", "ranks must be a whole number, got '4'"),
        (None, "ranks must be a whole number, got None"),
    ],
)
def test_a_bad_number_of_ranks_is_refused_before_anything_starts(
    machine, private_tmp, monkeypatch, n, sentence
):
    import importlib

    def never(mode):
        raise AssertionError("a supervisor was asked for")

    machine(gpus=0)
    monkeypatch.setattr(importlib.import_module("labs.ranks.launching"), "supervisor", never)
    with pytest.raises(ValueError) as refused:
        ranks.launch(on_ranks.total, n, status=False)
    assert str(refused.value) == sentence
    assert leftovers.folders(private_tmp) == []


def test_memory_can_be_what_limits(machine):
    machine(whole=2 * 2**30)
    with pytest.raises(ValueError, match=r"9 ranks .* but 8 fit .*2\.0 GiB of memory are there"):
        devices.place(9)
    assert devices.place(8).ranks == 8


def test_memory_that_is_taken_for_the_moment_refuses_nothing_early(machine):
    """Other people's runs hold it, perhaps; at its turn the run waits for them, or is refused."""
    machine(free=2 * 2**30)
    assert devices.place(9).ranks == 9
    assert (devices.memory_for(8), devices.memory_for(9)) == (True, False)
    told = str(devices.no_memory(9))
    assert told == (
        "9 ranks asked for, but 8 fit on this machine now "
        "(2.0 GiB of memory are free and a rank takes about 250 MiB)"
    )
    machine(free=0)
    assert devices.memory_for(1)


def limits(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)


def test_the_limits_of_a_container_and_of_one_person_in_it(tmp_path, monkeypatch):
    """The tightest group counts; files that the system may drop from memory are no use of it."""
    outer, own = tmp_path, tmp_path / "person"
    limits(outer, cpu_max="150000 100000", memory_max=str(8 * 2**30), memory_current="0")
    limits(outer, memory_stat="anon 0\n")
    limits(own, cpu_max="max 100000", memory_max=str(2**30), memory_current=str(700 * 2**20))
    limits(own, memory_stat=f"anon 5\nactive_file {2**20}\ninactive_file {99 * 2**20}\n")
    monkeypatch.setattr(devices, "_groups", lambda: iter([own, outer]))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    assert devices.cpu_share() == 1.5
    assert devices.cores() == 2
    assert devices.whole_bytes() == 2**30
    assert devices.available_bytes() == (1024 - 700 + 100) * 2**20


def test_without_limits_the_machine_counts(tmp_path, monkeypatch):
    limits(tmp_path, cpu_max="max 100000", memory_max="max", memory_current="7")
    monkeypatch.setattr(devices, "_groups", lambda: iter([tmp_path, tmp_path / "none"]))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 2, 3}, raising=False)
    assert (devices.cpu_share(), devices.cores()) == (None, 3)
    assert list(devices._memory_limits()) == []


@pytest.mark.parametrize(("n", "threads"), [(1, 4), (2, 2), (3, 1), (4, 1), (8, 1)])
def test_threads_a_rank(machine, n, threads):
    """A19: at most max(1, cores // ranks)."""
    machine(cores=4)
    assert devices.place(n).threads == threads


@pytest.mark.parametrize(("beside", "threads"), [(0, 16), (4, 8), (28, 2), (200, 1)])
def test_threads_beside_other_runs(machine, beside, threads):
    """One person alone on a server has all of it; the threads of many do not multiply."""
    machine(cores=64)
    assert devices.threads_for(4, beside) == threads


def test_the_environment_of_a_launch_is_made_not_changed(monkeypatch):
    """A15, A18: read os.environ, leave it as it is, drop what other launchers set."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("RANKING", "stays")
    before = dict(os.environ)
    made = environment.for_ranks(2, ["/a", "/b"], {"OMP_NUM_THREADS": "5"})
    assert dict(os.environ) == before
    assert "RANK" not in made
    assert "SLURM_JOB_ID" not in made
    assert made["RANKING"] == "stays"
    assert made["OMP_NUM_THREADS"] == "5"
    assert made["PYTHONPATH"] == os.pathsep.join(["/a", "/b"])
    assert made["GLOO_SOCKET_IFNAME"] in ("lo", "lo0")
