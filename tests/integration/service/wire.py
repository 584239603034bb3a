# SPDX-License-Identifier: Apache-2.0
"""The protocol's bytes, as far as tests need them to misbehave in ways that no library would."""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct
from dataclasses import dataclass

MAGIC = 0x54534E50
DEVICE_MAGIC = 0x44534E50
PROTOCOL = 1
HELLO, OPEN_CHECKPOINT, OPEN_TABLE, ADMIT, QUERY = 0x01, 0x02, 0x04, 0x06, 0x0C
HELLO_REPLY, REFUSED, FAILURE, CHECKPOINT_REPLY, TABLE_REPLY, ADMIT_REPLY = 0x41, 0x42, 0x44, 0x45, 0x46, 0x47
CLOSING = 0x81
FAULT, GRANTED = 0x01, 0x04
GRANTS, REVOKE, COMPLETION, DEVICE_CLOSING = 0x41, 0x42, 0x43, 0x44


@dataclass
class Message:
    """One datagram: its type, its bytes behind the header, its descriptors."""

    type: int
    body: bytes
    descriptors: list[int]


def send(link: socket.socket, kind: int, body: bytes, request: int = 1, descriptors: tuple[int, ...] = (),
         flags: int = 0) -> None:
    header = struct.pack("<IHHIIQ", MAGIC, kind, flags, 24 + len(body), len(descriptors), request)
    socket.send_fds(link, [header + body], list(descriptors))


def receive(link: socket.socket) -> Message:
    """Raises ConnectionError at a hang-up."""
    data, descriptors, _, _ = socket.recv_fds(link, 65536, 128)
    if not data:
        raise ConnectionError("hang-up")
    return Message(struct.unpack_from("<IHH", data)[1], data[24:], descriptors)


def hello(link: socket.socket, protocol: int = PROTOCOL, name: bytes = b"test", events: bool = False) -> Message:
    body = struct.pack("<IIII32s64s", protocol, 1, len(name), 0, b"0", name)
    send(link, HELLO, body, flags=1 if events else 0)
    return receive(link)


def failure_text(message: Message) -> str:
    """Message of a `failure`."""
    _, length = struct.unpack_from("<II", message.body)
    return message.body[16:16 + length].decode(errors="replace")


def send_checkpoint(link: socket.socket, descriptor: int, name: str, request: int = 2) -> None:
    """open_checkpoint of a file that is open here."""
    word = name.encode()
    body = struct.pack("<II256s", 1, len(word), word) + struct.pack("<II256s", 0, len(word), word)
    send(link, OPEN_CHECKPOINT, body, request, (descriptor,))


def ask_checkpoint(link: socket.socket, path: str, request: int = 2) -> None:
    """open_checkpoint without waiting for the answer."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        send_checkpoint(link, descriptor, os.path.basename(path), request)
    finally:
        os.close(descriptor)


def open_checkpoint(link: socket.socket, path: str, request: int = 2) -> Message:
    """The answer to open_checkpoint."""
    ask_checkpoint(link, path, request)
    return receive(link)


def open_table(link: socket.socket, checkpoint: int, request: int = 3) -> Message:
    body = struct.pack("<IIIIIIQQ", 0, 0, 0, 0, 0, 1, 0, 0) + struct.pack("<16Q", checkpoint, *([0] * 15))
    send(link, OPEN_TABLE, body, request)
    return receive(link)


def device_message(kind: int, table: int = 0, page: int = 0, count: int = 0, batch: int = 0, request: int = 0) -> bytes:
    return struct.pack("<IHHIIIIQQQBBHIQ", DEVICE_MAGIC, kind, 0, table, page, count, batch, request, 0, 0, 0, 0, 0, 0, 0)


@dataclass
class Attached:
    """A session that has a table of a checkpoint open."""

    control: socket.socket
    device: socket.socket
    table: int
    pages: int
    region: mmap.mmap  # The session's pin words.

    def pin(self, count: int) -> None:
        """Says that the first `count` pages are mapped here and pinned once."""
        for page in range(count):
            self.region[8 * page:8 * page + 8] = struct.pack("<Q", 1 << 62 | 1)


def attach(link: socket.socket, path: str, events: bool = False) -> Attached:
    """hello, open_checkpoint, open_table: all answers must be good."""
    assert hello(link, events=events).type == HELLO_REPLY
    opened = open_checkpoint(link, path)
    assert opened.type == CHECKPOINT_REPLY, failure_text(opened)
    table = open_table(link, struct.unpack_from("<Q", opened.body)[0])
    assert table.type == TABLE_REPLY, failure_text(table)
    number, _, pages = struct.unpack_from("<III", table.body)
    device = socket.socket(fileno=table.descriptors[-1])
    device.settimeout(20)
    region = mmap.mmap(table.descriptors[1], 0)
    for descriptor in opened.descriptors + table.descriptors[:-1]:
        os.close(descriptor)
    return Attached(link, device, number, pages, region)


def ask_admission(link: socket.socket, work_bytes: int, timeout_seconds: float, request: int = 9) -> None:
    """admit without waiting for the answer; all of the work or nothing."""
    send(link, ADMIT, struct.pack("<IIQQQQ", 0, 0, 0, work_bytes, work_bytes, int(timeout_seconds * 1e9)), request)


def receive_device(device: socket.socket) -> tuple[int, int, array.array[int]]:
    """Type and batch of a device message, and its descriptors."""
    data, descriptors, _, _ = socket.recv_fds(device, 65536, 128)
    if not data:
        raise ConnectionError("hang-up")
    fields = struct.unpack_from("<IHHIIII", data)
    return fields[1], fields[6], array.array("i", descriptors)
