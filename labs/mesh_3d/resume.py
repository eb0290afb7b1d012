"""The section "resume": a run is saved, its processes end, and other layouts go on from the files.

    dp=2 pp=2 tp=2   ──────────── 20 steps ──┬── 20 more, as if nothing had been: the reference
                                             └─ save
    the same, dp=1 pp=2 tp=4, one device            load ── 20 steps: the same losses

Each rank writes its part, none gathers; a save that rank 0 alone calls waits for the others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from labs import formulas, ranks
from labs.gpt import Shape
from labs.mesh import memory, resuming
from labs.mesh.checkpoint import contents, folders
from labs.mesh.checkpoint.contents import File
from labs.mesh.config import Config
from labs.mesh.layout import Layout, factorizations
from labs.mesh_3d import jobs, parity
from labs.mesh_3d.ask import Ask
from labs.ranks import Diagnosis
from labs.result import Check, Result, at_most, equal, near

SECTION = "resume"
BEFORE, AFTER = 20, 20
"""Steps before the save and after it."""
EPS = 1e-10
"""Of a loss in fp64, some forty steps of AdamW on."""

Parts = Mapping[str, Callable]


@dataclass(frozen=True)
class Resumed:
    """A run that was saved, those that went on from it, and what lay on the disk.

    losses: of the saved run's ranks, all steps; resumed: (configuration, what each of its ranks
    told); alone: what became of a save on rank 0 alone, None where that was not tried
    """

    config: Config
    losses: list[list[float]]
    resumed: list[tuple[Config, list[dict]]]
    files: list[File]
    metadata: int  # bytes
    alone: Diagnosis | None = None

    @property
    def written(self) -> int:
        """Bytes of numbers in all files."""
        return sum(file.numbers for file in self.files)

    def __str__(self) -> str:
        lines = [f"{'rank':>4}  {'stands at':16}{'bytes written':>14}{'of all':>8}{'file':>11}"]
        for file in self.files:
            at = " ".join(
                f"{a}={n}"
                for a, n in self.config.layout.coordinate(file.rank).items()
                if a != "cp" or self.config.layout.cp > 1
            )
            share = file.numbers / self.written
            lines.append(f"{file.rank:>4}  {at:16}{file.numbers:>14,}{share:>8.1%}{file.size:>11,}")
        size = sum(file.size for file in self.files)
        lines.append(f"{'':6}{'all':16}{self.written:>14,}{1:>8.1%}{size:>11,}")
        lines.append(f"{'':6}{'metadata':16}{'':>14}{'':>8}{self.metadata:>11,}")
        return "\n".join(lines)


def configuration(ask: Ask) -> Config:
    """The lab's model with fewer layers: what is stored is the same, and each step takes less."""
    config = jobs.config(ask.layout, ask.zero, ask.tied)
    return replace(config, model=replace(config.model, layers=max(2, ask.layout.pp)))


