#!/usr/bin/env python3
"""What of the examples and of the package needs no aggregator, over the library without a network.

    examples_test.py PREFIX [-v]

PREFIX is laid out as an installed library: PREFIX/lib/cmake/SkepClient, PREFIX/lib/pkgconfig.
"""

import importlib.util
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = os.path.abspath("examples")
PREFIX = None


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def run_quietly(self, *command, **environment):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250,
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def needs(self, module):
        if importlib.util.find_spec(module) is None:
            self.skipTest(f"{module} is not installed")


class Package(Case):
    def test_a_version_that_is_not_this_one_is_refused(self):
        if shutil.which("cmake") is None:
            self.skipTest("cmake is not installed")
        with open(os.path.join(self.folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.25)\nproject(p NONE)\n"
                       "find_package(SkepClient 0.2 CONFIG REQUIRED)\n")
        done = subprocess.run(["cmake", "-S", self.folder, "-B", self.folder + "/b", f"-DCMAKE_PREFIX_PATH={PREFIX}"],
                              capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("version: 0.1.0", done.stderr)


class Torch(Case):
    def test_the_torch_trainer_compiles(self):
        py_compile.compile(os.path.join(EXAMPLES, "python_app/torch_trainer.py"),
                           cfile=os.path.join(self.folder, "torch_trainer.pyc"), doraise=True)

    def test_the_torch_trainer_trains_and_evaluates(self):
        self.needs("torch")
        self.needs("numpy")
        program = os.path.join(self.folder, "main.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(TORCH_PROGRAM)
        said = self.run_quietly(sys.executable, program, os.path.join(self.folder, "state"),
                                PYTHONPATH=os.environ["PYTHONPATH"] + ":" + os.path.join(EXAMPLES, "python_app"))
        self.assertEqual(said, "changed 32\n['accuracy']\n")


TORCH_PROGRAM = """
import sys, numpy, skep, torch
from torch_trainer import TorchTrainer
network = torch.nn.Linear(2, 10)
x = numpy.random.default_rng(1).normal(size=(32, 2)).astype(numpy.float32)
for script in ("", "evaluate"):
    with skep.Client(data=(x, (x[:, 0] > 0).astype(int)), storage_dir=sys.argv[1], endpoint=script,
                     trainer=TorchTrainer(network)) as client:
        outcome = client.run_once()
        if script == "":
            print("changed" if not bool((network.weight == 0.5).all()) else "the same", outcome.num_examples)
        else:
            print(client.history()[0]["metrics"])
"""


if __name__ == "__main__":
    PREFIX = os.path.abspath(sys.argv.pop(1))
    os.environ["LD_LIBRARY_PATH"] = PREFIX + "/lib"
    unittest.main()
