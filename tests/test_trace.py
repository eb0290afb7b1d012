"""The trace for Perfetto: one track a rank, what ranks computed where it was in time, arrows."""

import json

import pytest

from labs import bubble_math
from labs.pipeline.computed import computed
from labs.pipeline.jobs import Job
from labs.ranks import Run, place
from labs.result import Result
from labs.schedules.known import KNOWN
from labs.schedules.simulate import Times, simulate
from labs.schedules.timeline import Timeline
from labs.schedules.trace import Computed, to_events, trace
from solutions import one_f_one_b as answers


def timeline(name: str, p: int, m: int, v: int = 1) -> Timeline:
    known = KNOWN[name]
    return simulate(known.make(getattr(answers, known.order), p, m, v), Times(0.01, 0.02))


def complaints(told: dict) -> list[str]:
    """What is wrong with a trace, by the format's own rules and by ours."""
    found, free, open_, leaving = [], {}, {}, {}
    events = told["traceEvents"]
    for n, e in enumerate(events):
        where = f"event {n}"
        if e["ph"] == "M":
            continue
        if n and events[n - 1]["ph"] != "M" and e["ts"] < events[n - 1]["ts"]:
            found.append(f"{where}: before the one before it")
        if e["ph"] == "X":
            track = (e["pid"], e["tid"])
            if e["dur"] < 0:
                found.append(f"{where}: negative duration")
            if round(e["ts"] * 1e3) < free.get(track, 0):  # nanoseconds, as the viewers count
                found.append(f"{where}: overlaps on its track")
            free[track] = round(e["ts"] * 1e3) + round(e["dur"] * 1e3)
        elif e["ph"] == "b":
            open_[e["pid"], e["id"]] = e["ts"]
        elif e["ph"] == "e" and e["ts"] < open_.pop((e["pid"], e["id"]), float("inf")):
            found.append(f"{where}: an end without its begin")
        elif e["ph"] == "s":
            leaving[e["id"]] = e
        elif e["ph"] == "f":
            begun = leaving.pop(e["id"], None)
            if begun is None or begun["pid"] == e["pid"] or begun["ts"] > e["ts"]:
                found.append(f"{where}: an arrow that comes from nowhere")
    found += [f"no end: {key}" for key in open_] + [f"no head: {key}" for key in leaving]
    tracks = {e["pid"]: {x["tid"] for x in events if x["ph"] == "X" and x["pid"] == e["pid"]}
              for e in events}  # fmt: skip
    found += [f"process {pid} has {len(t)} tracks" for pid, t in tracks.items() if len(t) > 1]
    return found + [f"process {pid} is Linux's own" for pid in tracks if pid == 0]


def calls(*times: tuple[float, float | None]) -> list[dict]:
    return [
        dict(rank=1, section="s", op="send", axis="pp", phase="forward", payload_bytes=8, peer=0,
             start=start, end=end)
        for start, end in times
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "p", "m", "v"),
    [("gpipe", 4, 8, 1), ("one_f_one_b", 3, 4, 1), ("interleaved", 2, 4, 2),
     ("zero_bubble", 4, 8, 1), ("one_f_one_b", 1, 2, 1)],
)  # fmt: skip
def test_every_computation_is_a_slice_and_every_message_an_arrow(name, p, m, v) -> None:
    one = timeline(name, p, m, v)
    told = trace([Computed("a", one, (1.0,) * p), Computed("b", one, (9.0,) * p)], [])
    assert complaints(json.loads(json.dumps(told))) == []
    kinds = [e["ph"] for e in told["traceEvents"]]
    assert kinds.count("X") == 2 * sum(map(len, one.schedule.orders))
    sends = 2 * m * (p * v - 1) if p > 1 else 0
    assert kinds.count("s") == kinds.count("f") == 2 * sends


