"""Gradients summed beside the backward pass: formula, simulation, run; the values do not change."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch

from labs import formulas
from labs.answers import reference
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh.on_rank import on_rank as train
from labs.mesh.overlap import on_rank, simulate
from labs.mesh.trainer import PARTS
from labs.mesh_3d import jobs, overlap_figure
from labs.mesh_3d import overlap as lab
from labs.mesh_3d.ask import Ask
from labs.result import Result
from tests import mesh_wrong

ASK = Ask(status=False)


def todo():
    """Small ones, on two ranks."""
    return [replace(job, units=3, link=20e6) for job in lab.jobs(tries=1, numel=12 * 2**12)]


def failing(found) -> list[str]:
    still = [check for check in lab.checks(found) if not check.clock]
    return [check.name.rpartition(": ")[2] for check in still if not check.ok]


@pytest.fixture(scope="module")
def found():
    return lab.take(todo(), ASK.launch(on_rank, todo(), ranks=2))


class TestFormula:
    def test_equal_units_as_simulated(self):
        for units, b, c, beside in product(range(1, 7), (0, 1, 2, 5), (0, 1, 3), (True, False)):
            one = simulate([b] * units, [c] * units, beside)
            assert one.exposed == formulas.reduction_exposed(units, b, c, beside)

    def test_what_is_hidden(self):
        """As long as a message is the shorter one, all of them cost no more than the last."""
        assert formulas.reduction_exposed(40, 2, 1) == 1
        assert formulas.reduction_exposed(40, 2, 1, overlap=False) == 40
        assert formulas.reduction_exposed(40, 1, 2) == 2 + 39

    def test_no_unit(self):
        with pytest.raises(ValueError, match="0 units"):
            formulas.reduction_exposed(0, 1, 1)

    def test_units_that_differ(self):
        """A large head first: its sum holds up the others on the link."""
        one = simulate([1, 1, 1], [3, 1, 1], True)
        assert one.sent == [(1, 4), (4, 5), (5, 6)] and one.exposed == 3


@pytest.mark.ranks
class TestRun:
    def test_what_does_not_depend_on_the_clock(self, found):
        assert failing(found) == []
        checks = lab.checks(found)
        assert len({check.name for check in checks}) == len(checks)

    def test_the_picture(self, found):
        result = Result("mesh_3d", {})
        with pytest.raises(ValueError, match="only='overlap'"):
            overlap_figure.plot(result)
        result.values[lab.SECTION] = found
        alt = overlap_figure.plot(result).alt
        assert alt.count("exposed by formula") == 4 and "all at the end" in alt

    @pytest.mark.parametrize(
        ("wrong", "off"),
        [
            (mesh_wrong.never_waits, "every summed gradient"),
            (mesh_wrong.waits_at_once, "sums that were not waited for at once"),
        ],
    )
    def test_a_wrong_overlap_is_seen(self, wrong, off):
        assert off in failing(lab.take(todo(), ASK.launch(wrong, todo(), ranks=2)))


@pytest.mark.ranks
def test_a_step_on_the_mesh_comes_to_the_same_numbers():
    """To the bit: the same sums in the same order."""
    parts = {name: reference(f"{topic}.{name}") for name, topic in PARTS.items()}
    cube, configs = Layout(dp=2, pp=2, tp=2), []
    for zero, tied, reshard in ((2, False, True), (3, True, True), (3, False, False)):
        plain = jobs.config(cube, zero, tied, reshard)
        configs += [plain, replace(plain, overlap=True)]
    run = ASK.launch(train, configs, parts, 2)
    for told in run.values:
        for plain, beside in zip(told[::2], told[1::2], strict=True):
            assert plain["losses"] == beside["losses"] and plain["norms"] == beside["norms"]
            ours, theirs = _tensors(plain["weights"]), _tensors(beside["weights"])
            assert ours and all(map(torch.equal, ours, theirs))
    for plain, beside in zip(configs[::2], configs[1::2], strict=True):
        sent = [run.ledger.payload_bytes(section=c.name, axis="dp") for c in (plain, beside)]
        assert sent[0] == sent[1] > 0


def _tensors(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if not isinstance(value, (dict, list, tuple)):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [tensor for one in inner for tensor in _tensors(one)]


@pytest.mark.parametrize(("zero", "asked"), [(1, True), (0, True), (2, 1)])
def test_what_cannot_overlap_is_refused(zero, asked):
    with pytest.raises(ValueError, match="overlap"):
        Config(zero=zero, overlap=asked)


def test_one_rank_says_what_is_left_out():
    result = Result("mesh_3d", {})
    lab.add(result, Ask(ranks=1, layout=Layout()), {})
    assert result.notes == ["overlap left out: it needs 2 ranks or more"] and not result.checks
