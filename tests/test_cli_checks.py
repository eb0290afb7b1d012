"""`labs run` of a lab with many checks: its verdict is not buried under what held."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from labs.cli.checks import FEW, told
from labs.result import Result, at_least, at_most, equal, near
from tests.test_cli import TOPIC, fake, labs

__all__ = ["fake"]
MESSAGES = [equal(f"1F1B, p=4, m={m}: messages", m, m, "all ranks", "f") for m in range(20)]
APART = [
    at_most(f"1F1B, m={m}: gradients", m * 1e-15, 1e-12, "of the largest", "g") for m in range(20)
]
FOR_SURE = [at_least(f"wrong {m}: damage", m, 5.0, "", "h") for m in (6.0, 9.0)]
TIMES = [near(f"p={p}: wall time", 10 + off, 10, 4, "ms", "s") for p, off in ((2, 1), (3, -3))]
ALONE = equal("bubble", 3, 3, "slots", "f")
MANY = [*MESSAGES, ALONE, *APART, *FOR_SURE, *TIMES]


def of(checks: list) -> list[str]:
    return told(Result(TOPIC, {}, checks, notes=["a note"])).splitlines()


def test_what_held_by_kind_with_the_worst() -> None:
    assert of(MANY) == [
        f"{TOPIC}: 45 of 45 checks ok",
        "a note",
        "ok   20 × messages: each as expected, all ranks",
        str(ALONE),
        "ok   20 × gradients: worst 1.9e-14 <= 1.0e-12 of the largest (1F1B, m=19)",
        "ok   2 × damage: worst 6 >= 5 (wrong 6.0)",
        "ok   2 × wall time: worst 7 within 4 of 10 ms (p=3)",
        "45 checks that held, by kind; --all-checks prints each of them",
    ]


def test_what_failed_is_in_no_kind() -> None:
    bad = equal("1F1B, p=4, m=99: messages", 1, 2, "all ranks", "f")
    lines = of([*MANY, bad])
    assert lines[0].endswith("45 of 46 checks ok") and not any("m=99" in line for line in lines)
    assert "ok   20 × messages: each as expected, all ranks" in lines


def test_other_units_and_relations_are_other_kinds() -> None:
    other = [equal(f"x {n}: messages", 1, 1, "a rank", "f") for n in range(2)]
    assert sum("× messages" in line for line in of([*MANY, *other])) == 2


def test_what_is_measured_once_is_counted_by_its_beginning() -> None:
    single = [equal(f"memory, t={t}: {what}", t, t, "", "f") for t, what in ((1, "a"), (2, "b"))]
    lines = of([*MANY[:40], *single])
    assert lines.count("ok   2 × memory, each of another kind") == 1 and str(ALONE) in lines
    assert not any("t=1" in line for line in lines)


def test_what_stands_in_brackets_behind_names_no_kind() -> None:
    worst = [
        at_most(f"c={c}: gradients (worst: dk, c={c}: x)", c * 1e-13, 1e-12, "", "g")
        for c in (1, 2)
    ]
    assert "ok   2 × gradients: worst 2.0e-13 <= 1.0e-12 (c=2)" in of(
        [*MESSAGES, ALONE, *worst, *TIMES, *FOR_SURE, *APART]
    )


@pytest.mark.parametrize("more", [0, 1])
def test_few_are_printed_one_by_one(more: int) -> None:
    lines = of(APART[:10] + MESSAGES + [ALONE] * more)
    assert FEW == 30 and (str(APART[3]) in lines) is (more == 0)


def test_failed_ones_stand_at_the_end_in_full(fake) -> None:
    bad = equal("1F1B, p=4, m=99: messages", 1, 2, "all ranks", "f")
    fake.run.answer.checks += [*MANY, bad]
    done = labs("run", TOPIC)
    *_, count, failed, _closing = done.stdout.splitlines()
    assert done.exit_code == 1 and count == "46 of 47 checks ok" and failed == str(bad)
    assert done.stdout.count(str(bad)) == 1 and str(MESSAGES[0]) not in done.stdout
    assert len(done.stdout.splitlines()) < 15


@pytest.mark.parametrize("option", ["--all-checks", "-v"])
def test_each_on_demand(fake, option: str) -> None:
    fake.run.answer.checks += MANY
    done = labs("run", TOPIC, option)
    assert all(str(check) in done.stdout for check in MANY) and " × " not in done.stdout


def test_json_has_all_of_them(fake) -> None:
    fake.run.answer.checks += [*MANY, replace(ALONE, ok=False)]
    checks = json.loads(labs("run", TOPIC, "--json", "-").stdout)["checks"]
    assert [check["name"] for check in checks[1:-1]] == [check.name for check in MANY]
