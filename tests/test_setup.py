"""`make setup`: what it refuses, in a sentence, and what it leaves where. Nothing is downloaded."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests import leftovers

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def checkout(tmp_path):
    """A copy of what `make setup` reads, in a folder with a blank and a letter beyond ASCII."""
    place = tmp_path / "mes côurs d’été"
    (place / "scripts").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "scripts/setup.sh"):
        (place / name).write_bytes((ROOT / name).read_bytes())
    return place


def make(place, *arguments, **environment):
    """Run make there with an empty HOME; (exit code, output)."""
    home = place / "home"
    home.mkdir(exist_ok=True)
    path = environment.pop("PATH", "/usr/bin:/bin")
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=place,
        env={"PATH": path, "HOME": str(home), "TMPDIR": tempfile.gettempdir(), **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def fake_python(place, version, missing=""):
    """A program that answers as a Python of that version, with a module missing.

    It makes a virtual environment of itself, and where pip runs it says where rustup would write.
    """
    program = place / "fake-python"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in\n  *version_info*) echo "{version}"; exit ;;\n'
        f'  *"import {missing or "nothing"}"*) exit 1 ;;\n'
        '  *"venv --clear"*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;\n'
        '  *"pip install"*) ;;\n  *) exit 0 ;;\nesac\necho "rustup: $RUSTUP_HOME"\n'
    )
    program.chmod(0o755)
    return "./fake-python"


def test_help_names_every_target(checkout):
    status, output = make(checkout, "help")
    assert status == 0
    for target in ["setup", "lab", "test", "tour", "notebooks", "bench", "lint", "clean"]:
        assert re.search(rf"^ *(make )?{target}\b", output, re.MULTILINE), output


@pytest.mark.parametrize("version", ["2.7", "3.9", "3.10", "3.14", "3.20", "4.0"])
def test_other_pythons_are_refused_in_a_sentence(checkout, version):
    python = fake_python(checkout, version)
    status, output = make(checkout, "setup", f"PYTHON={python}")
    assert status != 0 and not (checkout / ".venv").exists()
    assert f"is {version}; the course needs 3.11 to 3.13" in output and "PYTHON=" in output


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_these_pythons_will_do(checkout, version):
    status, output = make(checkout, "setup", f"PYTHON={fake_python(checkout, version)}")
    assert status == 0 and f"({version})" in output and "Ready" in output


def test_another_python_than_that_of_the_venv_is_told(checkout):
    one, other = fake_python(checkout, "3.11"), "./other-python"
    assert make(checkout, "setup", f"PYTHON={one}")[0] == 0
    (checkout / one).rename(checkout / other)
    (checkout / other).write_text((checkout / other).read_text().replace('"3.11"', '"3.12"'))
    status, output = make(checkout, "setup", f"PYTHON={other}")
    assert status == 0 and f"with Python 3.11; PYTHON={other} is not used" in output
    one = fake_python(checkout, "3.11")
    assert "is not used" not in make(checkout, "setup", f"PYTHON={one}")[1]


def test_a_python_that_is_too_new_is_passed_over(checkout):
    """The system's python3 may be newer than the course; the next one that will do is taken."""
    programs = checkout / "programs"
    programs.mkdir()
    for name, version in (("python3", "3.14"), ("python3.13", "3.13")):
        (checkout / fake_python(checkout, version)).rename(programs / name)
    status, output = make(checkout, "setup", PATH=f"{programs}:/usr/bin:/bin")
    assert status == 0 and "Creating .venv with python3.13 (3.13)" in output


def test_unknown_python_is_refused_in_a_sentence(checkout):
    status, output = make(checkout, "setup", "PYTHON=no-such-python")
    assert status != 0 and "no-such-python" in output and "not found" in output


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_missing_venv_is_refused_in_a_sentence(checkout, module):
    python = fake_python(checkout, "3.11", missing=module)
    status, output = make(checkout, "setup", f"PYTHON={python}")
    assert status != 0
    assert f"module {module}" in output and "python3-venv" in output


