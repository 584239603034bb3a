# SPDX-License-Identifier: Apache-2.0
"""Where a model's weights lie in the table that processes share: in the order in which their files have them.

ComfyUI's own order depends on what a process patches first, and the service shares tables whose pieces lie alike. What one
allocation has stays together, since ComfyUI computes addresses within it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.memory import Piece

ALIGNMENT = 512  # Of allocations, as in a VBAR.


class Weights(Protocol):
    """What lies in one allocation of a VBAR."""

    @property
    def origin(self) -> int:
        """Offset in the VBAR."""

    @property
    def nbytes(self) -> int: ...

    @property
    def pieces(self) -> Sequence[Piece]:
        """Their places are those within the allocation."""

    def clean(self) -> bool:
        """ComfyUI uses them as the table has them."""

    def show(self, address: int, signature: Any) -> None:
        """Clean: their module finds them there, and compares with this signature."""


@dataclass
class Layout:
    descriptors: list[int]
    pieces: list[Piece]
    offsets: list[tuple[int, Weights]]  # In the table.


def lay_out(descriptors: Sequence[int], weights: Iterable[Weights]) -> Layout:
    """The same files and weights give the same layout in every process, in whatever order they come."""
    found = sorted(range(len(descriptors)), key=lambda number: _identity(descriptors[number]))
    numbers = {number: place for place, number in enumerate(found)}
    laid = Layout([descriptors[number] for number in found], [], [])
    at = 0
    for pieces, one in sorted(((_renumbered(one.pieces, numbers), one) for one in weights), key=_in_files):
        laid.offsets.append((at, one))
        laid.pieces.extend(piece._replace(place=at + piece.place) for piece in pieces)
        at = -(-(at + one.nbytes) // ALIGNMENT) * ALIGNMENT
    return laid


def _renumbered(pieces: Sequence[Piece], numbers: dict[int, int]) -> list[Piece]:
    return [piece._replace(file=numbers[piece.file]) for piece in pieces]


def _in_files(found: tuple[list[Piece], Weights]) -> Any:
    pieces, one = found
    return [(piece.file, piece.offset, *piece) for piece in pieces], one.nbytes


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino
