"""The text: on every machine, the same from the same seed, next tokens one further on."""

from __future__ import annotations

import pytest
import torch

from labs import text


def test_batch_is_text_and_its_successors() -> None:
    tokens, targets = text.batch(3, 50, seed=1)
    assert tokens.shape == targets.shape == (3, 50) and tokens.dtype == torch.long
    assert torch.equal(tokens[:, 1:], targets[:, :-1])
    assert bytes(tokens[0].tolist()) in text.library_text()
    assert tokens.min() >= 0 and targets.max() < text.VOCAB


def test_seed_decides() -> None:
    one, two, other = (text.batch(4, 20, seed)[0] for seed in (5, 5, 6))
    assert torch.equal(one, two) and not torch.equal(one, other)


def test_too_long_a_row() -> None:
    size = len(text.library_text())
    assert text.batch(1, size - 1)[0].shape == (1, size - 1)
    with pytest.raises(ValueError, match=f"{size} tokens was asked for; the text has {size} bytes"):
        text.batch(1, size)


def test_a_python_without_its_source(monkeypatch, tmp_path) -> None:
    text.library_text.cache_clear()
    monkeypatch.setattr(text.sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(FileNotFoundError, match="no source files"):
        text.library_text()
    (tmp_path / "one.py").write_text("pass")
    assert text.library_text() == b"pass"
    text.library_text.cache_clear()
