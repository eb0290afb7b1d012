"""pyproject.toml, constraints.txt and environment.yml name one environment."""

import importlib.metadata
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))


def direct_requirements():
    named = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]
    return [Requirement(one) for one in named]


def constraints():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def conda_and_pip():
    """(conda's dependencies, the lines of the pip section)."""
    plain = [one for one in CONDA["dependencies"] if isinstance(one, str)]
    (pip,) = [one["pip"] for one in CONDA["dependencies"] if isinstance(one, dict)]
    return plain, pip


@pytest.mark.parametrize("requirement", direct_requirements(), ids=lambda r: r.name)
def test_tested_version_satisfies_the_range(requirement):
    pinned = constraints()[canonicalize_name(requirement.name)]
    assert requirement.specifier, f"{requirement.name} has no range"
    assert requirement.specifier.contains(pinned, prereleases=True)


def test_constraints_are_exact_and_free_of_local_builds():
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line) for line in lines), lines
    assert all(version.local is None for version in constraints().values())
    assert lines == sorted(lines, key=lambda line: canonicalize_name(line.split("==")[0]))


def test_nbval_is_pinned_where_its_classes_are_used():
    (nbval,) = [one for one in direct_requirements() if one.name == "nbval"]
    assert str(nbval.specifier) == "==0.11.0"


def test_constraints_name_the_whole_closure():
    """Every package that an installation here pulls in has a tested version."""
    pinned, waiting, seen = constraints(), direct_requirements(), set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, *requirement.extras) in seen:
            continue
        seen.add((name, *requirement.extras))
        assert name in pinned, f"{name} is installed but constraints.txt does not name it"
        for line in importlib.metadata.requires(name) or []:
            needed = Requirement(line)
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(needed)


def test_each_pinned_version_runs_on_the_lowest_python():
    """A package may ask for 3.11.5; Debian 12 has 3.11.2, and pip would find no version."""
    lowest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    for name, version in constraints().items():
        try:
            installed = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        needs = installed.metadata["Requires-Python"]
        if needs and Version(installed.version).public == version.public:
            assert SpecifierSet(needs).contains(lowest), f"{name}=={version} needs Python {needs}"


def test_conda_file_parses_with_condas_own_grammar():
    rattler = pytest.importorskip("rattler")
    plain, _ = conda_and_pip()
    specs = {str(spec.name.normalized): spec for spec in map(rattler.MatchSpec, plain)}
    assert set(specs) == {"python", "pip"}  # a pip section without pip itself is an error in conda
    assert CONDA["channels"] == ["conda-forge"]
    for channel in CONDA["channels"]:
        assert rattler.Channel(channel).name == channel
    with pytest.raises(Exception, match=r"."):
        rattler.MatchSpec("python==>3.11")  # the grammar does refuse


def test_conda_and_pip_ask_for_one_environment():
    plain, pip = conda_and_pip()
    assert pip == ["-c constraints.txt", "-e .[test]"]
    assert CONDA["name"] == PROJECT["name"]
    (python,) = [one.removeprefix("python=") for one in plain if one.startswith("python")]
    assert SpecifierSet(PROJECT["requires-python"]).contains(python)


def test_setup_uses_the_same_words():
    setup = (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8")
    assert "-c constraints.txt -e '.[test]'" in setup
    lowest = PROJECT["requires-python"].removeprefix(">=")
    assert f"MINIMUM={lowest}" in setup


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
        env={"PATH": path, "HOME": str(home), **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def fake_python(place, version, missing=""):
    """A program that answers as a Python of that version, with a module missing."""
    program = place / "fake-python"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in\n  *version_info*) echo "{version}" ;;\n'
        f'  *"import {missing or "nothing"}"*) exit 1 ;;\nesac\n'
    )
    program.chmod(0o755)
    return "./fake-python"


def test_help_names_every_target(checkout):
    status, output = make(checkout, "help")
    assert status == 0
    for target in ["setup", "lab", "test", "tour", "notebooks", "bench", "lint", "clean"]:
        assert re.search(rf"^ *(make )?{target}\b", output, re.MULTILINE), output


def test_old_python_is_refused_in_a_sentence(checkout):
    python = fake_python(checkout, "3.10")
    status, output = make(checkout, "setup", f"PYTHON={python}")
    assert status != 0
    assert "3.10" in output and "3.11 or newer" in output and "PYTHON=" in output


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
