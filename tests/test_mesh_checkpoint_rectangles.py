"""Rectangles of runs, and folders of checkpoints: what needs no ranks."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labs.mesh import checkpoint
from labs.mesh.checkpoint import folders
from labs.mesh.checkpoint.rectangles import of_run
from labs.mesh.held import Held


@st.composite
def parts(draw):
    """A part of a parameter, cut along one dimension, maybe padded; and a run of its elements."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=2)))
    dim = draw(st.integers(0, len(shape) - 1))
    size = shape[dim]
    ends = sorted(draw(st.sets(st.integers(0, size + 3), min_size=2, max_size=6)))
    pairs = zip(ends[::2], ends[1::2], strict=False)
    runs = tuple((a, b) for a, b in pairs if a < size) or ((0, size),)
    runs = (*((a, min(b, size)) for a, b in runs[:-1]), runs[-1])  # padding comes last
    held = Held("x", shape, dim, runs)
    rows, width = (*shape, 1)[:2]
    n = held.padded * (width if dim == 0 else rows)
    first = draw(st.integers(0, n))
    return held, first, draw(st.integers(first, n))


def local(held: Held) -> torch.Tensor:
    """The part, with each number's place in the whole parameter as its value; padding: -1."""
    whole = torch.arange(torch.Size(held.shape).numel()).view(held.shape)
    kept = whole.index_select(held.dim, torch.tensor(held.kept))
    shape = list(kept.shape)
    shape[held.dim] = held.padded - len(held.kept)
    return torch.cat([kept, kept.new_full(shape, -1)], held.dim)


@given(parts())
def test_rectangles_hold_the_numbers_of_the_run_and_no_other(part):
    held, first, end = part
    whole = torch.arange(torch.Size(held.shape).numel()).view(held.shape)
    share = torch.cat(
        [torch.tensor([-2, -2]), local(held).flatten()[first:end], torch.tensor([-2])]
    )
    run = share[2 : 2 + end - first]  # a run never begins where its storage does
    seen = []
    for rectangle in of_run(held, first, end):
        there = whole
        for dim, (at, size) in enumerate(zip(rectangle.offsets, rectangle.sizes, strict=True)):
            assert size > 0
            there = there.narrow(dim, at, size)
        assert torch.equal(rectangle.of(run), there)
        seen += there.flatten().tolist()
    assert sorted(seen) == sorted(n for n in run.tolist() if n != -1)
    assert len(set(seen)) == len(seen)


@given(parts())
def test_at_most_three_for_each_run_that_was_kept(part):
    held, first, end = part
    assert len(of_run(held, first, end)) <= 3 * len(held.runs)
    if len(held.shape) == 1:
        assert len(of_run(held, first, end)) <= len(held.runs)


def test_part_of_a_row_whole_rows_part_of_a_row():
    told = [(r.offsets, r.sizes) for r in of_run(Held("x", (5, 4), 0, ((1, 5),)), 2, 13)]
    assert told == [((1, 2), (1, 2)), ((2, 0), (2, 4)), ((4, 0), (1, 1))]


@pytest.mark.parametrize(
    ("held", "run", "words"),
    [
        (Held("x", (2, 2, 2), 0, ((0, 2),)), (0, 1), "x has 3 dimensions; 1 or 2"),
        (Held("x", (2, 2), 0, ((0, 1),)), (0, 3), "elements 0 to 3 .* this rank's part of x has 2"),
    ],
)
def test_refused(held, run, words):
    with pytest.raises(ValueError, match=words):
        of_run(held, *run)


