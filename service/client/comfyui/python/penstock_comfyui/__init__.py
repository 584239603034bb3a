# SPDX-License-Identifier: Apache-2.0
"""ComfyUI's weights in pages of penstockd."""

__version__ = "0.1.0"
