"""`labs doctor`: its findings as text and as JSON, and what it says when something is missing."""

from __future__ import annotations

import json
from pathlib import Path

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
