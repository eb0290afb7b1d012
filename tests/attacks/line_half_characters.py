# tries: fail with words that cannot be written down, so that no page of feedback can be made
# exercise: row_parallel
# states: CRASH
# zero: all
def row_parallel(x_shard, w_shard, bias):
    print("\x00\x1b]0;owned\x07\x1b[2J")
    raise RuntimeError(
        "\ud800 \x00 \u202e \x1b[2J</pre><script>alert(1)</script> =cmd|' /C calc'!A0"
    )
