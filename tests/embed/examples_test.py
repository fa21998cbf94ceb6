#!/usr/bin/env python3
"""Builds and runs the examples of embedding as their readers would, over the library without a network.

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
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.join_file = os.path.join(self.folder, "join.txt")
        with open(self.join_file, "w", encoding="utf-8") as file:
            file.write("skep-join:not-a-real-one\n")

    def run_quietly(self, *command, **environment):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250,
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def check_in(self, *program):
        said = self.run_quietly(*program, "--join-file", self.join_file, "--storage",
                                os.path.join(self.folder, "state"))
        self.assertRegex(said, r"(SKEP_)?OK: .*; come back in \d+ s\n$")
        return said

    def build_with_cmake(self, example):
        if shutil.which("cmake") is None:
            self.skipTest("cmake is not installed")
        build = os.path.join(self.folder, "build")
        self.run_quietly("cmake", "-S", os.path.join(EXAMPLES, example), "-B", build, f"-DCMAKE_PREFIX_PATH={PREFIX}",
                         f"-DCMAKE_C_FLAGS={WARNINGS}", f"-DCMAKE_CXX_FLAGS={WARNINGS}")
        self.run_quietly("cmake", "--build", build)
        return os.path.join(build, "pump")

    def build_with_pkg_config(self, compiler, standard, source):
        if shutil.which("pkg-config") is None:
            self.skipTest("pkg-config is not installed")
        flags = self.run_quietly("pkg-config", "--cflags", "--libs", "skep-client",
                                 PKG_CONFIG_PATH=PREFIX + "/lib/pkgconfig").split()
        program = os.path.join(self.folder, "pump")
        self.run_quietly(compiler, f"-std={standard}", *WARNINGS.split(), os.path.join(EXAMPLES, source), *flags,
                         "-o", program)
        return program

    def needs(self, module):
        if importlib.util.find_spec(module) is None:
            self.skipTest(f"{module} is not installed")


class Compiled(Case):
    def test_c_with_cmake(self):
        self.check_in(self.build_with_cmake("embed_c"))

    def test_c_with_pkg_config(self):
        self.check_in(self.build_with_pkg_config("cc", "c11", "embed_c/main.c"))

    def test_cpp_with_cmake(self):
        self.assertIn("100 % trained", self.check_in(self.build_with_cmake("embed_cpp")))

    def test_cpp_with_pkg_config(self):
        self.check_in(self.build_with_pkg_config("c++", "c++20", "embed_cpp/main.cc"))

    def test_own_trainer_with_cmake(self):
        self.assertIn("loss", self.check_in(self.build_with_cmake("own_trainer")))

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

    def test_the_first_examples_stay_short(self):
        for name in ("embed_c/main.c", "embed_cpp/main.cc"):
            with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
                self.assertLess(len(file.readlines()), 80, name)


class Python(Case):
    def test_the_app_runs(self):
        self.needs("numpy")
        self.check_in(sys.executable, os.path.join(EXAMPLES, "python_app/app.py"))

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
