"""A plan run tiny: what is kept of it, on real ranks by `labs plan tiny`, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest
from click.testing import CliRunner

from labs import answers
from labs.answers import Missing
from labs.cli import main
from labs.mesh import legal as mesh_legal
from labs.planner.cluster import Cluster
from labs.planner.exports import to_json
from labs.planner.exports.shrink import MOST, TOY, shrink
from labs.planner.layout import Layout
from labs.planner.legal import refusals
from labs.planner.model import Model
from labs.planner.software import TODAY
from labs.planner_widget import tiny

SIZES = (1, 2, 3, 4, 5, 8, 16, 64)
ASK = ("plan", "--gpus", "64", "--params", "70e9", "--layers", "80")


def labs(*arguments: str):
    return CliRunner().invoke(main, arguments)


class TestShrink:
    def test_the_example(self):
        found = shrink(Layout(8, 4, 1, 8, batch=64))
        assert (found.layout.dp, found.layout.pp, found.layout.tp) == (2, 2, 2)
        assert "dp = 8 is dp = 2 here" in found.told and "tp = 8 is tp = 2 here" in found.told

    @pytest.mark.parametrize("dp", SIZES)
    def test_every_axis_stays_an_axis(self, dp):
        """2 or more where it was more than 1, never longer than it was, at most 8 ranks, legal."""
        for pp, tp in product(SIZES, SIZES):
            at = Layout(dp, pp, 1, tp, batch=4 * dp, zero=1)
            small = shrink(at).layout
            for axis in ("dp", "pp", "tp"):
                asked, got = getattr(at, axis), getattr(small, axis)
                assert (got > 1) == (asked > 1) and got <= asked
            assert small.gpus <= MOST and small.zero == 1
            assert refusals(TOY, Cluster(small.gpus), small) == []
            config = tiny.config_of(small, TOY)  # and the lab takes it
            assert config.micro_batches == small.micro_batches

    @pytest.mark.parametrize("ranks", [1, 2, 4, 8])
    def test_fewer_ranks_leave_axes_out_and_say_so(self, ranks):
        found = shrink(Layout(8, 4, 1, 8, batch=64), ranks=ranks)
        assert found.layout.gpus == ranks
        kept = sum(getattr(found.layout, axis) > 1 for axis in ("dp", "pp", "tp"))
        assert kept == {1: 0, 2: 1, 4: 2, 8: 3}[ranks]
        assert sum("left out" in told for told in found.told) == 3 - kept

    def test_one_axis_uses_what_there_is(self):
        assert shrink(Layout(64, batch=64)).layout.dp == 8
        assert shrink(Layout(1, 16, batch=16)).layout.pp == TOY.layers == 4
        assert shrink(Layout(1, 4, 1, 8, batch=16)).layout.gpus == 8

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (dict(cp=2), "cp = 2 is left out"),
            (dict(pp=4, v=2), "v = 2 is v = 1 here"),
            (dict(recompute="full"), "recompute = full is none here"),
            (dict(tp=2, sp=True), "sequence parallelism is off here"),
            (dict(pp=4, ends=True), "take no layer's place here"),
            (dict(mbs=8), "micro-batches of 8 sequences have 2 here"),
            (dict(pp=2, batch=64), "m = 64 micro-batches are m = 8 here"),
            (dict(dp=2, batch=8), "m = 4 micro-batches as in the plan"),
            (dict(zero=3), "ZeRO-3 as in the plan"),
        ],
    )
    def test_what_is_otherwise_is_said(self, words, told):
        at = Layout(**{"batch": 16, **words})
        assert any(told in one for one in shrink(at).told)
        plain = shrink(Layout(batch=16, zero=0)).told
        assert not any(told in one for one in plain)

    def test_the_model_is_said_too(self):
        found = shrink(Layout(), Model(80, 8192, 64, 1000, tied=True, name="70B"))
        assert "70B: 80 layers of d = 8192 are the toy GPT's 4" in found.told[-1]
        assert found.model.tied and found.model.layers == 4

    def test_m_keeps_the_bubble_where_it_can(self):
        """m/pp of the plan, up to 4 rounds."""
        for pp, rounds in ((4, 1), (4, 2), (8, 4)):
            small = shrink(Layout(1, pp, batch=pp * rounds)).layout
            assert small.micro_batches == small.pp * rounds
        assert shrink(Layout(1, 8, batch=3)).layout.micro_batches == 3  # fewer than stages: kept

    @pytest.mark.parametrize("ranks", [0, 9, 2.0, True])
    def test_ranks_that_are_none(self, ranks):
        with pytest.raises(ValueError, match="1 to 8 ranks"):
            shrink(Layout(), ranks=ranks)


class TestRows:
    def test_a_row_that_is_off(self):
        row = tiny.Row("peak", 100.0, 103.0, "bytes", 0.03, 0.02)
        assert not row.ok and "+3.00%" in str(row) and "FAIL, beyond 2%" in str(row)
        assert "exact" in str(tiny.Row("state", 5.0, 5.0, "bytes", 0.0))

    def test_only_the_clock(self):
        plan = shrink(Layout(1, 2, batch=4))
        found = tiny.Measured([0], [0], [0], [0], dict(dp=0, pp=0, tp=0), None)
        late = tiny.Row("bubble", 0.2, 0.4, "of the time", 0.2, 0.05, True)
        done = tiny.Tiny(plan, [late], found)
        assert not done.ok and str(done).endswith(tiny.DISTURBED)
        other = replace(late, clock=False)
        assert tiny.DISTURBED not in str(tiny.Tiny(plan, [late, other], found))

    def test_on_gpus_there_is_no_peak_and_it_is_said(self):
        plan = shrink(Layout(batch=1, zero=0))
        found = tiny.Measured([0], [0], [0], [0], dict(dp=0, pp=0, tp=0), None)
        for backend, rows in (("gloo", 1), ("nccl", 0)):
            on = replace(found, backend=backend)
            done = tiny.Tiny(plan, tiny.compare(plan, on), on)
            assert sum(row.what.startswith("peak") for row in done.rows) == rows
            assert (tiny.NO_PEAK in str(done)) == (not rows)

    def test_the_bubble_of_spans(self):
        """Two ranks, 10 s: one computes 5, the other 10; waiting does not count. The short try."""
        spans = [[("", "F0", 0.0, 5.0), ("pp", "F0", 5.0, 10.0)], [("", "F0", 0.0, 10.0)]]
        tries = [[dict(wall=20.0, spans=one), dict(wall=10.0, spans=one)] for one in spans]
        assert tiny.bubble_of(tries) == 1 - 15 / 20


@pytest.mark.ranks
class TestCommand:
    def test_on_ranks(self):
        done = labs("plan", "tiny", "--dp", "2", "--tp", "2", "--zero", "2")
        assert done.exit_code == 0, done.output
        assert "4 real ranks, dp=2 pp=1 tp=2" in done.output
        rows = [line for line in done.output.splitlines() if line.endswith("  ok")]
        assert len(rows) == 5 and sum("exact" in row for row in rows) == 4
        assert "bubble" not in done.output  # no pipeline

    def test_a_plan_from_a_file(self, tmp_path):
        """All but the bubble, which the machine's other work may lengthen."""
        model = Model(8, 256, 8, 1000, 128, tied=True)
        file = tmp_path / "plan.json"
        at = Layout(8, 4, 1, 1, mbs=2, batch=64, zero=3)
        file.write_text(to_json(model, Cluster(32), at, TODAY))
        done = labs("plan", "tiny", "--from", str(file))
        assert "8 real ranks, dp=4 pp=2 tp=1" in done.output, done.output
        off = [line for line in done.output.splitlines() if "FAIL" in line]
        assert all(line.startswith("bubble") for line in off), done.output
        assert "sent in a step along pp" in done.output and "dp = 8 is dp = 4" in done.output


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (("tiny", "--dp", "0"), "dp must be a whole number from 1 on, got 0"),
            (("tiny", "--zero", "4"), "ZeRO has the stages 0, 1, 2 and 3; got 4"),
            (("tiny", "--micro-batches", "0"), "micro-batches must be a whole number from 1 on"),
            (("tiny", "--from", "nowhere.json"), "nowhere.json cannot be read"),
            ((*ASK[1:], "--export", "nemo"), "course, torchtitan, megatron-lm, text, json; got"),
            ((*ASK[1:], "--export", "text", "--rank", "0"), "--rank counts from 1; got 0"),
            ((*ASK[1:], "--export", "text", "--json"), "ask for different things"),
        ],
    )
    def test_sentences(self, arguments, told):
        done = labs("plan", *arguments)
        assert done.exit_code == 2 and told in done.output and "Traceback" not in done.output

    def test_a_file_that_is_no_plan(self, tmp_path):
        (tmp_path / "plan.json").write_text("{}")
        done = labs("plan", "tiny", "--from", str(tmp_path / "plan.json"))
        assert done.exit_code == 2 and "a plan lacks 'schema'" in done.output

    def test_without_answers(self, monkeypatch):
        def missing(name: str, mine: object = None) -> None:
            raise Missing(f"{name} is missing")

        monkeypatch.setattr(answers, "reference", missing)
        done = labs("plan", "tiny")
        assert done.exit_code == 2 and "copy_to_ranks is missing" in done.output

    def test_nothing_is_launched(self, monkeypatch):
        monkeypatch.setattr(tiny.on_ranks, "launch", lambda *_, **__: pytest.fail("launched"))
        with pytest.raises(ValueError):
            tiny.run_tiny(Layout(batch=3, mbs=2))
        monkeypatch.setattr(
            mesh_legal, "stages", lambda *_: (_ for _ in ()).throw(ValueError("no"))
        )
        with pytest.raises(ValueError, match="no"):
            tiny.run_tiny(Layout())


class TestExportCommand:
    def test_which_plan(self):
        """--rank N is plan N of the list that the command prints without it."""
        listed = [line for line in labs(*ASK).output.splitlines() if "MFU" in line]
        for number in (1, 3, 7):
            done = labs(*ASK, "--export", "json", "--rank", str(number))
            at = Layout(**json.loads(done.output)["layout"])
            if number <= len(listed):
                assert listed[number - 1].endswith(str(at))
            else:
                assert str(at) not in " ".join(listed)

    def test_one_that_is_not_there(self):
        done = labs("plan", "--gpus", "1", "--params", "1e9", "--layers", "16", "--batch", "1",
                    "--export", "text", "--rank", "999")  # fmt: skip
        assert done.exit_code == 2 and "plan 999 was asked for, and " in done.output

    @pytest.mark.parametrize("target", ["course", "torchtitan", "megatron-lm", "text"])
    def test_what_is_printed(self, target):
        done = labs(*ASK, "--export", target)
        assert done.exit_code == 0
        assert ("torchrun" in done.output) == (target != "text")