def targets(config: Config) -> list[Config]:
    """Where a run goes on: as it was, without dp at another ZeRO level, and on one device."""
    n, layout = config.layout.ranks, config.layout
    narrow = Layout(pp=layout.pp, tp=n // layout.pp)
    others = [narrow, *(other for other in factorizations(n) if other.dp == 1)]
    fitting = [
        other for other in others
        if other != layout and jobs.fits(other) and other.pp <= config.model.layers
    ]  # fmt: skip
    found = [config]
    if fitting:
        found.append(replace(config, layout=fitting[0], zero=1 if config.zero == 3 else 3))
    if n > 1:
        found.append(replace(config, layout=Layout(), zero=0))
    return found


def add(result: Result, ask: Ask, parts: Parts) -> None:
    """Save on ask.layout, resume in another launch; the checks and `Resumed` as values[SECTION]."""
    if ask.layout.ranks == 1:
        result.notes.append(f"{SECTION} left out: it needs 2 ranks or more")
        return
    config = configuration(ask)
    memory.check(config)
    configs = targets(config)
    with tempfile.TemporaryDirectory(prefix="checkpoints-") as folder:
        one = (config, dict(parts), folder, BEFORE, AFTER)
        saved = ask.launch(resuming.train_and_save, *one, ranks=ask.layout.ranks)
        again = (configs, dict(parts), folder, AFTER)
        run = ask.launch(resuming.resume, *again, ranks=ask.layout.ranks)
        path = folders.find(Path(folder))
        told = [[value[at] for value in run.values if value[at]] for at in range(len(configs))]
        found = Resumed(
            config, [losses for losses in saved.values if losses],
            list(zip(configs, told, strict=True)), contents.files(path),
            contents.metadata_bytes(path), rank_0_alone(parts, ask.mode),
        )  # fmt: skip
    if result.run is None:
        result.run = saved
    result.values[SECTION] = found
    result.checks += checks(found)
    result.notes += notes(found)


def rank_0_alone(parts: Parts, mode: str | None = None) -> Diagnosis:
    """What becomes of a save that rank 0 of two calls alone."""
    config = configuration(Ask(layout=Layout(dp=2)))
    with tempfile.TemporaryDirectory(prefix="checkpoints-") as folder:
        return ranks.diagnose(
            resuming.rank_0_saves, 2, args=(config, dict(parts), folder), limit=60, mode=mode
        )


def decoder(shape: Shape) -> formulas.Decoder:
    """The sizes of a model as the formulas take them."""
    return formulas.Decoder(
        shape.layers, shape.d, shape.heads, shape.d_ff or 4 * shape.d, shape.length, shape.vocab,
        shape.tied,
    )  # fmt: skip


def checks(found: Resumed) -> list[Check]:
    """Losses against the run that went on, and it against one device; bytes against the formula."""
    config = found.config
    label, total = f"{SECTION}, {config.name}", BEFORE + AFTER
    one = parity.reference(config, total).losses
    made = [
        at_most(f"{label}: {total} losses apart, save in between", _apart(found.losses, one), EPS,
                "nats", "one device")
    ]  # fmt: skip
    for other, told in found.resumed:
        name = f"{label}, then {other.name}"
        steps = sorted({value["step"] for value in told})
        apart = _apart([value["losses"] for value in told], found.losses[0][BEFORE:])
        made += [
            equal(f"{name}: goes on after step", ", ".join(map(str, steps)), str(BEFORE), "",
                  "the step that was saved"),
            at_most(f"{name}: the next {AFTER} losses apart", apart, EPS, "nats",
                    "the uninterrupted run"),
        ]  # fmt: skip
    made += byte_checks(config, found.files, label)
    if found.alone is not None:
        waits = ", ".join(map(str, found.alone.waits.get(0, ()))) or "nobody"
        made.append(
            equal(f"{SECTION}, a save on rank 0 alone: rank 0 waits for rank", waits, "1", "",
                  "saving is collective")
        )  # fmt: skip
    return made


def byte_checks(config: Config, files: Sequence[File], label: str) -> list[Check]:
    """What lies on the disk: the state once, and on each rank its part of it."""
    model, layout, e = decoder(config.model), config.layout, config.dtype.itemsize
    mixed = config.dtype == torch.bfloat16
    whole = formulas.checkpoint_bytes(model.parameters, e, mixed)
    each = "14" if mixed else f"3 × {e}"
    n = layout.dp * layout.cp
    stage = {file.rank: layout.coordinate(file.rank)["pp"] for file in files}
    share = {
        rank: formulas.checkpoint_bytes_on_rank(model, n, layout.pp, at, layout.tp, e, mixed)
        for rank, at in stage.items()
    }
    worst = max(files, key=lambda file: abs(file.numbers - share[file.rank]))
    # What the shares along dp need not have evenly: padding, and what other ranks hold too.
    table = formulas.table_on_rank(model.d, model.vocab, layout.tp) if model.tied else 0
    shared = formulas.stage_whole(model, layout.pp, stage[worst.rank]) * (layout.tp - 1)
    off = formulas.checkpoint_bytes(
        layout.tp * model.d + shared // layout.tp + table // 2, e, mixed
    )
    return [
        equal(f"{label}: files", len(files), layout.ranks, "", "one a rank"),
        equal(f"{label}: numbers in all files", sum(file.numbers for file in files), whole, "bytes",
              f"{each} bytes × {model.parameters:,} parameters, each once"),
        equal(f"{label}: bytes that belong to no stored number",
              sum(file.stray for file in files), 0, "bytes", "nothing is written twice"),
        near(f"{label}: numbers in the file of rank {worst.rank}, which is farthest off",
             worst.numbers, round(share[worst.rank]), off, "bytes",
             "its stage's, shared out over dp·tp"),
    ]  # fmt: skip


def notes(found: Resumed) -> list[str]:
    """What each rank wrote, in a line; who waits for whom where rank 0 saves alone."""
    numbers = [file.numbers for file in found.files]
    rectangles = sum(file.rectangles for file in found.files)
    packing = sum(file.packing for file in found.files) / max(1, rectangles)
    told = [
        f"{SECTION}: {len(numbers)} ranks wrote {min(numbers):,} to {max(numbers):,} bytes of "
        f"numbers each, {min(numbers) / found.written:.1%} to {max(numbers) / found.written:.1%} "
        f"of all; in {rectangles} rectangles, around each of which torch.save puts "
        f"{packing:,.0f} bytes; and {found.metadata:,} bytes of metadata"
    ]
    if found.alone is not None:
        told.append(
            f"{SECTION}: a save that rank 0 alone calls: {found.alone.headline}. Rank 0 is in "
            "checkpoint.save, where all ranks plan and finish together, and the others train on "
            "and wait for rank 0. Call save on every rank: each writes its own part."
        )
    return told


def _apart(got: Sequence[Sequence[float]], reference: Sequence[float]) -> float:
    """The farthest that any rank is off; inf where there are more or fewer losses."""
    if not got or any(len(losses) != len(reference) for losses in got):
        return float("inf")
    right = torch.tensor(reference, dtype=torch.float64)
    return (torch.tensor(got, dtype=torch.float64) - right).abs().max().item()
