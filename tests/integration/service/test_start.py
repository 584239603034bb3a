# SPDX-License-Identifier: Apache-2.0
"""Starting: cases S03 (the metrics port) and S06 (misspelt configuration), with the real program."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

import daemon
from on_gpu import OnEachDevice


# Starting takes 30 ms; the bound is the case's. Programs with sanitizers start slowly.
LIMIT_SECONDS = 5.0 if daemon.SANITIZED else 1.0


def metrics(address: str) -> str:
    return f'[metrics]\nlisten = "{address}"\n'


class CaseS03(OnEachDevice, unittest.TestCase):
    def assert_refused(self, address: str, words: tuple[str, ...]) -> None:
        start = time.monotonic()
        with self.make(extra=metrics(address), wait=False) as refused:
            code = refused.process.wait(timeout=10)
            self.assertLess(time.monotonic() - start, LIMIT_SECONDS)
            self.assertNotEqual(0, code)
            for word in words:
                self.assertIn(word, refused.log())
            self.assertFalse(refused.socket.exists(), "the clients' socket must not have been made")

    def test_a_taken_port_ends_the_start_with_address_and_reason(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as holder:
            port = holder.getsockname()[1]
            self.assert_refused(f"127.0.0.1:{port}", (f"127.0.0.1:{port}", "in use"))

    def test_a_port_that_another_family_has_is_taken_too(self) -> None:
        with socket.create_server(("0.0.0.0", 0)) as holder:
            port = holder.getsockname()[1]
            self.assert_refused(f"[::]:{port}", (f"[::]:{port}", "in use"))

    def test_an_address_of_another_host_names_the_key(self) -> None:
        self.assert_refused("192.0.2.1:9836", ("metrics.listen", "192.0.2.1"))

    def test_a_port_out_of_range_is_a_configuration_error(self) -> None:
        done = daemon.run_daemon(metrics("127.0.0.1:70000"))
        self.assertEqual(2, done.returncode)
        self.assertIn("metrics.listen", done.stderr)

    def test_port_0_picks_one_that_is_logged_and_shown(self) -> None:
        with self.make() as running:
            address = running.ask("status")["metrics"]["address"]
            self.assertIn(address, running.log())
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as page:
                self.assertIn(b"penstock_build_info", page.read())
            with urllib.request.urlopen(f"http://{address}/readyz", timeout=5) as page:
                self.assertEqual(200, page.status)

    def test_metrics_are_off_only_when_asked(self) -> None:
        with self.make(extra=metrics("")) as running:
            self.assertEqual("", running.ask("status")["metrics"]["address"])

    def test_a_restart_at_once_gets_the_same_port(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        with self.make(extra=metrics(f"127.0.0.1:{port}")) as running:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
            running.process.kill()
            running.process.wait()
            running.log_path.write_text("")
            running.start()
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()

    def test_two_services_with_one_configuration_do_not_both_run(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        with self.make(extra=metrics(f"127.0.0.1:{port}")) as running:
            second = subprocess.run([daemon.PENSTOCKD, "--config", running.config], capture_output=True, text=True,
                                    check=False, timeout=10, env=running.environment)
            self.assertEqual(1, second.returncode)
            self.assertTrue(running.is_serving())


class CaseS03OnCuda(CaseS03):
    vendor = "cuda"


class CaseS03OnHip(CaseS03):
    vendor = "hip"


class CaseS06(unittest.TestCase):
    def refusal(self, config: str) -> str:
        done = daemon.run_daemon(config)
        self.assertEqual(2, done.returncode, done.stderr)
        checked = daemon.run_daemon(config, "--check-config")
        self.assertEqual(2, checked.returncode)
        return done.stderr

    def test_an_unknown_key_names_the_nearest_with_file_and_line(self) -> None:
        text = self.refusal('[device.host]\n\ncapacty = "20GiB"\n')
        self.assertIn("penstock.toml:3", text)
        self.assertIn("capacty", text)
        self.assertIn("capacity", text)

    def test_a_key_in_the_wrong_table_is_refused(self) -> None:
        self.assertIn("ring_bytes", self.refusal('[service]\nring_bytes = "32MiB"\n'))

    def test_bad_sizes_are_refused_naming_what_is_allowed(self) -> None:
        for value in ("-1", '"20GB"', "20000000000000000000", '"20.5 GiB"', "true"):
            with self.subTest(value):
                text = self.refusal(f"[device.host]\ncapacity = {value}\n")
                self.assertIn("device.host.capacity", text)

    def test_times_of_faults_without_probes_are_refused(self) -> None:
        text = self.refusal('[probes]\nebpf = "off"\ntime_faults = true\n')
        self.assertIn(":3: ", text)
        self.assertIn("probes.time_faults", text)

    def test_a_device_that_is_demanded_and_missing_ends_the_start(self) -> None:
        for text, words in (('[device.cuda]\nenabled = "on"\n', "device.cuda.enabled"),
                            ('[device.hip]\nenabled = "on"\n', "device.hip.enabled"),
                            ('[device.host]\nenabled = "off"\n', "no device")):
            with self.subTest(text), daemon.Daemon(wait=False, config='[metrics]\nlisten = ""\n' + text) as running:
                self.assertEqual(2, running.process.wait(timeout=10), running.log())
                self.assertIn(words, running.log())

    def test_a_device_larger_than_the_machine_is_refused_at_start(self) -> None:
        for text, words in (('[device.host]\ncapacity = "1PiB"\n', "more than the"),
                            ('[device.host]\nheadroom = "1PiB"\n', "leaves nothing")):
            with self.subTest(text), daemon.Daemon(wait=False, config='[metrics]\nlisten = ""\n' + text) as running:
                self.assertEqual(2, running.process.wait(timeout=10))
                self.assertIn(words, running.log())

    def test_all_problems_are_reported_at_once(self) -> None:
        text = self.refusal('[service]\nsoket = "/x"\n[log]\nlevel = "loud"\n')
        self.assertIn("soket", text)
        self.assertIn("log.level", text)

    def test_what_is_good_passes_the_check_and_prints_its_values(self) -> None:
        for config in ("", "\ufeff[log]\r\nlevel = \"debug\"\r\n", '[device.host]\ncapacity = "20 GiB"\n'):
            with self.subTest(config):
                self.assertEqual(0, daemon.run_daemon(config, "--check-config").returncode)
                printed = daemon.run_daemon(config, "--print-config")
                self.assertEqual(0, printed.returncode)
                self.assertEqual(printed.stdout, daemon.run_daemon(printed.stdout, "--print-config").stdout)

    def test_a_key_twice_in_one_file_is_refused_and_a_drop_in_overrides(self) -> None:
        self.refusal('[log]\nlevel = "info"\nlevel = "debug"\n')
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "penstock.toml"
            path.write_text('[log]\nlevel = "info"\n')
            drop_in = Path(folder) / "penstock.toml.d"
            drop_in.mkdir()
            (drop_in / "10-debug.toml").write_text('[log]\nlevel = "debug"\n')
            done = subprocess.run([daemon.PENSTOCKD, "--config", path, "--print-config"], capture_output=True, text=True,
                                  check=False, timeout=10)
            self.assertIn('level = "debug"', done.stdout)

    def test_missing_unreadable_and_doubled_files_are_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            good = Path(folder) / "good.toml"
            good.write_text("")
            for words in (["--config", f"{folder}/none.toml"], ["--config", folder], ["--config", str(good)] * 2,
                          ["--config"], ["--no-such-option"]):
                with self.subTest(words):
                    done = subprocess.run([daemon.PENSTOCKD, *words, "--check-config"], capture_output=True, text=True,
                                          check=False, timeout=10)
                    self.assertEqual(2, done.returncode)
                    self.assertNotEqual("", done.stderr)

    def test_an_unreadable_file_is_refused_for_others_than_root(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("requires root to become another user")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            path = Path(folder) / "penstock.toml"
            path.write_text("")
            path.chmod(0o000)
            done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", daemon.PENSTOCKD, "--config", path,
                                   "--check-config"], capture_output=True, text=True, check=False, timeout=10)
            if "setpriv" in done.stderr:
                self.skipTest("requires a build folder that other users can reach")
            self.assertEqual(2, done.returncode)


if __name__ == "__main__":
    unittest.main()
