"""What one launch of ranks leaves for the next: no folder, no user, no open descriptor."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from labs.grading import extract
from labs.grading.sandbox import becoming, folder, network, probe, zygote
from labs.grading.sandbox.launcher import Sandbox, SandboxError
from labs.grading.sandbox.limits import Limits
from tests.shut_in import launched, on_rank

WORD = "the same in every sandbox"


def for_everybody() -> Path:
    """A folder of temporary files that every user may enter: the tests' own is this user's."""
    own = Path(tempfile.gettempdir())
    for place in own.parents:
        if all(above.stat().st_mode & 0o001 for above in (place, *place.parents)):
            made = Path(tempfile.mkdtemp(prefix="course-tests-", dir=place))
            made.chmod(0o711)
            return made
    pytest.skip("the temporary files lie where only one user may enter")


@pytest.fixture(scope="module", params=["none", "user"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    if request.param == "user" and os.geteuid() != 0:
        pytest.skip("only root starts ranks as other users")
    place = for_everybody()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(place))
        made = Sandbox(request.param)
    yield made
    made.close()
    place.rmdir()  # nothing is left in it


def leaves() -> list:
    """What the worst of students would do for the next one: leave files for everybody to read."""
    with open("mine", "w") as file:
        file.write("an answer")
    os.chmod(".", 0o777)
    return [os.getuid(), os.getcwd()]


def looks(places: list) -> list:
    return [os.getuid(), [place for place in places if os.path.lexists(place)]]


@pytest.mark.ranks
def test_the_next_ranks_find_nothing_of_those_before(sandbox: Sandbox) -> None:
    before = launched(sandbox, leaves, 2).run.values
    places = [place for _, place in before]
    after = launched(sandbox, looks, 2, places).run.values
    assert len(set(places)) == 2 and [found for _, found in after] == [[], []]
    users = [user for user, _ in before + after]
    if sandbox.isolation == "user":
        assert len(set(users)) == 4, "a rank runs as a user that another was"
        assert all(61184 <= user <= 65519 for user in users)


@pytest.mark.ranks
def test_what_is_handed_in_is_read(sandbox: Sandbox) -> None:
    """Also where Python lies in a folder that other users may not enter, as below root's home."""
    text = b"def causal_block_mask(q_places, k_places):\n    return q_places\n"
    args = (text, ".py", ["causal_block_mask"])
    told = sandbox.launch(extract.read, 1, args=args).values[0]
    assert told["problems"] == [] and told["exercises"]["causal_block_mask"] is not None


def test_a_user_comes_again_only_after_hundreds_of_launches() -> None:
    users = [becoming.user(launch, rank) for launch in range(542) for rank in range(network.MOST)]
    assert len(set(users)) == len(users) and min(users) == 61184 and max(users) <= 65519


def words() -> int:
    return hash("the same in every sandbox")


@pytest.mark.ranks
def test_the_order_of_sets_is_the_same_in_every_sandbox(sandbox: Sandbox) -> None:
    """A rank is a fork: what counts is the seed with which the zygote was started."""
    known = subprocess.check_output(
        [sys.executable, "-c", f"print(hash({WORD!r}))"], env={**os.environ, "PYTHONHASHSEED": "0"}
    )
    assert launched(sandbox, words, 2).run.values == [int(known)] * 2


def test_folders_without_end_are_taken_away(tmp_path: Path) -> None:
    """Deeper than Python can follow, with links out of them: what is outside stays."""
    top = tmp_path / "top"
    top.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("")
    at = os.open(top, os.O_RDONLY)
    for number in range(1500):
        os.mkdir("d", dir_fd=at)
        if number % 100 == 0:
            os.symlink(tmp_path / "outside", "link", dir_fd=at)
        at, before = os.open("d", os.O_RDONLY, dir_fd=at), at
        os.close(before)
    os.close(at)
    folder.remove(top)
    assert sorted(os.listdir(tmp_path)) == ["outside"]
    assert os.listdir(tmp_path / "outside") == ["kept"]
    folder.remove(top)  # gone by now
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    folder.remove(tmp_path / "link")
    assert os.listdir(tmp_path / "outside") == ["kept"]


@pytest.mark.ranks
def test_ranks_that_do_not_end_leave_nothing_open(sandbox: Sandbox, monkeypatch) -> None:
    def refused(pids: list) -> None:
        raise SandboxError("a rank's processes did not end")

    launched(sandbox, words, 1)
    before = sorted(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "_until_ended", refused)
        with pytest.raises(SandboxError, match="did not end"):
            sandbox.launch(on_rank(words), 2)
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.ranks
def test_a_zygote_that_is_killed_is_the_sandboxs_fault() -> None:
    """Whoever grades makes another one then; any other error would be taken for the judge's."""
    made = Sandbox("none")
    try:
        made.wait_ready()
        threading.Timer(1, os.kill, (made.zygote, signal.SIGKILL)).start()
        for _ in range(2):  # amid a launch, and before one
            begun = time.monotonic()
            with pytest.raises(SandboxError, match="the sandbox has gone"):
                made.launch(on_rank(sleeps), 1)
            assert time.monotonic() - begun < 10
    finally:
        made.close()


def sleeps() -> None:
    import time

    time.sleep(30)


@pytest.mark.parametrize("there", [True, False])
def test_a_container_that_does_not_start_leaves_nothing(there: bool, tmp_path, monkeypatch) -> None:
    program = tmp_path / "podman"
    if there:
        program.write_text("#!/bin/sh\necho 'no cgroup\nhere' >&2\nexit 125\n")
        program.chmod(0o755)
    monkeypatch.setenv("LABS_GRADE_RUNTIME", str(program))
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(SandboxError) as refused:
        Sandbox("container")
    words = "the container did not start: no cgroup here" if there else "it did not start: "
    assert str(refused.value).startswith(words)
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert not list(Path(tempfile.gettempdir()).glob(f"labs-grade-{os.getpid()}-*"))


def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path, monkeypatch) -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    started = zygote.Zygote(there, {"isolation": "none", "folder": str(tmp_path)})

    def refused() -> tuple[int, int]:
        raise OSError("no more processes")

    monkeypatch.setattr(started, "_fork", refused)
    before = sorted(os.listdir("/proc/self/fd"))
    with here, there:
        started._start({"ranks": 3, "limits": Limits().to_json()})
        assert sorted(os.listdir("/proc/self/fd")) == before
        assert b"no more processes" in here.recv(4096)


@pytest.mark.ranks
def test_python_must_be_readable_where_a_rank_is_another_user(sandbox: Sandbox) -> None:
    """Else what an answer imports later is missing, and looks like its own fault."""
    everybody = all(
        above.stat().st_mode & 0o001
        for file in (os.__file__, torch.__file__)
        for above in Path(file).resolve().parents
    )
    why = probe.works(sandbox)
    if everybody or sandbox.isolation == "none":
        assert why == ""
    else:
        assert "may not read Python's own files" in why
