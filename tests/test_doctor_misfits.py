"""Which matched calls do not fit: the pieces of an all-to-all, and messages taken from anyone."""

import pytest
import torch

from labs.ranks import wire
from labs.ranks.doctor.misfits import misfits, unmatched_sends
from labs.ranks.doctor.standing import Journals
from labs.ranks.doctor.stuck import differences
from labs.ranks.journal import CALLS, Journal
from labs.ranks.pieces import pieces


@pytest.fixture
def three(tmp_path):
    """Three ranks' journals with the world's group."""
    all_of_them = [Journal(tmp_path, rank) for rank in range(3)]
    for one in all_of_them:
        one.group("0", [0, 1, 2], "world")
        one.state("running")
    return all_of_them


@pytest.fixture
def found(tmp_path):
    """What does not fit, as ((ranks), (bytes of the message, of its room))."""

    def read():
        stands = Journals(tmp_path, range(3)).stands()
        return [(one.ranks, tuple(call.payload for call in one.calls)) for one in misfits(stands)]

    return read


def exchange(three, sizes, rooms):
    """An all-to-all in which rank a sends sizes[a][b] bytes to b, which expects rooms[b][a]."""
    for rank, one in enumerate(three):
        told = [(b, sizes[rank][b], rooms[rank][b]) for b in range(3) if b != rank]
        even = {size for row in (sizes[rank], rooms[rank]) for size in row}
        if len(even) == 1:
            one.post("all_to_all", 1, payload=3 * even.pop())
        else:
            one.post("all_to_all", 1, pieces=told)


FITS = [[4, 8, 12], [16, 4, 0], [8, 8, 4]]
MIRRORED = [[FITS[b][a] for b in range(3)] for a in range(3)]


class TestPieces:
    def test_what_fits_is_not_blamed(self, three, found):
        for _ in range(3):
            exchange(three, FITS, MIRRORED)
        exchange(three, [[4] * 3] * 3, [[4] * 3] * 3)
        assert found() == []

    def test_even_on_some_ranks_only(self, three, found):
        sizes = [[4, 4, 4], [4, 4, 8], [4, 8, 4]]
        exchange(three, sizes, [list(row) for row in zip(*sizes, strict=True)])
        assert found() == []

    @pytest.mark.parametrize("expected", [4, 20])
    def test_each_that_differs_is_named_once(self, three, found, expected):
        rooms = [list(row) for row in MIRRORED]
        rooms[2][0] = expected
        for _ in range(2):
            exchange(three, FITS, rooms)
        assert found() == [((0, 2), (12, expected))]

    def test_even_on_all_but_of_other_sizes(self, three, found):
        for size, one in zip((12, 12, 24), three, strict=True):
            one.post("all_to_all", 1, payload=size)
        assert found() == [
            ((0, 2), (4, 8)), ((1, 2), (4, 8)), ((2, 0), (8, 4)), ((2, 1), (8, 4)),
        ]  # fmt: skip

    def test_one_that_was_refused_and_made_right(self, three, found):
        refused = three[0].post("all_to_all", 1, pieces=[(1, 99, 99), (2, 99, 99)])
        three[0].take_back(refused)
        exchange(three, FITS, MIRRORED)
        assert found() == []

    def test_they_are_no_calls_of_their_own(self, three, tmp_path):
        exchange(three, FITS, MIRRORED)
        stands = Journals(tmp_path, range(3)).stands()
        for stand in stands:
            assert sum(stand.counts.values()) == 1
            assert list(stand.calls.values())[-1].op == "all_to_all"
        calls = [list(stand.calls.values())[-1] for stand in stands]
        assert differences(calls[0], calls[1]) == []

    def test_sizes_of_tensors(self):
        list_form = next(call for call in wire.CALLS if call.operator == "alltoall_")
        one_tensor = next(call for call in wire.CALLS if call.operator == "alltoall_base_")
        x, room = torch.ones(6, 2), torch.ones(4, 2, dtype=torch.float64)
        assert pieces(one_tensor, (room, x, None, [1, 3], [2, 4]), 2) == [(16, 16), (32, 48)]
        assert pieces(one_tensor, (room, x, None, [], [2, 4]), 2) == [(16, 32), (32, 32)]
        assert pieces(list_form, ([x, x], [room, x], None), 2) == [(64, 48), (48, 48)]

    @pytest.mark.parametrize(
        "splits", [[1.5, 2.5], [-1, 7], [1, 2, 3], "ab", 5, torch.tensor([2, 4])]
    )
    def test_nonsense_is_left_to_torch(self, splits):
        one_tensor = next(call for call in wire.CALLS if call.operator == "alltoall_base_")
        x = torch.ones(6)
        assert pieces(one_tensor, (x, x, None, splits, splits), 2) == []
        assert pieces(one_tensor, ("x", None, None, [], []), 2) == []


class TestFromAnyone:
    """Ranks 1 and 2 send to rank 0; which message its receives took is not known."""

    @staticmethod
    def sends(three, sizes):
        for rank, size in sizes:
            three[rank].post("send", 1, peer=0, payload=size)

    def test_sizes_in_any_order(self, three, found):
        self.sends(three, [(1, 8), (1, 400), (2, 8), (2, 80)])
        for size, source in ((8, None), (80, 2), (8, None), (400, 1)):
            if source is None:
                three[0].post("recv_any", 1, payload=size)
            else:
                three[0].post("recv", 1, peer=source, payload=size)
        assert found() == []

    def test_with_named_sources_their_order_counts(self, three, found):
        """What the test above can notice: the same sizes in another order."""
        self.sends(three, [(1, 8), (1, 400)])
        for size in (400, 8):
            three[0].post("recv", 1, peer=1, payload=size)
        assert found() == [((1, 0), (8, 400))]

    @pytest.mark.parametrize("room", [32, 8])
    def test_a_buffer_of_another_size(self, three, found, room):
        self.sends(three, [(1, 16), (2, 16)])
        for size in (16, room):
            three[0].post("recv_any", 1, payload=size)
        assert found() == [((1, 0), (16, room))]

    def test_of_another_tag_or_not_received_nothing_is_known(self, three, found, tmp_path):
        self.sends(three, [(1, 16), (2, 16)])
        three[1].post("send", 1, peer=0, tag=5, payload=64)
        three[0].post("recv_any", 1, payload=32)
        assert found() == []
        three[0].post("recv", 1, peer=1, tag=5, payload=64)
        assert found() == []
        assert unmatched_sends(Journals(tmp_path, range(3)).stands()) == []

    def test_more_than_are_kept(self, three, found):
        for _ in range(CALLS + 1):
            self.sends(three, [(1, 16)])
            three[0].post("recv_any", 1, payload=32)
        assert found() == []
