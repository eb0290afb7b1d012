"""The ledger's wire bytes against the kernel's own counters: the truth about what was sent.

Two witnesses. The sockets of each rank (TCP_INFO) tell its own share. The loopback interface of a
private network namespace tells the sum, packet headers and acknowledgements included, and no other
program's traffic is in it. What TCP sent again on a busy machine is taken off.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labs import ranks
from labs.ranks import wire
from tests import traffic_on_ranks as traffic

COURSE = Path(__file__).resolve().parents[1]
MIB = 2**20
PAYLOAD = 1680 * 1024  # bytes: a whole number of floats for each of 2, 4 and 7 ranks
WITHIN = 0.02
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="TCP_INFO is Linux's")


def agree(measured, booked):
    return abs(measured - booked) <= WITHIN * booked + 4096


@functools.cache
def shares(n):
    """{op: [(sent by the rank's sockets, its wire bytes, its ideal bytes)] by rank}, 3 calls."""
    run = ranks.launch(
        traffic.measure_all, n, args=(traffic.OPS, [PAYLOAD], 3), status=False, mode="warm"
    )
    told = {}
    for op in traffic.OPS:
        told[op] = []
        for rank in range(n):
            seen = run.ledger.where(section=f"{op} {PAYLOAD}", rank=rank)
            sent = run.values[rank][(op, PAYLOAD)][0]
            told[op].append((sent, seen.wire_bytes(), seen.ideal_bytes()))
    return told


@linux
@pytest.mark.ranks
@pytest.mark.parametrize("op", traffic.OPS)
@pytest.mark.parametrize("n", [2, 4, 7])
def test_each_rank_sends_what_its_ledger_says(n, op):
    for rank, (sent, booked, _) in enumerate(shares(n)[op]):
        assert agree(sent, booked), f"rank {rank} of {n} sent {sent}, its ledger says {booked}"


@linux
@pytest.mark.ranks
def test_the_counters_tell_a_wrong_account_from_a_right_one():
    """Wrong variants of the formulas that must not pass the test above."""
    told = shares(4)
    wrong = {
        "reduce_scatter": [ideal for _, _, ideal in told["reduce_scatter"]],  # as if it were a ring
        "all_gather": [3 * 3 / 4 * PAYLOAD] * 4,  # the share taken for the whole
        "broadcast": [
            0,
            6 * PAYLOAD,
            0,
            3 * PAYLOAD,
        ],  # the tree's other direction: right in sum only
        "all_to_all": [3 * PAYLOAD] * 4,  # one's own piece sent too
        "all_reduce": [3 * 2 * PAYLOAD] * 4,  # a tree or a gather instead of a ring
    }
    for op, booked in wrong.items():
        sent = [share[0] for share in told[op]]
        assert not all(map(agree, sent, booked)), op
    assert agree(sum(share[0] for share in told["broadcast"]), sum(wrong["broadcast"]))


def no_namespace():
    """Why a private network namespace cannot be had here, or None; and the command for one."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return "the programs `unshare` and `ip` are not both installed", []
    said = ""
    for options in (["--net"], ["--user", "--map-root-user", "--net"]):
        command = ["unshare", *options, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        tried = subprocess.run([*command, "true"], capture_output=True, text=True, timeout=20)
        if tried.returncode == 0:
            return None, command
        said = tried.stderr.strip()
    return f"the system refuses a private network namespace: {said}", []


@pytest.fixture(scope="module")
def in_namespace():
    reason, command = no_namespace()
    if reason:
        pytest.skip(reason)
    done = subprocess.run(
        [*command, sys.executable, "-m", "tests.traffic_on_ranks"],
        capture_output=True, text=True, timeout=120, cwd=COURSE, env={**os.environ},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.ranks
@pytest.mark.namespace
@pytest.mark.parametrize("op", traffic.OPS)
def test_all_ranks_together_send_what_the_interface_sent(op, in_namespace):
    found = [case for case in in_namespace if case["op"] == op]
    assert [(c["ranks"], c["payload"]) for c in found] == [
        (n, payload) for n in (2, 4) for payload in (MIB, 4 * MIB)
    ]
    for case in found:
        assert case["sent"] == pytest.approx(case["wire"], rel=WITHIN), case
    if op == "reduce_scatter":  # the wrong variant: an ideal ring
        four = [case for case in found if case["ranks"] == 4]
        assert all(case["sent"] > 1.9 * case["ideal"] for case in four)


def cost(op, n, position, root=None, backend="gloo", **more):
    return wire.cost(backend, op, 1200, n, position, root, **more)


def test_ideal_is_the_ring_whatever_the_backend_does():
    for op in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather"):
        for position in range(4):
            by_gloo = cost(op, 4, position, 1)
            by_nccl = cost(op, 4, position, 1, backend="nccl")
            assert by_gloo.ideal == by_nccl.ideal == by_nccl.wire
    assert cost("reduce_scatter", 4, 0).wire == 2 * cost("reduce_scatter", 4, 0).ideal == 1800


@pytest.mark.parametrize("op", [call.op for call in wire.CALLS if "send" not in call.op])
def test_one_rank_alone_sends_nothing(op):
    assert cost(op, 1, 0, 0) == wire.Cost("none", 0.0, 0.0)


@pytest.mark.parametrize("n", range(2, 20))
def test_a_broadcast_reaches_every_other_rank_once(n):
    for root in range(n):
        sent = [cost("broadcast", n, position, root).wire / 1200 for position in range(n)]
        assert sum(sent) == n - 1
        assert max(sent) == sent[root]
