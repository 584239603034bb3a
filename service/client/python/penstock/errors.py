# SPDX-License-Identifier: Apache-2.0
"""One exception class for each kind of failure; `PenstockError` is the base of all."""

from __future__ import annotations

KINDS = (
    "lfs_pointer", "html", "json_text", "zip", "pickle", "gguf", "unknown_format", "empty_file", "truncated",
    "trailing_bytes", "preallocated", "header_too_large", "invalid_header", "duplicate_tensor", "hole", "overlap",
    "overflow", "unknown_dtype", "misaligned_dtype", "size_mismatch", "invalid_metadata", "changed_while_read",
    "io_error", "not_a_file", "offloaded", "never_fits", "foreign_usage", "headroom", "quota", "pinned", "fd_limit",
    "device_unhealthy", "revoke_timeout", "deadline", "exhausted", "would_deadlock", "unreachable",
    "protocol_mismatch", "protocol_violation", "closing", "disconnected", "forked", "not_permitted", "not_found",
    "invalid_argument", "busy", "not_built", "unsupported", "cancelled", "unpinned", "configuration",
    "already_running", "internal",
)


class PenstockError(Exception):
    """What went wrong: `kind` (stable, snake case), `message` (one line), `hint` (remedy, may be empty)."""

    kind = "internal"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message = message
        self.hint = hint


def _class_name(kind: str) -> str:
    name = "".join(part.capitalize() for part in kind.split("_"))
    return name if name.endswith("Error") else name + "Error"


CLASSES: dict[str, type[PenstockError]] = {
    kind: type(_class_name(kind), (PenstockError,), {"kind": kind, "__module__": __name__}) for kind in KINDS
}
for _class in CLASSES.values():
    globals()[_class.__name__] = _class

# Those that programs name most, for type checkers.
UnpinnedError: type[PenstockError] = CLASSES["unpinned"]
ForkedError: type[PenstockError] = CLASSES["forked"]
OffloadedError: type[PenstockError] = CLASSES["offloaded"]
UnreachableError: type[PenstockError] = CLASSES["unreachable"]
DeadlineError: type[PenstockError] = CLASSES["deadline"]
NotFoundError: type[PenstockError] = CLASSES["not_found"]
DisconnectedError: type[PenstockError] = CLASSES["disconnected"]


def error(kind: str, message: str, hint: str = "") -> PenstockError:
    """The exception for a kind; an unknown kind is internal."""
    return CLASSES.get(kind, PenstockError)(message, hint)
