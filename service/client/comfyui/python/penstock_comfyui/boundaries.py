# SPDX-License-Identifier: Apache-2.0
"""Finds the ends of ComfyUI's nodes and prompts, and the points before loads. Nothing here may raise."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

from penstock_comfyui import devices, lent_files, others, read_ahead, safe_points, tables, work, workers
from penstock_comfyui.holdings import Holdings
from penstock_comfyui.reserve import Reserve
from penstock_comfyui.stand_in import StandIns

_MARK = "_penstock"


def install() -> None:
    """REQUIRES: ComfyUI's modules are imported. Calling it again changes nothing."""
    if getattr(sys.modules.get("comfy_aimdo.control"), "__name__", "") != "penstock_comfyui.surface.control":
        return
    management: Any = importlib.import_module("comfy.model_management")
    execution: Any = importlib.import_module("execution")
    executor: Any = execution.PromptExecutor
    if hasattr(management.reset_cast_buffers, _MARK):
        return
    reserve = Reserve(management)
    holdings = Holdings(management)
    stand_ins = StandIns(management)
    # All names first: a ComfyUI that lacks one stays as it is.
    reset, execute, load = management.reset_cast_buffers, executor.execute_async, management.load_models_gpu
    node, free = execution.execute, management.free_memory
    management.reset_cast_buffers = _at_node_end(reset, holdings)
    execution.execute = _around_node(node, management, holdings)
    executor.execute_async = _around_prompt(execute, management, reserve, holdings)
    loads = _Loads()
    management.free_memory = _around_free(free, management, stand_ins, loads)
    if hasattr(executor, "reset"):
        executor.reset = _after_drop(executor.reset, holdings)
    if hasattr(management, "unload_all_models"):
        management.unload_all_models = _after_drop(management.unload_all_models, holdings)
    management.load_models_gpu = _around_load(load, management, reserve, stand_ins, loads)


def _at_node_end(before: Any, holdings: Holdings) -> Any:
    @functools.wraps(before)
    def reset_cast_buffers(*arguments: Any, **options: Any) -> Any:
        holdings.before_drop()
        answer = before(*arguments, **options)  # Waits for the device, and drops the buffers.
        _release()
        safe_points.end_node()
        holdings.end_node()
        return answer

    setattr(reset_cast_buffers, _MARK, True)
    return reset_cast_buffers


def _around_node(before: Any, management: Any, holdings: Holdings) -> Any:
    """With DynamicVRAM there may be allocations without a load. Without it ComfyUI drops nothing at a node's end, and waits for
    nothing there: we do, now and then."""

    @functools.wraps(before)
    async def execute(*arguments: Any, **options: Any) -> Any:
        work.book_node(management)
        try:
            return await before(*arguments, **options)
        finally:
            if not devices.dynamic():
                _release()
                if holdings.due() and _waited_for_devices(management):
                    safe_points.end_node()
                    holdings.before_drop()
                    holdings.end_node()

    return execute


def _release() -> None:
    """What was booked for the node that ends."""
    others.release()
    workers.release()
    work.release()


def _around_prompt(before: Any, management: Any, reserve: Reserve, holdings: Holdings) -> Any:
    @functools.wraps(before)
    async def execute_async(self: Any, *arguments: Any, **options: Any) -> Any:
        workers.look()
        safe_points.start_prompt()
        reserve.publish()
        try:
            return await before(self, *arguments, **options)
        finally:
            _release()
            read_ahead.let_go()
            if _waited_for_devices(management):
                safe_points.end_prompt()
            holdings.end_prompt(self)

    return execute_async


def _waited_for_devices(management: Any) -> bool:
    """ComfyUI waits for its current one alone."""
    try:
        management.synchronize()
        return all([devices.wait_for(index) for index in sorted(tables.paged_devices())])
    except Exception:  # noqa: BLE001 - A device that failed: ComfyUI has seen it, or will. It isn't idle.
        return False


def _after_drop(before: Any, holdings: Holdings) -> Any:
    """Models go, or with an executor what it had cached: so does what the device had for them."""

    @functools.wraps(before)
    def call(*arguments: Any, **options: Any) -> Any:
        answer = before(*arguments, **options)
        lent_files.give_back()
        holdings.dropped(*arguments[:1])
        return answer

    return call


class _Loads:
    """How many of them ComfyUI is in: what they make room for has been booked."""

    depth = 0


def _around_free(before: Any, management: Any, stand_ins: StandIns, loads: _Loads) -> Any:
    @functools.wraps(before)
    def free_memory(memory_required: Any, device: Any, *arguments: Any, **options: Any) -> Any:
        if loads.depth == 0:
            work.book_asked(management, device, memory_required)
        answer = before(memory_required, device, *arguments, **options)
        stand_ins.make_up(memory_required, device)
        return answer

    return free_memory


def _around_load(before: Any, management: Any, reserve: Reserve, stand_ins: StandIns, loads: _Loads) -> Any:
    @functools.wraps(before)
    def load_models_gpu(models: Any, memory_required: Any = 0, *arguments: Any, **options: Any) -> Any:
        others.release()  # Our own are no promises to others.
        work.release()
        reserve.publish()
        stand_ins.place()
        models = list(models)
        work.book(management, models, memory_required)
        loads.depth += 1
        try:
            return before(models, memory_required, *arguments, **options)
        finally:
            loads.depth -= 1
            others.release()

    return load_models_gpu
