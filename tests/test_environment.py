"""pyproject.toml, constraints.txt and environment.yml name one environment."""

import importlib.metadata
import re
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


def oldest_and_newest():
    """The Pythons that pyproject.toml allows: ("3.11", "3.13") for ">=3.11,<3.14"."""
    told = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"])
    return f"3.{told[1]}", f"3.{int(told[2]) - 1}"


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
    lowest = f"{oldest_and_newest()[0]}.0"
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
    oldest, newest = oldest_and_newest()
    assert f"OLDEST={oldest} NEWEST={newest} " in setup


def test_readme_names_the_same_pythons():
    """README.md says which versions there are, the newest one too; conda's is one of them."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    oldest, newest = oldest_and_newest()
    assert f"Python {oldest} to {newest}" in readme
    minor = int(newest.partition(".")[2])
    bound = SpecifierSet(PROJECT["requires-python"])
    assert bound.contains(f"{newest}.99") and not bound.contains(f"3.{minor + 1}.0")
