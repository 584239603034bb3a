# SPDX-License-Identifier: Apache-2.0
"""comfy-env's workers: processes beside ComfyUI that load models themselves, after they asked it for a budget.

Its own answer makes ComfyUI give memory up and asks idle workers; between that answer and the worker's allocation anybody may
take the room. Here the bytes are booked on the node before the worker hears of them.
"""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import sys
import threading
from collections.abc import Mapping
from typing import Any

import penstock
from penstock import errors
from penstock_comfyui import devices, gate, others, reserve, work
from penstock_comfyui.link import AWAY, QUESTION_SECONDS, SilentError, link, say_once

VERSIONS = ("0.4.46",)
POOL = "comfy_env.isolation.pool"
WAIT_SECONDS = 10.0

_SLACK = 1.1
_CONTEXT_BYTES = 300 << 20  # Of a process that uses a GPU.
_MARK = "_penstock"

_lock = threading.Lock()
_booked: dict[str, penstock.Grant] = {}
_refused = False


def look() -> None:
    """Takes comfy-env's place in answering, once it is there. To be called now and then; costs nothing without it."""
    global _refused
    pool: Any = sys.modules.get(POOL)
    if pool is None or _refused or hasattr(getattr(pool, "_handle_vram_budget", None), _MARK):
        return
    try:
        _check(pool)
        pool._handle_vram_budget = _answering(pool._handle_vram_budget, pool)
    except gate.Refused as refusal:
        _refused = True
        say_once(f"comfy-env's workers load without being booked: {refusal}")


def release() -> None:
    """The node has ended: what its workers were promised they have taken."""
    with _lock:
        booked = list(_booked.values())
        _booked.clear()
    for grant in booked:
        grant.release()


def need(management: Any, pool: Any, request: Mapping[str, Any], worker_key: Any = None) -> int:
    """What a worker's load takes, as comfy-env reckons it. What others were promised is no part of it."""
    promised = reserve.promised()
    reserved = max(0, int(management.extra_reserved_memory()) - promised - _own_charge(pool, worker_key))
    inference = max(0, int(management.minimum_inference_memory()) - promised)
    largest = max((int(one.get("largest_tensor") or 0) for one in request.get("model_info") or ()), default=0)
    forward = largest * max(0, int(request.get("num_streams") or 0))
    report = pool._OVERHEAD_REPORTS.get(str(worker_key), {}) if worker_key else {}
    weights = max(0, int(request.get("total_size") or 0))
    return (int(weights * _SLACK) + max(inference, forward + reserved) + _CONTEXT_BYTES
            + int(report.get("excess", 0)))


def _answering(before: Any, pool: Any) -> Any:
    @functools.wraps(before)
    def _handle_vram_budget(request: dict[str, Any], worker_key: Any = None) -> Any:
        _drop(str(worker_key))  # Its next load; the last one has been taken.
        reply = before(request, worker_key=worker_key)
        try:
            return _book(reply, pool, request, worker_key)
        except AWAY as error:
            link.away(error)
        except Exception as error:  # noqa: BLE001 - The worker goes on with comfy-env's own answer.
            say_once(f"a worker of comfy-env loads without being booked: {type(error).__name__}: {error}")
        return reply

    setattr(_handle_vram_budget, _MARK, True)
    return _handle_vram_budget


def _book(reply: dict[str, Any], pool: Any, request: Mapping[str, Any], worker_key: Any) -> dict[str, Any]:
    management: Any = sys.modules["comfy.model_management"]
    device = management.get_torch_device()
    service = link.service()
    name = devices.id_of(device.index) if device.type != "cpu" else None
    if service is None or name is None or "device_free_bytes" not in reply:
        return reply
    wanted = need(management, pool, request, worker_key)
    others.release()  # What comfy-env made ComfyUI ask for was for this.
    work.release()
    granted = 0
    try:
        least = min(wanted, int(request.get("total_size") or 0)) or wanted
        grant = link.answer(lambda: service.admit(work=wanted, minimum_work=least, timeout=WAIT_SECONDS, device=name),
                            WAIT_SECONDS + QUESTION_SECONDS)
        granted = grant.work_bytes
        with _lock:
            _booked[str(worker_key)] = grant
    except SilentError:
        raise
    except (errors.DeadlineError, errors.ForeignUsageError, errors.HeadroomError, errors.NeverFitsError, errors.PinnedError,
            errors.QuotaError, errors.WouldDeadlockError) as refusal:
        say_once(f"a worker of comfy-env finds no room for {wanted} bytes: {refusal.kind}; it offloads")
    left = next(int(one["admissible_bytes"]) for one in link.answer(service.status)["devices"] if one["id"] == name)
    # Pages went for the booking, since comfy-env measured.
    free = max(int(reply["device_free_bytes"]), int(management.get_free_memory(device)))
    # The worker takes what is not free for it out of its own view. Bytes promised to others are in that, hence not in the
    # reserve, which it adds.
    return {**reply, "device_free_bytes": min(free, left + granted),
            "extra_reserved_vram": max(0, int(reply["extra_reserved_vram"]) - reserve.promised())}


def _own_charge(pool: Any, worker_key: Any) -> int:
    """Of the reserve: what is kept free for this worker's growth, which this load is."""
    try:
        return max(0, int(pool._worker_charges().get(str(worker_key), 0))) if worker_key else 0
    except Exception:  # noqa: BLE001 - It asks processes that may be gone.
        return 0


def _drop(worker: str) -> None:
    with _lock:
        grant = _booked.pop(worker, None)
    if grant is not None:
        grant.release()


def _check(pool: Any) -> None:
    try:
        found = importlib.metadata.version("comfy-env")
    except importlib.metadata.PackageNotFoundError:
        found = "unknown"
    gate.check_number("comfy-env", found, VERSIONS)
    missing = [name for name in ("_handle_vram_budget", "_OVERHEAD_REPORTS", "_worker_charges") if not hasattr(pool, name)]
    if not missing and list(inspect.signature(pool._handle_vram_budget).parameters) != ["request", "worker_key"]:
        missing = ["_handle_vram_budget(request, worker_key)"]
    if missing:
        raise gate.Refused(f"comfy-env {found} lacks what we rely on: {', '.join(missing)}")
