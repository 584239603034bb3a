# SPDX-License-Identifier: Apache-2.0
"""What the panel in ComfyUI's page shows, over ComfyUI's own server: read-only, asked for while the panel is open.

The service is asked on another thread than the server's, which may not wait.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import penstock
from penstock_comfyui.link import AWAY, link

DECISIONS_MAX = 100
_MARK = "_penstock"
PATHS = {"status": "/penstock/status", "explain": "/penstock/explain"}

_Answer = tuple[int, dict[str, Any]]  # HTTP status, JSON.


def install() -> bool:
    """Adds the routes. False: penstock is not used here, so there is nothing to show. REQUIRES: the server is there."""
    if getattr(sys.modules.get("comfy_aimdo.control"), "__name__", "") != "penstock_comfyui.surface.control":
        return False
    server: Any = importlib.import_module("server").PromptServer.instance
    if hasattr(server, _MARK):
        return True
    web: Any = importlib.import_module("aiohttp.web")
    for what, path in PATHS.items():
        server.routes.get(path)(_handler(_ANSWERS[what], web))
    setattr(server, _MARK, True)
    return True


def _handler(answer: Callable[[], _Answer], web: Any) -> Any:
    async def handle(_request: Any) -> Any:
        code, content = await asyncio.get_running_loop().run_in_executor(None, answer)
        return web.json_response(content, status=code, headers={"Cache-Control": "no-store"})

    return handle


def status() -> _Answer:
    """As `penstock status`, and which client this process is. Without paths: the page may be shown to others than the user
    of this process."""

    def ask(service: penstock.Service) -> dict[str, Any]:
        found = link.answer(service.status)
        for checkpoint in found.get("checkpoints", ()):
            checkpoint.pop("path", None)
        found.pop("metrics", None)
        return {"pid": os.getpid(), "status": found}

    return _asked(ask)


def explain() -> _Answer:
    """The latest decisions, newest first."""
    def ask(service: penstock.Service) -> dict[str, Any]:
        return {"decisions": link.answer(lambda: service.query("explain")).get("decisions", [])[-DECISIONS_MAX:][::-1]}

    return _asked(ask)


def _asked(ask: Callable[[penstock.Service], dict[str, Any]]) -> _Answer:
    service = link.service()
    if service is None:
        return 503, _error("unreachable", "the service is not there")
    try:
        return 200, ask(service)
    except AWAY as error:
        link.away(error)
        return 503, _error(error.kind, str(error))
    except penstock.PenstockError as error:
        return 502, _error(error.kind, str(error))


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message}}


_ANSWERS = {"status": status, "explain": explain}
