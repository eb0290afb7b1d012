"""What a learner sees of ranks: ordered, capped, without this machine's paths, name, secrets."""

import os
import re
import socket
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest

from labs import ranks
from labs.ranks import errors, output
from labs.ranks.run import root_cause, tell
from tests import on_ranks

COURSE = Path(__file__).resolve().parents[1]
CANARY = "canary-8d1f5b0c2e"


def run(function, n=2, *args, **options):
    return ranks.launch(function, ranks=n, args=args, status=False, mode="warm", **options)


def private(text):
    """What in `text` belongs to this machine or its user."""
    known = [CANARY, str(COURSE), os.path.expanduser("~") + "/", sys.prefix, socket.gethostname()]
    found = [word for word in known if len(word) > 3 and word != "localhost" and word in text]
    return found + re.findall(r"/(?:home|Users|tmp)/\S*|\blabs-\w{8}\b", text)


@pytest.mark.parametrize("place", range(0, 60, 7))
def test_no_half_of_a_secret_is_left_where_a_text_is_cut(place, tmp_path, monkeypatch):
    """A value that lies across the cut is hidden first."""
    secret = "canary-" + "0123456789" * 4
    monkeypatch.setenv("SOME_TOKEN", secret)
    said = tmp_path / "out"
    filler = output.CAP // 2 - len(secret) + place
    said.write_text("." * filler + secret + "." * 10**5 + secret + "." * filler)
    assert "canary" not in output.clean(output.read_capped(said))
    message = "." * (1500 - len(secret) + place) + secret + "." * 9000
    assert "canary" not in output.clean(errors.shortened(message))


def test_secrets_of_two_launches_and_of_this_process(monkeypatch):
    """One name may have had several values; one value may lie in another."""
    monkeypatch.setattr(output, "_of_launches", set())
    output.also_secret({"HF_TOKEN": "of-a-launch", "NOTE": "no-secret"})
    output.also_secret({"HF_TOKEN": "of-another"})
    monkeypatch.setenv("HF_TOKEN", "of-this-process")
    monkeypatch.setenv("MY_API_KEY", "of-this-process-and-more")
    said = "of-a-launch of-another of-this-process of-this-process-and-more no-secret"
    told = "<HF_TOKEN> <HF_TOKEN> <HF_TOKEN> <MY_API_KEY> no-secret"
    assert output.hide(said) == told


@pytest.mark.ranks
def test_ordered_by_rank_and_the_same_each_time(nothing_left):
    """G06: two runs give the same text, rank 0 first."""
    first, second = (run(on_ranks.say_twice, 4, "äλ→").output for _ in range(2))
    assert first == second
    assert first.splitlines() == [
        f"rank {rank}: {line}"
        for rank in range(4)
        for line in ("first line of äλ→", "second line, to the error stream")
    ]


@pytest.mark.ranks
def test_fifty_megabytes_are_capped_and_say_so(nothing_left):
    """G24: head and tail are kept; what is left out is counted."""
    shown = run(on_ranks.print_much, 2, 50_000_000).output
    assert len(shown) < 10_000
    assert shown.startswith("rank 1: the beginning\n")
    assert shown.endswith("rank 1: the end")
    assert re.search(r"\[… 49,99\d,\d\d\d bytes left out …\]", shown)


@pytest.mark.ranks
def test_a_rank_that_prints_without_end_is_ended(nothing_left, monkeypatch):
    import importlib

    monkeypatch.setattr(importlib.import_module("labs.ranks.launching"), "_OUTPUT_LIMIT", 2**20)
    with pytest.raises(ranks.RunFailed, match="a rank printed more than 1 MiB"):
        run(on_ranks.print_much, 2, 10**12)


@pytest.mark.ranks
def test_no_secret_no_path_no_host_in_what_is_shown(nothing_left, monkeypatch):
    """G25, G26: not even when a rank prints its environment and dies over it."""
    for name in ("HF_TOKEN", "JUPYTERHUB_API_TOKEN", "MY_API_KEY", "DB_PASSWORD"):
        monkeypatch.setenv(name, f"{CANARY}-{name}")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)  # torch's, of the folder before
    with pytest.raises(ranks.RunFailed) as caught:
        run(on_ranks.show_environment, 2)
    shown = str(caught.value) + caught.value.run.output
    assert re.match(r"rank [01]: RuntimeError: token <HF_TOKEN> in tests/on_ranks.py\n", shown)
    assert private(shown) == []
    assert caught.value._render_traceback_() == [str(caught.value)]


