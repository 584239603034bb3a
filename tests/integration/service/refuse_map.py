# SPDX-License-Identifier: Apache-2.0
"""Runs a program that is refused one of its BPF maps: a filter of system calls asks a child about each.

usage: refuse_map.py ERRNO NAME|NUMBER PROGRAM [ARGUMENT...]

NAME: each time that a map of this name is made. NUMBER: once, counted from 1.
"""

import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import sys

LOAD_WORD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ASK, ALLOW = 0x7FC00000, 0x7FFF0000
CALL_SECCOMP, SET_MODE_FILTER, NEW_LISTENER = 317, 1, 8
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
CALL_BPF, MAP_CREATE = 321, 0
RECEIVE, ANSWER = 0xC0502100, 0xC0182101  # struct seccomp_notif of 80 bytes, seccomp_notif_resp of 24.
CONTINUE = 1

FILTER = b"".join(struct.pack("<HBBI", *step) for step in (
    (LOAD_WORD, 0, 0, 0),               # The number.
    (IF_EQUAL, 0, 3, CALL_BPF),
    (LOAD_WORD, 0, 0, 16),              # The low half of the first argument.
    (IF_EQUAL, 0, 1, MAP_CREATE),
    (RETURN, 0, 0, ASK),
    (RETURN, 0, 0, ALLOW)))


def map_name(process: int, attributes: int) -> str:
    """Of union bpf_attr, which lies in the process's memory."""
    with open(f"/proc/{process}/mem", "rb") as memory:
        memory.seek(attributes + 28)
        return memory.read(16).split(b"\0")[0].decode()


def answer_all(listener: int, code: int, refused: str) -> None:
    """Until the last process under the filter is gone."""
    count = 0
    while True:
        request = bytearray(80)
        try:
            fcntl.ioctl(listener, RECEIVE, request)
            number, process = struct.unpack_from("<QI", request)
            count += 1
            attributes, = struct.unpack_from("<Q", request, 40)
            wrong = refused in (str(count), map_name(process, attributes))
            fcntl.ioctl(listener, ANSWER,
                        bytearray(struct.pack("<QqiI", number, 0, -code if wrong else 0, 0 if wrong else CONTINUE)))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINTR):
                return


def listen() -> int:
    steps = ctypes.create_string_buffer(FILTER, len(FILTER))
    filter_ = struct.pack("<HxxxxxxQ", len(FILTER) // 8, ctypes.addressof(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        sys.exit("no_new_privs: " + os.strerror(ctypes.get_errno()))
    listener: int = libc.syscall(CALL_SECCOMP, SET_MODE_FILTER, NEW_LISTENER, filter_)
    if listener < 0:
        sys.exit("seccomp: " + os.strerror(ctypes.get_errno()))
    return listener


def main() -> None:
    code, refused = getattr(errno, sys.argv[1]), sys.argv[2]
    ours, its = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        _, descriptors, _, _ = socket.recv_fds(its, 1, 1)
        its.send(b"1")
        answer_all(descriptors[0], code, refused)
        os._exit(0)
    its.close()
    listener = listen()
    socket.send_fds(ours, [b"0"], [listener])
    ours.recv(1)
    os.close(listener)
    ours.close()
    os.execv(sys.argv[3], sys.argv[3:])


if __name__ == "__main__":
    main()
