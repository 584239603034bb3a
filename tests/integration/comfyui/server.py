# SPDX-License-Identifier: Apache-2.0
"""A ComfyUI server of a test's own."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COMFYUI = os.environ.get("PENSTOCK_COMFYUI_DIR", "")
PYTHON = os.environ.get("PENSTOCK_COMFYUI_PYTHON", "")
NODE = Path(os.environ["PENSTOCK_BUILD_DIR"]) / "comfyui/penstock"


def missing() -> str:
    """What it takes to run these tests and isn't there; empty: nothing."""
    for name, value, path in (("PENSTOCK_COMFYUI_DIR", COMFYUI, "main.py"), ("PENSTOCK_COMFYUI_PYTHON", PYTHON, "")):
        if not value or not (Path(value) / path).exists():
            return f"requires {name}"
    return ""


def workflow(seed: int = 7, lora: float = 1.0, model: str = "flux.safetensors", gate: Path | None = None,
             held: Path | None = None) -> dict[str, Any]:
    """`gate`: a file that the workflow waits for between sampling and decoding; GATE.reached says that it got there. `held`: one
    that it waits for between two steps of sampling, likewise."""
    def node(kind: str, **inputs: Any) -> dict[str, Any]:
        return {"class_type": kind, "inputs": inputs}

    return {
        "model": node("UNETLoader", unet_name=model, weight_dtype="default"),
        "lora": node("LoraLoaderModelOnly", model=["model", 0], lora_name="lora.safetensors", strength_model=lora),
        "vae": node("VAELoader", vae_name="taesd.safetensors"),
        "text": node("TestConditioning", seed=1),
        "latent": node("EmptySD3LatentImage", width=128, height=128, batch_size=1),
        **({"held": node("TestHeld", model=["lora", 0], path=str(held))} if held is not None else {}),
        "sample": node("KSampler", model=["lora" if held is None else "held", 0], positive=["text", 0], negative=["text", 0], latent_image=["latent", 0],
                       seed=seed, steps=2, cfg=1.0, sampler_name="euler", scheduler="simple", denoise=1.0),
        **({"gate": node("TestGate", samples=["sample", 0], path=str(gate))} if gate is not None else {}),
        "decode": node("VAEDecode", samples=["sample" if gate is None else "gate", 0], vae=["vae", 0]),
        "save": node("SaveImage", images=["decode", 0], filename_prefix="test"),
    }


def two_loaders(other: str, seed: int = 7) -> dict[str, Any]:
    """A picture ("save") of the model with the LoRA, and one ("other") of the same by another name without it."""
    graph = workflow(seed=seed)
    inputs = {**graph["sample"]["inputs"], "model": ["other_model", 0]}
    return {**graph, "other_model": workflow(model=other)["model"],
            "other_sample": {"class_type": "KSampler", "inputs": inputs},
            "other_decode": {"class_type": "VAEDecode", "inputs": {"samples": ["other_sample", 0], "vae": ["vae", 0]}},
            "other": {"class_type": "SaveImage", "inputs": {"images": ["other_decode", 0], "filename_prefix": "other"}}}


