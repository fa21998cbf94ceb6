#!/usr/bin/env python3
"""Small trees whose documents say too much or too little of the GPU, given to gpu_evidence.py."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gpu_evidence  # noqa: E402

MODEST = "Device code is compiled and emulated,\nnot run on a GPU."
PROUD = "These kernels were run on hardware."


class Tree:
    def __init__(self, folder, page, run_changes=None, run=True, readme=""):
        self.root = pathlib.Path(folder)
        for path, text in (("README.md", readme), ("docs/gpu.md", page), ("kernels/body/a_body.h", "a"),
                           ("kernels/cuda/runtime/launch.cu", "b"), ("kernels/cuda/runtime/notes.txt", "c")):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        evidence = {"fake": False, "sound": True, "sources": gpu_evidence.present_sources(self.root),
                    "stages": {name: {"verdict": "ok"} for name in gpu_evidence.STAGES},
                    "faults": {name: {"verdict": "found"} for name in gpu_evidence.FAULTS}}
        evidence.update(run_changes or {})
        (self.root / "docs/gpu-evidence.json").write_text(json.dumps({"format": 1, "run": evidence if run else None}))

    def findings(self):
        return list(gpu_evidence.findings(self.root))


def found(page, after=lambda root: None, **more):
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(folder, page, **more)
        after(tree.root)
        return tree.findings()


class GpuEvidence(unittest.TestCase):
    def test_without_a_run_the_modest_sentence_passes(self):
        self.assertEqual(found(MODEST, run=False), [])

    def test_without_a_run_the_modest_sentence_must_stand(self):
        self.assertEqual(found("GPUs are supported.", run=False),
                         ['docs/gpu.md does not say "compiled and emulated, not run on a GPU": there was no run'])

    def test_without_a_run_no_document_may_claim_one(self):
        self.assertEqual(found(MODEST, run=False, readme="All kernels were Run on\nhardware."),
                         ['README.md says "run on hardware": there was no run'])

    def test_with_a_run_the_proud_sentence_passes(self):
        self.assertEqual(found(PROUD), [])

    def test_with_a_run_the_modest_sentence_is_untrue(self):
        self.assertEqual(len(found(MODEST)), 2)

    def test_a_changed_body_takes_the_claim_away(self):
        self.assertIn('docs/gpu.md says "run on hardware": kernels/body/a_body.h has changed since',
                      found(PROUD, lambda root: (root / "kernels/body/a_body.h").write_text("A")))

    def test_a_changed_launcher_and_a_new_body_take_it_away(self):
        for path in ("kernels/cuda/runtime/launch.cu", "kernels/body/new_body.h"):
            self.assertIn(f'docs/gpu.md says "run on hardware": {path} has changed since',
                          found(PROUD, lambda root, path=path: (root / path).write_text("other")))

    def test_evidence_of_the_fake_device_is_none(self):
        self.assertIn('docs/gpu.md says "run on hardware": it comes from the fake device',
                      found(PROUD, run_changes={"fake": True}))

    def test_a_stage_that_failed_or_is_missing_takes_it_away(self):
        for stages in ({}, {name: {"verdict": "UNAVAILABLE"} for name in gpu_evidence.STAGES}):
            self.assertIn('docs/gpu.md says "run on hardware": stage operations is not ok',
                          found(PROUD, run_changes={"stages": stages}))

    def test_a_fault_that_was_not_found_takes_it_away(self):
        faults = {"sync": {"verdict": "found"}, "tf32": {"verdict": "UNAVAILABLE"}, "stride": {"verdict": "found"}}
        self.assertIn('docs/gpu.md says "run on hardware": the planted fault tf32 was not found',
                      found(PROUD, run_changes={"faults": faults}))


if __name__ == "__main__":
    unittest.main()
