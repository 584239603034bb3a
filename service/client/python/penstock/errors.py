# SPDX-License-Identifier: Apache-2.0
"""One exception for each kind of failure. The kinds are one closed list, the same as in the command line's JSON."""

from __future__ import annotations

__all__ = [
    "PenstockError", "LfsPointerError", "HtmlError", "JsonTextError", "ZipError", "PickleError", "GgufError",
    "UnknownFormatError", "EmptyFileError", "TruncatedError", "TrailingBytesError", "PreallocatedError",
    "HeaderTooLargeError", "InvalidHeaderError", "DuplicateTensorError", "HoleError", "OverlapError",
    "OverflowError", "UnknownDtypeError", "MisalignedDtypeError", "SizeMismatchError", "InvalidMetadataError",
    "ChangedWhileReadError", "IoError", "NotAFileError", "OffloadedError", "NeverFitsError",
    "ForeignUsageError", "HeadroomError", "QuotaError", "PinnedError", "FdLimitError", "DeviceUnhealthyError",
    "RevokeTimeoutError", "DeadlineError", "ExhaustedError", "WouldDeadlockError", "UnreachableError",
    "ProtocolMismatchError", "ProtocolViolationError", "ClosingError", "DisconnectedError", "ForkedError",
    "NotPermittedError", "NotFoundError", "InvalidArgumentError", "BusyError", "NotBuiltError",
    "UnsupportedError", "CancelledError", "UnpinnedError", "ConfigurationError", "AlreadyRunningError",
    "InternalError",
]

class PenstockError(Exception):
    """`kind` is stable and for programs; the text is for people; `hint` may be empty."""

    kind = "internal"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class LfsPointerError(PenstockError):
    """The file is a pointer of Git LFS."""

    kind = "lfs_pointer"


class HtmlError(PenstockError):
    """The file is a web page."""

    kind = "html"


class JsonTextError(PenstockError):
    """The file is JSON text."""

    kind = "json_text"


class ZipError(PenstockError):
    """The file is a zip archive."""

    kind = "zip"


class PickleError(PenstockError):
    """The file is a pickle."""

    kind = "pickle"


class GgufError(PenstockError):
    """The file is a GGUF model."""

    kind = "gguf"


class UnknownFormatError(PenstockError):
    """The file is of no known format."""

    kind = "unknown_format"


class EmptyFileError(PenstockError):
    """The file is empty."""

    kind = "empty_file"


class TruncatedError(PenstockError):
    """The file ends too early."""

    kind = "truncated"


class TrailingBytesError(PenstockError):
    """The file has bytes behind its tensors."""

    kind = "trailing_bytes"


class PreallocatedError(PenstockError):
    """The file's end was never written."""

    kind = "preallocated"


class HeaderTooLargeError(PenstockError):
    """The header is larger than allowed."""

    kind = "header_too_large"


class InvalidHeaderError(PenstockError):
    """The header breaks a rule."""

    kind = "invalid_header"


class DuplicateTensorError(PenstockError):
    """Two tensors have one name."""

    kind = "duplicate_tensor"


class HoleError(PenstockError):
    """Bytes belong to no tensor."""

    kind = "hole"


class OverlapError(PenstockError):
    """Two tensors share bytes."""

    kind = "overlap"


class OverflowError(PenstockError):
    """A size is too large to count."""

    kind = "overflow"


class UnknownDtypeError(PenstockError):
    """A dtype is not known."""

    kind = "unknown_dtype"


class MisalignedDtypeError(PenstockError):
    """A tensor of packed elements ends inside a byte."""

    kind = "misaligned_dtype"


class SizeMismatchError(PenstockError):
    """A tensor's bytes don't fit its shape."""

    kind = "size_mismatch"


class InvalidMetadataError(PenstockError):
    """The metadata breaks a rule."""

    kind = "invalid_metadata"


class ChangedWhileReadError(PenstockError):
    """The file changed while it was in use."""

    kind = "changed_while_read"


class IoError(PenstockError):
    """The file can't be read."""

    kind = "io_error"


class NotAFileError(PenstockError):
    """Not a regular file."""

    kind = "not_a_file"


class OffloadedError(PenstockError):
    """No room now: stream the bytes yourself."""

    kind = "offloaded"


class NeverFitsError(PenstockError):
    """More than the device can ever hold."""

    kind = "never_fits"


class ForeignUsageError(PenstockError):
    """Other processes use the device's memory."""

    kind = "foreign_usage"


class HeadroomError(PenstockError):
    """The memory is kept free."""

    kind = "headroom"


class QuotaError(PenstockError):
    """More than this user may use."""

    kind = "quota"


class PinnedError(PenstockError):
    """The memory is pinned by others."""

    kind = "pinned"


class FdLimitError(PenstockError):
    """Out of descriptors."""

    kind = "fd_limit"


class DeviceUnhealthyError(PenstockError):
    """The device doesn't work."""

    kind = "device_unhealthy"


class RevokeTimeoutError(PenstockError):
    """A client doesn't give pages back."""

    kind = "revoke_timeout"


class DeadlineError(PenstockError, TimeoutError):
    """Not within the time given."""

    kind = "deadline"


class ExhaustedError(PenstockError):
    """No memory left."""

    kind = "exhausted"


class WouldDeadlockError(PenstockError):
    """The wait would never end."""

    kind = "would_deadlock"


class UnreachableError(PenstockError):
    """No service listens."""

    kind = "unreachable"


class ProtocolMismatchError(PenstockError):
    """Service and library speak different protocols."""

    kind = "protocol_mismatch"


class ProtocolViolationError(PenstockError):
    """A rule of the protocol was broken."""

    kind = "protocol_violation"


class ClosingError(PenstockError):
    """The service stops."""

    kind = "closing"


class DisconnectedError(PenstockError):
    """The connection to the service is lost."""

    kind = "disconnected"


class ForkedError(PenstockError):
    """The handle was inherited by fork."""

    kind = "forked"


class NotPermittedError(PenstockError):
    """Not allowed."""

    kind = "not_permitted"


class NotFoundError(PenstockError):
    """There is no such thing."""

    kind = "not_found"


class InvalidArgumentError(PenstockError):
    """An argument makes no sense."""

    kind = "invalid_argument"


class BusyError(PenstockError):
    """In use."""

    kind = "busy"


class NotBuiltError(PenstockError):
    """Not there yet."""

    kind = "not_built"


class UnsupportedError(PenstockError):
    """Not possible here."""

    kind = "unsupported"


class CancelledError(PenstockError):
    """Cancelled."""

    kind = "cancelled"


class UnpinnedError(PenstockError):
    """Not pinned (any more)."""

    kind = "unpinned"


class ConfigurationError(PenstockError):
    """The configuration is wrong."""

    kind = "configuration"


class AlreadyRunningError(PenstockError):
    """A service runs already."""

    kind = "already_running"


class InternalError(PenstockError):
    """A defect."""

    kind = "internal"


KINDS: dict[str, type[PenstockError]] = {
    one.kind: one for one in PenstockError.__subclasses__()
}


def error(kind: str, message: str, hint: str = "") -> PenstockError:
    """A kind of a newer library is a plain PenstockError."""
    return KINDS.get(kind, PenstockError)(message, hint)
