"""What a class handed in, as each platform exports it: whose it is, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.grading import archive, collect, students
from tests.handed_in import NB, WHEN, laid_out, zipped


def told(path: Path) -> list[tuple[str, str]]:
    return [(one.student, one.file) for one in collect.collect(path)]


_LAYOUTS = {
    "files": (["ada.ipynb", "grace.py"], ["ada", "grace"]),
    "files with the lesson": (
        ["ada_01_tp_linear_pair.ipynb", "ada-03_one_f_one_b (1).ipynb", "02_bubble_math_g.ipynb"],
        ["ada", "ada", "g"],
    ),
    "folders": (["ada/01_tp_linear_pair.ipynb", "grace/work/x.ipynb"], ["ada", "grace"]),
    "a folder around": (["export/ada.ipynb", "export/grace.ipynb"], ["ada", "grace"]),
    "one student's folder": (
        ["ada/01_tp_linear_pair.ipynb", "ada/03_one_f_one_b.ipynb"], ["ada", "ada"]),
    "Canvas": (
        ["lovelaceada_LATE_123_456_01_tp_linear_pair.ipynb",
         "lovelaceada_123_789_01_tp_linear_pair-1.ipynb", "hoppergrace_124_457_x.ipynb"],
        ["hoppergrace_124", "lovelaceada_123", "lovelaceada_123"],
    ),
    "Moodle": (
        ["Ada Lovelace_12345_assignsubmission_file_/x.ipynb",
         "Grace Höpper_9_assignsubmission_file/y.ipynb",
         "Edsger D_8_assignsubmission_file_z.ipynb"],
        ["Ada Lovelace_12345", "Edsger D_8", "Grace Höpper_9"],
    ),
    "Gradescope": (
        ["assignment_9_export/submission_123456/x.ipynb",
         "assignment_9_export/submission_7/x.ipynb"],
        ["submission_123456", "submission_7"],
    ),
    "nbgrader": (
        ["submitted/ada/ps1/x.ipynb", "submitted/grace/ps1/x.ipynb", "source/ps1/x.ipynb",
         "autograded/ada/ps1/x.ipynb", "gradebook.db"],
        ["ada", "grace"],
    ),
    "nbgrader's folder": (["submitted/ada/ps1/x.ipynb"], ["ada"]),
    "a browser's ending": (["ada.ipynb.json", "grace.IPYNB"], ["ada", "grace"]),
    "what systems add": (
        ["ada/x.ipynb", "ada/.ipynb_checkpoints/x-checkpoint.ipynb", "__MACOSX/ada/._x.ipynb",
         "ada/.DS_Store", "grace/x.ipynb"],
        ["ada", "grace"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize(("files", "expected"), _LAYOUTS.values(), ids=_LAYOUTS)
def test_layouts(tmp_path, files: list[str], expected: list[str], packed: bool) -> None:
    where = tmp_path / "all"
    if packed:
        where = tmp_path / "all.zip"
        where.write_bytes(zipped(dict.fromkeys(files, NB)))
    else:
        laid_out(where, dict.fromkeys(files, NB))
    found = collect.collect(where)
    assert [one.student for one in found] == expected
    assert all(one.problems == () and one.text == NB for one in found)
    assert all(one.suffix == (".py" if one.file.endswith(".py") else ".ipynb") for one in found)


def test_a_zip_in_a_folder_is_that_zip(tmp_path) -> None:
    laid_out(tmp_path / "in", {"export.zip": zipped({"ada.ipynb": NB, "grace.ipynb": NB})})
    assert told(tmp_path / "in") == [("ada", "ada.ipynb"), ("grace", "grace.ipynb")]


def test_students_own_zips(tmp_path) -> None:
    """One level of them; it is handed in when the zip was, whatever is in it says."""
    inner = zipped({"work/01_tp_linear_pair.ipynb": NB, "work/notes.pdf": b"x", "deep.zip": b"PK"})
    at = {"lovelaceada_1_2_work.zip": inner, "grace/all.zip": zipped({"x.py": b"x = 1"})}
    found = collect.collected(laid_out(tmp_path / "in", at))
    assert [(one.student, one.file, one.problems) for one in found.submissions] == [
        ("grace", "grace/all.zip/x.py", ()),
        ("lovelaceada_1", "lovelaceada_1_2_work.zip/deep.zip",
         ("deep.zip is a zip in lovelaceada_1_2_work.zip; unpack it",)),
        ("lovelaceada_1", "lovelaceada_1_2_work.zip/work/01_tp_linear_pair.ipynb", ()),
    ]  # fmt: skip
    assert found.submissions[0].submitted == WHEN
    assert found.notes == ["lovelaceada_1: 1 files in lovelaceada_1_2_work.zip are no notebooks"]


def test_the_whole_course_packed_by_a_student(tmp_path) -> None:
    """Answers of the course in the zip are not the student's."""
    course = ["notebooks/01_tp_linear_pair.ipynb", "labs/gpt.py", "solutions/mesh_3d.py"]
    whole = zipped({f"model/{name}": NB for name in course})
    laid_out(tmp_path / "in", {"ada.zip": whole, "grace.ipynb": NB})
    assert [file for _, file in told(tmp_path / "in")] == [
        "ada.zip/model/notebooks/01_tp_linear_pair.ipynb",
        "grace.ipynb",
    ]
    (tmp_path / "mine.zip").write_bytes(whole)
    found = collect.collected(tmp_path / "mine.zip")
    assert [(s.student, s.file) for s in found.submissions] == [
        ("mine", "mine/notebooks/01_tp_linear_pair.ipynb")
    ]
    assert found.notes == ["mine: 2 files of the course itself were left out"]


