"""Damaged and hostile files: each is named with its reason, and the others' work is read."""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile

import pytest

from labs.grading import collect
from tests.handed_in import NB, laid_out, zipped


def test_links_and_devices_are_not_followed(tmp_path) -> None:
    where = laid_out(tmp_path / "in", {"ada/x.ipynb": NB, "grace/": b"", "edsger/": b""})
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
    "out": ({"../../ada.ipynb": NB}, {}, "ada", "ada.ipynb has a name that leads out of the zip"),
    "absolute": ({"/etc/ada.ipynb": NB}, {}, "etc", "has a name that leads out"),
    "a drive": ({"C:\\ada.ipynb": NB}, {}, "C_", "has a name that leads out"),
    "a link": ({"ada.ipynb": b"/etc/passwd"}, _LINK, "ada", "ada.ipynb is a link"),
    "a device": ({"ada.ipynb": b""}, dict(create_system=3, external_attr=stat.S_IFCHR << 16),
                 "ada", "ada.ipynb is a device"),
    "a bomb": ({"ada.ipynb": b" " * 4_000_000}, {}, "ada", "packed more than 200 times smaller"),
    "too large": ({"ada.ipynb": os.urandom(5_000_001)}, {}, "ada", "at most 5,000,000 are read"),
    "deep": ({"d/" * 13 + "ada.ipynb": NB}, {}, "d", "lies more than 12 folders deep"),
    "a long name": ({"a" * 1200 + ".ipynb": NB}, {}, "a" * 70 + "~", "more than 1,000 characters"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "more", "student", "words"), _HOSTILE.values(), ids=_HOSTILE)
def test_hostile_zips(tmp_path, files: dict, more: dict, student: str, words: str) -> None:
    """Each is named with its reason, and the other student's work is read."""
    file = tmp_path / "all.zip"
    file.write_bytes(zipped(files, **more))
    with zipfile.ZipFile(file, "a") as out:
        out.writestr("grace.ipynb", NB)
    found = collect.collect(file)
    [bad] = [one for one in found if one.student != "grace"]
    assert bad.student.startswith(student) and words in bad.problems[0] and bad.text == b""
    assert [one.problems for one in found if one.student == "grace"] == [()]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all.zip"]


def test_encrypted_and_damaged_files(tmp_path) -> None:
    whole = bytearray(zipped({"ada.ipynb": b'{"cells": [1]}', "grace.ipynb": NB}))
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
    assert found[1].text == NB


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice(tmp_path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as out:
        for content in (NB, b"{}"):
            out.writestr("ada.ipynb", content)
    (tmp_path / "a.zip").write_bytes(buffer.getvalue())
    found = collect.collect(tmp_path / "a.zip")
    words = "ada.ipynb is in the zip 2 times; which of them is meant cannot be known"
    assert [one.problems for one in found] == [(words,), (words,)]


def test_a_nul_in_a_name(tmp_path) -> None:
    whole = zipped({"adaXx.ipynb": NB, "grace.ipynb": NB}).replace(b"adaXx", b"ada\0x")
    (tmp_path / "a.zip").write_bytes(whole)
    found = collect.collect(tmp_path / "a.zip")
    assert [(one.student, len(one.problems)) for one in found] == [("ada", 1), ("grace", 0)]
    assert found[0].problems[0] == "ada has a name with a NUL character"


def with_second_end(whole: bytes, listed: int | None = None, moved: int = 0) -> bytes:
    """The zip with the records of one that may have more than 4 GB; zipfile goes by these."""
    at = whole.rindex(b"PK\5\6")
    entries, size, place = struct.unpack_from("<HLL", whole, at + 10)
    size = size if listed is None else listed
    second = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, entries, entries, size, place)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, at + moved, 1)
    return whole[:at] + second + locator + whole[at:]


@pytest.mark.parametrize("comment", [b"", b"a comment"])
def test_a_second_end_is_held_to_the_same_bounds(tmp_path, comment: bytes) -> None:
    file, whole = tmp_path / "a.zip", bytearray(zipped({"ada.ipynb": NB}))
    whole[-2:] = len(comment).to_bytes(2, "little") + comment
    file.write_bytes(with_second_end(bytes(whole)))
    assert [one.text for one in collect.collect(file)] == [NB]
    refused = {
        "it lists more than a class": with_second_end(bytes(whole), 8_000_001),
        "its end is damaged": with_second_end(bytes(whole), moved=-1),
    }
    for words, content in refused.items():
        file.write_bytes(content)
        with pytest.raises(ValueError, match=f"a.zip is not a whole zip: {words}"):
            collect.collect(file)
    file.write_bytes(with_second_end(bytes(whole)).replace(b"PK\6\6", b"PK\6\5"))
    with pytest.raises(ValueError, match="its end is damaged"):
        collect.collect(file)
    for cut in (b"PK\6\7", b"PK\5\6"):  # nothing in front of the last record, or of its locator
        content = with_second_end(bytes(whole))
        file.write_bytes(content[content.rindex(cut) :])
        with pytest.raises(ValueError, match="a.zip is not a whole zip: "):
            collect.collect(file)


def test_a_zip_whose_list_is_endless(tmp_path) -> None:
    whole = bytearray(zipped({"ada.ipynb": NB}))
    at = whole.rindex(b"PK\5\6")
    whole[at + 12 : at + 16] = (9_000_000).to_bytes(4, "little")
    (tmp_path / "a.zip").write_bytes(bytes(whole))
    with pytest.raises(ValueError, match="a.zip is not a whole zip: it lists more than a class"):
        collect.collect(tmp_path / "a.zip")
