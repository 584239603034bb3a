# SPDX-License-Identifier: Apache-2.0
"""The calls that ComfyUI 0.33 makes of the pager seam, in its order, without ComfyUI and without torch.

A module of a model is a number of bytes that follow from its seed. A forward looks at every byte that it uses, so that a
page whose content is not what the seam says is found out. Pages that are new are poisoned before they are filled.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from comfyui.seam import peek, poke
from penstock.memory import Piece
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
    patch: bytes = b""

    def stored(self) -> bytes:
        block = hashlib.sha256(str(self.seed).encode()).digest()
        return (block * (self.nbytes // len(block) + 1))[:self.nbytes]

    def content(self) -> bytes:
        stored = self.stored()
        return self.patch + stored[len(self.patch):]

    def change(self, patch: bytes) -> None:
        """A LoRA on it, or none any more."""
        self.patch = patch
        self.pin = None


@dataclass
class Counts:
    resident: int = 0
    filled: int = 0
    offloaded: int = 0
    pinned: int = 0
    unpinnable: int = 0


class FiledWeights:
    """What the seam is told of a module whose bytes lie in a file."""

    def __init__(self, module: Module, origin: int, at: int) -> None:
        self.origin, self.nbytes = origin, module.nbytes
        self.pieces = [Piece(0, 0, at, module.nbytes, "U8", "U8")]
        self._module = module

    def clean(self) -> bool:
        return not self._module.patch

    def show(self, address: int, signature: Any) -> None:
        assert address == self._module.allocation[1]
        self._module.signature = signature


@dataclass
class Model:
    """One model on device 0, as its patcher drives it."""

    modules: list[Module]
    seam: Any = model_vbar  # Replaced by negative controls.
    buffers: Any = host_buffer
    pinning: bool = True
    file: Path | None = None  # Its modules' bytes lie there one behind the other,
    start: int = 0  # from here on.
    unfiled: tuple[int, ...] = ()
    backwards: bool = False  # The last module is allocated first.
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self.vbar: Any = None
        self.hostbuf = self.buffers.HostBuffer(0, 0, 0)
        self.hostbuf_address = 0
        self.cast: Any = None
        self._serials: set[int] = set()  # None comes twice.

    @property
    def nbytes(self) -> int:
        return sum(module.nbytes for module in self.modules)

    def load(self, dirty: bool = False) -> None:
        if self.vbar is None:
            self.vbar = self.seam.ModelVBAR(self.nbytes * 10, 0)
            self.hostbuf = self.buffers.HostBuffer(0, 64 << 20, HOSTBUF_MAX)
        self.vbar.prioritize()
        for module in reversed(self.modules) if self.backwards else self.modules:
            if dirty:
                module.signature = None
            if module.allocation is None:
                module.allocation = self.vbar.alloc(module.nbytes)
        if self.file is not None and not self.vbar._pages.asked_to_share:
            self._share(self.file)

    def _share(self, file: Path) -> None:
        weights, at = [], self.start
        for number, module in enumerate(self.modules):
            if number not in self.unfiled:
                weights.append(FiledWeights(module, module.allocation[1] - self.vbar.base_addr, at))
            at += module.nbytes
        with open(file, "rb") as opened:
            self.vbar._pages.share([opened.fileno()], weights)
        for module in self.modules:
            vbar, address, nbytes = module.allocation
            module.allocation = vbar, self.vbar._pages.moved(address), nbytes

    def place(self, number: int) -> int:
        """Of a module in its table, which has them as the file does."""
        return int(sum(-(-module.nbytes // 512) * 512 for module in self.modules[:number]))

    def pages(self, number: int) -> range:
        page_bytes = self.vbar._pages.page_bytes
        return range(self.place(number) // page_bytes, (self.place(number) + self.modules[number].nbytes - 1) // page_bytes + 1)

    def forward(self) -> None:
        for module in self.modules:
            self.use(module)
        self.node_boundary()

    def use(self, module: Module) -> None:
        signature = self.seam.vbar_fault(module.allocation)
        self._poison(module, signature)
        if self.seam.vbar_signature_compare(signature, module.signature):
            self.counts.resident += 1
            place = module.allocation[1]
        else:
            place = self._fill(module, signature)
        found = peek(place, module.nbytes)
        if found != module.content():
            raise WrongBytes(f"module {module.seed}" + (" was never filled" if found == bytes([POISON]) * module.nbytes else ""))
        if signature is not None:
            self.seam.vbar_unpin(module.allocation)

    def _poison(self, module: Module, signature: Any) -> None:
        """Pages that are new to this table hold nothing that anybody may rely on. Shared ones come with their bytes."""
        vbar, address, _ = module.allocation
        if signature is None or vbar._pages.is_shared(address):
            return
        size = vbar._pages.page_bytes
        first = (address - vbar.base_addr) // size
        for page, serial in enumerate(signature, first):
            if serial and serial not in self._serials:
                self._serials.add(serial)
                poke(vbar.base_addr + page * size, bytes([POISON]) * size)

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
        poke(place, content)
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
            ctypes.memmove(self.hostbuf.get_raw_address() + at, module.content(), module.nbytes)
        self._check_address()
        return ctypes.string_at(self.hostbuf_address + module.pin, module.nbytes)

    def _check_address(self) -> None:
        address = self.hostbuf.get_raw_address()
        if self.hostbuf_address not in (0, address):
            raise Moved(f"from {self.hostbuf_address:#x} to {address:#x}")
        self.hostbuf_address = address


def filed_model(path: Path, count: int, nbytes: int, seed: int = 0, spoil: bool = False, **options: Any) -> Model:
    """As model(), with its bytes in a file, which is written unless it is there. `spoil`: no checkpoint."""
    one = model(count, nbytes, seed, **options)
    header, end = {}, 0
    for number, module in enumerate(one.modules):
        header[str(number)] = {"dtype": "U8", "shape": [module.nbytes], "data_offsets": [end, end + module.nbytes]}
        end += module.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    one.file, one.start = path, 8 + len(text)
    if not path.exists():
        size = struct.pack("<Q", len(text) if not spoil else 1 << 60)
        path.write_bytes(size + text + b"".join(module.stored() for module in one.modules))
    return one


def model(count: int, nbytes: int, seed: int = 0, **options: Any) -> Model:
    """`count` modules of about `nbytes`, none of which fills its pages evenly."""
    return Model([Module(seed + index, nbytes + 512 * index + 17) for index in range(count)], **options)
