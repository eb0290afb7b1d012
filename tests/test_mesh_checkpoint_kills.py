"""kill -9 of all ranks amid a save; twenty random moments: python -m tests.mesh_kills."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labs.mesh.layout import Layout
from labs.ranks import RunFailed
from tests import mesh_kills
from tests.mesh_kills import AFTER, AMID, BEFORE, STEPS, Killed


@pytest.mark.ranks
def test_the_last_good_one_is_never_lost():
    found, names = mesh_kills.trials(Layout(dp=2), [AMID, 0.5, BEFORE, AFTER])
    assert [str(one) for one in found if not one.ok] == []
    amid, _, before, after, alive = found
    # What the kill at each point left behind, and that it did not count.
    assert amid.saved == amid.newest == 0 and "no metadata" in amid.left
    assert before.left == "2 data files, metadata" and before.saved == before.newest
    assert after.left == "nothing unfinished" and after.saved == after.newest + STEPS
    # The next save removed it, and old ones too.
    assert alive.first == after.saved and len(names) == 2
    assert names == [f"step-{step:06d}" for step in (alive.first, alive.first + STEPS)]


@pytest.mark.ranks
def test_a_save_over_the_one_before_is_caught():
    """Killed amid the data, it leaves files of two steps, or a file cut short."""
    heard = []
    try:
        mesh_kills.trials(Layout(dp=2), [None, AMID], heard.append, naive=True)
    except RunFailed as failed:
        assert "NotLoaded" in str(failed) and len(heard) == 2
    else:
        assert not heard[-1].ok
    assert heard[0].ok and heard[1].ok


def test_what_would_be_a_loss():
    right = Killed(0.5, 4, 4, 1e-15, "", 4)
    assert right.ok and replace(right, saved=6).ok
    for bad in (dict(first=2), dict(saved=2), dict(apart=1e-3), dict(apart=float("nan"))):
        assert not replace(right, **bad).ok
