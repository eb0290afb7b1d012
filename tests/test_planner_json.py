"""A plan as text and as JSON: what is written, what is read back, what clashes."""

from __future__ import annotations

import json
import re
from dataclasses import fields

import pytest

from labs.planner.cluster import GPUS
from labs.planner.exports import from_json, predict, to_json
from labs.planner.model import Model
from labs.planner.software import TODAY, Software
from tests.test_planner_export import LLAMA, PLAN, SIXTY_FOUR, made


class TestText:
    def test_a_few_lines_with_the_figures(self):
        told = made("text")
        said = predict(LLAMA, SIXTY_FOUR, PLAN, TODAY)
        assert 4 <= len(told.text.splitlines()) <= 6
        for word in (
            "64 H100-80GB, 8 nodes of 8",
            "70.6e9 parameters",
            str(PLAN),
            "m = 128",
            f"{said.seconds:.3f} s",
            f"{said.mfu:.1%}",
            f"{said.bytes / 1e9:,.1f} GB",
        ):
            assert word in told.text


class TestJson:
    TEXT = to_json(LLAMA, SIXTY_FOUR, PLAN, TODAY)

    def test_there_and_back(self):
        read = from_json(self.TEXT)
        assert read.layout == PLAN and read.predicted == predict(LLAMA, SIXTY_FOUR, PLAN, TODAY)
        for kind, one, other in ((Model, LLAMA, read.model), (Software, TODAY, read.software)):
            assert all(getattr(one, f.name) == getattr(other, f.name) for f in fields(kind))
        assert (read.cluster.gpus, read.cluster.gpu) == (64, GPUS["H100-80GB"])
        assert to_json(read.model, read.cluster, read.layout, read.software) == self.TEXT

    @pytest.mark.parametrize(
        ("part", "key", "value", "told"),
        [
            ("", "colour", 1, "a plan has no 'colour'"),
            ("layout", "ep", 1, "layout has no 'ep'; it has dp, pp, cp"),
            ("software", "colour", 1, "software has no 'colour'"),
            ("layout", "dp", 8, "dp 8·pp 2·tp 8 = 128, and the cluster has 64"),
            ("layout", "dp", "4", "layout's dp must be of type int, got '4'"),
            ("layout", "sp", 1, "layout's sp must be of type bool, got 1"),
            ("model", "gated", 1, "model's gated must be true or false"),
            ("model", "heads", 63, "d = 8192 cannot be divided into 63 heads"),
            ("model", "d_ff", 28664, "the plan says parameters = 70553706496, and of these sizes"),
            ("predicted", "parameters", 7, "the plan says parameters = 7"),
            ("predicted", "bytes", 1.0, "the plan says bytes = 1.0"),
            ("predicted", "seconds", float("nan"), "the plan says seconds = nan"),
            ("predicted", "micro_batches", 64, "the plan says micro_batches = 64"),
            ("cluster", "gpu", "TPU", "no GPU 'TPU' is known"),
            ("cluster", "gpus", 1.5, "gpus must be a whole number"),
            ("", "schema", "other", "this is 'other', not a plan of schema"),
        ],
    )
    def test_what_clashes_is_refused(self, part, key, value, told):
        data = json.loads(self.TEXT)
        (data[part] if part else data)[key] = value
        with pytest.raises(ValueError, match=re.escape(told)):
            from_json(json.dumps(data))

    @pytest.mark.parametrize("part", ["", "model", "cluster", "layout", "software", "predicted"])
    def test_every_key_is_needed(self, part):
        data = json.loads(self.TEXT)
        for key in list(data[part] if part else data):
            less = json.loads(self.TEXT)
            del (less[part] if part else less)[key]
            with pytest.raises(ValueError, match=f"lacks '{key}'"):
                from_json(json.dumps(less))

    @pytest.mark.parametrize("text", ["", "{", "[]", "3", '"plan"', '{"model": 1}'])
    def test_what_is_no_plan(self, text):
        with pytest.raises(ValueError, match="no JSON|named values|lacks"):
            from_json(text)
