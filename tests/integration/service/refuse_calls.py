# SPDX-License-Identifier: Apache-2.0
"""Runs a program under a seccomp filter that answers some system calls with an error, as a container's profile does.

usage: refuse_calls.py ERRNO NUMBER[,NUMBER...] PROGRAM [ARGUMENT...]
"""

import ctypes
import errno
import os
import struct
import sys

LOAD_NUMBER, IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ANSWER_ERROR, ALLOW = 0x00050000, 0x7FFF0000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER = 38, 22, 2


def program(code: int, numbers: list[int]) -> bytes:
    """Classic BPF: a jump over the refusal for each number."""
    steps = [struct.pack("<HBBI", LOAD_NUMBER, 0, 0, 0)]
    for number in numbers:
        steps.append(struct.pack("<HBBI", IF_EQUAL, 0, 1, number))
        steps.append(struct.pack("<HBBI", RETURN, 0, 0, ANSWER_ERROR | code))
    steps.append(struct.pack("<HBBI", RETURN, 0, 0, ALLOW))
    return b"".join(steps)


def main() -> None:
    code = getattr(errno, sys.argv[1])
    text = program(code, [int(number) for number in sys.argv[2].split(",")])
    steps = ctypes.create_string_buffer(text, len(text))
    filter_ = struct.pack("<HxxxxxxQ", len(text) // 8, ctypes.addressof(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, MODE_FILTER, filter_, 0, 0):
        sys.exit("seccomp: " + os.strerror(ctypes.get_errno()))
    os.execv(sys.argv[3], sys.argv[3:])


if __name__ == "__main__":
    main()
