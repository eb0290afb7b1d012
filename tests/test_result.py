"""A lab's result: when it is ok, how it reads, and its JSON."""

from __future__ import annotations

import json

import pytest

from labs.ranks import Ledger, Row, Run, place
from labs.result import SCHEMA, Check, Result, at_least, at_most, equal, from_dict

KEYS = [
    "schema", "topic", "params", "mode", "world_size", "backend", "device", "versions", "seconds",
    "checks", "ledger", "timeline", "memory",
]  # fmt: skip
CHECK_KEYS = ["name", "measured", "expected", "relation", "bound", "unit", "source", "ok", "clock"]


def result(*checks: Check) -> Result:
    event = dict(rank=1, section="s", op="all_reduce", axis="tp", phase="forward",
                 payload_bytes=8, start=0.5, end=0.75)  # fmt: skip
    row = Row(1, "s", "all_reduce", "tp", "forward", "ring", 2, 16, 16.0, 16.0)
    run = Run(place(2), "warm", ledger=Ledger([row]), timeline=[event, {**event, "end": None}],
              memory=[dict(rank=0, name="process", peak_rss_bytes=1)])  # fmt: skip
    return Result("topic", {"ranks": 2}, list(checks), run, seconds=1.5)


class TestChecks:
    def test_relations(self) -> None:
        assert equal("n", 4.0, 4, "calls", "f").ok and not equal("n", 5, 4, "calls", "f").ok
        assert at_most("d", 1e-13, 1e-12, "", "f").ok and not at_most("d", 2.0, 1.0, "", "f").ok
        assert at_least("d", 2.0, 1.0, "", "f").ok and not at_least("d", 0.5, 1.0, "", "f").ok

    def test_not_a_number_fails(self) -> None:
        assert not at_most("d", float("nan"), 1.0, "", "f").ok
        assert not at_least("d", float("nan"), 1.0, "", "f").ok

    def test_reads_as_measured_beside_formula(self) -> None:
        assert str(equal("payload", 131072, 131072, "bytes", "B·T·d·e")) == (
            "ok   payload: 131,072 == 131,072 bytes   [B·T·d·e]"
        )
        assert str(at_most("output", 3.0, 1.5, "", "one device")).startswith(
            "FAIL output: 3 <= 1.5"
        )


class TestResult:
    def test_ok_needs_checks(self) -> None:
        good, bad = equal("a", 1, 1, "", "f"), equal("b", 1, 2, "", "f")
        assert result(good).ok and not result(good, bad).ok
        assert not result().ok  # nothing was checked: nothing is shown to hold

    def test_texts(self) -> None:
        told = result(equal("<b>", 1, 2, "", "f"))
        assert "0 of 1 checks ok" in repr(told) and "FAIL <b>: 1 == 2" in repr(told)
        assert "<b></td>" not in told._repr_html_() and "&lt;b&gt;" in told._repr_html_()

    def test_json(self, tmp_path) -> None:
        file = tmp_path / "ergebnis äλ.json"
        text = result(equal("größer", 1, 1, "bytes", "f")).to_json(file)
        told = json.loads(file.read_text(encoding="utf-8"))
        assert json.loads(text) == told and list(told) == KEYS and told["schema"] == SCHEMA
        assert list(told["checks"][0]) == CHECK_KEYS
        assert set(told["ledger"][0]) >= {
            "rank", "op", "axis", "phase", "algorithm", "count", "payload_bytes", "wire_bytes",
            "ideal_bytes",
        }  # fmt: skip
        assert (told["mode"], told["world_size"], told["backend"]) == ("warm", 2, "gloo")
        assert told["versions"]["torch"] and told["timeline"][0]["end"] == 0.75

    def test_json_of_what_is_not_a_number(self) -> None:
        """Strict JSON, whatever was measured."""
        told = result(at_most("d", float("nan"), float("inf"), "", "f")).to_json()
        check = json.loads(told, parse_constant=pytest.fail)["checks"][0]
        assert (check["measured"], check["bound"], check["ok"]) == ("nan", "inf", False)

    def test_without_a_run(self) -> None:
        told = Result("topic", {}).to_dict()
        assert list(told) == KEYS and told["mode"] is None and told["ledger"] == []

    def test_stored(self) -> None:
        told = json.loads(result(equal("a", 1, 1, "", "f")).to_json())
        back = from_dict(told)
        assert back.stored and back.ok and back.topic == "topic"
        assert "not measured here" in repr(back) and "Not measured here" in back._repr_html_()
        with pytest.raises(ValueError, match="not a run of schema"):
            from_dict({**told, "schema": "other/1"})

    def test_trace(self, tmp_path) -> None:
        """Messages: a process a rank, from 1 on; microseconds; without an end: length 0."""
        result().to_trace(tmp_path / "trace.json")
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        calls = [e for e in events if e["ph"] in "be"]
        by_id = {number: [e for e in calls if e["id"] == number] for number in (0, 1)}
        assert [(e["ph"], e["pid"], e["ts"]) for e in by_id[0]] == [("b", 2, 5e5), ("e", 2, 7.5e5)]
        assert [(e["ph"], e["pid"], e["ts"]) for e in by_id[1]] == [("b", 2, 5e5), ("e", 2, 5e5)]
        assert {e["name"] for e in calls} == {"all_reduce tp"} and len(calls) == 4
        assert {e["args"].get("name") for e in events if e["ph"] == "M"} >= {"rank 1"}

    def test_trace_without_a_run(self, tmp_path) -> None:
        Result("topic", {}).to_trace(tmp_path / "trace.json")
        assert json.loads((tmp_path / "trace.json").read_text()) == {"traceEvents": []}