def test_full_disk_is_refused_before_anything_is_installed(checkout):
    python = fake_python(checkout, "3.11")
    status, output = make(checkout, "setup", f"PYTHON={python}", LABS_NEED_MB="999999999")
    assert status != 0
    assert "999999999 MB" in output and "free" in output
    assert not (checkout / ".venv").exists()


def test_setup_does_nothing_when_it_is_up_to_date(checkout):
    """Decided by content and place, so a fresh checkout's file times mean nothing."""
    (checkout / ".venv" / "bin").mkdir(parents=True)
    program = checkout / ".venv" / "bin" / "python"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    stamp = subprocess.run(
        ["bash", "scripts/setup.sh", "--stamp"], cwd=checkout, capture_output=True, check=True
    ).stdout
    (checkout / ".venv" / "labs-stamp").write_bytes(stamp)
    status, output = make(checkout, "setup", "PYTHON=no-such-python")
    assert (status, output) == (0, "")
    with (checkout / "constraints.txt").open("a") as file:
        file.write("# changed\n")
    status, output = make(checkout, "setup", "PYTHON=no-such-python")
    assert status != 0


def test_nothing_is_begun_for_rustup_in_the_home(checkout):
    """pip asks rustc for its version; where rustup has no folder yet it gets one in .venv."""
    python = fake_python(checkout, "3.12")
    status, output = make(checkout, "setup", f"PYTHON={python}")
    assert status == 0 and output.count(f"rustup: {checkout}/.venv/rustup\n") == 2  # venv, pip
    assert list((checkout / "home").iterdir()) == []


def test_a_rustup_that_is_there_is_left_alone(checkout):
    python = fake_python(checkout, "3.12")
    (checkout / "home" / ".rustup").mkdir(parents=True)
    assert "rustup: \n" in make(checkout, "setup", f"PYTHON={python}")[1]
    (checkout / ".venv" / "labs-stamp").unlink()
    output = make(checkout, "setup", f"PYTHON={python}", RUSTUP_HOME=str(checkout))[1]
    assert f"rustup: {checkout}\n" in output


@pytest.fixture
def jupyterlab(checkout, tmp_path):
    """Starts JupyterLab with a home of its own and an npm that leaves a mark; (home, mark)."""
    programs, home, mark = tmp_path / "programs", tmp_path / "newcomer", tmp_path / "npm-was-asked"
    for folder in (programs, home):
        folder.mkdir()
    npm = programs / "npm"
    npm.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
    npm.chmod(0o755)

    def run(*options: str) -> tuple[Path, Path]:
        log = tmp_path / "log"
        with log.open("w") as out:
            server = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root",
                 "--ServerApp.port=0", f"--ServerApp.root_dir={checkout}", *options],
                env={"PATH": f"{programs}:{os.defpath}", "HOME": str(home),
                     "TMPDIR": tempfile.gettempdir(),
                     "JUPYTER_CONFIG_PATH": str(checkout / ".venv" / "etc" / "jupyter")},
                stdout=out, stderr=out,
            )  # fmt: skip
        try:
            ready = lambda: "http://127.0.0.1" in log.read_text(errors="replace")  # noqa: E731
            assert leftovers.wait_until(ready, 60), log.read_text(errors="replace")
            time.sleep(1)  # what it does beside that
        finally:
            server.terminate()
            server.wait(30)
        return home, mark

    return run


@pytest.mark.slow
def test_jupyterlab_leaves_only_its_own_files_in_the_home(checkout, jupyterlab):
    """With the settings that `make setup` writes it asks no npm, whose files lie in ~/.npm."""
    make(checkout, "setup", f"PYTHON={fake_python(checkout, '3.12')}")
    for settings in (checkout / ".venv" / "etc" / "jupyter").rglob("*.json"):
        assert json.loads(settings.read_text(encoding="utf-8"))
    home, mark = jupyterlab()
    assert not mark.exists()
    left = {path.relative_to(home).parts[0] for path in home.rglob("*") if path.is_file()}
    assert left <= {".local", ".jupyter", ".ipython", ".cache", ".config"}


@pytest.mark.slow
def test_with_the_usual_setting_it_asks_npm(jupyterlab):
    """So the test above can fail."""
    _, mark = jupyterlab("--LanguageServerManager.autodetect=True")
    assert mark.exists()
