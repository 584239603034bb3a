# SPDX-License-Identifier: Apache-2.0
"""Runs ComfyUI's main.py so that its DynamicVRAM takes the CPU for a device with memory of its own.

usage: on_host.py MAIN.PY [options of ComfyUI]

`torch.device("cpu", 0)` is not equal to `torch.device("cpu")`, though both are the CPU: the first plays the device here, and
what ComfyUI asks of a device (streams, registration) is answered by stand-ins. They are tests' alone.
"""

import importlib.abc
import importlib.machinery
import os
import runpy
import sys
from collections.abc import Callable
from contextlib import contextmanager
from types import ModuleType


class Stream:
    """Work on the CPU is done when its call returns."""

    cuda_stream = 0

    @staticmethod
    @contextmanager
    def as_context(_stream):
        yield

    def wait_stream(self, _other):
        pass

    def synchronize(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Registration:
    """cudaHostRegister and its opposite."""

    @staticmethod
    def cudaHostRegister(_address, _size, _flags):
        return 0

    @staticmethod
    def cudaHostUnregister(_address):
        return 0


def on_model_management(module: ModuleType) -> None:
    import torch

    device = torch.device("cpu", 0)
    is_cpu = module.is_device_cpu
    module.get_torch_device = lambda: device
    module.is_device_cpu = lambda one: is_cpu(one) and getattr(one, "index", None) is None
    module.MAX_PINNED_MEMORY = 0 if module.args.disable_pinned_memory else 1 << 30
    module.NUM_STREAMS = 2
    module.STREAMS[device] = [Stream(), Stream()]
    module.current_stream = lambda _device: Stream()
    torch.cuda.cudart = lambda: Registration


def on_ops(module: ModuleType) -> None:
    import torch

    device = torch.device("cpu", 0)
    cast = module.cast_bias_weight

    def cast_bias_weight(s, input=None, dtype=None, device_=None, bias_dtype=None, **options):
        place = options.pop("device", device_)
        # Tensors say "cpu" of themselves; a module with pages of its own means the device.
        if hasattr(s, "_v") and (place is None or place.type == "cpu"):
            place = device
        return cast(s, input, dtype, place, bias_dtype, **options)

    module.cast_bias_weight = cast_bias_weight


def on_memory_management(module: ModuleType) -> None:
    """The branches that ask whether a tensor is on the CPU: everything is, so the pages of a device are told by their
    owner."""
    import comfy_aimdo.host_buffer

    plain = module.read_tensor_file_slice_into

    def read_tensor_file_slice_into(tensor, destination, stream=None, destination2=None):
        info = getattr(tensor.untyped_storage(), "_comfy_tensor_file_slice", None) if hasattr(tensor, "untyped_storage") else None
        whole = info is not None and tensor.numel() * tensor.element_size() == info.size and tensor.storage_offset() == 0
        if not whole or not tensor.is_contiguous() or info.size == 0:
            return plain(tensor, destination, stream=stream, destination2=destination2)
        if destination is not None and not hasattr(destination.untyped_storage(), "_comfy_hostbuf"):
            destination, destination2 = None, destination if destination2 is None else destination2
        if destination is None:
            comfy_aimdo.host_buffer.read_file_to_device(info.file_ref, info.offset, info.size, 0,
                                                        destination2.data_ptr(), 0, mark_cold=False)
            return True
        buffer = destination.untyped_storage()._comfy_hostbuf
        buffer.read_file_slice(info.file_ref, info.offset, info.size,
                               offset=destination.data_ptr() - buffer.get_raw_address(), stream=0,
                               device_ptr=0 if destination2 is None else destination2.data_ptr(),
                               device=None if destination2 is None else 0)
        return True

    module.read_tensor_file_slice_into = read_tensor_file_slice_into


HOOKS: dict[str, Callable[[ModuleType], None]] = {
    "comfy.model_management": on_model_management,
    "comfy.ops": on_ops,
    "comfy.memory_management": on_memory_management,
}


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a hook when its module has been imported."""

    def find_spec(self, name, path=None, target=None):
        if name not in HOOKS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            HOOKS[name](module)

        spec.loader.exec_module = exec_module
        return spec


if __name__ == "__main__":
    sys.meta_path.insert(0, AfterImport())
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