class Comfy:
    """Started at once; the end of the `with` stops it. A folder that has been used is used as it is.

    `on_host`: DynamicVRAM over host memory. `front`: the folder of its page; without it there is none. `main`: another copy of
    ComfyUI's. `paths`: where Python looks first.
    """

    def __init__(self, folder: Path, models: Path, options: tuple[str, ...] = (), on_host: bool = False,
                 penstock: Path | None = None, front: Path | None = None, main: Path | None = None,
                 paths: Path | None = None) -> None:
        self.folder = folder
        if not (folder / "custom_nodes").exists():
            self._fill(models, penstock is not None)
        environment = dict(os.environ, OMP_NUM_THREADS="2", MKL_NUM_THREADS="2", PYTHONDONTWRITEBYTECODE="1")
        environment.pop("PYTHONPATH", None)
        if paths is not None:
            environment["PYTHONPATH"] = str(paths)
        if penstock is not None:
            environment["PENSTOCK_SOCKET"] = str(penstock)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        program = [str(main or Path(COMFYUI) / "main.py")]
        flags = ["--enable-dynamic-vram"] if on_host else []
        self.log_path = folder / "log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [PYTHON, *([str(HERE / "on_host.py")] if on_host else []), *program, "--cpu", *flags, *options,
                 "--listen", "127.0.0.1", "--port", str(self.port), "--base-directory", str(folder), "--temp-directory",
                 str(folder / "temp"), "--database-url", "sqlite:///:memory:", "--disable-api-nodes", "--dont-print-server",
                 "--front-end-root", str(front or folder / "front")],
                cwd=folder, stdout=log, stderr=subprocess.STDOUT, env=environment)
        self.wait(lambda: self.answers("/system_stats"), 600)

    def _fill(self, models: Path, ours: bool) -> None:
        nodes = self.folder / "custom_nodes"
        nodes.mkdir(parents=True)
        (self.folder / "models").symlink_to(models)
        (self.folder / "front").mkdir()
        (self.folder / "front/index.html").write_text("")
        shutil.copytree(HERE / "nodes/test_conditioning", nodes / "test_conditioning")
        if ours:
            shutil.copytree(NODE, nodes / "penstock")

    def __enter__(self) -> Comfy:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def ask(self, path: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            content: bytes = reply.read()
            return content

    def answers(self, path: str) -> bool:
        try:
            return bool(self.ask(path))
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def wait(self, condition: Any, seconds: float) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            if self.process.poll() is not None:
                raise RuntimeError(f"ComfyUI ended with {self.process.returncode}:\n{self.log()[-4000:]}")
            time.sleep(0.05)
        raise RuntimeError(f"ComfyUI did not get there:\n{self.log()[-4000:]}")

    def submit(self, graph: dict[str, Any]) -> str:
        return str(json.loads(self.ask("/prompt", {"prompt": graph}))["prompt_id"])

    def ended(self, prompt: str) -> Any:
        entry = self.wait(lambda: json.loads(self.ask(f"/history/{prompt}")).get(prompt), 600)
        if entry["status"]["status_str"] != "success":
            raise RuntimeError(f"{entry['status']['messages'][-1]}\n{self.log()[-3000:]}")
        return entry

    def image(self, prompt: str, node: str = "save") -> bytes:
        """The pixels that the prompt made."""
        entry = self.ended(prompt)
        image = entry["outputs"][node]["images"][0]
        return pixels(self.ask(f"/view?filename={image['filename']}&subfolder={image['subfolder']}&type={image['type']}"))

    def remembered(self, prompt: str) -> list[str]:
        """Its nodes that were not run, since ComfyUI knew what they make."""
        messages = self.ended(prompt)["status"]["messages"]
        return [str(node) for kind, told in messages if kind == "execution_cached" for node in told["nodes"]]

    def run(self, **changes: Any) -> bytes:
        return self.image(self.submit(workflow(**changes)))

    def load(self) -> None:
        """Until the weights are ready."""
        graph = workflow()
        self.ended(self.submit({"model": graph["model"], "end": {"class_type": "TestLoaded",
                                                                 "inputs": {"model": ["model", 0]}}}))

    def free(self) -> None:
        self.ask("/free", {"unload_models": True, "free_memory": True})


def pixels(png: bytes) -> bytes:
    """The compressed pixels: metadata, in other chunks, names the workflow."""
    at, data = 8, io.BytesIO()
    while at < len(png):
        size = int.from_bytes(png[at:at + 4], "big")
        if png[at + 4:at + 8] in (b"IHDR", b"IDAT"):
            data.write(png[at + 8:at + 8 + size])
        at += 12 + size
    return data.getvalue()
