"""The points file: what it says, what it refuses, and what lateness takes off."""

from __future__ import annotations

import tomllib
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.exercise import exercises
from labs.grading import points
from labs.grading.late import Policy
from labs.grading.points import DEFAULT, Points
from labs.grading.records import FAIL, GRADER_ERROR, LOOK, PARALLELISM, PASS
from tests.grading_records import KNOWN, POINTS, exercise, grade

COURSE = Path(__file__).resolve().parents[1]
DEADLINE = datetime.fromisoformat("2026-03-31T23:59:59+02:00")
DUE = DEADLINE.timestamp()
DAY = 86400


def loaded(tmp_path, text: str) -> Points:
    file = tmp_path / "mine.toml"
    file.write_bytes(text.encode())
    return points.load(file, KNOWN)


def refused(tmp_path, text: str) -> str:
    with pytest.raises(ValueError) as found:
        loaded(tmp_path, text)
    told = str(found.value)
    assert told.startswith("mine.toml: ") and len(told.splitlines()) == 1
    return told


class TestDefault:
    def test_every_graded_exercise_has_ten_and_practice_none(self) -> None:
        found = points.load()
        for name, one in exercises().items():
            assert found.of(name) == (10.0 if one.kind == "graded" else 0.0)
        assert found.late(DUE + 99 * DAY).factor == 1.0

    def test_it_is_the_defaults_of_the_class_and_in_the_package(self) -> None:
        found = points.load(known=KNOWN)
        assert found == Points(KNOWN)
        told = tomllib.loads((COURSE / "pyproject.toml").read_text(encoding="utf-8"))
        assert DEFAULT.name in told["tool"]["setuptools"]["package-data"]["labs.grading"]

    def test_what_it_shows_in_comments_is_taken(self, tmp_path) -> None:
        """Each example of the file, with its # removed, is read and does what it says."""
        text = DEFAULT.read_text(encoding="utf-8")
        for name in ("row_parallel = 15", "zero_bubble_order = 0", "tp_linear_pair = 10",
                     'row_parallel = { "forward values"', "deadline =", "grace_minutes =",
                     "steps =", "floor_percent ="):  # fmt: skip
            assert text.count(f"\n# {name}") == 1
            text = text.replace(f"\n# {name}", f"\n{name}")
        text = text.replace('\npolicy = "none"', '\npolicy = "steps"')
        file = tmp_path / "mine.toml"
        file.write_text(text, encoding="utf-8")
        found = points.load(file)
        assert found.of("row_parallel") == 15 and found.of("zero_bubble_order") == 0
        assert found.shares("row_parallel", ["forward values", "gradients", "traffic"]) == {
            "forward values": 6.0, "gradients": 6.0, "traffic": 3.0,
        }  # fmt: skip
        assert found.policy == Policy(
            "steps", DEADLINE, 15, steps=((24, 10), (72, 50)), floor_percent=0
        )


class TestOf:
    def test_exercise_before_topic_before_default(self, tmp_path) -> None:
        found = loaded(tmp_path, "[points]\ngraded = 0\nrow = 2.5\n[topics]\none_f_one_b = 4\n")
        assert [found.of(name) for name in KNOWN] == [0.0, 0.0, 2.5, 4.0]

    def test_unknown(self) -> None:
        with pytest.raises(ValueError, match="there is no exercise 'colum'; did you mean column"):
            POINTS.of("colum")


class TestShares:
    def test_the_rest_goes_to_the_first(self) -> None:
        assert POINTS.shares("row", KNOWN["row"].properties) == {
            "forward values": 3.34, "gradients": 3.33, "traffic": 3.33,
        }  # fmt: skip

    def test_a_property_that_weighs_nothing_gets_no_rest(self, tmp_path) -> None:
        found = loaded(tmp_path, '[weights]\nrow = { "forward values" = 0 }\n')
        assert found.shares("row", KNOWN["row"].properties) == {
            "forward values": 0.0, "gradients": 5.0, "traffic": 5.0,
        }  # fmt: skip

    @given(
        whole=st.integers(0, 10**6).map(lambda n: n / 100),
        weights=st.lists(st.floats(0, 1000).map(lambda x: round(x, 3)), min_size=1, max_size=9),
    )
    def test_they_sum_exactly(self, whole: float, weights: list[float]) -> None:
        names = [f"p{at}" for at in range(len(weights))]
        known, table = {"e": exercise("e", *names)}, dict(zip(names, weights, strict=True))
        found = Points(known, by_exercise={"e": whole}, weights={"e": table})
        if whole and not any(weights):
            with pytest.raises(ValueError, match="none of its properties weighs anything"):
                found.shares("e", names)
            return
        shares = found.shares("e", names)
        cents = [Decimal(repr(share)) * 100 for share in shares.values()]
        assert sum(cents) == Decimal(repr(whole)) * 100
        assert all(c == int(c) and c >= 0 for c in cents) and list(shares) == names
        if whole:
            assert all((s == 0) or w for s, w in zip(cents, weights, strict=True))


