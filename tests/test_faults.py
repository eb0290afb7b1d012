"""The short form of `make faults`: each fault once or twice, most of them warm and on 2 ranks."""

import pytest

from labs import ranks
from labs.topics import TOPICS
from tests.faults import broken, faults, good, kernels, running, table
from tests.faults.trial import How

pytestmark = pytest.mark.ranks

# Beside "warm, 2 ranks, rank 1 is the odd one": some in other ways.
MORE = {
    "a rank raises": How("warm", 4, 2, 7.0),
    "ring of blocking sends": How("warm", 3, 0, 6.0),
    "all-reduce against recv": How("warm", 4, 3, 7.0),
    "send/send": How("cold", 2, 0, 40.0),
}
AT_WORK = list(zip(good.COMPUTING, good.WAITING, strict=True))


def short(fault):
    """One quick way to try a fault."""
    return How("warm", 2, 1, 3.0 if fault.whole_limit else 5.0)


def holds(seen):
    assert seen.ok, table.trouble(seen)


@pytest.mark.parametrize("fault", faults.ON_RANKS, ids=lambda fault: fault.name)
def test_on_ranks(fault):
    holds(fault.trial(short(fault)))


@pytest.mark.parametrize("name", MORE)
def test_on_ranks_in_other_ways(name):
    holds(running.ALL[name].trial(MORE[name]))


@pytest.fixture(scope="module")
def kernel():
    """One for all three: each leaves a kernel that works."""
    one = kernels.Kernel()
    yield one
    one.close()


class TestKernels:
    @pytest.mark.parametrize("fault", kernels.FAULTS, ids=lambda fault: fault.name)
    def test_kernel(self, fault, kernel):
        holds(fault.trial(short(fault), kernel=kernel))


@pytest.fixture(scope="module")
def seen():
    """What was seen of the faults of surroundings, or why they cannot be made here."""
    found = {}
    ways = {fault.name: [short(fault)] for fault in faults.AROUND}
    return found | running.run(ways, lambda seen: found.update({seen.fault: seen}))


class TestAround:
    @pytest.mark.parametrize("name", [fault.name for fault in faults.AROUND])
    def test_around(self, name, seen):
        if isinstance(seen.get(name), str):
            pytest.skip(f"not applicable here: {seen[name]}")
        holds(seen[name])


def test_a_limit_that_is_too_short_to_begin_is_no_loop():
    found = ranks.diagnose(broken.works, 2, limit=0.01)
    assert found.kind == "limit"
    assert "the limit of 0.01 s was reached; ranks 0 and 1 have not started yet" in found.told
    assert "loop" not in found.told


class TestNoAlarm:
    def test_every_lab_has_a_short_form(self):
        assert set(good.SHORT) == set(TOPICS)

    @pytest.mark.parametrize("name", good.SHORT)
    def test_good_runs_on_a_busy_machine(self, name):
        with good.busy():
            assert good.of_lab(name, 20 // len(good.SHORT)).alarms == []

    @pytest.mark.parametrize(("computing", "waiting"), AT_WORK)
    def test_ranks_that_wait_for_one_that_computes(self, computing, waiting):
        assert good.while_one_computes(computing, waiting, 2, 2.0).alarms == []

    def test_an_alarm_is_counted(self):
        assert good.repeat("x", lambda: "deadlock: …", 2).alarms == ["deadlock: …"] * 2
