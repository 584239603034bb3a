# SPDX-License-Identifier: Apache-2.0
"""Runs the built `penstock` program."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(os.environ["PENSTOCK_BUILD_DIR"]) / "bin" / "penstock"
LIMIT_SECONDS = 120


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def error(self):
        return self.json["error"]


def penstock(*words, **options):
    """`words` may be paths; `options` as of subprocess.run."""
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": LIMIT_SECONDS, **options}
    done = subprocess.run([PROGRAM, *words], check=False, **options)
    return Answer(done.returncode, (done.stdout or b"").decode(), (done.stderr or b"").decode())
