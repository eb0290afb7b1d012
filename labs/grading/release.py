"""What students get: notebooks, labs and environment, without answers, tests and grading.

    made = release("handout.zip")          # or a folder
    made.files, made.exercises, made.given

Nothing is written before every file was compared with the answers (leaks.py). The same course gives
the same bytes, whenever it is released: names are sorted, dates and owners are left out.
"""

from __future__ import annotations

import ast
import functools
import io
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labs import exercise, topics
from labs.grading import handout
from labs.grading.leaks import TEXTS, Answers
from labs.topics import Topic

COURSE = Path(__file__).resolve().parents[2]
NAME = "model-parallelism-labs"  # the folder in the zip
FOLDERS = ("labs", "notebooks", "scripts")
FILES = (
    ".gitignore", "LICENSE", "Makefile", "README.md", "constraints.txt", "environment.yml",
    "pyproject.toml",
)  # fmt: skip
LEFT_OUT = ("labs/grading/",)
_FORMULAS = "labs/formulas/"  # practice is never for credit, and its formulas may stand here
_MADE_BY_TOOLS = ("__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".ruff_cache", ".DS_Store")
_ARCHIVES = (".gz", ".bz2", ".xz", ".tar", ".tgz", ".7z", ".rar")
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Leak(ValueError):
    """An answer is in what would go out."""


@dataclass(frozen=True)
class Released:
    """What went out. given: topics whose answers are in it."""

    where: Path
    files: tuple[str, ...]
    size: int
    exercises: int
    given: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.where.name}: {len(self.files)} files, {self.size:,} bytes",
            f"each compared with the answers of {self.exercises} exercises: none is inside",
        ]
        if self.given:
            lines.append(f"with the answers of {', '.join(self.given)}")
        return "\n".join([*lines, *self.notes])


def release(
    out: str | Path, *, with_answers: Iterable[str] = (), force: bool = False, course: Path = COURSE
) -> Released:
    """Write the release to a folder, or to a zip where `out` ends in .zip.

    with_answers: topics, by name or notebook, whose answers students may see. force: replace an
    earlier release. Raises ValueError, before anything is written, for an `out` that cannot be and
    for an unknown topic; Leak, a ValueError that names each place, where an answer is inside.
    """
    out = Path(out)
    given = _topics(with_answers)
    _refuse_place(out, force, course)
    files, notes = contents(course, given)
    sources = hidden(course, given)
    found = leaks(files, sources)
    if found:
        raise Leak("nothing was released: students would get an answer\n" + "\n".join(found))
    if out.suffix == ".zip":
        _replace_file(out, zipped(files))
        size = out.stat().st_size
    else:
        _replace_folder(out, files)
        size = sum(map(len, files.values()))
    names = tuple(sorted(files))
    kept = sum(one.topic not in given for one in exercise.exercises().values())
    return Released(out, names, size, kept, given, tuple(notes))


def contents(course: Path, given: Iterable[str] = ()) -> tuple[dict[str, bytes], list[str]]:
    """{path: content} of all that goes out, and notes of what does not.

    Raises ValueError where a file of the course is missing or is a link, and where the course is a
    clone and git does not say which files it knows.
    """
    names, notes = _named(course)
    names += [f"solutions/{name}.py" for name in ("__init__", *given)] if given else []
    files: dict[str, bytes] = {}
    for name in sorted(set(names)):
        path = course / name
        if path.is_symlink() or not path.is_file():
            raise ValueError(f"{name} is not a file of this course: it cannot be released")
        files[name] = path.read_bytes()
    text = files["README.md"].decode("utf-8")
    files["README.md"] = handout.readme(text, files, given).encode()
    return files, notes


def hidden(course: Path, given: Iterable[str] = ()) -> dict[str, str]:
    """{path: text} of the modules of answers that stay here."""
    found = {
        f"solutions/{path.name}": path.read_text(encoding="utf-8")
        for path in sorted((course / "solutions").glob("*.py"))
        if path.stem not in given
    }
    lacking = [
        name for name in topics.TOPICS if name not in given and f"solutions/{name}.py" not in found
    ]
    if lacking:
        raise ValueError(
            f"the answers of {', '.join(lacking)} are not in this copy of the course, so nothing "
            "can be compared with them; release from the whole course"
        )
    return found


def leaks(files: Mapping[str, bytes], sources: Mapping[str, str]) -> list[str]:
    """A sentence for each place in the files that holds an answer of the sources.

    The formula of a practice exercise may stand in labs/formulas, where labs need it.
    """
    told, found = tuple(sources.items()), []
    for name, content in files.items():
        if name.startswith("solutions/"):  # handed over by name
            continue
        found += _answers(told, name.startswith(_FORMULAS)).leaks(name, content)
    return found


