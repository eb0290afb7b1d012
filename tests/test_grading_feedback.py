"""The feedback pages: readable, whole, safe whatever a student wrote, silent on hidden cases."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from labs.grading import feedback, gradebook, page, words
from labs.grading.records import (
    CRASH,
    FAIL,
    GRADER_ERROR,
    NOT_ATTEMPTED,
    PARALLELISM,
    STATES,
)
from labs.grading.words import NOT_FOR_CREDIT, file_names
from tests.grading_records import book, grade, submission
from tests.test_cli import labs, refused

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&lt;b"
DETAIL = "expected [[1, 2]]\n  got    [[1, 3]] <b>"
_VOID = {"meta", "br", "img", "link", "input"}


class _Page(HTMLParser):
    """What is in a page: texts, and complaints about what must not be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.complaints: list[str] = []
        self.open: list[str] = []
        self.levels: list[int] = []
        self.links: list[str] = []
        self.feed(text)
        self.close()
        if self.open:
            self.complaints.append(f"not closed: {self.open}")
        self.text = "\n".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        if tag in ("script", "img", "link", "iframe", "object", "form", "base", "svg"):
            self.complaints.append(f"<{tag}>")
        for name, value in attrs:
            if name.startswith("on") or name in ("src", "style", "action", "background"):
                self.complaints.append(f"{name}={value}")
            if name == "href":
                self.links.append(value)
        if tag == "th" and "scope" not in dict(attrs):
            self.complaints.append("a head of a table without its scope")
        if tag in ("h1", "h2", "h3", "h4"):
            self.levels.append(int(tag[1]))
        if self.open and self.open[-1] == "table" and tag == "thead":
            self.complaints.append("a table without a caption")
        if tag == "caption":
            self.open[-1] = "table with caption"
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop().split()[0] != tag:
            self.complaints.append(f"</{tag}> out of place")

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


def parsed(told: dict, student: str = "ada") -> _Page:
    found = _Page(feedback.student_page(told, student))
    assert found.complaints == [] and found.links == []
    assert found.levels[0] == 1 and found.levels.count(1) == 1
    assert all(
        after <= before + 1 for before, after in zip(found.levels, found.levels[1:], strict=False)
    )
    return found


def full() -> dict:
    """A gradebook in which everything that a student can write is hostile."""
    wrong = grade(EVIL, "row", FAIL, "nyy", detail=EVIL, hint=EVIL, notes=(EVIL,), told=EVIL,
                  printed=EVIL + "\n" * 3 + EVIL)  # fmt: skip
    told = submission(EVIL + ".ipynb", None, EVIL)
    return book(wrong, grade("ada", "row"), submissions={EVIL: told})


class TestWords:
    def test_each_state_in_words(self) -> None:
        for state in STATES:
            found = parsed(book(grade("ada", "row", state)))
            assert f"row: {feedback.TITLES[state]}" in found.texts
            assert f"{state}: {STATES[state]}." in found.texts
        assert set(feedback.TITLES) == set(STATES)
        assert len(set(feedback.TITLES.values())) == len(STATES)

    def test_properties_with_points_detail_hint_and_hidden_counts(self) -> None:
        one = grade(
            "ada", "row", FAIL, "nyy", detail=DETAIL, hint="look at the bias", hidden=(1, 2)
        )
        found = parsed(book(one))
        assert "Total: 6.66 of 10 points" in found.texts
        for told in ("public checks failed, 0 of 2 hidden cases passed", "0 of 3.34",
                     "public checks passed, 2 of 2 hidden cases passed", "3.33 of 3.33",
                     DETAIL, "Hint: look at the bias", "Properties of row"):  # fmt: skip
            assert told in found.texts

    def test_a_hidden_case_alone_failed(self) -> None:
        one = grade("ada", "row", FAIL, "yyy")
        parts = (replace(one.properties[0], hidden_passed=1, points=0.0), *one.properties[1:])
        found = parsed(book(replace(one, properties=parts, points=6.66)))
        assert "public checks passed, 1 of 2 hidden cases passed" in found.texts
        assert "All public checks passed; a hidden case did not." in found.texts

    def test_notes_printed_told_and_problems(self) -> None:
        one = grade("ada", "row", CRASH, told="ZeroDivisionError, cell [4]", notes=("two copies",),
                    printed="rank 0: here\n  x")  # fmt: skip
        told = {"ada": submission("a b.ipynb", None, "cell [2] cannot be read")}
        found = parsed(book(one, submissions=told))
        for text in ("ZeroDivisionError, cell [4]", "two copies", "rank 0: here\n  x", "a b.ipynb",
                     "What could not be read", "cell [2] cannot be read"):  # fmt: skip
            assert text in found.texts

    def test_practice_and_not_attempted(self) -> None:
        found = parsed(book(grade("ada", "formula"), grade("ada", "row", NOT_ATTEMPTED)))
        assert "practice, no points" in found.text and "0 of 10" in found.texts
        assert "Properties of row" not in found.text and "Properties of formula" in found.text

    def test_a_grader_error_is_never_0(self) -> None:
        found = parsed(book(grade("ada", "row", GRADER_ERROR), grade("ada", "order")))
        assert "No total yet, of 20 points" in found.texts and "none yet of 10" in found.texts
        assert "No total yet: the grader failed at row" in found.text
        assert "0 of 3.34" not in found.text and "Total: 0" not in found.text

    def test_lateness_and_isolation(self) -> None:
        told = book(grade("ada", "row", PARALLELISM, "yyn"))
        told["students"]["ada"] |= {"late": {"factor": 0.5, "words": "too late"}, "total": 3.34}
        found = parsed(told)
        assert "too late" in found.texts and "6.67 × 0.5 = 3.34" in found.texts
        assert found.text.count("namespaces") == 2  # of the whole, and of the grade

    def test_without_isolation_each_page_says_so(self) -> None:
        told = book(grade("ada", "row", isolation="none"))
        for text in (feedback.student_page(told, "ada"), feedback.index(told)):
            assert NOT_FOR_CREDIT in _Page(text).text.lower()
        assert NOT_FOR_CREDIT not in parsed(book(grade("ada", "row"))).text.lower()