def test_nobody_is_left_out_without_a_word(tmp_path) -> None:
    files = {
        "ada.pdf": b"x",
        "grace/": b"",
        "empty.ipynb": b"",
        "broken.zip": b"PK\3\4",
        "rar.rar": b"Rar!",
        "ok/x.ipynb": NB,
        "ok/picture.png": b"x",
    }
    found = collect.collected(laid_out(tmp_path / "in", files))
    assert {one.student: one.problems for one in found.submissions} == {
        "ada.pdf": ("ada.pdf is neither a notebook (.ipynb) nor a Python file (.py)",),
        "broken": ("broken.zip is not a whole zip: its end is missing",),
        "empty": ("empty.ipynb is empty",),
        "grace": ("grace holds no notebook",),
        "ok": (),
        "rar.rar": ("rar.rar is neither a notebook (.ipynb) nor a Python file (.py)",),
    }
    assert found.notes == ["ok: ok/picture.png is no notebook and was left out"]


@pytest.mark.parametrize("flagged", [True, False])
def test_names_with_accents(tmp_path, flagged: bool) -> None:
    """UTF-8, whether the zip says so or not, in composed or decomposed letters."""
    whole = zipped({"Zo\u0065\u0308.ipynb": NB})
    if not flagged:
        at = whole.index(b"PK\1\2")
        whole = bytearray(whole)
        whole[at + 9] &= ~8
        whole[7] &= ~8
    (tmp_path / "a.zip").write_bytes(bytes(whole))
    assert told(tmp_path / "a.zip") == [("Zo\u00eb", "Zo\u00eb.ipynb")]


def test_bounds_of_a_collection_and_of_a_student(tmp_path, monkeypatch) -> None:
    where = laid_out(tmp_path / "in", {f"ada/x{n:02}.ipynb": NB for n in range(43)})
    laid_out(where, {"grace/x.ipynb": NB})
    found = collect.collect(where)
    assert len([one for one in found if one.student == "ada" and not one.problems]) == 40
    [refused] = [one for one in found if one.problems]
    assert refused.problems[0].startswith("x40.ipynb and 2 more not read: at most 40 files")
    monkeypatch.setattr(collect, "MOST_TOTAL", 100)
    with pytest.raises(ValueError, match="in holds 572 bytes; at most 100 are read at once"):
        collect.collect(where)
    monkeypatch.setattr(archive, "MOST_ENTRIES", 10)
    with pytest.raises(ValueError, match="in holds more than 10 files"):
        collect.collect(where)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: p / "none", "there is no file or folder none there"),
        (lambda p: laid_out(p / "in", {}) / "in", None),
        (lambda p: laid_out(p, {"a.pdf": b""}) / "a.pdf", "neither a folder, a zip, a notebook"),
        (lambda p: laid_out(p, {"a.zip": b"x"}) / "a.zip", "a.zip is not a whole zip"),
    ],
)
def test_what_cannot_be_collected(tmp_path, make, words: str | None) -> None:
    path = make(tmp_path)
    if words is None:
        path.mkdir(parents=True)
        words = "in holds no notebooks"
    with pytest.raises(ValueError, match=words) as refused:
        collect.collect(path)
    assert str(tmp_path) not in str(refused.value)


def test_one_file(tmp_path) -> None:
    laid_out(tmp_path, {"ada.ipynb": NB, "other/grace.ipynb": NB})
    assert told(tmp_path / "ada.ipynb") == [("ada", "ada.ipynb")]


def test_ids_stay_two_and_are_told_where_they_meet(tmp_path) -> None:
    names = {"ada?.ipynb": NB, "ada*.ipynb": NB, "Ada.ipynb": NB, "ada.ipynb": NB, "ada/y.py": NB}
    found = collect.collected(laid_out(tmp_path / "in", names))
    ids = {one.student for one in found.submissions}
    assert len(ids) == 4 and sum(name.startswith("ada_~") for name in ids) == 2
    assert found.notes == [
        "taken as ada's: ada, ada.ipynb",
        "Ada and ada are two students here; is it one?",
    ]
    assert students.clean("ada?") == "ada_~" + students.clean("ada?")[-6:]
    assert students.clean("<b>&") != students.clean("_b__") == "_b__"
    assert students.clean("..") == "nameless~" + students.clean("..")[-6:]


def test_an_id_does_not_depend_on_others(tmp_path) -> None:
    few = laid_out(tmp_path / "few", {"a b.ipynb": NB, "x_1_2_y.ipynb": NB})
    many = laid_out(tmp_path / "many", {"a b.ipynb": NB, "x_1_2_y.ipynb": NB, "z/z.py": NB})
    assert told(few) == told(many)[:2]
