"""Outputs of notebooks: what the sanitiser masks and leaves, and the form that is stored."""

import base64
import struct
import zlib

import nbformat
import pytest

from labs.notebooks.normalise import keep_stored, normalise
from labs.notebooks.outputs import as_terminal, comparable, plain_png
from labs.notebooks.sanitise import PATTERNS_FILE, read_patterns, sanitise


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("max |d| 1.2e-15 ok", "max |d| 0.0e+00 ok"),
        ("took   0.41 s |", "took  12.30 s |"),
        ("12 ms", "9 ms"),
        ("35 \u00b5s", "1,204 us"),
        ("35 \u03bcs, then 4&nbsp;ms", "3 \u03bcs, then 14&nbsp;ms"),
        ("<f at 0x7f00aa11bb22>", "<f at 0x7f00aa11bb33>"),
        ("127.0.0.1:29411", "127.0.0.1:30002"),
        ("--master-port=29411, port 29411", "--master-port=30002, port 30002"),
        ("<img src='data:image/png;base64,AAAA='>", "<img src='data:image/png;base64,BBBB='>"),
        ("  cell [47], line 3, in f", "  cell [1], line 3, in f"),
        ("4 ranks on gloo/CPU: no GPU is visible", "4 ranks on nccl/GPU: 8 GPUs are visible"),
    ],
)
def test_sanitiser_masks(one, other):
    patterns = read_patterns()
    assert sanitise(one, patterns) == sanitise(other, patterns)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2 all-reduces", "3 all-reduces"),
        ("65536 bytes", "65540 bytes"),
        ("1.5 MiB", "2.5 MiB"),
        ("4 ranks", "2 ranks"),
        ("passed", "failed"),
        ("ratio 1.50", "ratio 1.52"),
        ("42.9 %", "8.6 %"),
        ("4 shards", "2 shards"),
        ("t = 4, step", "t = 2, step"),
        ("12.5 MB/s", "13.5 MB/s"),
        ("x3e5f", "x4e5f"),
        ("torch 2.13.0", "torch 2.14.0"),
        ("cell [1], line 3", "cell [1], line 4"),
        ("4 ranks on gloo/CPU: no GPU", "2 ranks on gloo/CPU: no GPU"),
    ],
)
def test_sanitiser_leaves(one, other):
    patterns = read_patterns()
    assert sanitise(one, patterns) != sanitise(other, patterns)


def test_sanitise_file_reads_the_same_in_nbval():
    plugin = pytest.importorskip("nbval.plugin")
    ours = [(pattern.pattern, replacement) for pattern, replacement in read_patterns()]
    assert ours == plugin.get_sanitize_patterns(PATTERNS_FILE.read_text(encoding="ascii"))
    assert len(ours) == 8


def test_png_keeps_pixels_and_loses_text():
    def chunk(kind, data):
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
    signature = b"\x89PNG\r\n\x1a\n"
    noisy = signature + header + chunk(b"tEXt", b"Software\0x") + pixels
    plain = base64.b64decode(plain_png(base64.b64encode(noisy).decode()))
    assert plain == signature + header + pixels
    assert plain_png("bm90IGEgcG5n") == "bm90IGEgcG5n"


def test_stream_is_stored_as_a_terminal_shows_it():
    assert as_terminal("1/3\r2/3\r3/3\ndone\n") == "3/3\ndone\n"
    assert as_terminal("ab\x08c\n") == "ac\n"


def test_equal_after_sanitising_keeps_the_stored_text(tmp_path):
    def with_text(text):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("f()")])
        notebook.cells[0].outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]
        return normalise(notebook, tmp_path)

    stored = with_text("ok in 0.41 s\n")
    same, other = with_text("ok in 0.52 s\n"), with_text("failed in 0.41 s\n")
    for notebook in (same, other):
        keep_stored(notebook, stored, read_patterns())
    assert same.cells[0].outputs[0].text == "ok in 0.41 s\n"
    assert other.cells[0].outputs[0].text == "failed in 0.41 s\n"


def test_a_picture_inside_html_that_changed_is_stored_anew():
    """It is masked where outputs are compared; the tool chain must still see that it changed."""
    one, other = (
        nbformat.v4.new_output(
            "display_data", {"text/html": f'<img src="data:image/png;base64,{data}">'}
        )
        for data in ("AAAA", "BBBB")
    )
    patterns = read_patterns()
    assert comparable([one], patterns) != comparable([other], patterns)
    assert comparable([one], patterns, pictures=False) == comparable(
        [other], patterns, pictures=False
    )