class TestSafe:
    def test_everything_is_escaped(self) -> None:
        """Where a student's text stands it reads as it was written, and is nothing else."""
        found = parsed(full(), EVIL)
        for text in (f"Feedback for {EVIL}", f"Hint: {EVIL}", f"{EVIL}.ipynb", EVIL):
            assert text in found.texts
        assert sum(EVIL in text for text in found.texts) >= 9
        assert _Page(feedback.index(full())).complaints == []

    @pytest.mark.parametrize("unsafe", ["say", "block"])
    def test_the_check_sees_what_is_not_escaped(self, monkeypatch, unsafe: str) -> None:
        """Mutants: a name, or a text of many lines, that goes into the page as it is."""
        monkeypatch.setattr(page, unsafe, lambda text, lines=0: str(text))
        monkeypatch.setattr(feedback, "say", page.say)
        assert "<script>" in _Page(feedback.student_page(full(), EVIL)).complaints

    def test_control_characters_are_seen(self) -> None:
        printed = "a\x1b[31mred\x00\u202eabc\ud800\r\nlast\ttab"
        text = feedback.student_page(book(grade("ada", "row", printed=printed)), "ada")
        assert "a⟨U+001B⟩[31mred⟨U+0000⟩⟨U+202E⟩abc⟨U+D800⟩\nlast    tab" in text
        assert text.encode("utf-8") and "\x1b" not in text

    def test_printed_is_capped(self) -> None:
        printed = "\n".join(f"line {at} " + "x" * 2000 for at in range(5000))
        text = feedback.student_page(book(grade("ada", "row", printed=printed)), "ada")
        assert len(text) < 30_000 and "[… 4960 more lines …]" in text
        assert "line 39 " in text and "line 40 " not in text

    def test_no_page_asks_the_network(self) -> None:
        for text in (feedback.student_page(full(), EVIL), feedback.index(full())):
            assert "default-src 'none'" in text
            for part in ("http:", "https:", "url(", "@import", "javascript:"):
                assert part not in text

    def test_no_hidden_value_is_in_a_page(self) -> None:
        """What was measured, where a hidden case's values could stand, goes nowhere."""
        one = grade("ada", "row", FAIL, "nyy", measured={"hidden": "CANARY 0.12345"}, seconds=7.77)
        told = book(one)
        assert "CANARY" not in gradebook.text(told) + feedback.student_page(told, "ada")
        leaking = replace(one, properties=(replace(one.properties[0], detail="CANARY"),))
        assert "CANARY" in feedback.student_page(book(leaking), "ada")  # a mutant is seen here


