"""`labs doctor`: its findings as text and as JSON, and what it says when something is missing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from labs.cli import doctor
from labs.ranks import devices
from tests.test_cli import ROOT, labs


class TestDoctor:
    def test_text(self) -> None:
        told = labs("doctor")
        assert told.exit_code == 0, told.output
        names = [look().name for look in (doctor._python, doctor._largest_lab, doctor._namespaces)]
        assert len(doctor._LOOKS) == 14 and all(name in told.stdout for name in names)
        assert "/home" not in told.output and str(Path.home()) not in told.output
        assert str(ROOT) not in told.output

    def test_json(self) -> None:
        told = json.loads(labs("doctor", "--json").stdout)
        assert told["ok"] and told["schema"].startswith("model-parallelism-labs/doctor/")
        found = {f["name"]: f for f in told["findings"]}
        assert found["mode"]["numbers"]["mode"] in ("warm", "cold")
        assert found["largest lab"]["numbers"]["ranks"] >= 4
        assert found["cores"]["numbers"]["usable"] >= 1
        assert found["queue"]["numbers"] == {"name": None, "capacity": devices.cores()}
        own = found[f"{found['mode']['numbers']['mode']} process"]["numbers"]
        assert own["bytes"] > 10**7 and own["idle_seconds"] == 900 and own["running"] >= 0

    def test_what_is_missing(self, monkeypatch) -> None:
        """A look that fails is a finding; one that every lab needs makes the exit code 1."""

        def _loopback() -> doctor.Finding:
            raise OSError(f"no route in {Path.home()}/x")

        monkeypatch.setattr(doctor, "_LOOKS", (_loopback, doctor._browser))
        monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
        told = labs("doctor")
        assert told.exit_code == 1 and "FAIL loopback" in told.stdout
        assert "no   browser" in told.stdout and str(Path.home()) not in told.output


class TestOneAndMany:
    """What is counted stands in the singular where it is one."""

    @pytest.mark.parametrize(
        ("others", "idle", "told"),
        [
            ([], 900, "after 15 minutes without work (LABS_IDLE); none of yours runs now"),
            ([11], 60, "after 1 minute without work (LABS_IDLE); 1 of yours runs now, 5 MB"),
            ([11, 12], 90, "after 1.5 minutes without work (LABS_IDLE); 2 of yours run now, 10 MB"),
            ([11, 12], 1, "after 1 s without work (LABS_IDLE); 2 of yours run now, 10 MB"),
        ],
    )
    def test_processes_that_wait(self, monkeypatch, others: list[int], idle: int, told: str):
        own = SimpleNamespace(process=SimpleNamespace(pid=10), wait_ready=lambda: None)
        monkeypatch.setattr(doctor.supervised, "supervisor", lambda mode: own)
        monkeypatch.setattr(doctor.supervised, "all_of_this_user", lambda: [10, *others])
        monkeypatch.setattr(doctor.processes, "memory_bytes", lambda pid: 5_000_000)
        monkeypatch.setattr(doctor.environment, "idle_seconds", lambda: idle)
        found = doctor._warm_process()
        assert found.told == (
            f"5 MB while it waits; it ends with its notebook, and by itself {told}"
        )

    @pytest.mark.parametrize(
        ("cores", "memory", "told"),
        [
            (1, 2**36, "16 ranks fit here (1 core, at most 16 ranks on it)"),
            (2, 2**36, "32 ranks fit here (2 cores, at most 16 ranks on each)"),
            (2, devices.RANK_BYTES, "1 rank fits here (0.2 GiB of memory are there"),
        ],
    )
    def test_ranks_that_fit(self, monkeypatch, cores: int, memory: int, told: str) -> None:
        monkeypatch.setattr(devices, "cores", lambda: cores)
        monkeypatch.setattr(devices, "whole_bytes", lambda: memory)
        assert told in doctor._largest_lab().told

    @pytest.mark.parametrize(
        ("share", "told"),
        [(1.0, "the time of 1 core"), (1.5, "the time of 1.5 cores"), (0.5, "of 0.5 cores")],
    )
    def test_the_containers_share(self, monkeypatch, share: float, told: str) -> None:
        monkeypatch.setattr(devices, "cores", lambda: 2)
        monkeypatch.setattr(devices, "cpu_share", lambda: share)
        assert doctor._cores().told.endswith(told)

    @pytest.mark.parametrize(("cores", "told"), [(1, "1 rank at once"), (2, "2 ranks at once")])
    def test_the_queue(self, monkeypatch, cores: int, told: str) -> None:
        monkeypatch.setattr(devices, "cores", lambda: cores)
        monkeypatch.setattr(doctor.queue, "name", lambda: "a")
        monkeypatch.setattr(doctor.queue, "tickets", lambda name: [])
        assert doctor._queue().told.startswith(told)