def test_slices_say_what_was_computed_and_stand_where_they_were_in_time() -> None:
    one = timeline("one_f_one_b", 2, 2)
    events = to_events(one, [5.0, 7.0], "step")
    slices = [e for e in events if e["ph"] == "X"]
    by_rank = {r: [e["name"] for e in slices if e["pid"] == r + 1] for r in (0, 1)}
    assert by_rank == {0: ["F0", "F1", "B0", "B1"], 1: ["F0", "B0", "F1", "B1"]}
    first = {r: next(e for e in slices if e["pid"] == r + 1) for r in (0, 1)}
    assert first[0]["ts"] == pytest.approx(5.0e6) and first[0]["dur"] == pytest.approx(1e4)
    assert first[1]["ts"] == pytest.approx(7.01e6)
    assert first[0]["args"] == {"step": "step", "micro_batch": 0, "chunk": 0}
    moved = [e for e in to_events(one, 6.0) if e["ph"] == "X"]
    assert moved[0]["ts"] == pytest.approx(6.0e6)


def test_overlapping_messages_are_asynchronous_and_keep_their_times() -> None:
    told = trace([], calls((0.1, 0.4), (0.2, 0.3), (0.5, None), (0.6, 0.55)))
    assert complaints(told) == []
    begun = [e for e in told["traceEvents"] if e["ph"] == "b"]
    assert [e["ts"] for e in begun] == pytest.approx([1e5, 2e5, 5e5, 6e5])
    assert {e["pid"] for e in begun} == {2} and begun[0]["args"]["peer"] == 0


def spoiled(what: str) -> dict:
    told = trace([Computed("a", timeline("gpipe", 2, 2), (0.0, 0.0))], calls((0.1, 0.4)))
    events = told["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    if what == "order":
        events.reverse()
    elif what == "negative":
        slices[0]["dur"] = -1
    elif what == "overlap":
        slices[0]["dur"] = 1e9
    elif what == "track":
        slices[-1]["tid"] = 9
    elif what == "process":
        slices[-1]["pid"] = 0
    elif what == "end":
        told["traceEvents"] = [e for e in events if e["ph"] != "e"]
    else:
        told["traceEvents"] = [e for e in events if e["ph"] != "s"]
    return told


@pytest.mark.parametrize(
    "what", ["order", "negative", "overlap", "track", "process", "end", "arrow"]
)
def test_a_spoiled_trace_is_noticed(what) -> None:
    assert complaints(spoiled(what))


@pytest.mark.ranks
def test_what_ranks_computed_stands_between_the_messages_it_waited_for_and_sent(tmp_path) -> None:
    """A computation begins after its message has come, and a message leaves after it has ended."""
    result = bubble_math.run(
        ranks=2, only="device clock", micro_batches=(3,), forward=0.004, status=False
    )
    result.to_trace(tmp_path / "trace.json")
    told = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert complaints(told) == [] and len(result.computed) == 2
    assert misplaced(result) == []
    late = [Computed(c.name, c.timeline, tuple(b + 0.05 for b in c.began)) for c in result.computed]
    result.computed = late
    assert misplaced(result)


def misplaced(result: Result) -> list[str]:
    """Sends of rank 0 that left before what they carry was computed, and the other way round."""
    found = []
    sends = sorted(e["start"] for e in result.timeline if e["op"] == "send" and e["rank"] == 0)
    each = len(sends) // len(result.computed)
    for n, one in enumerate(result.computed):
        mine = sends[n * each : (n + 1) * each]
        ends = [e + one.began[0] for e in one.timeline.ends[0]]
        starts = [s + one.began[0] for s in one.timeline.starts[0]]
        for i, left in enumerate(mine):  # rank 0 sends its forward passes on, in order
            if left < ends[i] - 1e-3 or left > starts[i + 1] + 1e-3:
                found.append(f"{one.name}, send {i}: {left:.4f}")
    return found


def test_the_trace_names_what_was_done_not_what_was_planned() -> None:
    """A rank that computed in another order shows so."""
    schedule = timeline("gpipe", 1, 2).schedule
    step = dict(done=[("F", 1, 0), ("F", 0, 0), ("B", 0, 0), ("B", 1, 0)],
                starts=[0.0, 1.0, 2.0, 3.0], ends=[1.0, 2.0, 3.0, 4.0])  # fmt: skip

    run = Run(place(1), "warm", values=[[dict(steps=[step], began=[12.0])]], origin=10.0)
    (one,) = computed([Job("j", schedule)], run)
    assert [str(at) for at in one.timeline.schedule.orders[0]] == ["F1", "F0", "B0", "B1"]
    assert one.began == (2.0,)
