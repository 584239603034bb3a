# SPDX-License-Identifier: Apache-2.0
"""One file on a filesystem (FUSE) whose server stops answering when the test says so, as a hung network mount does.

While frozen it doesn't even take requests from the kernel, so that a process that waits for it can still be killed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import stat
import struct
import threading
from pathlib import Path

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 15, 18, 25, 26, 36, 42
MS_RDONLY, MS_NOSUID, MS_NODEV, MNT_DETACH = 1, 2, 4, 2
ROOT, FILE = 1, 2
NAME = b"m.safetensors"


def missing_requirement() -> str:
    """Empty where such a mount can be made."""
    if os.geteuid() != 0:
        return "requires root, to mount a FUSE filesystem"
    return "" if os.path.exists("/dev/fuse") else "requires /dev/fuse"


class HangingFiles:
    """Mounted on `folder` while the `with` lasts; `content` is what the file says."""

    def __init__(self, folder: Path, content: bytes) -> None:
        self.folder = folder
        self.path = folder / NAME.decode()
        self._content = content
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._running = True
        self._answers = threading.Event()
        self._answers.set()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._device = -1

    def __enter__(self) -> HangingFiles:
        self.folder.mkdir()
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0,allow_other"
        if self._libc.mount(b"penstock-test", str(self.folder).encode(), b"fuse", MS_RDONLY | MS_NOSUID | MS_NODEV,
                            options.encode()) != 0:
            code = ctypes.get_errno()
            os.close(self._device)
            raise OSError(code, "mount: " + os.strerror(code))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running = False
        self._answers.set()
        self._thread.join()
        os.close(self._device)  # Aborts what still waits.
        self._libc.umount2(str(self.folder).encode(), MNT_DETACH)

    def freeze(self) -> None:
        """No request is taken any more once the one under way is answered."""
        self._answers.clear()

    def thaw(self) -> None:
        self._answers.set()

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._device, select.POLLIN)
        while self._running:
            self._answers.wait()
            if not poll.poll(20) or not self._answers.is_set():
                continue
            try:
                request = os.read(self._device, 1 << 20)
            except OSError:  # Interrupted, or unmounted.
                continue
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            return
        try:
            body = self._body(opcode, node, request[40:])
            code = 0
        except OSError as error:
            body, code = b"", error.errno or errno.EIO
        try:
            os.write(self._device, struct.pack("<IiQ", 16 + len(body), -code, unique) + body)
        except OSError:  # Nobody waits for it any more.
            pass

    def _body(self, opcode: int, node: int, arguments: bytes) -> bytes:
        if opcode == INIT:
            _, _, readahead, _ = struct.unpack_from("<IIII", arguments)
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, readahead, 0, 16, 12, 1 << 17, 1, 32, 0, 0)
        if opcode == LOOKUP:
            if arguments.rstrip(b"\0") != NAME:
                raise OSError(errno.ENOENT, "")
            return struct.pack("<QQQQII", FILE, 0, 3600, 0, 0, 0) + self._attributes(FILE)
        if opcode == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self._attributes(node)
        if opcode == OPEN:
            return struct.pack("<QII", 1, 0, 0)
        if opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", arguments)
            return self._content[offset:offset + size]
        if opcode in (FLUSH, RELEASE):
            return b""
        raise OSError(errno.ENOSYS, "")

    def _attributes(self, node: int) -> bytes:
        folder = node == ROOT
        mode = (stat.S_IFDIR | 0o755) if folder else (stat.S_IFREG | 0o444)
        size = 0 if folder else len(self._content)
        return struct.pack("<QQQQQQIIIIIIIIII", node, size, (size + 511) // 512, 1000, 1000, 1000, 0, 0, 0, mode, 1, 0, 0, 0,
                           4096, 0)
