# SPDX-License-Identifier: Apache-2.0
"""Reading as the safetensors package does it, out of the service's memory."""

from __future__ import annotations

import os
from typing import Any

from penstock import _views
from penstock._memory import gpu_kind
from penstock.checkpoints import Checkpoint
from penstock.errors import InvalidArgumentError, NotBuiltError, NotFoundError
from penstock.services import Service, connect
from penstock.tensors import PinnedTensor

_FRAMEWORKS = {"np": "numpy", "numpy": "numpy", "pt": "torch", "torch": "torch", "pytorch": "torch"}


def shown(pinned: PinnedTensor, framework: str) -> Any:
    """The tensor as the framework's own; pinned while it lives."""
    found = pinned.torch() if framework == "torch" else pinned.numpy()
    pinned.release()  # The view keeps the pages now.
    return found


def copied(checkpoint: Checkpoint, name: str, framework: str) -> Any:
    """A tensor of the framework's own in host memory."""
    tensor = checkpoint.tensors[name]
    data = bytearray(checkpoint.read(name))
    if framework == "torch":
        return _views.to_torch(data, tensor.dtype, tensor.shape)
    return _views.to_numpy(memoryview(data), tensor.dtype, tensor.shape)


class TensorSlice:
    """Part of a tensor, read when it is indexed."""

    def __init__(self, file: SafeOpen, name: str) -> None:
        self._file = file
        self._name = name

    def get_shape(self) -> list[int]:
        return list(self._file.checkpoint.tensors[self._name].shape)

    def get_dtype(self) -> str:
        return self._file.checkpoint.tensors[self._name].dtype

    def __getitem__(self, index: Any) -> Any:
        return self._file.get_tensor(self._name)[index]


class SafeOpen:
    """As safetensors.safe_open: keys, get_tensor, get_slice, metadata; use it in a `with`."""

    def __init__(self, filename: str | os.PathLike[str], framework: str, device: str = "cpu",
                 service: Service | None = None) -> None:
        if framework not in _FRAMEWORKS:
            raise InvalidArgumentError(f"framework {framework!r}: numpy and torch are known")
        self._framework = _FRAMEWORKS[framework]
        self._own = service is None
        self._service = _connect(self._framework, device) if service is None else service
        try:
            self.checkpoint: Checkpoint = self._service.open(filename)
            self.copies = device == "cpu" and self.checkpoint.on_gpu
        except BaseException:
            if self._own:
                self._service.close()
            raise

    def keys(self) -> list[str]:
        return list(self.checkpoint.tensors)

    def metadata(self) -> dict[str, str] | None:
        return dict(self.checkpoint.metadata) or None

    def get_tensor(self, name: str) -> Any:
        """Zero copy where the pages lie on the device that was asked for: they stay pinned while the tensor lives. With
        "cpu", where the service keeps them on a GPU: a copy."""
        if self.copies:
            return copied(self.checkpoint, name, self._framework)
        return shown(self.checkpoint.pin(name), self._framework)

    def get_slice(self, name: str) -> TensorSlice:
        if name not in self.checkpoint.tensors:
            raise NotFoundError(f"the checkpoint has no tensor {name!r}")
        return TensorSlice(self, name)

    def close(self) -> None:
        self.checkpoint.close()
        if self._own:
            self._service.close()

    def __enter__(self) -> SafeOpen:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _connect(framework: str, device: str) -> Service:
    if device == "cpu":
        return connect()
    kind = gpu_kind(device)
    if kind is None:
        raise NotBuiltError(f"device {device!r} is not built yet",
                            'use "cpu", "cuda" for the current GPU, or the id of a device')
    if framework != "torch":
        raise InvalidArgumentError(f"{framework} has no arrays on a GPU", 'use device="cpu"')
    import torch

    torch.empty(1, device="cuda")  # From here on the driver is loaded, and torch's context current.
    if device == "cuda" and getattr(torch.version, "hip", None):
        device = "hip"  # torch calls AMD's GPUs so, too.
    return connect(device=device)


def safe_open(filename: str | os.PathLike[str], framework: str, device: str = "cpu") -> SafeOpen:
    """Opens a checkpoint through the service. `device`: "cpu", "cuda" for the current GPU, or the id of one. Where pages on the
    GPU can't be shared, this process gets a copy of the whole checkpoint there."""
    return SafeOpen(filename, framework, device)


def load_file(filename: str | os.PathLike[str], framework: str, device: str = "cpu") -> dict[str, Any]:
    """All tensors by name, zero copy, each pinned while it lives."""
    with safe_open(filename, framework, device) as file:
        if file.copies:
            return {name: file.get_tensor(name) for name in file.keys()}
        # All in one request; each view then keeps its own part.
        with file.checkpoint.pin():
            return {name: file.get_tensor(name) for name in file.keys()}
