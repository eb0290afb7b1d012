"""What a shut-in rank can see, reach and use; what the judge counts from outside."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.grading import bytes_of_pair
from labs import formulas
from labs.grading.accounts import contradiction
from labs.grading.sandbox import calls, network, probe
from labs.grading.sandbox.launcher import Sandbox
from labs.grading.sandbox.limits import MIB
from labs.ranks import Later, PerRank
from tests import shut_in
from tests.shut_in import launched

pytestmark = [pytest.mark.ranks, pytest.mark.namespace]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with shut_in.namespaces() as made:
        yield made


def looks_around(course: str) -> dict:
    import importlib.util
    import socket

    there = {}
    for name in ("solutions", "tests", "instructor", ".git", "labs/grading"):
        path = os.path.join(course, name)
        there[name] = sorted(os.listdir(path)) if os.path.isdir(path) else []
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file.read().splitlines())
    numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return dict(
        there=there, uid=os.getuid(), pid=os.getpid(), pids=len(numbers), env=dict(os.environ),
        capabilities=int(status["CapEff"], 16), bounding=int(status["CapBnd"], 16),
        privileges=status["NoNewPrivs"].strip(), filter=status["Seccomp"].strip(),
        interfaces=sorted(name for _, name in socket.if_nameindex()), host=socket.gethostname(),
        answers=importlib.util.find_spec("solutions") is not None, home=os.listdir("/home"),
    )  # fmt: skip


def test_what_a_rank_sees(sandbox, monkeypatch):
    course = Path(__file__).resolve().parents[1]
    seen = launched(sandbox, looks_around, 1, str(course)).run.values[0]
    assert seen["there"] == dict.fromkeys(seen["there"], [])
    assert not seen["answers"]
    assert (seen["pid"], seen["pids"]) == (1, 1), "it sees its own processes alone"
    assert seen["uid"] == 1000 and seen["capabilities"] == seen["bounding"] == 0
    assert (seen["privileges"], seen["filter"]) == ("1", "2")
    assert seen["interfaces"] == ["eth0", "lo"] and seen["host"] == "rank"
    assert seen["home"] == ["student"]
    known = {"PATH", "HOME", "LANG", "TMPDIR", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    assert known <= set(seen["env"]) and len(seen["env"]) <= 20
    assert "root" not in str(seen["env"].values())


def writes(path: str) -> str:
    try:
        with open(path, "w") as file:
            file.write("x")
    except OSError as error:
        return type(error).__name__
    return "written"


@pytest.mark.parametrize("path", ["/usr/x", "/etc/passwd", "/proc/sys/kernel/core_pattern", "/x"])
def test_nothing_but_its_own_folder_can_be_written(sandbox, path):
    said = launched(sandbox, writes, 1, path).run.values[0]
    assert said in ("OSError", "PermissionError", "FileNotFoundError")
    assert launched(sandbox, writes, 1, "/home/student/x").run.values[0] == "written"


def share(mine: torch.Tensor, later: object) -> list:
    import gc

    got = later.get()
    tensors = [t for t in gc.get_objects() if isinstance(t, torch.Tensor)]
    seen = sorted({float(t[0]) for t in tensors if t.shape == (3,)})
    return [float(mine[0]), float(got[0]), seen]


def test_a_rank_gets_its_own_share_alone(sandbox):
    mine, later = ([torch.full((3,), 10.0 * k + r) for r in range(4)] for k in (1, 2))
    values = launched(sandbox, share, 4, PerRank(mine), Later(later, "forward")).run.values
    assert values == [[10.0 + r, 20.0 + r, [10.0 + r, 20.0 + r]] for r in range(4)]


def rounds(generator_seed: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(generator_seed)
    x = torch.randn(64, 64, generator=draw)
    return torch.nn.functional.gelu(x @ x.T).exp().sin().softmax(-1)


def test_the_same_bits_as_in_the_judge(sandbox):
    """Libraries choose their kernels by /proc/cpuinfo: without it ranks round otherwise."""
    assert torch.equal(launched(sandbox, rounds, 1, 3).run.values[0], rounds(3))


def sums(handed: object, hide: bool) -> float:
    import torch.distributed as dist

    from labs.ranks import on_rank

    x = handed.get()
    dist.all_reduce(x)
    if hide:
        on_rank.here.book._rows.clear()
    return float(x[0])


def test_bytes_are_those_of_the_formula(sandbox):
    payload = 8 * 2**17  # 1 MiB
    xs = [torch.ones(2**17, dtype=torch.float64) for _ in range(4)]
    done = launched(sandbox, sums, 4, Later(xs, "forward"), False)
    sent = done.outside.phases[0].payload
    want = formulas.ring_all_reduce_bytes(payload, 4)
    assert all(want <= bytes_ <= 1.01 * want for bytes_ in sent), (sent, want)
    assert contradiction(done) == ""


def test_what_a_ledger_leaves_out_was_counted_all_the_same(sandbox):
    xs = [torch.ones(2**17, dtype=torch.float64) for _ in range(2)]
    done = launched(sandbox, sums, 2, Later(xs, "forward"), True)
    assert done.run.ledger.rows == []
    assert "its own account has 0 bytes" in contradiction(done)


def test_three_ways_to_compute_a_pair_are_ten_times_apart(sandbox):
    """Must hold on the wire: in parallel, by gathering the weights, and without a message."""
    sent = bytes_of_pair(sandbox)
    assert sent["sends nothing"] * 10 <= sent["parallel"]
    assert sent["parallel"] * 10 <= sent["gathers the weights"], sent


def grows(handed: object, mib: int) -> int:
    handed.get()
    held = torch.ones(mib * 2**20 // 8, dtype=torch.float64)
    return int(held.numel())


@pytest.mark.parametrize("mib", [8, 64])
def test_memory_is_seen_from_outside(sandbox, mib):
    done = launched(sandbox, grows, 2, Later([None, None], "forward"), mib)
    assert all(mib * MIB <= grown <= (mib + 40) * MIB for grown in done.outside.grown)


def starts_others() -> list:
    import multiprocessing
    import subprocess

    ways = [os.fork, lambda: subprocess.run(["/bin/true"]), multiprocessing.Process().start]
    said = []
    for way in ways:
        try:
            way()
        except OSError as error:
            said.append(type(error).__name__)
    return said


def test_a_rank_starts_no_process(sandbox):
    """So none can outlive it, or hold memory for it that nobody counts."""
    zygote = sandbox.zygote
    assert launched(sandbox, starts_others, 2).run.values == [["PermissionError"] * 3] * 2
    with open(f"/proc/{zygote}/task/{zygote}/children") as file:
        assert file.read().split() == []


def asks(numbers: list) -> list:
    import ctypes

    libc, got = ctypes.CDLL(None, use_errno=True), []
    for number in numbers:
        ctypes.set_errno(0)
        libc.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0, 0)
        got.append(ctypes.get_errno())
    return got


def test_refused_calls_are_refused(sandbox):
    column = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
    named = {name: both[column] for name, both in calls._REFUSED.items() if both[column]}
    got = launched(sandbox, asks, 1, list(named.values())).run.values[0]
    assert dict(zip(named, got, strict=True)) == dict.fromkeys(named, 1)  # EPERM


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_filter_ends_in_allow_and_jumps_stay_inside(machine):
    code = calls.program(machine)
    assert code[-1] == (0x06, 0, 0, 0x7FFF0000) and len(code) < 4096
    for at, (_, yes, no, _) in enumerate(code):
        assert at + 1 + max(yes, no) < len(code) or code[at][0] == 0x06
    with pytest.raises(OSError, match="no filter"):
        calls.program("m68k")


def test_heads_are_taken_off_and_nothing_else():
    told = "\n".join(["", "", "  v0: 1320 10 0 0 0 0 0 0 99 1", "  v1: 0 0 0 0 0 0 0 0 5 1"])
    first, second = network.read(told, ["v0", "v1"])
    assert (first.payload, second.payload) == (1320 - 660, 0)
    assert (first - network.Count(320, 4)) == network.Count(1000, 6)


def test_a_zygote_holds_no_name_of_an_answer():
    """What it imports is what ranks have in memory."""
    file = Path(probe.__file__).with_name("zygote.py")
    names = [n.value for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Constant)]
    assert not any(isinstance(name, str) and "solutions" in name for name in names)


def test_an_ordinary_user_shuts_ranks_in_as_well():
    """Without root it takes user namespaces: the same probe, as somebody else."""
    if os.geteuid() != 0:
        pytest.skip("the other tests here are run by an ordinary user already")
    course = Path(__file__).resolve().parents[1]
    if not all(folder.stat().st_mode & 0o001 for folder in (course, *course.parents)):
        pytest.skip("the course lies in a folder that only root may enter")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from labs.grading.sandbox import probe\n"
        "from labs.grading.sandbox.launcher import Sandbox\n"
        "made = Sandbox('namespaces')\n"
        "try:\n    print(repr(probe.works(made)))\n"
        "finally:\n    made.close()\n"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", str(course / "tests" / "grading_as_user.sh"), sys.executable,
         "-c", code, str(course)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    refused = ("Operation not permitted", "No space left", "Permission denied")
    if done.returncode == 0 and done.stdout.strip() == "''":
        return
    said = done.stdout + done.stderr
    if "unshare: " in said and any(word in said for word in refused):
        pytest.skip(f"this system gives an ordinary user no namespaces: {said[-200:]}")
    raise AssertionError(said[-2000:])
