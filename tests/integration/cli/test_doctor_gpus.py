# SPDX-License-Identifier: Apache-2.0
"""penstock doctor with fake drivers: the five states of a vendor, and the self-test of each GPU."""

import os
import subprocess
import sys
import tempfile
import unittest

from command import PROGRAM, penstock

BUILD = PROGRAM.parents[1]
FAKES = BUILD / "fakes"
# Nothing links a vendor's library, so that one binary runs everywhere.
PROGRAMS = ("bin/penstockd", "bin/penstock", "bin/penstock-writer", "lib/libpenstock.so.0")


def doctor(*vendors, **environment):
    variables = dict(os.environ, LD_LIBRARY_PATH=":".join(str(FAKES / vendor) for vendor in vendors), **environment)
    answer = penstock("--socket", "/nonexistent/penstock.sock", "--json", "doctor", env=variables)
    if answer.code != 0:
        raise AssertionError(answer.err)
    return answer.json


def state(report, vendor):
    return next(driver["state"] for driver in report["drivers"] if driver["vendor"] == vendor)


class DoctorGpus(unittest.TestCase):
    def test_each_gpu_passes_its_self_test(self):
        report = doctor("cuda", "hip", PENSTOCK_FAKE_DEVICES="2")
        self.assertEqual([state(report, "cuda"), state(report, "hip")], ["usable", "usable"])
        self.assertEqual(sorted(gpu["kind"] for gpu in report["gpus"]), ["cuda", "cuda", "hip", "hip"])
        for gpu in report["gpus"]:
            self.assertRegex(gpu["id"], "^(cuda|hip)-[0-9a-f]{8}$")
            self.assertTrue(gpu["self_test"]["passed"], gpu)
            self.assertEqual(("gfx90a" if gpu["kind"] == "hip" else "", False), (gpu["architecture"], gpu["experimental"]))
            check = next(check for check in report["checks"] if check["name"] == gpu["id"])
            self.assertEqual(check["state"], "ok")
        self.assertEqual(len({gpu["id"] for gpu in report["gpus"]}), 4)

    def test_a_gpu_that_fails_says_where(self):
        report = doctor("cuda", PENSTOCK_FAKE_FAULTS="cuMemMap:801")
        test = report["gpus"][0]["self_test"]
        self.assertFalse(test["passed"])
        self.assertEqual(test["steps"][-1], {"name": "map", "call": "cuMemMap", "code": 801})
        check = next(check for check in report["checks"] if check["name"] == report["gpus"][0]["id"])
        self.assertEqual(check["state"], "degraded")
        self.assertIn("cuMemMap answered 801 (not_supported)", check["detail"])

    def test_no_driver_is_no_problem(self):
        for library in ("libcuda.so.1", "libamdhip64.so.7", "libamdhip64.so.6"):
            if subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL('{library}')"], check=False,
                              stderr=subprocess.DEVNULL).returncode == 0:
                self.skipTest(f"requires a machine without {library}")
        report = doctor()
        self.assertEqual([state(report, "cuda"), state(report, "hip")], ["absent", "absent"])
        self.assertEqual(report["gpus"], [])

    def test_one_vendor_stands_for_itself(self):
        for vendor, other in (("cuda", "hip"), ("hip", "cuda")):
            report = doctor(vendor)
            self.assertEqual(state(report, vendor), "usable")
            self.assertNotEqual(state(report, other), "usable")
            self.assertEqual({gpu["kind"] for gpu in report["gpus"]} - {other}, {vendor})

    def test_a_broken_driver_says_what_to_do_and_leaves_the_other_alone(self):
        report = doctor("cuda", "hip", PENSTOCK_FAKE_FAULTS="cuInit:803")
        self.assertEqual([state(report, "cuda"), state(report, "hip")], ["broken", "usable"])
        check = next(check for check in report["checks"] if check["name"] == "CUDA driver")
        self.assertEqual(check["state"], "degraded")
        self.assertIn("803", check["detail"])
        self.assertNotEqual(check["remedy"], "")

    def test_it_says_whether_anybody_tells_what_others_use(self):
        report = doctor("cuda", PENSTOCK_FAKE_DEVICES="1")
        name = report["gpus"][0]["id"] + " usage"
        check = next(check for check in report["checks"] if check["name"] == name)
        self.assertEqual(("degraded", "what others use is not known: absent"), (check["state"], check["detail"]))
        if not (FAKES / "nvml").exists():
            self.skipTest(f"requires {FAKES / 'nvml'}")
        with tempfile.NamedTemporaryFile("w") as script:
            script.write(f"device GPU-{report['gpus'][0]['uuid']} 129 1073741824\nused 536870912\n")
            script.flush()
            report = doctor("cuda", "nvml", PENSTOCK_FAKE_NVML=script.name)
        check = next(check for check in report["checks"] if check["name"] == name)
        self.assertEqual(("ok", "512.0 MiB used"), (check["state"], check["detail"]))

    def test_it_says_which_gpus_there_is_code_for(self):
        report = doctor()
        check = next(check for check in report["checks"] if check["name"] == "device code")
        known = {one["architecture"]: one["missing"] for one in report["device_code"]}
        self.assertLessEqual({"sm_75", "sm_120", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"}, set(known))
        missing = {name for name, why in known.items() if why}
        expected = "ok" if not missing else "missing" if len(missing) == len(known) else "degraded"
        self.assertEqual(expected, check["state"], check)
        there, *rest = check["detail"].split("; missing:")
        self.assertEqual(set(known) - missing, set(there.split()) - {"none"})
        for name in missing:
            self.assertTrue(any(f" {name} " in part and known[name] in part for part in rest), check)

    def test_the_other_states(self):
        self.assertEqual(state(doctor("cuda", PENSTOCK_FAKE_STUB="1"), "cuda"), "without_device")
        self.assertEqual(state(doctor("hip", PENSTOCK_FAKE_DEVICES="0"), "hip"), "without_device")
        self.assertEqual(state(doctor("hip", PENSTOCK_FAKE_HIP_VERSION="5.2"), "hip"), "broken")
        # By its version, or because the library has no such function.
        for folder, more in (("hip", {"PENSTOCK_FAKE_HIP_VERSION": "7.2"}), ("hip_without_vmm", {}),
                             ("cuda", {"PENSTOCK_FAKE_CUDA_VERSION": "10010"})):
            with self.subTest(folder, **more):
                report = doctor(folder, **more)
                self.assertEqual(state(report, folder.split("_")[0]), "usable_without_vmm")
                self.assertNotIn("self_test", report["gpus"][0])
                check = next(check for check in report["checks"] if check["name"] == report["gpus"][0]["id"])
                self.assertEqual(check["state"], "degraded")
                self.assertIn("usable without sharing", check["detail"])
                self.assertIn("whole tables of their own", check["remedy"])

    def test_no_program_is_linked_with_a_driver(self):
        for program in PROGRAMS:
            path = BUILD / program
            if not path.exists():
                continue  # Not every build makes all of them.
            linked = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
            self.assertNotRegex(linked, r"lib(cuda|cudart|nvidia|amdhip|hsa|amd_smi|rocm)", program)


if __name__ == "__main__":
    unittest.main()