class TestFolders:
    """What counts as a checkpoint, and what does not."""

    def written(self, folder: Path, step: int) -> Path:
        path = folders.begin(folder, step)
        (path / "__0_0.distcp").write_bytes(b"x")
        (path / folders.METADATA).write_bytes(b"x")
        return path

    def names(self, folder: Path) -> list[str]:
        return sorted(path.name for path in folder.iterdir())

    def test_a_save_counts_from_its_rename_on(self, tmp_path):
        folder = tmp_path / "new" / "checkpoints"
        path = self.written(folder, 10)
        assert path.name.startswith("step-000010.tmp-") and folders.complete(folder) == {}
        assert folders.finish(path) == folder / "step-000010"
        assert folders.find(folder) == folder / "step-000010"

    def test_the_newest_by_number(self, tmp_path):
        for step in (20, 1_000_000, 3):
            folders.finish(self.written(tmp_path, step))
        assert list(folders.complete(tmp_path)) == [3, 20, 1_000_000]
        assert folders.find(tmp_path).name == "step-1000000"
        assert folders.find(tmp_path, 3).name == "step-000003"

    def test_what_was_cut_off_is_not_read_and_the_next_save_removes_it(self, tmp_path):
        folders.finish(self.written(tmp_path, 1))
        left = self.written(tmp_path, 2)  # all of it is there but the rename
        (tmp_path / "step-000009").mkdir()  # nobody's: it has no metadata
        (tmp_path / "notes.txt").write_text("a learner's own")
        assert folders.find(tmp_path).name == "step-000001"
        with pytest.raises(FileNotFoundError, match="no checkpoint of step 2; .* steps 1; 1 that"):
            folders.find(tmp_path, 2)
        new = folders.begin(tmp_path, 2)
        assert not left.exists() and new.exists()
        assert self.names(tmp_path) == ["notes.txt", "step-000001", new.name, "step-000009"]

    def test_old_ones_go_all_at_once(self, tmp_path, monkeypatch):
        for step in (1, 2, 3):
            folders.finish(self.written(tmp_path, step))
        monkeypatch.setattr(folders.shutil, "rmtree", lambda *_, **__: None)  # killed just then
        folders.prune(tmp_path, 1)
        assert list(folders.complete(tmp_path)) == [3]
        monkeypatch.undo()
        folders.clean(tmp_path)
        assert self.names(tmp_path) == ["step-000003"]

    def test_everything_is_on_the_disk_before_the_rename(self, tmp_path, monkeypatch):
        did, path = [], self.written(tmp_path, 1)
        fsync, rename = os.fsync, Path.rename
        inode = path.stat().st_ino

        def synced(descriptor):
            did.append("the new" if os.fstat(descriptor).st_ino == inode else "the outer")
            fsync(descriptor)

        def renamed(self, to):
            did.append("rename")
            return rename(self, to)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(Path, "rename", renamed)
        folders.finish(path)
        assert did == ["the new", "rename", "the outer"]

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda at: at / "missing", "there is no folder .*missing"),
            (lambda at: at, "has no complete checkpoint$"),
        ],
    )
    def test_nothing_there(self, tmp_path, make, words):
        with pytest.raises(FileNotFoundError, match=words):
            folders.find(make(tmp_path))

    def test_a_step_is_saved_once(self, tmp_path):
        folders.finish(self.written(tmp_path, 5))
        with pytest.raises(
            FileExistsError, match="step 5 is saved in .* another folder, or remove"
        ):
            folders.begin(tmp_path, 5)

    @pytest.mark.parametrize("step", [-1, True, 1.5, "2", math.nan])
    @pytest.mark.parametrize("call", [checkpoint.save, checkpoint.load])
    def test_a_step_is_a_whole_number(self, tmp_path, call, step):
        """Said before the ranks meet: one that broke off alone would leave the others waiting."""
        with pytest.raises(
            ValueError, match=f"step must be a whole number, 0 or more; got {step!r}"
        ):
            call(None, tmp_path, step)

    @pytest.mark.parametrize("keep", [0, False, 1.5, "2", None])
    def test_a_number_to_keep(self, tmp_path, keep):
        with pytest.raises(ValueError, match="keep must be a whole number, 1 or more"):
            checkpoint.save(None, tmp_path, 1, keep)
        assert not any(tmp_path.iterdir())

    @pytest.mark.parametrize("folder", [None, 5, ""])
    def test_a_folder_has_a_name(self, folder):
        for call in (checkpoint.save, checkpoint.load):
            with pytest.raises(ValueError, match="folder must be the name of a folder, got"):
                call(None, folder, 1)
