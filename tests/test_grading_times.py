"""When something was handed in: by zips, nbgrader, Gradescope, or a table of the instructor's."""

from __future__ import annotations

import datetime
import zoneinfo

import pytest

from labs.grading import collect, reading
from labs.grading.records import Submission
from tests.grading_answers import notebook
from tests.grading_run import Shut
from tests.handed_in import NB, WHEN, laid_out, zipped


def _utc(*when: int) -> float:
    return datetime.datetime(*when, tzinfo=datetime.UTC).timestamp()


def test_times_of_zips(tmp_path, monkeypatch) -> None:
    """By this machine's clock; as UTC where the zip tells it."""
    extra = b"UT\5\0\1" + int(_utc(2026, 3, 1, 9)).to_bytes(4, "little")
    (tmp_path / "a.zip").write_bytes(zipped({"ada.ipynb": NB}, extra=extra))
    assert collect.collect(tmp_path / "a.zip")[0].submitted == _utc(2026, 3, 1, 9)
    (tmp_path / "a.zip").write_bytes(zipped({"ada.ipynb": NB}))
    here = datetime.datetime(2026, 3, 1, 12).timestamp()
    assert collect.collect(tmp_path / "a.zip")[0].submitted == here
    (tmp_path / "a.zip").write_bytes(zipped({"ada.ipynb": NB}, date_time=(1980, 1, 1, 0, 0, 0)))
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
        (b"yesterday", None),
        (b"", None),
    ],
)
def test_nbgraders_timestamp(tmp_path, text: bytes, when: float | None) -> None:
    laid_out(tmp_path, {"submitted/ada/ps1/x.ipynb": NB, "submitted/ada/ps1/timestamp.txt": text})
    assert [one.submitted for one in collect.collect(tmp_path / "submitted")] == [when]


_BROKEN = {
    "empty.ipynb": b"",
    "notes.zip": b"PK",
    "of-nothing.zip": zipped({"notes.txt": b"x"}),
    "in-it.zip": zipped({"empty.py": b""}),
    "sub/empty.py": b"",
}


def test_a_broken_file_has_the_time_of_its_submission(tmp_path) -> None:
    """Not that at which the file was written."""
    stamp = {"timestamp.txt": b"2026-03-01 10:00:00 UTC"}
    ada = {"x.ipynb": NB, **_BROKEN, **stamp}
    files = {f"submitted/ada/ps1/{name}": content for name, content in ada.items()}
    files |= {"submitted/eve/ps1/x.pdf": b"x", "submitted/eve/ps1/timestamp.txt": b"2026-03-01"}
    found = collect.collect(laid_out(tmp_path, files) / "submitted")
    assert len([one for one in found if one.problems]) == len(_BROKEN) + 1
    assert {one.submitted for one in found if one.student == "ada"} == {_utc(2026, 3, 1, 10)}
    assert {one.submitted for one in found if one.student == "eve"} == {_utc(2026, 3, 1)}


def test_too_many_files_have_the_time_of_their_submission(tmp_path) -> None:
    files = {f"submitted/ada/ps1/x{n:02}.ipynb": NB for n in range(41)}
    files["submitted/ada/ps1/timestamp.txt"] = b"2026-03-01 10:00:00 UTC"
    found = collect.collect(laid_out(tmp_path, files) / "submitted")
    assert {one.submitted for one in found} == {_utc(2026, 3, 1, 10)} and len(found) == 41


def test_a_broken_file_in_a_zip_is_handed_in_when_the_zip_was(tmp_path) -> None:
    many = {f"y{n:02}.ipynb": NB for n in range(41)}
    laid_out(tmp_path / "in", {"ada.zip": zipped({"x.py": b""}), "eve.zip": zipped(many)})
    found = collect.collect(tmp_path / "in")
    assert [one.student for one in found if one.problems] == ["ada", "eve"]
    assert {one.submitted for one in found} == {WHEN}


def _file(submitted: float | None, text: bytes = NB, problems: tuple[str, ...] = ()) -> Submission:
    return Submission("ada", "x.ipynb", text, ".ipynb", submitted, problems)


@pytest.mark.parametrize(
    ("files", "when"),
    [
        ([_file(5.0), _file(9.0, b"", ("is empty",))], 5.0),
        ([_file(5.0), _file(9.0, b"{")], 5.0),
        ([_file(5.0), _file(7.0), _file(9.0, b"{")], 7.0),
        ([_file(5.0, b"", ("is empty",)), _file(9.0, b"{")], 9.0),
        ([_file(None), _file(9.0, b"{")], None),
        ([_file(5.0), _file(9.0, notebook(["def f():\n    return 1\n", "def g(:\n"]))], 9.0),
    ],
)
def test_files_that_cannot_be_read_make_nobody_late(files: list[Submission], when: float) -> None:
    """The newest that can be read counts; a broken cell in it does not matter."""
    sandbox = Shut.__new__(Shut)
    sandbox.launched = []
    (student,) = reading.students(files, ["row_parallel"], sandbox)
    assert student.submitted == when


def test_a_timestamp_that_a_student_packed_is_none(tmp_path) -> None:
    folder = "Ada_1_assignsubmission_file_/work"
    files = {f"{folder}/x.ipynb": NB, f"{folder}/timestamp.txt": b"2020-01-01 00:00:00 UTC"}
    assert collect.collect(laid_out(tmp_path / "in", files))[0].submitted == WHEN


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
    files = {f"export/submission_{n}/x.ipynb": NB for n in (123456, 7)}
    files["export/submission_metadata.yml"] = text
    found = collect.collect(laid_out(tmp_path / "in", files))
    assert [(one.student, one.submitted) for one in found] == [
        ("Grace Hopper", _utc(2026, 3, 1, 15)),
        ("ada@example.invalid", _utc(2026, 3, 1, 10)),
    ]


def test_a_table_of_times_counts_before_all(tmp_path) -> None:
    table = "\ufeffstudent,submitted\r\nada,2026-03-01T10:00:00+01:00\r\n\r\n".encode()
    files = {"ada.ipynb": NB, "grace.ipynb": NB}
    found = collect.collect(laid_out(tmp_path / "in", {**files, "times.csv": table}))
    assert [one.submitted for one in found] == [_utc(2026, 3, 1, 9), WHEN]
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
    laid_out(tmp_path / "in", {"ada.ipynb": NB, "times.csv": table.encode()})
    with pytest.raises(ValueError) as refused:
        collect.collect(tmp_path / "in")
    assert words in str(refused.value)