@functools.lru_cache(maxsize=4)
def _answers(sources: tuple[tuple[str, str], ...], graded_only: bool) -> Answers:
    return Answers.of({n: _graded_only(text) if graded_only else text for n, text in sources})


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip of the files in a folder; the same bytes for the same files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as out:
        for name in sorted(files):
            info = zipfile.ZipInfo(f"{NAME}/{name}", _EPOCH)
            info.create_system = 3
            info.external_attr = (0o100755 if _is_program(name) else 0o100644) << 16
            out.writestr(info, files[name], zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()


def _graded_only(source: str) -> str:
    """A module of answers without those of practice exercises."""
    practice = {name for name, one in exercise.exercises().items() if one.kind == "practice"}
    tree = ast.parse(source)
    lines = source.split("\n")
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in practice:
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(lines)


def _topics(asked: Iterable[str]) -> tuple[str, ...]:
    found: list[Topic] = [topics.find(name) for name in asked]
    return tuple(dict.fromkeys(topic.name for topic in found))


def _named(course: Path) -> tuple[list[str], list[str]]:
    """Names of what goes out: what git knows, or, without git, all that no tool made."""
    there = [
        path.relative_to(course).as_posix()
        for folder in FOLDERS
        for path in sorted((course / folder).rglob("*"))
        if path.is_file() and not set(path.relative_to(course).parts) & set(_MADE_BY_TOOLS)
    ]
    there = [name for name in [*FILES, *there] if not name.startswith(LEFT_OUT)]
    known = _tracked(course)
    if known is None:
        return there, []
    other = [name for name in there if name not in known]
    notes = [f"left out, since git does not know it: {name}" for name in other[:20]]
    notes += [f"released as it is, not as it was committed: {name}" for name in _changed(course)]
    return [name for name in there if name in known], notes


def _tracked(course: Path) -> set[str] | None:
    """What git knows of; None where this is no clone. Raises ValueError where git does not tell."""
    return _git(course, "ls-files", "-z") if (course / ".git").exists() else None


def _changed(course: Path) -> list[str]:
    """What goes out in another form than was committed."""
    names = _git(course, "diff", "HEAD", "--name-only", "-z", "--", *FOLDERS, *FILES)
    return sorted(name for name in names if name and not name.startswith(LEFT_OUT))[:20]


def _git(course: Path, *arguments: str) -> set[str]:
    """Names that git prints. Raises ValueError, with its words, where it prints none."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=course, capture_output=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode("utf-8", "replace")
        raise ValueError(
            "git does not say which files are the course's own, so one that was never committed "
            f"might go out with the others: {' '.join(said.split()) or error}"
        ) from None
    return set(done.stdout.decode("utf-8", "surrogateescape").split("\0"))


def _is_program(name: str) -> bool:
    return name.endswith(".sh")


def _refuse_place(out: Path, force: bool, course: Path) -> None:
    """Raises ValueError for a place that must not be written to."""
    if not out.name or out.name in (".", ".."):
        raise ValueError(f"--out needs the name of a folder or a zip, got {str(out)!r}")
    if not out.resolve().parent.is_dir():
        raise ValueError(f"{out} cannot be written: there is no folder {out.parent}")
    if out.suffix and (out.suffix in TEXTS or out.suffix.lower() in _ARCHIVES):
        raise ValueError(f"{out} is neither a folder nor a zip; a zip ends in .zip")
    inside = out.resolve()
    if inside == course or inside in course.parents:
        raise ValueError(f"{out} holds the course itself; name another folder")
    if any(inside.is_relative_to(course / folder) for folder in (*FOLDERS, "solutions")):
        raise ValueError(f"{out} is inside the course's {inside.relative_to(course).parts[0]}/")
    if not out.exists() and not out.is_symlink():
        return
    if out.is_dir() and not out.is_symlink() and not any(out.iterdir()):
        return
    if not force:
        raise ValueError(f"{out} is there already; --force replaces an earlier release")
    if out.is_symlink() or out.is_file() != (out.suffix == ".zip"):
        raise ValueError(f"{out} is no earlier release, and is not replaced")
    if out.is_dir() and not _is_release(out):
        raise ValueError(f"{out} is no earlier release (it has other files), and is not replaced")


def _is_release(folder: Path) -> bool:
    """Whether nothing but a release, and what `make setup` makes, is in a folder."""
    usual = {*FOLDERS, *FILES, "solutions", ".venv", f"{NAME.replace('-', '_')}.egg-info"}
    names = {path.name for path in folder.iterdir()}
    return {"labs", "notebooks"} <= names <= usual and not (folder / "labs" / "grading").exists()


def _replace_file(out: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{out.name}-", dir=out.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, out)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _replace_folder(out: Path, files: Mapping[str, bytes]) -> None:
    fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.resolve().parent))
    try:
        os.chmod(fresh, 0o755)
        for name, content in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o755 if _is_program(name) else 0o644)
        if out.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.resolve().parent))
            os.replace(out, old / "old")
            os.replace(fresh, out)
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(fresh, out)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
