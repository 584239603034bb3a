# SPDX-License-Identifier: Apache-2.0
"""The service with frames of a GPU, by a fake driver, in the place of host memory: for tests that the device must not
matter to."""

from __future__ import annotations

from pathlib import Path

import daemon


class OnGpu(daemon.Daemon):
    """As daemon.Daemon: pages as small as those of host memory, and as many."""

    def __init__(self, vendor: str, capacity: str = "256MiB", extra: str = "", wait: bool = True,
                 environment: dict[str, str] | None = None, device_bytes: str = "1GiB") -> None:
        self.vendor = vendor
        super().__init__(capacity=capacity, extra=extra, wait=wait,
                         environment={"LD_LIBRARY_PATH": str(daemon.BUILD / "fakes" / vendor),
                                      "PENSTOCK_FAKE_DEVICE_BYTES": device_bytes,
                                      "PENSTOCK_FAKE_STREAM_DELAY_US": "20", **(environment or {})})

    def default_config(self, capacity: str, extra: str) -> str:
        return (f'[service]\nsocket = "{self.socket}"\nsocket_group = ""\nrevoke_deadline = "300ms"\n'
                f'[host]\nlocked_bytes = "0"\n'  # Whose copies would be left, and are meant to.
                f'[device.{self.vendor}]\npage_bytes = "8MiB"\ncapacity = "{capacity}"\n'
                + ('' if "[metrics]" in extra else '[metrics]\nlisten = "127.0.0.1:0"\n') + extra)


class OnEachDevice:
    """A test case that is run on host memory, and by a subclass for each vendor of GPUs on frames of theirs."""

    vendor = "host"

    def make(self, capacity: str = "256MiB", extra: str = "", wait: bool = True,
             environment: dict[str, str] | None = None) -> daemon.Daemon:
        if self.vendor == "host":
            return daemon.Daemon(capacity=capacity, extra=extra, wait=wait, environment=environment)
        folder: Path = daemon.BUILD / "fakes" / self.vendor
        if not any(folder.glob("lib*.so*")):
            self.skipTest(f"requires the fake drivers in {folder}")  # type: ignore[attr-defined]
        return OnGpu(self.vendor, capacity, extra, wait, environment)
