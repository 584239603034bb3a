# SPDX-License-Identifier: Apache-2.0
"""Private tables of the service, and pages of any table, asked for: what can't be had now is an answer, and no error."""

from __future__ import annotations

from collections.abc import Callable

import penstock
from penstock import errors
from penstock.memory import AssembledTable, PageTable, PrivateTable
from penstock_comfyui import devices
from penstock_comfyui.fork_lock import ForkLock
from penstock_comfyui.link import AWAY, link, say_once

FAULT_SECONDS = 10.0
# The service refuses address space beyond this multiple of the device.
RESERVATION_MAX = 64
# Wrong use, or a process that can't have pages: ComfyUI is told. Everything else only means that there is no page now.
WRONG_USE = (errors.InvalidArgumentError, errors.ForkedError)

_paged: set[int] = set()
_lock = ForkLock()


def make_table(nbytes: int, index: int) -> PrivateTable | None:
    """Address space of a device, of which as much as it could ever fill can be faulted in. None: the reason is logged."""
    service = link.service()
    if service is None:
        return None
    try:
        device = devices.device_of(index)
        if device is None:
            say_once(f"the service has nothing for device {index}; weights are streamed")
            return None
        size = min(nbytes, device.capacity_bytes * RESERVATION_MAX)
        table = link.patiently(service, lambda: service.private_table(size, device.id))
        with _lock:
            _paged.add(index)
    except (*AWAY, errors.DeadlineError) as error:
        link.away(error)
        return None
    except penstock.PenstockError as error:
        say_once(f"no pages for a model: {error}; its weights are streamed")
        return None
    link.back()
    return table


def paged_devices() -> set[int]:
    """That there have been tables for: VBARs, and cast buffers on GPUs."""
    with _lock:
        return set(_paged)


def try_pin(table: PageTable, offset: int, nbytes: int) -> bool:
    """False: there is no room now, or no service."""
    return _asked(lambda seconds: table.fault(offset, nbytes, seconds))


def make_private(table: AssembledTable, offset: int, nbytes: int) -> bool:
    """False: there is no room for the copies, or no service."""
    return _asked(lambda seconds: table.make_private(offset, nbytes, seconds))


def _asked(call: Callable[[float], bool]) -> bool:
    """Its answer. What has gone wrong is noted, and means no."""
    try:
        # What is here can be had without the service; for the rest it isn't asked again and again while away.
        found = call(FAULT_SECONDS if link.may_ask else 0)
    except WRONG_USE as error:
        raise RuntimeError(f"penstock: {error}") from error
    except AWAY as error:
        link.away(error)
        return False
    except errors.DeadlineError:
        if link.may_ask and link.is_there():
            say_once(f"weights are streamed where their pages take more than {FAULT_SECONDS:.0f} s: is the disk slow?")
        return False
    except penstock.PenstockError as error:
        if link.may_ask:
            say_once(f"weights are streamed where there is no page for them: {error.kind}")
        return False
    if found and link.may_ask:
        link.back()
    return found
