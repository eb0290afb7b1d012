"""What a class handed in, as each platform exports it; damaged and hostile files stay named."""

from __future__ import annotations

import datetime
import io
import os
import stat
import zipfile
import zoneinfo
from pathlib import Path

import pytest

from labs.grading import archive, collect, students

_X = b'{"cells": []}'


def laid_out(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            file.mkdir(exist_ok=True)
        else:
            file.write_bytes(content)
            os.utime(file, (1_700_000_000, 1_700_000_000))
    return root


def zipped(files: dict[str, bytes], **more: object) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, (2026, 3, 1, 12, 0, 0))
            for key, value in more.items():
                setattr(info, key, value)
            out.writestr(info, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


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
        where.write_bytes(zipped(dict.fromkeys(files, _X)))
    else:
        laid_out(where, dict.fromkeys(files, _X))
    found = collect.collect(where)
    assert [one.student for one in found] == expected
    assert all(one.problems == () and one.text == _X for one in found)
    assert all(one.suffix == (".py" if one.file.endswith(".py") else ".ipynb") for one in found)


def test_a_zip_in_a_folder_is_that_zip(tmp_path) -> None:
    laid_out(tmp_path / "in", {"export.zip": zipped({"ada.ipynb": _X, "grace.ipynb": _X})})
    assert told(tmp_path / "in") == [("ada", "ada.ipynb"), ("grace", "grace.ipynb")]


def test_students_own_zips(tmp_path) -> None:
    """One level of them; it is handed in when the zip was, whatever is in it says."""
    inner = zipped({"work/01_tp_linear_pair.ipynb": _X, "work/notes.pdf": b"x", "deep.zip": b"PK"})
    at = {"lovelaceada_1_2_work.zip": inner, "grace/all.zip": zipped({"x.py": b"x = 1"})}
    found = collect.collected(laid_out(tmp_path / "in", at))
    assert [(one.student, one.file, one.problems) for one in found.submissions] == [
        ("grace", "grace/all.zip/x.py", ()),
        ("lovelaceada_1", "lovelaceada_1_2_work.zip/deep.zip",
         ("deep.zip is a zip in lovelaceada_1_2_work.zip; unpack it",)),
        ("lovelaceada_1", "lovelaceada_1_2_work.zip/work/01_tp_linear_pair.ipynb", ()),
    ]  # fmt: skip
    assert found.submissions[0].submitted == 1_700_000_000
    assert found.notes == ["lovelaceada_1: 1 files in lovelaceada_1_2_work.zip are no notebooks"]


def test_the_whole_course_packed_by_a_student(tmp_path) -> None:
    """Answers of the course in the zip are not the student's."""
    course = ["notebooks/01_tp_linear_pair.ipynb", "labs/gpt.py", "solutions/mesh_3d.py"]
    whole = zipped({f"model/{name}": _X for name in course})
    laid_out(tmp_path / "in", {"ada.zip": whole, "grace.ipynb": _X})
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
        "ok/x.ipynb": _X,
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


def test_links_and_devices_are_not_followed(tmp_path) -> None:
    where = laid_out(tmp_path / "in", {"ada/x.ipynb": _X, "grace/": b"", "edsger/": b""})
    secret = laid_out(tmp_path, {"secret.ipynb": b"secret"}) / "secret.ipynb"
    (where / "grace" / "x.ipynb").symlink_to(secret)
    (where / "loop").symlink_to(where)
    os.mkfifo(where / "edsger" / "x.ipynb")
    found = {one.student: one for one in collect.collect(where)}
    assert {name: one.problems for name, one in found.items()} == {
        "ada": (),
        "edsger": ("x.ipynb is a device, not a file",),
        "grace": ("x.ipynb is a link",),
        "loop": ("loop is a link",),
    }
    assert not any(b"secret" in one.text for one in found.values())


_LINK = dict(create_system=3, external_attr=(stat.S_IFLNK | 0o777) << 16)
_HOSTILE = {
    "out": ({"../../ada.ipynb": _X}, {}, "ada", "ada.ipynb has a name that leads out of the zip"),
    "absolute": ({"/etc/ada.ipynb": _X}, {}, "etc", "has a name that leads out"),
    "a drive": ({"C:\\ada.ipynb": _X}, {}, "C_", "has a name that leads out"),
    "a link": ({"ada.ipynb": b"/etc/passwd"}, _LINK, "ada", "ada.ipynb is a link"),
    "a device": ({"ada.ipynb": b""}, dict(create_system=3, external_attr=stat.S_IFCHR << 16),
                 "ada", "ada.ipynb is a device"),
    "a bomb": ({"ada.ipynb": b" " * 4_000_000}, {}, "ada", "packed more than 200 times smaller"),
    "too large": ({"ada.ipynb": os.urandom(5_000_001)}, {}, "ada", "at most 5,000,000 are read"),
    "deep": ({"d/" * 13 + "ada.ipynb": _X}, {}, "d", "lies more than 12 folders deep"),
    "a long name": ({"a" * 1200 + ".ipynb": _X}, {}, "a" * 70 + "~", "more than 1,000 characters"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "more", "student", "words"), _HOSTILE.values(), ids=_HOSTILE)
def test_hostile_zips(tmp_path, files: dict, more: dict, student: str, words: str) -> None:
    """Each is named with its reason, and the other student's work is read."""
    file = tmp_path / "all.zip"
    file.write_bytes(zipped(files, **more))
    with zipfile.ZipFile(file, "a") as out:
        out.writestr("grace.ipynb", _X)
    found = collect.collect(file)
    [bad] = [one for one in found if one.student != "grace"]
    assert bad.student.startswith(student) and words in bad.problems[0] and bad.text == b""
    assert [one.problems for one in found if one.student == "grace"] == [()]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all.zip"]


def test_encrypted_and_damaged_files(tmp_path) -> None:
    whole = bytearray(zipped({"ada.ipynb": b'{"cells": [1]}', "grace.ipynb": _X}))
    at = whole.index(b"PK\1\2")
    whole[at + 8] |= 1
    (tmp_path / "a.zip").write_bytes(bytes(whole))
    found = collect.collect(tmp_path / "a.zip")
    assert [one.problems for one in found] == [("ada.ipynb is encrypted",), ()]
    whole[at + 8] &= ~1
    whole[at + 16] ^= 1  # the checksum
    (tmp_path / "a.zip").write_bytes(bytes(whole))
    found = collect.collect(tmp_path / "a.zip")
    assert found[0].problems[0].startswith("ada.ipynb is damaged: Bad CRC-32")
    assert found[1].text == _X


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice(tmp_path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as out:
        for content in (_X, b"{}"):
            out.writestr("ada.ipynb", content)
    (tmp_path / "a.zip").write_bytes(buffer.getvalue())
    found = collect.collect(tmp_path / "a.zip")
    words = "ada.ipynb is in the zip 2 times; which of them is meant cannot be known"
    assert [one.problems for one in found] == [(words,), (words,)]


def test_a_nul_in_a_name(tmp_path) -> None:
    whole = zipped({"adaXx.ipynb": _X, "grace.ipynb": _X}).replace(b"adaXx", b"ada\0x")
    (tmp_path / "a.zip").write_bytes(whole)
    found = collect.collect(tmp_path / "a.zip")
    assert [(one.student, len(one.problems)) for one in found] == [("ada", 1), ("grace", 0)]
    assert found[0].problems[0] == "ada has a name with a NUL character"


@pytest.mark.parametrize("flagged", [True, False])
def test_names_with_accents(tmp_path, flagged: bool) -> None:
    """UTF-8, whether the zip says so or not, in composed or decomposed letters."""
    whole = zipped({"Zo\u0065\u0308.ipynb": _X})
    if not flagged:
        at = whole.index(b"PK\1\2")
        whole = bytearray(whole)
        whole[at + 9] &= ~8
        whole[7] &= ~8
    (tmp_path / "a.zip").write_bytes(bytes(whole))
    assert told(tmp_path / "a.zip") == [("Zo\u00eb", "Zo\u00eb.ipynb")]


def test_a_zip_whose_list_is_endless(tmp_path) -> None:
    whole = bytearray(zipped({"ada.ipynb": _X}))
    at = whole.rindex(b"PK\5\6")
    whole[at + 12 : at + 16] = (9_000_000).to_bytes(4, "little")
    (tmp_path / "a.zip").write_bytes(bytes(whole))
    with pytest.raises(ValueError, match="a.zip is not a whole zip: it lists more than a class"):
        collect.collect(tmp_path / "a.zip")


def test_bounds_of_a_collection_and_of_a_student(tmp_path, monkeypatch) -> None:
    where = laid_out(tmp_path / "in", {f"ada/x{n:02}.ipynb": _X for n in range(43)})
    laid_out(where, {"grace/x.ipynb": _X})
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
    laid_out(tmp_path, {"ada.ipynb": _X, "other/grace.ipynb": _X})
    assert told(tmp_path / "ada.ipynb") == [("ada", "ada.ipynb")]


def test_ids_stay_two_and_are_told_where_they_meet(tmp_path) -> None:
    names = {"ada?.ipynb": _X, "ada*.ipynb": _X, "Ada.ipynb": _X, "ada.ipynb": _X, "ada/y.py": _X}
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
    few = laid_out(tmp_path / "few", {"a b.ipynb": _X, "x_1_2_y.ipynb": _X})
    many = laid_out(tmp_path / "many", {"a b.ipynb": _X, "x_1_2_y.ipynb": _X, "z/z.py": _X})
    assert told(few) == told(many)[:2]


def _utc(*when: int) -> float:
    return datetime.datetime(*when, tzinfo=datetime.UTC).timestamp()


def test_times_of_zips(tmp_path, monkeypatch) -> None:
    """By this machine's clock; as UTC where the zip tells it."""
    extra = b"UT\5\0\1" + int(_utc(2026, 3, 1, 9)).to_bytes(4, "little")
    (tmp_path / "a.zip").write_bytes(zipped({"ada.ipynb": _X}, extra=extra))
    assert collect.collect(tmp_path / "a.zip")[0].submitted == _utc(2026, 3, 1, 9)
    (tmp_path / "a.zip").write_bytes(zipped({"ada.ipynb": _X}))
    here = datetime.datetime(2026, 3, 1, 12).timestamp()
    assert collect.collect(tmp_path / "a.zip")[0].submitted == here
    (tmp_path / "a.zip").write_bytes(zipped({"ada.ipynb": _X}, date_time=(1980, 1, 1, 0, 0, 0)))
    assert collect.collect(tmp_path / "a.zip")[0].submitted is None


@pytest.mark.parametrize(
    ("text", "when"),
    [
        (b"2026-03-01 10:00:00.500000 UTC", _utc(2026, 3, 1, 10) + 0.5),
        pytest.param(
            b"2026-03-01 10:00:00 Europe/Berlin\n",
            _utc(2026, 3, 1, 9),
            marks=pytest.mark.skipif(
                "Europe/Berlin" not in zoneinfo.available_timezones(),
                reason="this machine knows no time zones",
            ),
        ),
        (b"2026-03-01 10:00:00 +02:00", _utc(2026, 3, 1, 8)),
        (b"2026-03-01 10:00:00", _utc(2026, 3, 1, 10)),
        (b"yesterday", 1_700_000_000),
        (b"", 1_700_000_000),
    ],
)
def test_nbgraders_timestamp(tmp_path, text: bytes, when: float) -> None:
    laid_out(tmp_path, {"submitted/ada/ps1/x.ipynb": _X, "submitted/ada/ps1/timestamp.txt": text})
    assert [one.submitted for one in collect.collect(tmp_path / "submitted")] == [when]


def test_a_timestamp_that_a_student_packed_is_none(tmp_path) -> None:
    folder = "Ada_1_assignsubmission_file_/work"
    files = {f"{folder}/x.ipynb": _X, f"{folder}/timestamp.txt": b"2020-01-01 00:00:00 UTC"}
    assert collect.collect(laid_out(tmp_path / "in", files))[0].submitted == 1_700_000_000


def test_gradescopes_metadata(tmp_path) -> None:
    text = b"""---
submission_123456:
  :submitters:
  - :name: Ada Lovelace
    :sid: '7'
    :email: ada@example.invalid
  :created_at: 2026-03-01 10:00:00.123456789 Z
  :score: 0.0
  :history:
  - :created_at: 2026-01-01 10:00:00.0 Z
submission_7:
  :submitters:
  - :name: Grace Hopper
  :created_at: 2026-03-01 10:00:00 -05:00
"""
    files = {f"export/submission_{n}/x.ipynb": _X for n in (123456, 7)}
    files["export/submission_metadata.yml"] = text
    found = collect.collect(laid_out(tmp_path / "in", files))
    assert [(one.student, one.submitted) for one in found] == [
        ("Grace Hopper", _utc(2026, 3, 1, 15)),
        ("ada@example.invalid", _utc(2026, 3, 1, 10)),
    ]


def test_a_table_of_times_counts_before_all(tmp_path) -> None:
    table = "\ufeffstudent,submitted\r\nada,2026-03-01T10:00:00+01:00\r\n\r\n".encode()
    files = {"ada.ipynb": _X, "grace.ipynb": _X}
    found = collect.collect(laid_out(tmp_path / "in", {**files, "times.csv": table}))
    assert [one.submitted for one in found] == [_utc(2026, 3, 1, 9), 1_700_000_000]
    laid_out(tmp_path, {"all.zip": zipped(files), "times.csv": table})
    assert collect.collect(tmp_path / "all.zip")[0].submitted == _utc(2026, 3, 1, 9)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("name,time\n", "times.csv begins with student,submitted; got 'name,time'"),
        ("student,submitted\nadda,2026-03-01T10:00Z", "line 2: no 'adda'; did you mean ada?"),
        ("student,submitted\nada,2026-03-01T10:00", "2026-03-01T10:00 has no zone"),
        ("student,submitted\nada,noon", "got 'noon'"),
        ("student,submitted\nada", "a student and a time are needed, got 1 values"),
        ("student,submitted\nada,2026-03-01T10:00Z\nada,2026-03-01T10:00Z", "line 3: ada is there"),
    ],
)
def test_tables_that_are_refused(tmp_path, table: str, words: str) -> None:
    laid_out(tmp_path / "in", {"ada.ipynb": _X, "times.csv": table.encode()})
    with pytest.raises(ValueError) as refused:
        collect.collect(tmp_path / "in")
    assert words in str(refused.value)
