# SPDX-License-Identifier: Apache-2.0
"""What a user gets from `cmake --install`: a program finds, links and runs the library, two ways."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "service"))

import processes  # noqa: E402

BUILD = Path(os.environ["PENSTOCK_BUILD_DIR"])
SOURCE = Path(os.environ["PENSTOCK_SOURCE_DIR"])
LIBRARY = BUILD / "lib" / "libpenstock.so.0"

PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES C)
find_package(penstock 0.1 REQUIRED)
add_executable(user user.c)
target_link_libraries(user PRIVATE penstock::penstock)
"""
PROGRAM = """
#include <penstock.h>
#include <stdio.h>
int main(void) {
  pst_connect_options options = {.size = sizeof options, .socket = "/nonexistent"};
  pst_client *client = NULL;
  printf("%s %s\\n", pst_version(), pst_status_name(pst_connect(&options, &client)));
  return 0;
}
"""


def run(*words: str | Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


def sanitized() -> bool:
    cache = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    return any(line.startswith("PENSTOCK_SANITIZE:") and line.partition("=")[2] for line in cache.splitlines())


@unittest.skipUnless(LIBRARY.exists(), f"requires {LIBRARY}")
@unittest.skipIf(sanitized(), "requires a build without sanitizers")
class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="penstock-install-")))
        cls.prefix = cls.folder / "prefix"
        for component in ("library", "development", "python", "service"):
            run("cmake", "--install", BUILD, "--component", component, "--prefix", cls.prefix)
        (cls.folder / "user.c").write_text(PROGRAM, encoding="utf-8")
        (cls.folder / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")

    def library_folder(self) -> Path:
        return next(self.prefix.rglob("libpenstock.so.0")).parent

    def test_cmake_finds_it(self) -> None:
        build = self.folder / "build"
        run("cmake", "-S", self.folder, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        self.assertEqual("0.1.0 unreachable\n", run(build / "user"))

    @unittest.skipUnless(shutil.which("pkg-config"), "requires pkg-config")
    def test_pkg_config_finds_it(self) -> None:
        found = {"PKG_CONFIG_PATH": str(self.library_folder() / "pkgconfig")}
        # The file says where it was configured to be installed; this is another place.
        flags = run("pkg-config", f"--define-variable=prefix={self.prefix}", "--cflags", "--libs", "penstock",
                    environment=found).split()
        run("cc", self.folder / "user.c", "-o", self.folder / "user", *flags)
        environment = {"LD_LIBRARY_PATH": str(self.library_folder())}
        self.assertEqual("0.1.0 unreachable\n", run(self.folder / "user", environment=environment))

    def test_the_service_finds_its_writer(self) -> None:
        fakes = BUILD / "fakes/cuda"
        if not (fakes / "libcuda.so.1").exists():
            self.skipTest(f"requires {fakes}")
        self.assertTrue((self.prefix / "libexec/penstock/penstock-writer").exists())
        self.assertFalse((self.prefix / "bin/penstock-writer").exists(), "it is no command for people")
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="penstock-install-")))
        (folder / "penstock.toml").write_text(f'[service]\nsocket = "{folder}/run/penstock.sock"\nsocket_group = ""\n'
                                              '[metrics]\nlisten = ""\n[device.cuda]\nenabled = "on"\n', encoding="utf-8")
        environment = {**os.environ, "LD_LIBRARY_PATH": f"{fakes}:{self.library_folder()}",
                       "PENSTOCK_FAKE_DEVICE_BYTES": "1GiB", "PENSTOCK_SOCKET": f"{folder}/run/penstock.sock"}
        with subprocess.Popen([self.prefix / "bin/penstockd", "--config", folder / "penstock.toml"], text=True,
                              stderr=subprocess.PIPE, env=environment) as service:
            assert service.stderr is not None
            try:
                lines = []
                while not lines or (lines[-1] and "ready: penstockd" not in lines[-1]):
                    lines.append(service.stderr.readline())
                self.assertIn("ready: penstockd", lines[-1], "".join(lines))
                status = run(self.prefix / "bin/penstock", "--json", "status", environment=environment)
                self.assertEqual("ready", json.loads(status)["devices"][0]["state"])
                programs = [os.path.realpath(f"/proc/{pid}/exe") for pid in processes.children_of(service.pid)]
                self.assertEqual([os.path.realpath(self.prefix / "libexec/penstock/penstock-writer")], programs)
            finally:
                service.terminate()

    def test_the_python_package_is_whole(self) -> None:
        package = self.prefix / "lib/python3/dist-packages/penstock"
        wanted = {path.name for path in (SOURCE / "service/client/python/penstock").iterdir() if path.is_file()}
        self.assertEqual(wanted, {path.name for path in package.iterdir()})
        self.assertIn("py.typed", wanted)


if __name__ == "__main__":
    unittest.main()