@pytest.mark.ranks
def test_no_path_and_no_host_in_torchruns_own_words(nothing_left, monkeypatch):
    """G25: when nothing else is known, torchrun's summary is shown; it names the host."""
    host = socket.gethostname()
    packages = sysconfig.get_paths()["purelib"]
    said = f'  File "{packages}/torch/run.py"\n  host : {host}.lan (x)'
    shown = output.clean(said + f"\n{COURSE}/labs/x.py {os.path.expanduser('~')}/n.ipynb")
    assert private(shown) == []
    assert 'File "torch/run.py"' in shown
    assert "labs/x.py ~/n.ipynb" in shown


@pytest.mark.ranks
@pytest.mark.skipif(
    not sys.prefix.isascii(),
    reason="in a C locale torch cannot be imported from a folder whose name is not ASCII",
)
def test_with_a_plain_c_locale(tmp_path):
    """G27: PYTHONUTF8=0 and a C locale, temporary files in a folder with blanks and Greek."""
    folder = tmp_path / "mit Leerzeichen αβγ"
    folder.mkdir()
    script = tmp_path / "skript ä.py"
    script.write_text(
        textwrap.dedent("""
            import sys
            from labs import ranks

            def speak():
                '''Ünïcode → stays.'''
                print("Größe → ∞")
                return "αβγ"

            if __name__ == "__main__":
                done = ranks.launch(speak, ranks=2)
                assert done.values == ["αβγ"] * 2, done.values
                assert done.output == "rank 0: Größe → ∞\\nrank 1: Größe → ∞", ascii(done.output)
                repr(done.ledger)
                print("ok")
        """),
        encoding="utf-8",
    )
    env = {
        **os.environ, "PYTHONUTF8": "0", "LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0",
        "TMPDIR": str(folder), "PYTHONPATH": str(COURSE),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, timeout=90, env=env, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, b"ok\n"), done.stderr.decode("utf-8", "replace")
    assert list(folder.glob("labs-*")) == []


def test_ordered_caps_all_ranks_together():
    text = output.ordered({1: "b" * 50, 0: "a" * 50}, cap=60)
    assert text.startswith("rank 0: aaa")
    assert text.endswith("bbb")
    assert "characters left out" in text


def error(rank_says, at, **frame):
    frames = [dict(dict(file="cell [3]", line=2, function="f", text="x", own=True), **frame)]
    return dict(type="RuntimeError", message=rank_says, at=at, frames=frames)


def test_the_first_error_is_the_cause_but_never_a_victims():
    victim = error("Connection closed by peer [127.0.0.1]:4242", at=1.0)
    late, later = error("boom", at=3.0), error("other", at=4.0)
    assert root_cause([victim, later, late]) == (2, late)
    assert root_cause([None, victim]) == (1, victim)
    assert root_cause([None, None]) is None


def test_an_error_is_told_in_a_few_lines():
    deep = error("x" * 10_000, at=1.0)
    deep["frames"] *= 500
    told = tell(2, deep).splitlines()
    assert len(told) <= 20
    assert sum(map(len, told)) < 4000
    assert told[0].startswith("rank 2: RuntimeError: xxx")
    assert told[1] == "  cell [3], line 2, in f"


def test_the_cause_of_a_death_comes_first():
    """A rank that cannot begin leaves torchrun's long words with the cause somewhere in them."""
    frames = [f'  File "a.py", line {i}' for i in range(60)]
    torchruns = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
    for after in ([], [torchruns, "====="]):
        told = ["Traceback (most recent call last):", *frames, "ValueError: no port", *after]
        shown = output.cause_first("\n".join(told)).splitlines()
        assert shown[0] == "ValueError: no port" and len(shown) == 20
        assert shown[1] == f"[… {len(told) - 18 - (not after)} lines left out …]"
    assert output.cause_first("a\n\nb\n") == "b\na"
    assert output.cause_first("") == ""


def test_packages_below_a_folder_with_blanks(monkeypatch):
    packages = "/Users/me/My Documents é/.venv/lib/python3.11/site-packages"
    monkeypatch.setattr(output, "_PACKAGES", [packages])
    text = f'File "{packages}/torch/run.py", line 3'
    assert output.clean(text) == 'File "torch/run.py", line 3'