class TestFiles:
    NAMES = ["ada", "Ada", "ADA", "ada ", "../ada", "a/d/a", "index", "CON", "nul", "", ".", "..",
             "x" * 300, "x" * 299, "Ödön", "O\u0308do\u0308n", "\ud800", "-rf", "ada.html",
             "%2e%2e", "student", "a\nb", "index-1bc04b52"]  # fmt: skip

    def test_safe_and_no_two_alike(self) -> None:
        names = file_names(self.NAMES)
        assert list(sorted(names)) == sorted(self.NAMES)
        folded = [name.casefold() for name in names.values()]
        assert len(set(folded)) == len(self.NAMES)
        for name in names.values():
            assert name.isascii() and name.replace("-", "").replace("_", "").isalnum()
            assert name[0].isalnum() and len(name) <= 110
            assert name not in ("index", "con", "nul")
        assert names["student"] == "student" and file_names(["ada", "bob"])["ada"] == "ada"

    def test_a_name_made_to_fit_another_s_file(self) -> None:
        target = file_names(["Eve"])["Eve"]
        names = file_names(["Eve", target])
        assert names[target] == target and names["Eve"] != target

    def test_a_mutant_that_drops_the_digest_is_caught(self, monkeypatch, tmp_path) -> None:
        """Two students whose names leave the same letters would share a page."""
        told = book(*(grade(name, "row") for name in ("A.b", "A b", "a-b")))
        gradebook.write_to(told, tmp_path)
        assert len(set(feedback.write_to(tmp_path))) == 4
        monkeypatch.setattr(feedback, "file_names", lambda all_: dict.fromkeys(all_, "a-b"))
        assert len(set(feedback.write_to(tmp_path))) == 2

    def test_pages_of_a_folder(self, tmp_path) -> None:
        told = full()
        gradebook.write_to(told, tmp_path)
        done = labs("feedback", str(tmp_path))
        folder = tmp_path / "feedback"
        assert done.exit_code == 0, done.output
        assert (
            done.output == f"2 pages for students in {folder}\nfor you: {folder / 'index.html'}\n"
        )
        names = sorted(path.name for path in folder.iterdir())
        assert len(names) == 3 and names[:2] == ["ada.html", "index.html"]
        assert (folder / "ada.html").read_text(encoding="utf-8") == feedback.student_page(
            told, "ada"
        )
        links = _Page((folder / "index.html").read_text(encoding="utf-8")).links
        assert sorted(links) == sorted(set(names) - {"index.html"})

    def test_twice_the_same_and_old_pages_go(self, tmp_path) -> None:
        gradebook.write_to(book(grade("ada", "row"), grade("grace", "row")), tmp_path)
        feedback.write_to(tmp_path)
        folder = tmp_path / "feedback"
        before = (folder / "ada.html").read_bytes()
        (folder / "mine.html").write_text("an instructor's own page")
        gradebook.write_to(book(grade("ada", "row")), tmp_path)
        feedback.write_to(tmp_path)
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["ada.html", "index.html", "mine.html"]
        assert (folder / "ada.html").read_bytes() == before

    def test_no_gradebook_there(self, tmp_path) -> None:
        refused(labs("feedback", str(tmp_path)), "has no gradebook.json")
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_cannot_be(self, tmp_path) -> None:
        gradebook.write_to(book(grade("ada", "row")), tmp_path)
        (tmp_path / "feedback").write_text("a file")
        refused(labs("feedback", str(tmp_path)), "cannot be written")


class TestIndex:
    def test_who_has_what(self) -> None:
        told = book(grade("ada", "row"), grade("grace", "row", GRADER_ERROR))
        found = _Page(feedback.index(told))
        assert found.complaints == [] and found.links == ["ada.html", "grace.html"]
        assert "Totals of 2 students" in found.texts
        for text in ("1 of 1", "10 of 10", "none of 10", "100 %"):
            assert text in found.texts
        assert any("the grader failed at row" in text for text in found.texts)


def test_numbers_as_people_write_them() -> None:
    told = [words.number(value) for value in (10.0, 7.5, 3.33, 0.0, 100.0, None)]
    assert told == ["10", "7.5", "3.33", "0", "100", ""]


class TestWhatToDo:
    def test_the_first_that_is_not_right_is_the_example(self) -> None:
        made = book(
            grade("ada", "column"),
            grade("ada", "order", NOT_ATTEMPTED),
            grade("ada", "row", FAIL, "ynn"),
        )
        text = feedback.student_page(made, "ada")
        assert text.count("labs check 01:row --from your.ipynb") == 1
        assert text.count("labs hint row<") == 1

    def test_who_has_nothing_wrong_is_told_nothing(self) -> None:
        made = book(grade("ada", "column"), grade("ada", "row", NOT_ATTEMPTED))
        assert "labs check" not in feedback.student_page(made, "ada")

    @pytest.mark.parametrize("problems", [(), ("a.ipynb: cell [28] cannot be read",)])
    def test_what_could_not_be_read_is_no_riddle(self, problems: tuple[str, ...]) -> None:
        made = book(
            grade("ada", "column"),
            grade("ada", "row", NOT_ATTEMPTED),
            submissions={"ada": submission("a.ipynb", None, *problems)},
        )
        text = feedback.student_page(made, "ada")
        assert text.count("see above what could not be read") == len(problems)
