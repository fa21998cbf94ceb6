#!/usr/bin/env python3
"""compare.py between workers that only pretend: each says what a step took and what its weights are."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))

PRETENDER = """#!{python}
import array, json, os, sys
for line in sys.stdin:
    words = line.rstrip("\\n").split(" ", 3)
    answer = {{}}
    if words[0] == "about":
        answer = {{"processor": "none", "compiler": "none", "variants": {variants},
                   "peer": "torch", "version": "1", "python": "3"}}
    elif words[0] == "make":
        with open(os.path.join(words[3], "weights.f32"), "wb") as file:
            array.array("f", [0, 0]).tofile(file)
        answer = {{"parameters": 2, "flops": 1000, "weight_bytes": 24}}
    elif words[0] == "variants":
        answer = {{"variants": {variants}}}
    elif words[0] == "ceilings":
        answer = {{"gflops": 1, "gbytes": 1}}
    elif words[0] == "run":
        answer = {{"cpu": int(words[2]) * {us}e-6, "wall": int(words[2]) * {us}e-6, "loss": 1}}
    elif words[0] == "weights":
        with open(words[2], "wb") as file:
            array.array("f", [0.5, float("{weight}")]).tofile(file)
    elif words[0] == "open" and "{failure}":
        answer = {{"error": "{failure}"}}
    print(json.dumps(answer), flush=True)
"""


def pretender(folder, name, us, weight="0.25", variants=("eager",), failure=""):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(PRETENDER.format(python=sys.executable, us=us, weight=weight, variants=json.dumps(variants),
                                    failure=failure))
    os.chmod(path, 0o755)
    return path


def compare(case="2nn:10", **peer):
    """(exit code, output, what --json wrote) of ours at 10 us a step and one peer."""
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        done = subprocess.run(
            [sys.executable, os.path.join(HERE, "compare.py"), "--worker", pretender(folder, "ours", 10),
             "--torch-python", pretender(folder, "peer", **peer), "--cases", case, "--pairs", "3", "--json", result],
            capture_output=True, text=True, check=False)
        facts = None
        if os.path.exists(result):
            with open(result, encoding="utf-8") as file:
                facts = json.load(file)
        return done.returncode, done.stdout + done.stderr, facts


class Compare(unittest.TestCase):
    def test_a_ratio_is_the_peers_time_over_ours(self):
        code, _, facts = compare(us=40)
        self.assertEqual(code, 0)
        row = facts["results"][0]["peers"][0]
        for figure in ("ratio", "smallest", "largest"):
            self.assertAlmostEqual(row[figure], 4)
        self.assertEqual(row["difference"], 0)

    def test_a_missed_bar_fails(self):
        code, output, facts = compare(us=29)
        self.assertEqual(code, 1)
        self.assertIn("3x MISSED", output)
        self.assertFalse(facts["verdicts"][0]["bar_is_met"])

    def test_an_aim_that_is_not_reached_does_not_fail(self):
        code, output, _ = compare(us=40)
        self.assertEqual(code, 0)
        self.assertIn("3x met, aim 5x not reached", output)

    def test_the_fastest_variant_decides_but_one_by_hand_is_apart(self):
        _, _, facts = compare(us=40, variants=("eager", "by_hand"))
        self.assertEqual([(v["kind"], v["bar"]) for v in facts["verdicts"]], [("torch", 3), ("torch by hand", None)])

    def test_other_weights_fail(self):
        code, output, _ = compare(us=40, weight="0.2502")
        self.assertEqual(code, 1)
        self.assertIn("TOO MUCH", output)

    def test_weights_that_are_no_numbers_fail(self):
        code, output, _ = compare(us=40, weight="nan")
        self.assertEqual(code, 1)
        self.assertIn("TOO MUCH", output)

    def test_a_failing_peer_is_named(self):
        code, output, facts = compare(us=40, failure="no memory")
        self.assertEqual(code, 1)
        self.assertIn("compare: torch: no memory", output)
        self.assertIsNone(facts)

    def test_an_unknown_case_is_refused_with_those_there_are(self):
        code, output, _ = compare(case="2nn:11", us=40)
        self.assertEqual(code, 2)
        self.assertIn('no case "2nn:11"; there are softmax:10', output)


if __name__ == "__main__":
    unittest.main()
