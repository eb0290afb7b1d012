"""The short form of `make faults`: each fault once or twice, most of them warm and on 2 ranks."""

import pytest

from labs import ranks
from labs.topics import TOPICS
from tests.faults import broken, faults, good, kernels, running, table
from tests.faults.kernels import FAULTS as OF_KERNELS
from tests.faults.surroundings import NotHere
from tests.faults.trial import How

pytestmark = pytest.mark.ranks

# Beside "warm, 2 ranks, rank 1 is the odd one": some in other ways.
MORE = {
    "a rank raises": How("warm", 4, 2, 7.0),
    "ring of blocking sends": How("warm", 3, 0, 6.0),
    "all-reduce against recv": How("warm", 4, 3, 7.0),
    "send/send": How("cold", 2, 0, 40.0),
}


def short(fault):
    """One quick way to try a fault."""
    return How("warm", 2, 1, 2.0 if fault.whole_limit else 5.0)


APART = {fault.name: [short(fault)] for fault in faults.AROUND if fault.namespace}


@pytest.fixture(scope="module", autouse=True)
def apart():
    """Starts with the first test, so that it is ready when its turn comes."""
    try:
        mine = running.Apart(APART)
    except NotHere as why:
        yield dict.fromkeys(APART, str(why))
        return
    yield mine
    mine.child.kill()
    mine.child.wait()


@pytest.fixture(scope="module")
def seen(apart):
    """What was seen of each fault of the surroundings, or why it cannot be made here."""
    if isinstance(apart, dict):
        return apart
    found = {}
    return found | apart.result(lambda seen: found.update({seen.fault: seen}))


@pytest.fixture(scope="module", autouse=True)
def kernel():
    """One for all three faults, begun with the first test: each leaves a kernel that works."""
    one = kernels.Kernel("warm")
    yield one
    one.close()


def holds(seen):
    assert seen.ok, table.trouble(seen)


@pytest.mark.parametrize("fault", faults.ON_RANKS, ids=lambda fault: fault.name)
def test_on_ranks(fault):
    holds(fault.trial(short(fault)))


@pytest.mark.parametrize("name", MORE)
def test_on_ranks_in_other_ways(name):
    holds(running.ALL[name].trial(MORE[name]))


class TestKernels:
    @pytest.mark.parametrize("fault", OF_KERNELS, ids=lambda fault: fault.name)
    def test_kernel(self, fault, kernel):
        holds(fault.trial(short(fault), kernel=kernel))


def test_ports_taken():
    fault = running.ALL["ports 29500 and 29400 are taken"]
    with fault.around():
        holds(fault.trial(short(fault)))


class TestAround:
    @pytest.mark.parametrize("name", APART)
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

    @pytest.mark.parametrize("waiting", ["all_reduce", "recv"])
    def test_ranks_that_wait_for_one_that_computes(self, waiting):
        assert good.while_one_computes(good.EACH, waiting, 2, 3.0).alarms == []

    def test_an_alarm_is_counted(self):
        assert good.repeat("x", lambda: "deadlock: …", 2).alarms == ["deadlock: …"] * 2
