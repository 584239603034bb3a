# SPDX-License-Identifier: Apache-2.0
"""Where ComfyUI's own threads are at a point at which pages may go: what the service asks for is answered there, and
nowhere else. Nothing here waits for a device; who says that it is idle has waited before.

Points are: our own fault and unpin, the end of a node, the start and the end of a prompt.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Any

import penstock
from penstock import errors
from penstock_comfyui import devices, read_ahead
from penstock_comfyui.link import AWAY, link

LOOK_SECONDS = 0.05  # Between two looks of faults and unpins.
PROMISED_SECONDS = 1.0  # Between two questions for what others were promised.
STATUS_SECONDS = 1.0  # Between two for all of the service's figures.
FREE_SECONDS = 1.0

_lock = threading.Lock()
_looked = 0.0
_asked = 0.0
_promised = 0
_status_at = 0.0
_status: dict[str, Any] = {}
_wanted = 0
# Since the start.
freed_bytes = 0
# Of pages that keep a pin of ours: give up what was asked for, at an end or in a call; give up so many bytes.
_answer_held: Callable[[bool], None] = lambda at_end: None
_give_held: Callable[[int], int] = lambda nbytes: 0


def hold_pages(answer: Callable[[bool], None], give: Callable[[int], int]) -> None:
    """Who holds pages beside their users' pins says how they are given up."""
    global _answer_held, _give_held
    _answer_held, _give_held = answer, give


def in_call() -> None:
    """At the start of a fault and at the end of an unpin."""
    global _looked
    now = time.monotonic()
    if now < _looked + LOOK_SECONDS:
        return
    _looked = now
    with_service(lambda service: _answer_held(False))
    with_service(_answer)


def _give(service: penstock.Service) -> None:
    service.run_revokes()
    _answer(service)


def _rest(service: penstock.Service) -> None:
    _give(service)
    service.set_idle(True)


def end_node() -> None:
    """REQUIRES: nothing of the node is in flight any more."""
    global _wanted
    with_service(lambda service: _answer_held(True))
    with_service(_give)
    _wanted = 0  # That was all that we could do without.


def start_prompt() -> None:
    with_service(lambda service: service.set_idle(False))


def end_prompt() -> None:
    """REQUIRES: all devices with pages of ours have been waited for."""
    with_service(lambda service: _answer_held(True))
    with_service(_rest)


def promised_to_others(own_bytes: Callable[[str], int], counted: Callable[[], Collection[str]]) -> int:
    """Bytes that the service keeps free for others, who were promised them and may not have taken them yet; as it said a
    moment ago. Of the device among `counted` where they are the most: one number stands for all of ComfyUI's."""
    global _asked, _promised
    now = time.monotonic()
    if now >= _asked + PROMISED_SECONDS:
        _asked = now
        found = [0]
        with_service(lambda service: found.extend(_of_others(service, own_bytes, counted())))
        _promised = max(found)
    return _promised


def _of_others(service: penstock.Service, own_bytes: Callable[[str], int], counted: Collection[str]) -> list[int]:
    if not counted:
        return []
    return [one["booked_bytes"] - own_bytes(one["id"]) for one in link.answer(service.status)["devices"] if one["id"] in counted]


def recent_status() -> dict[str, Any]:
    """The service's, as it was a moment ago. Empty: it is away."""
    global _status_at, _status
    now = time.monotonic()
    if now >= _status_at + STATUS_SECONDS:
        _status_at = now
        found: list[dict[str, Any]] = [{}]
        with_service(lambda service: found.append(link.answer(service.status)))
        _status = found[-1]
    return _status


def with_service(action: Callable[[penstock.Service], object]) -> None:
    """Where there is one; what goes wrong is no matter of ComfyUI's."""
    service = link.present()
    if service is None:
        return
    try:
        action(service)
    except (*AWAY, errors.DeadlineError) as error:  # It has refused nothing: it has said nothing.
        link.away(error)
    except (penstock.PenstockError, KeyError, TypeError, ValueError):
        pass  # A refusal, or an answer of another version: the service has its own deadlines, and asks again.


def _answer(service: penstock.Service) -> None:
    """Gives back what the service last said it would like to have: memory of the host, as pressure is always of that. Pages that
    are pinned stay; the next point looks again."""
    global freed_bytes, _wanted
    pressure = service.next_pressure()
    if pressure is not None:
        _wanted = pressure.wanted_bytes
    if _wanted == 0 or not _lock.acquire(blocking=False):
        return  # Or another thread is at it.
    try:
        freed = read_ahead.let_go()
        if freed < _wanted:
            freed += _free_on_host(service, _wanted - freed)
        freed_bytes += freed
        _wanted = max(0, _wanted - freed)
    finally:
        _lock.release()


def _free_on_host(service: penstock.Service, nbytes: int) -> int:
    host = next((one.id for one in service.devices if one.kind == "host"), None)
    if host is None:
        return 0
    link.check(service)
    freed = service.free(nbytes, FREE_SECONDS, host)
    # Those with a page-out callback are of one kind of device, as all of ComfyUI's weights.
    given = _give_held(nbytes - freed) if freed < nbytes and devices.on_host(0) else 0
    if given > 0:
        freed += service.free(min(given, nbytes - freed), FREE_SECONDS, host)
    return freed
