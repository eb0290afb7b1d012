"""Schedules on real ranks: gradients are one device's, order and storage are the schedule's."""

import pytest

from labs import formulas, ranks
from labs.gpt import GPT, Shape
from labs.pipeline.partition import cut, layer_counts, micro_batches
from tests.pipeline_on_ranks import step

pytestmark = pytest.mark.ranks
EQUAL = 1e-12  # of the largest gradient, in fp64


def run(name, p, m, v=1, **more):
    return ranks.launch(step, p, args=(name, m, v), kwargs=more, status=False)


@pytest.mark.parametrize(
    ("name", "p", "m", "v"),
    [
        ("gpipe_order", 2, 4, 1),
        ("gpipe_order", 3, 4, 1),
        ("one_f_one_b_order", 1, 3, 1),
        ("one_f_one_b_order", 4, 8, 1),
        ("one_f_one_b_order", 4, 2, 1),  # fewer micro-batches than ranks
        ("one_f_one_b_order", 3, 1, 1),
        ("interleaved_order", 2, 4, 2),
        ("interleaved_order", 4, 8, 2),
        ("breadth_first_order", 2, 3, 2),
        ("breadth_first_order", 1, 2, 2),
        ("zero_bubble_order", 3, 5, 1),
    ],
)
def test_gradients_order_storage_and_messages(name, p, m, v):
    done = run(name, p, m, v)
    told = done.values
    assert all(one["gap"] <= EQUAL for one in told)
    assert all(one["in_order"] for one in told)
    assert told[-1]["loss"] == pytest.approx(told[0]["whole_loss"], rel=1e-12)
    assert sum(one["held"] for one in told) == told[0]["parameters"]
    expected = {
        "gpipe_order": lambda rank: formulas.stored_gpipe(m),
        "one_f_one_b_order": lambda rank: formulas.stored_1f1b(p, rank, m),
        "interleaved_order": lambda rank: formulas.stored_interleaved(p, rank, m, v),
        "breadth_first_order": lambda rank: m * v,
        "zero_bubble_order": lambda rank: formulas.stored_zero_bubble(p, m),
    }[name]
    assert [one["peak_stored"] for one in told] == [expected(rank) for rank in range(p)]
    sends = formulas.pipeline_sends(p, m, v)
    assert done.ledger.count(op="send") == sends
    payload = formulas.pipeline_send_bytes(2 * m, m, 8, 16, 8)
    assert done.ledger.payload_bytes(op="send") == sends * payload


def test_micro_batches_of_unequal_token_counts():
    """Weighted by tokens, not by micro-batches; one has no valid token at all."""
    told = run("one_f_one_b_order", 2, 4, uneven=True).values
    assert all(one["gap"] <= EQUAL for one in told)


@pytest.mark.parametrize("spoil", ["sum", "same slice"])
def test_mutants_are_seen_in_the_gradients(spoil):
    told = run("one_f_one_b_order", 2, 4, spoil=spoil).values
    assert min(one["gap"] for one in told) > 1e-3


def test_a_simulated_device_changes_no_value():
    told = run("one_f_one_b_order", 2, 4, seconds=0.002).values
    assert all(one["gap"] <= EQUAL and one["in_order"] for one in told)


@pytest.mark.parametrize(
    ("layers", "stages", "counts"),
    [(10, 3, [4, 3, 3]), (7, 2, [4, 3]), (62, 4, [16, 16, 15, 15]), (3, 3, [1, 1, 1])],
)
def test_layers_are_shared_out_evenly(layers, stages, counts):
    assert layer_counts(layers, stages) == counts


def test_what_cannot_be_cut_is_refused_with_what_could():
    with pytest.raises(ValueError, match="5 stages asked for, but the model has 4 layers.*most 4"):
        cut(GPT(Shape(layers=4)), 5)
    with pytest.raises(ValueError, match="a batch of 6 cannot be cut into 4.*3 or 6 would do"):
        micro_batches(GPT(Shape(layers=1, length=6)).embedding.positions.weight, 4)
    with pytest.raises(ValueError, match="d = 10 cannot be shared by 4 heads"):
        Shape(d=10, heads=4)
