"""The roster held against who handed in: nobody gets the grade of another."""

from __future__ import annotations

import pytest

from labs.grading import roster
from tests.test_grading_export import people


class TestRoster:
    def test_both_sides_are_named(self, tmp_path) -> None:
        found = roster.read(people(tmp_path), ["ada@uni", "GRACE@uni", "eve"])
        assert {who: row["id"] for who, row in found.row_of.items()} == {
            "ada@uni": "101", "GRACE@uni": "102",
        }  # fmt: skip
        assert found.warnings == [
            "not in the roster: eve",
            "in the roster, but without a submission: Curie, Marie",
        ]

    def test_by_the_name_of_canvas_s_files(self, tmp_path) -> None:
        found = roster.read(people(tmp_path), ["lovelaceada"])
        assert found.row_of["lovelaceada"]["id"] == "101"

    def test_as_files_are_collected_from_canvas(self, tmp_path) -> None:
        handed_in = ["lovelaceada_101", "hoppergrace_999", "curiemarie_102"]
        found = roster.read(people(tmp_path), handed_in)
        assert {who: row["id"] for who, row in found.row_of.items()} == {"lovelaceada_101": "101"}

    def test_as_files_are_collected_from_moodle(self, tmp_path) -> None:
        text = "Identifier,Full name\nParticipant 200,Ada Lovelace\nParticipant 201,Eve Groß\n"
        found = roster.read(people(tmp_path, text), ["Ada Lovelace_200", "Eve Groß_7"])
        assert list(found.row_of) == ["Ada Lovelace_200"]

    def test_a_name_alone_will_do_where_the_roster_has_no_number(self, tmp_path) -> None:
        text = "First name,Last name,Email address\nAda,Lovelace,a@x\nEve,Groß,e@x\n"
        handed_in = ["Ada Lovelace_200", "Eve Groß_7", "Eve Groß_8"]
        found = roster.read(people(tmp_path, text), handed_in)
        assert list(found.row_of) == ["Ada Lovelace_200"]
        assert "Eve Groß of the roster fits Eve Groß_7 and Eve Groß_8; neither is used" in (
            found.warnings
        )

    def test_what_fits_twice_fits_nobody(self, tmp_path) -> None:
        text = "Student,ID,SIS Login ID\nA,1,x\nB,2,x\nC,3,y\n"
        found = roster.read(people(tmp_path, text), ["x", "C", "y"])
        assert found.row_of == {}
        assert found.warnings[0] == "C of the roster fits C and y; neither is used"
        assert found.warnings[1] == "x fits A and B of the roster; neither is used"

    @pytest.mark.parametrize(("cells", "matches"), [
        ("ada Ada", {"ada": "1", "Ada": "2"}), ("ada", {"ada": "1"}), ("ADA", {}), ("eve", {}),
    ])  # fmt: skip
    def test_names_that_case_alone_tells_apart(self, tmp_path, cells: str, matches: dict) -> None:
        """Both stay; a cell that is written like one is that one's, another is nobody's."""
        text = "ID,Username\n" + "".join(f"{n},{c}\n" for n, c in enumerate(cells.split(), 1))
        found = roster.read(people(tmp_path, text), ["ada", "Ada"])
        assert {who: row["id"] for who, row in found.row_of.items()} == matches
        lost = {"Ada", "ada"} - set(matches)
        assert {told for told in found.warnings if told.startswith("not in the roster")} == {
            f"not in the roster: {who}" for who in lost
        }
        told = "ADA of the roster fits Ada and ada; neither is used"
        assert (told in found.warnings) is (cells == "ADA")

    def test_a_name_alone_does_not_tell_case_apart(self, tmp_path) -> None:
        text = "Full name\nAda L\n"
        found = roster.read(people(tmp_path, text), ["Ada L_1", "ada l_1"])
        assert found.row_of == {} and "fits Ada L_1 and ada l_1" in found.warnings[0]

    @pytest.mark.parametrize(("text", "words"), [
        ("", "has no column that tells who somebody is"), ("a,b\n1,2\n", "has no column"),
        ('Student,ID\n"x', "is not CSV"),
    ])  # fmt: skip
    def test_refused(self, tmp_path, text: str, words: str) -> None:
        with pytest.raises(ValueError, match=words):
            roster.read(people(tmp_path, text), [])

    def test_what_is_no_text(self, tmp_path) -> None:
        (tmp_path / "r.csv").write_bytes(b"Student\n\xff\n")
        with pytest.raises(ValueError, match="is not saved as UTF-8"):
            roster.read(tmp_path / "r.csv", [])
        with pytest.raises(ValueError, match="cannot be read: No such file"):
            roster.read(tmp_path / "none.csv", [])

    def test_a_number_that_two_people_have_is_nobodys(self, tmp_path) -> None:
        text = "Name,ID\nada,7\nbob,7\ncy,8\n"
        found = roster.read(people(tmp_path, text), ["ada", "bob", "cy"])
        assert sorted(found.row_of) == ["ada", "bob", "cy"]
        assert [row["id"] for row in found.rows] == ["", "", "8"]
        assert found.identifier == "name" and found.who("bob") == "bob"
        assert found.warnings == [
            "7 stands for several people in the roster's column id; it is used for none of them"
        ]

    def test_people_are_told_apart_by_a_column_in_which_all_differ(self, tmp_path) -> None:
        text = "Username,Name,Email\nx@u,ada,a@u\nx@u,grace,g@u\n"
        found = roster.read(people(tmp_path, text), ["ada", "grace"])
        assert found.identifier == "email"
        assert [found.who(one) for one in ("ada", "grace")] == ["a@u", "g@u"]
        assert found.warnings == []

    def test_where_no_column_tells_them_apart_both_are_named(self, tmp_path) -> None:
        text = "First name,Last name,Email address\nada,,a@x\nbob,,x@x\ncy,,x@x\n"
        found = roster.read(people(tmp_path, text), ["ada", "bob", "cy"])
        assert [found.who(one) for one in ("ada", "bob", "cy")] == ["a@x", "", ""]
        assert found.warnings == [
            "x@x stands for several people in the roster's column email address; it is used for "
            "none of them"
        ]
