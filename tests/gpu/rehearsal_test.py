#!/usr/bin/env python3
"""scripts/gpu_check from end to end over the fake device, and over programs that answer badly: rehearsal_test.py BIN."""

import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/gpu_check"
BIN = pathlib.Path(sys.argv.pop()).resolve() if len(sys.argv) > 1 else ROOT / "build/dev/bin"

_loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", _loader))
_loader.exec_module(gpu_check)

# Answers every stage as it is told to: "0" and a sound finding, unless the name of the output says "fault".
STUB = """#!/bin/sh
stage=$1; out=$2
case $out in *fault-*) code=FAULT ;; *) code=STAGE ;; esac
if [ "$code" = 77 ]; then echo "gpu_check: no CUDA device: there is no driver" >&2; exit 77; fi
sound=true; [ "$code" = 0 ] || sound=false
echo "{\\"stage\\": \\"$stage\\", \\"device\\": {\\"name\\": \\"stub\\"}, \\"found\\": [{\\"sound\\": $sound}]}" >"$out"
exit "$code"
"""


def run(programs, out, *more):
    return subprocess.run([str(SCRIPT), "--prebuilt", str(programs), "--out", str(out), *more], capture_output=True, text=True,
                          check=False)


def run_stub(stage, fault):
    """(exit code, output, results) of a check whose stages and planted faults end with these codes."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program = folder / "gpu_check"
        program.write_text(STUB.replace("FAULT", str(fault)).replace("STAGE", str(stage)))
        program.chmod(0o755)
        done = run(folder, folder / "out", "--fake")
        results = folder / "out/results.json"
        return done.returncode, done.stdout, json.loads(results.read_text()) if results.exists() else {}


class Rehearsal(unittest.TestCase):
    def test_the_whole_check_over_the_fake_device(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            done = run(BIN, folder, "--fake")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for stage in gpu_check.STAGES:
                self.assertTrue(json.loads((folder / (stage + ".json")).read_text())["sound"])
            found = json.loads((folder / "gpu-evidence.json").read_text())["run"]
            self.assertTrue(found["fake"])
            self.assertEqual(found["device"]["name"], "emulated device")
            self.assertEqual({fault: found["faults"][fault]["verdict"] for fault in ("sync", "tf32", "stride")},
                             {"sync": "found", "tf32": "found", "stride": "found"})
            self.assertEqual({entry["verdict"] for entry in found["sanitizers"].values()}, {"UNAVAILABLE"})
            self.assertIn("kernels/body/norm_body.h", found["sources"])
            self.assertIn("kernels/cuda/runtime/launch.cu", found["sources"])
            self.assertEqual(len(found["lanes"]), 11)

    def test_sound_stages_and_found_faults_pass(self):
        code, text, _ = run_stub(stage=0, fault=1)
        self.assertEqual(code, 0, text)

    def test_a_stage_that_is_not_sound_fails(self):
        code, _, results = run_stub(stage=1, fault=1)
        self.assertEqual(code, 1)
        self.assertEqual(results["stages"]["operations"]["verdict"], "FAILED")

    def test_a_stage_that_ends_otherwise_fails(self):
        code, _, results = run_stub(stage=2, fault=1)
        self.assertEqual(code, 1)
        self.assertEqual(results["stages"]["lanes"]["verdict"], "FAILED")

    def test_a_planted_fault_that_is_not_found_fails(self):
        for fault in (0, 2, 139):
            code, _, results = run_stub(stage=0, fault=fault)
            self.assertEqual(code, 1)
            self.assertEqual(results["faults"]["tf32"]["verdict"], "FAILED")

    def test_no_device_is_skipped_with_its_reason(self):
        code, text, _ = run_stub(stage=77, fault=77)
        self.assertEqual(code, 77)
        self.assertIn("SKIPPED: gpu_check: no CUDA device: there is no driver", text)

    def test_a_folder_without_programs_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run(folder, folder, "--fake").returncode, 2)


class Tools(unittest.TestCase):
    def test_verdicts_of_a_tool(self):
        clean = "========= ERROR SUMMARY: 0 errors"
        self.assertEqual(gpu_check.judge_tool(0, clean), ("ok", ""))
        self.assertEqual(gpu_check.judge_tool(99, "========= RACECHECK SUMMARY: 2 hazards")[0], "FAILED")
        self.assertEqual(gpu_check.judge_tool(1, clean)[0], "FAILED")

    def test_a_tool_that_says_nothing_or_cannot_run_is_no_pass(self):
        for code, text in ((0, ""), (0, "Error: Device not supported. ERROR SUMMARY: 0 errors"), (None, "ERROR SUMMARY: 0 errors"),
                           (1, "Unable to find injection library")):
            self.assertEqual(gpu_check.judge_tool(code, text)[0], "UNAVAILABLE")


if __name__ == "__main__":
    unittest.main()
