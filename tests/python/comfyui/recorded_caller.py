# SPDX-License-Identifier: Apache-2.0
"""The calls that ComfyUI 0.33 makes of the pager seam, in its order, without ComfyUI and without torch.

A module of a model is a number of bytes that follow from its seed. A forward looks at every byte that it uses, so that a
page whose content is not what the seam says is found out. Pages that are new are poisoned before they are filled.
"""

from __future__ import annotations

import ctypes
import hashlib
from dataclasses import dataclass, field
from typing import Any

from penstock_comfyui.surface import host_buffer, model_vbar, vram_buffer

POISON = 0xFF  # Bytes of this are a NaN in every float format.
HOSTBUF_MAX = 32 << 20


class WrongBytes(AssertionError):
    """A forward saw other bytes than those of its module."""


class Moved(AssertionError):
    """A pinned host copy is not where it was."""


@dataclass
class Module:
    seed: int
    nbytes: int
    allocation: Any = None
    signature: Any = None
    pin: int | None = None  # Offset of its copy in the host buffer.

    def content(self) -> bytes:
        block = hashlib.sha256(str(self.seed).encode()).digest()
        return (block * (self.nbytes // len(block) + 1))[:self.nbytes]


@dataclass
class Counts:
    resident: int = 0
    filled: int = 0
    offloaded: int = 0
    pinned: int = 0
    unpinnable: int = 0


def write(address: int, data: bytes) -> None:
    ctypes.memmove(address, data, len(data))


def read(address: int, nbytes: int) -> bytes:
    return ctypes.string_at(address, nbytes)


@dataclass
class Model:
    """One model on device 0, as its patcher drives it."""

    modules: list[Module]
    seam: Any = model_vbar  # Replaced by negative controls.
    buffers: Any = host_buffer
    pinning: bool = True
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self.vbar: Any = None
        self.hostbuf = self.buffers.HostBuffer(0, 0, 0)
        self.hostbuf_address = 0
        self.cast: Any = None

    @property
    def nbytes(self) -> int:
        return sum(module.nbytes for module in self.modules)

    def load(self) -> None:
        if self.vbar is None:
            self.vbar = self.seam.ModelVBAR(self.nbytes * 10, 0)
            self.hostbuf = self.buffers.HostBuffer(0, 64 << 20, HOSTBUF_MAX)
        self.vbar.prioritize()
        for module in self.modules:
            if module.allocation is None:
                module.allocation = self.vbar.alloc(module.nbytes)

    def forward(self) -> None:
        for module in self.modules:
            self.use(module)
        self.node_boundary()

    def use(self, module: Module) -> None:
        signature = self.seam.vbar_fault(module.allocation)
        if self.seam.vbar_signature_compare(signature, module.signature):
            self.counts.resident += 1
            place = module.allocation[1]
        else:
            place = self._fill(module, signature)
        if read(place, module.nbytes) != module.content():
            raise WrongBytes(f"module {module.seed}")
        if signature is not None:
            self.seam.vbar_unpin(module.allocation)

    def node_boundary(self) -> None:
        self.cast = None
        self.seam.vbars_reset_watermark_limits()

    def unload(self) -> int:
        # Unpins what it may not have pinned, as ComfyUI does.
        for module in self.modules:
            self.seam.vbar_unpin(module.allocation)
            module.pin = None
        self.hostbuf.truncate(0, do_unregister=True)
        return int(self.vbar.free_memory(1e32))

    def _fill(self, module: Module, signature: Any) -> int:
        content = self._pinned(module)
        if signature is None:
            self.counts.offloaded += 1
            if self.cast is None:
                self.cast = vram_buffer.VRAMBuffer(16 << 30, 0)
            place: int = self.cast.get(module.nbytes, 0)[1]
        else:
            self.counts.filled += 1
            place = module.allocation[1]
        write(place, bytes([POISON]) * module.nbytes)
        write(place, content)
        module.signature = signature
        return place

    def _pinned(self, module: Module) -> bytes:
        """The module's bytes, by way of locked memory where there is some."""
        if not self.pinning:
            return module.content()
        if module.pin is None:
            at = self.hostbuf.size
            try:
                self.hostbuf.extend(size=module.nbytes, register=False)
            except RuntimeError:
                self.counts.unpinnable += 1
                return module.content()
            self._check_address()
            self.counts.pinned += 1
            module.pin = at
            write(self.hostbuf.get_raw_address() + at, module.content())
        self._check_address()
        return read(self.hostbuf_address + module.pin, module.nbytes)

    def _check_address(self) -> None:
        address = self.hostbuf.get_raw_address()
        if self.hostbuf_address not in (0, address):
            raise Moved(f"from {self.hostbuf_address:#x} to {address:#x}")
        self.hostbuf_address = address


def model(count: int, nbytes: int, seed: int = 0, **options: Any) -> Model:
    """`count` modules of about `nbytes`, none of which fills its pages evenly."""
    return Model([Module(seed + index, nbytes + 512 * index + 17) for index in range(count)], **options)
