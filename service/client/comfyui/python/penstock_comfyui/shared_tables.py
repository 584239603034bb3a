# SPDX-License-Identifier: Apache-2.0
"""Tables that the service puts together for VBARs, and which of them a VBAR of this process has.

One content is one table of a process: address, private pages and cut-off are the same for all who ask for it. So one VBAR
at a time has it. Another one with the same weights, of a second loader of the file, keeps pages of its own: what the two
make of their weights may differ.
"""

from __future__ import annotations

import gc
import logging
import os
import weakref
from collections.abc import Sequence

import penstock
from penstock.memory import AssembledTable, Piece
from penstock_comfyui import devices
from penstock_comfyui.fork_lock import ForkLock
from penstock_comfyui.link import AWAY, link, say_once

_lock = ForkLock()
# Those that VBARs have, by process and address: the library gives out one address for one content. A child made by fork
# has none of them.
_taken: weakref.WeakValueDictionary[tuple[int, int], AssembledTable] = weakref.WeakValueDictionary()


def make_table(descriptors: Sequence[int], pieces: Sequence[Piece], index: int) -> AssembledTable | None:
    """For one VBAR alone, which gives it back by close(), or drops it. None: the reason is logged."""
    service = link.service()
    if service is None:
        return None
    try:
        device = devices.device_of(index)
        if device is None:
            return None
        table = _untaken(service, descriptors, pieces, device.id)
        if table is None:
            # A model that ComfyUI has unloaded keeps its own until Python looks for what only refers to itself.
            gc.collect()
            table = _untaken(service, descriptors, pieces, device.id)
        if table is None:
            say_once("a model's weights are not shared: another one of this process has the same", logging.DEBUG)
            return None
        table.set_cutoff(None)  # Whoever had it last may have left one.
        return table
    except AWAY as error:
        link.away(error)
    except penstock.PenstockError as error:
        say_once(f"a model's weights are not shared: {error.kind}, {error}")
    return None


def _untaken(service: penstock.Service, descriptors: Sequence[int], pieces: Sequence[Piece], device: str) -> AssembledTable | None:
    """None: another VBAR has it. It is not kept open then: that one's private pages go with its own end."""
    table = link.patiently(service, lambda: service.assembled_table(descriptors, pieces, device))
    if _take(table):
        return table
    table.close()
    return None


def close(table: AssembledTable) -> None:
    """Views into it are dead from now on."""
    _leave(table)
    table.close()


def _take(table: AssembledTable) -> bool:
    with _lock:
        if _taken.get(_key(table)) is not None:
            return False
        _taken[_key(table)] = table
    # Whoever had it may be ending, in another thread or while work of a device runs: its private pages are no file's.
    if table.residency().private_bytes == 0:
        return True
    _leave(table)
    return False


def _leave(table: AssembledTable) -> None:
    with _lock:
        if _taken.get(_key(table)) is table:
            del _taken[_key(table)]


def _key(table: AssembledTable) -> tuple[int, int]:
    return os.getpid(), table.address