class TestRefused:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("[points]\nrwo = 3", "there is no exercise 'rwo'; did you mean row"),
            ("[points]\nrow = -1", "[points] row must be 0 to 10000, got -1"),
            ("[points]\nrow = nan", "[points] row must be 0 to 10000, got nan"),
            ("[points]\nrow = inf", "got inf"),
            ("[points]\nrow = true", "[points] row must be a number, got True"),
            ("[points]\nrow = '10'", "[points] row must be a number, got '10'"),
            ("[points]\nrow = 3.333", "[points] row: points are counted in hundredths, got 3.333"),
            ("[points]\nformula = 1", "[points] formula is practice, which is never for credit"),
            ("[topics]\ntp = 1", "there is no topic 'tp'; did you mean tp_linear_pair"),
            ("[weights]\nrow = { trafic = 1 }", "no property 'trafic'; did you mean traffic"),
            ("[weights]\nrow = { traffic = -2 }", "[weights] row, traffic must be 0 to 10000"),
            ("[weights]\nrow = 3", "[weights] row is a table of properties, as in row = {"),
            ("[weights]\norder = { rules = 0, time = 0 }", "order is worth 10 points, but none"),
            ("[pionts]\nrow = 3", "there is no table 'pionts'; did you mean points"),
            ("late = 3", "late is a table; write [late]"),
            ("[points", "it is not TOML: "),
            ("[points]\nrow = 1\nrow = 2", "it is not TOML: "),
            ("[late]\npolicy = 'daily'", "policy is 'daily'; the policies are \"none\", "),
            ("[late]\npolicy = 'none'\ndeadlin = 3", "no key 'deadlin'; did you mean deadline"),
            ("[late]\npolicy = 'per day'", 'policy "per day" needs a date with a time, as in'),
            ("[late]\npolicy = 'per day'\ndeadline = 2026-03-31", "needs a date with a time"),
            ("[late]\npolicy = 'per day'\ndeadline = '2026-03-31T12:00:00Z'", "needs a date with"),
            ("[late]\npolicy = 'per day'\ndeadline = 2026-03-31T12:00:00\npercent_per_day = 5",
             "deadline 2026-03-31T12:00:00 has no time zone; say which"),
            ("[late]\npolicy = 'per day'\ndeadline = 2026-03-31T12:00:00Z", "needs percent_per"),
            ("[late]\npolicy = 'per day'\ndeadline = 2026-03-31T12:00:00Z\npercent_per_day = 101",
             "percent_per_day is 0 to 100, got 101"),
            ("[late]\npolicy = 'per day'\ndeadline = 2026-03-31T12:00:00Z\npercent_per_day = 5\n"
             "grace_minutes = -1", "grace_minutes is 0 to 10080, got -1"),
            ("[late]\npolicy = 'per day'\ndeadline = 2026-03-31T12:00:00Z\nsteps = []",
             'steps says nothing under policy "per day"'),
            ("[late]\npolicy = 'steps'\ndeadline = 2026-03-31T12:00:00Z", "needs its steps, as in"),
            ("[late]\npolicy = 'steps'\ndeadline = 2026-03-31T12:00:00Z\nsteps = [{hours = 24}]",
             "a step of [late] has hours and percent_off"),
            ("[late]\npolicy = 'steps'\ndeadline = 2026-03-31T12:00:00Z\n"
             "steps = [{hours=24, percent_off=50}, {hours=48, percent_off=10}]",
             "must grow: 24 h with 50 % is followed by 48 h with 10 %"),
        ],
    )  # fmt: skip
    def test_in_a_sentence(self, tmp_path, text: str, words: str) -> None:
        assert words in refused(tmp_path, text)

    def test_what_is_no_file(self, tmp_path) -> None:
        with pytest.raises(ValueError, match="none.toml: it cannot be read: No such file"):
            points.load(tmp_path / "none.toml", KNOWN)
        (tmp_path / "b.toml").write_bytes(b"\xff\xfe[points]")
        with pytest.raises(ValueError, match="b.toml: it is not saved as UTF-8"):
            points.load(tmp_path / "b.toml", KNOWN)
        (tmp_path / "c.toml").write_bytes(b"#" * (1 << 20) + b"##")
        with pytest.raises(ValueError, match="at most 1 MB"):
            points.load(tmp_path / "c.toml", KNOWN)

    def test_nesting(self, tmp_path) -> None:
        assert "nested too deeply" in refused(tmp_path, "x = " + "[" * 9000 + "]" * 9000)


class TestLate:
    PER_DAY = Policy("per day", DEADLINE, 15, 10, floor_percent=40)
    STEPS = Policy("steps", DEADLINE, 15, steps=((24, 10), (72, 50)))

    @pytest.mark.parametrize(
        ("after", "factor", "words"),
        [
            (-1, 1.0, "in time for the deadline, 2026-03-31 23:59:59 UTC+02:00"),
            (0, 1.0, "in time for"),
            (1, 1.0, "1 s after the deadline, 2026-03-31 23:59:59 UTC+02:00, within 15 minutes"),
            (15 * 60, 1.0, "15 min after"),
            (15 * 60 + 1, 0.9, "10 % off (10 % a day, 1 day begun)"),
            (DAY, 0.9, "1 d after"),
            (DAY + 1, 0.8, "20 % off (10 % a day, 2 days begun)"),
            (6 * DAY, 0.4, "60 % off (10 % a day, 6 days begun)"),
            (9 * DAY, 0.4, "but never below 40 % of the points"),
            (900 * DAY, 0.4, "100 % off"),
        ],
    )
    def test_per_day(self, after: float, factor: float, words: str) -> None:
        late = self.PER_DAY.late(DUE + after)
        assert late.factor == factor and words in late.words

    @pytest.mark.parametrize(
        ("hours", "factor", "words"),
        [
            (1, 0.9, "1 h after"),
            (24, 0.9, "10 % off (up to 24 h late)"),
            (24.01, 0.5, "50 % off (up to 72 h late)"),
            (72.5, 0.0, "100 % off (more than 72 h late)"),
        ],
    )
    def test_steps(self, hours: float, factor: float, words: str) -> None:
        late = self.STEPS.late(DUE + hours * 3600)
        assert late.factor == factor and words in late.words

    def test_the_zone_is_that_of_the_deadline(self) -> None:
        late = self.PER_DAY.late(datetime.fromisoformat("2026-04-01T00:29:59+00:00").timestamp())
        assert late.words.startswith(
            "handed in 2026-04-01 02:29:59 UTC+02:00, 2 h 30 min after the deadline"
        )

    @pytest.mark.parametrize("unknown", [None, float("nan"), float("inf"), -1e300])
    def test_an_unknown_time_takes_nothing_off_and_says_so(self, unknown) -> None:
        late = self.PER_DAY.late(unknown)
        assert late.factor == 1.0 and "the time of submission is not known" in late.words

    def test_tenths_are_exact(self) -> None:
        third = Policy("per day", DEADLINE, percent_per_day=33.3)
        assert third.late(DUE + 1).factor == 0.667 and third.late(DUE + 4 * DAY).factor == 0.0


class TestPriced:
    def test_the_same_points_change_nothing(self) -> None:
        for one in (grade("ada", "row", FAIL, "yny"), grade("ada", "row", GRADER_ERROR)):
            assert POINTS.priced(one) is one

    def test_other_points_without_grading_anew(self) -> None:
        new = Points(KNOWN, by_exercise={"row": 20.0}, weights={"row": {"traffic": 2.0}})
        priced = new.priced(grade("ada", "row", FAIL, "yny"))
        assert (priced.points, priced.of) == (15.0, 20.0)
        assert [(p.points, p.of) for p in priced.properties] == [(5, 5), (0, 5), (10, 10)]

    def test_what_had_no_weight_counts_by_its_state(self) -> None:
        before = Points(KNOWN, weights={"row": {"traffic": 0.0}})
        for held, points_ in (("yyy", 10.0), ("yyn", 6.67)):
            told = grade("ada", "row", PASS, held, points=before)
            assert told.points == 10.0 and POINTS.priced(told).points == points_

    def test_the_grader_s_word_on_the_whole_holds(self) -> None:
        """A total that the grader set to 0 stays 0, whatever its parts say."""
        from dataclasses import replace

        told = replace(grade("ada", "row"), points=0.0)
        assert Points(KNOWN, graded=20.0).priced(told).points == 0.0

    def test_a_contradicted_account_has_no_points_whatever_it_is_worth(self) -> None:
        """Also where it was graded when the exercise had none, and all of its parts had passed."""
        nothing = Points(KNOWN, graded=0.0)
        told = grade("ada", "row", PARALLELISM, "yyy", points=nothing, notes=(LOOK,))
        priced = POINTS.priced(told)
        assert (priced.points, priced.of) == (0.0, 10.0)
        assert {p.points for p in priced.properties} == {0.0}
        assert POINTS.priced(grade("ada", "row", PASS, points=nothing)).points == 10.0

    def test_a_grader_error_keeps_having_none(self) -> None:
        told = Points(KNOWN, graded=20.0).priced(grade("ada", "row", GRADER_ERROR))
        assert told.points is None and told.of == 20.0
