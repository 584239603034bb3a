# SPDX-License-Identifier: Apache-2.0
"""Tests of penstock's ComfyUI node. What is imported here is the assembled folder of the build tree."""

import os
import sys
from pathlib import Path

FOLDER = Path(os.environ["PENSTOCK_BUILD_DIR"]) / "comfyui/penstock"
sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/service"))
sys.path.append(str(FOLDER / "python"))
