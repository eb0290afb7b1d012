"""Odd numbers to the planner, from every side: a sentence each time, and no traceback."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from labs import planner_widget as lab
from labs.cli import main
from labs.planner_widget.answer import answer
from labs.planner_widget.asked import Asked
from labs.planner_widget.panel import Panel

NAN, INF = float("nan"), float("inf")
NONE = dict(
    gpus=(0, -1, 10**12, 2.0, True, "8", None, NAN), per_node=(0, -8, 10**9, "x"),
    parameters=(0, -1, NAN, INF, 1e30, 1e308, "abc", "½", None, True, [7e9]),
    layers=(0, -3, 10**9, 1.5), dp=(0, 10**9), pp=(0, -1), tp=(0, 10**7), batch=(0, 10**12),
    mbs=(0, -1), gpu=("H300", "", None, 80), hidden=(-1, 10**9), heads=(-1, "many"),
    kv_heads=(-1, 0.5), ffn=(-1, 10**9), vocab=(0, 10**9), length=(0, 10**9), cp=(0, 1.0),
    v=(0, 10**9), zero=(-1, 4, "1", None, True), recompute=("half", None), table=("int8", None),
    gated=("x", None, 1), tied=(0,), sp=("no",), flash=(None,),
)  # fmt: skip
"""What is no such number or word, by field."""
ODD = dict(
    gpus=(1, 7, 61, 96, 999_983, 10**6), per_node=(1, 3, 64, 1000), parameters=(1, 1e6, 1e15, 1e18),
    layers=(1, 3, 127, 10**6), dp=(3, 64), pp=(3, 80, 128, 10**6), tp=(3, 5, 64, 128),
    batch=(1, 7, 10**6), mbs=(3, 512, 1024), gpu=("H100", "V100-32GB"),
    hidden=(1, 100, 8190, 10**6), heads=(1, 3, 64, 10**5)
   , kv_heads=(1, 3, 64, 128), ffn=(1, 3), vocab=(1, 10**6),
    length=(1, 3, 4097), cp=(2, 3, 10**6), v=(2, 3, 20, 10**6), zero=(0, 3), sp=(False,),
    table=("fp32", "fp32 shards"),
)  # fmt: skip
"""What is a number and may be none that can be."""
SEVERAL = (
    dict(gpus=1, dp=1, pp=1, tp=1), dict(gpus=1, dp=1, pp=1, tp=1, layers=1, batch=1),
    dict(gpus=2, dp=1, pp=2, tp=1, layers=10**6, v=500_000, batch=2, parameters=1e18),
    dict(gpus=10**6, dp=1, pp=10**6, tp=1, layers=10**6, batch=10**6, parameters=1e18),
    dict(gpus=1000, per_node=1000, dp=1, pp=1, tp=1000), dict(pp=1, v=2, dp=8),
    dict(gpus=6, per_node=4, dp=1, pp=1, tp=6, hidden=768, heads=12), dict(dp=64, pp=1, tp=1),
)  # fmt: skip


def pairs(by_name: dict) -> list:
    return [(name, value) for name, values in by_name.items() for value in values]


def a_sentence(told: str) -> None:
    assert told and "\n" not in told and len(told) < 400, told
    assert not re.search(r"Error\b|Traceback|0x[0-9a-f]{6}|<(script|class)", told), told


@pytest.mark.parametrize(("name", "value"), pairs(NONE))
def test_what_is_no_number_is_refused_with_its_name(name: str, value: object) -> None:
    with pytest.raises(ValueError) as refused:
        Asked(**{name: value})
    a_sentence(str(refused.value))
    known = dict(parameters="N", gpu="GPU", zero="ZeRO")
    assert known.get(name, name) in str(refused.value)
    asks = [lab.explore]
    if not (name == "parameters" and isinstance(value, str)):  # that its control tells
        asks.append(Panel().set)
    for ask in asks:
        with pytest.raises(ValueError) as again:
            ask(**{name: value})
        assert str(again.value) == str(refused.value)


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("fields", [*({n: v} for n, v in pairs(ODD)), *SEVERAL], ids=str)
def test_what_is_a_number_is_answered_or_refused(fields: dict, precise: bool) -> None:
    asked = Asked(**fields)
    blocks = answer(asked, precise)
    assert re.search(r"(GREEN|AMBER|RED)</b> \S", blocks["verdict"])
    assert not re.search(r"\b(nan|inf)\b", "".join(blocks.values()))
    one = Panel(asked, precise)
    one.set(**fields)
    assert "</b>" in one.blocks["verdict"]
    for which in "abc":
        one.tell(which)
        assert one.told.sentences and one.told.views
    try:
        against = lab.refused(asked)
    except ValueError as no_model:
        against = [str(no_model)]
    for sentence in against:
        a_sentence(sentence)
    if against and precise:
        assert "RED" in blocks["verdict"] and not blocks["numbers"]
    assert "published runs" in str(lab.bars(asked))


OF_STORIES = [{}, *SEVERAL[:2], dict(gpus=61), dict(layers=1), dict(batch=7), dict(per_node=3),
              dict(gpus=24, tp=3, batch=48)]  # fmt: skip


@pytest.mark.parametrize("fields", OF_STORIES, ids=str)
def test_the_stories_of_odd_clusters_hold(fields: dict) -> None:
    result = lab.run(only="stories", asked=Asked(**fields))
    assert result.checks and result.ok, result


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (dict(only="speed"), "'speed' is no section of planner_widget"),
        (dict(only=()), "only must name sections"),
        (dict(ranks=0, only="tiny"), "a tiny run takes 1 to 8 ranks; got 0"),
        (dict(ranks=2.0, only="tiny"), "a tiny run takes 1 to 8 ranks; got 2.0"),
        (dict(mode="hot", only="tiny"), "mode must be 'warm' or 'cold', got 'hot'"),
        (dict(asked=dict(gpus=8)), "asked must be an Asked(gpus=…, …), got {'gpus'"),
    ],
)  # fmt: skip
def test_a_run_that_cannot_be(words: dict, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        lab.run(status=False, **words)


def plan(*arguments: str):
    return CliRunner().invoke(main, ["plan", *arguments])


ASK = ("--gpus", "64", "--params", "70e9", "--layers", "80")


class TestCommandLine:
    @pytest.mark.parametrize(
        ("more", "told"),
        [
            (("--gpus", "0"), "gpus must be a whole number from 1 on, got 0"),
            (("--gpus", "1" + 20 * "0"), "gpus is at most 1,000,000 here"),
            (("--gpus-per-node", "0"), "per_node must be a whole number from 1 on"),
            (("--gpu", "H300"), "no GPU 'H300' is known; there are"),
            (("--params", "inf"), "N is at most 1e+18 parameters here, got inf"),
            (("--params", "1e308"), "N is at most 1e+18 parameters here, got 1e+308"),
            (("--params", "nan"), "N and L must be above 0; got N = nan"),
            (("--params", "1"), "1 parameters cannot be 80 layers"),
            (("--params", "70B"), "'70B' is not a valid float"),
            (("--layers", "0"), "N and L must be above 0"),
            (("--heads", "7"), "d = 8192 cannot be divided into 7 heads"),
            (("--kv-heads", "3"), "64 query heads cannot be grouped over 3 kv heads"),
            (("--hidden", "-1"), "d must be a whole number from 1 on, got -1"),
            (("--length", "0"), "length must be a whole number from 1 on, got 0"),
            (("--batch", "0"), "batch must be a whole number from 1 on, got 0"),
            (("--zero", "4"), "ZeRO has the stages 0, 1, 2 and 3; got 4"),
            (("--experts", "0"), "experts must be a whole number from 1 on, got 0"),
            (("--experts", "8"), "a mixture of 8 experts was asked for"),
            (("--best", "0"), "--best shows 1 plan or more; got 0"),
            (("--rank", "2"), "--rank 2 says which plan is exported"),
            (("--rank", "0"), "--rank counts from 1; got 0"),
            (("--export", "yaml"), "--export is one of course"),
            (("--export", "json", "--json"), "--json and --export ask for different things"),
            (("--export", "text", "--rank", "99999"), "plan 99999 was asked for"),
        ],
    )
    def test_one_sentence(self, more: tuple[str, ...], told: str) -> None:
        done = plan(*ASK, *more)
        assert done.exit_code == 2 and isinstance(done.exception, SystemExit)
        assert told in done.output
        a_sentence(done.output.strip().splitlines()[-1].removeprefix("Error: "))

    @pytest.mark.parametrize("more", ["--gpus 61", "--layers 1", "--batch 7", "--length 4097",
                                      "--gpus-per-node 1000"])  # fmt: skip
    def test_what_can_be_after_all(self, more: str) -> None:
        done = plan(*ASK, *more.split())
        assert done.exit_code == 0 and "plans fit" in done.output

    @pytest.mark.parametrize("more", ["--gpus 1", "--gpus 999983", "--params 1e18",
                                      "--batch 1 --params 1e12"])  # fmt: skip
    def test_where_nothing_fits_it_says_why(self, more: str) -> None:
        done = plan(*ASK, *more.split())
        assert done.exit_code == 1 and ", 0 plans fit\nnot among them:\n  " in done.output

    def test_a_gated_mlp_alone_counts(self) -> None:
        """In three matrices, as wide as N leaves: about as many parameters."""
        plain, gated = (plan(*ASK, *more).output for more in ((), ("--gated",)))
        assert plain != gated and "of the N asked for" in gated
        assert gated.startswith("69,") or gated.startswith("70,")

    @pytest.mark.parametrize("what", ["nowhere.csv", "."])
    def test_a_file_that_is_none(self, what: str) -> None:
        done = plan("score", what)
        assert done.exit_code == 2 and "cannot be read: " in done.output
        assert "Errno" not in done.output and "[" not in done.output
