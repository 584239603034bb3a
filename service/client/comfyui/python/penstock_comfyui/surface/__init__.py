# SPDX-License-Identifier: Apache-2.0
"""The modules of comfy_aimdo, 0.4.10 to 0.6.0, by their names there."""
