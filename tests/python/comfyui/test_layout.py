# SPDX-License-Identifier: Apache-2.0
"""Where weights lie in the table that processes share."""

from __future__ import annotations

import random
import tempfile
import unittest
from typing import Any

from comfyui.recorded_caller import FiledWeights, Module
from penstock.memory import Piece
from penstock_comfyui.layout import ALIGNMENT, Layout, Weights, lay_out


def weights(*pieces: Piece, nbytes: int = 0, origin: int = 0) -> Weights:
    made = FiledWeights(Module(0, nbytes or sum(one.nbytes for one in pieces)), origin, 0)
    made.pieces = list(pieces)
    return made


def piece(offset: int, nbytes: int = 100, place: int = 0, file: int = 0) -> Piece:
    return Piece(place, file, offset, nbytes, "F16", "F16")


class WhereWeightsLie(unittest.TestCase):
    def setUp(self) -> None:
        self.files = [self.enterContext(tempfile.TemporaryFile()) for _ in range(2)]
        self.descriptors = [one.fileno() for one in self.files]

    def places(self, laid: Layout) -> list[tuple[int, ...]]:
        return [(one.place, one.file, one.offset, one.nbytes) for one in laid.pieces]

    def test_they_lie_in_the_file_s_order_at_aligned_places(self) -> None:
        late, early = weights(piece(5000, 700)), weights(piece(64, 513))
        laid = lay_out(self.descriptors[:1], [late, early])
        self.assertEqual([(0, early), (2 * ALIGNMENT, late)], laid.offsets)
        self.assertEqual([(0, 0, 64, 513), (2 * ALIGNMENT, 0, 5000, 700)], self.places(laid))

    def test_what_an_allocation_has_stays_together_with_its_gaps(self) -> None:
        one = weights(piece(900), piece(10, place=1024), nbytes=2048)
        other = weights(piece(500))
        laid = lay_out(self.descriptors[:1], [one, other])
        self.assertEqual([(0, other), (ALIGNMENT, one)], laid.offsets)
        self.assertEqual([(0, 0, 500, 100), (512, 0, 900, 100), (512 + 1024, 0, 10, 100)], self.places(laid))

    def test_it_does_not_depend_on_the_order_of_weights_and_files(self) -> None:
        known: Any = None
        found = [(number % 2, 1000 * (number // 2)) for number in range(20)]
        for seed in range(20):
            random.Random(seed).shuffle(found)
            for swapped in (False, True):
                given = [weights(piece(at, file=file ^ swapped), origin=4096 * number)
                         for number, (file, at) in enumerate(found)]
                laid = lay_out(self.descriptors[::-1] if swapped else self.descriptors, given)
                known = known or (laid.descriptors, laid.pieces)
                self.assertEqual(known, (laid.descriptors, laid.pieces))

    def test_weights_that_are_there_twice_have_two_places(self) -> None:
        one, two = weights(piece(64), origin=0), weights(piece(64), origin=512)
        laid = lay_out(self.descriptors[:1], [one, two])
        self.assertEqual([0, 512], [offset for offset, _ in laid.offsets])


if __name__ == "__main__":
    unittest.main()
