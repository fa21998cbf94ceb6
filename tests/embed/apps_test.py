#!/usr/bin/env python3
"""Applications as their developers meet them: new-app, dev-server, the examples and docs/embedding.md over the library.

    apps_test.py BUILD ASAN [-v]

BUILD: where the programs and the library lie; the library is installed from there into a folder of the test's own. ASAN:
the sanitizer's library, which programs that are not built with it load first; or "".
"""

import importlib.util
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.abspath(".")
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
LINE = (r"joined as device [0-9a-f]{6} · round 1: downloaded [0-9.]+ K?B, trained 412 examples in [0-9.]+ s"
        r"( \(loss [0-9.]+\))?, uploaded [0-9.]+ K?B · next in \d+ s\n")
PATIENCE = 120
BUILD = ASAN = PREFIX = None


def setUpModule():
    global PREFIX
    PREFIX = tempfile.mkdtemp()
    unittest.addModuleCleanup(shutil.rmtree, PREFIX)
    subprocess.run(["cmake", "--install", BUILD, "--component", "embed", "--prefix", PREFIX], check=True,
                   stdout=subprocess.DEVNULL)


def environment(**changes):
    """As on a machine with the packages installed."""
    changes.setdefault("PATH", f"{BUILD}/bin:{os.environ['PATH']}")
    return {**os.environ, "CMAKE_PREFIX_PATH": PREFIX, "PKG_CONFIG_PATH": PREFIX + "/lib/pkgconfig",
            "LD_LIBRARY_PATH": PREFIX + "/lib", "PYTHONPATH": PREFIX + "/lib/python3/dist-packages",
            "PYTHONDONTWRITEBYTECODE": "1", "CFLAGS": WARNINGS, "CXXFLAGS": WARNINGS, **changes}


def app_environment(is_python, **changes):
    found = environment(**changes)
    if ASAN:
        found["LD_PRELOAD"] = ASAN
    if ASAN and is_python:  # Python keeps its own memory to the end
        found["ASAN_OPTIONS"] = "detect_leaks=0"
    return found


def allowed(words):
    return words + ["--allow-root"] if os.geteuid() == 0 else words


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.join_file = os.path.join(self.folder, "join.txt")

    def call(self, *command, folder=None, code=0, **changes):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE,
                              cwd=folder or self.folder, env=environment(**changes))
        self.assertEqual(done.returncode, code, f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def start(self, *command, folder=None, variables=None):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   cwd=folder or self.folder, env=variables or environment())
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()

    def dev_server(self, *words, temporary=None):
        """One that is ready: the join string is there."""
        server = self.start("skep-client", "dev-server", "--join-file", self.join_file, *allowed(list(words)),
                            variables=environment(TMPDIR=temporary or self.folder))
        first = server.stdout.readline()
        self.assertRegex(first, r"^ready  127\.0\.0\.1:\d+   waiting for 1 client\n$", server.poll())
        self.assertEqual(os.stat(self.join_file).st_mode & 0o777, 0o600)
        return server

    def finish(self, process, code=0, others=()):
        """What it has printed when it ends; where it does not, also what the others have."""
        try:
            said, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            texts = []
            for one in (process, *others):
                one.kill()
                said, _ = one.communicate()
                texts.append(f"{said}exit {one.returncode}")
            self.fail("it goes on\n" + "\n---\n".join(texts))
        self.assertEqual(process.returncode, code, said)
        return said

    def terminate(self, process, code=0):
        process.send_signal(signal.SIGTERM)
        return self.finish(process, code)

    def build_with_cmake(self, source):
        build = os.path.join(self.folder, "build")
        self.call("cmake", "-S", source, "-B", build)
        self.call("cmake", "--build", build)
        return os.path.join(build, "pump")

    def needs(self, module):
        if importlib.util.find_spec(module) is None:
            self.skipTest(f"{module} is not installed")


class NewApp(Case):
    FOLDERS = {"cpp": "embed_cpp", "c": "embed_c", "python": "embed_python"}

    def test_a_project_is_the_example_of_its_language_under_another_name(self):
        for language, folder in self.FOLDERS.items():
            self.call("skep-client", "new-app", "my-" + language, "--" + language)
            example = os.path.join(SOURCE, "examples", folder)
            made = os.path.join(self.folder, "my-" + language)
            self.assertEqual(sorted(os.listdir(made)), sorted(set(os.listdir(example)) - {"build", "state", "join.txt"}))
            for name in os.listdir(made):
                with open(os.path.join(example, name), encoding="utf-8") as file:
                    expected = re.sub(r"(?<![\w-])pump(?![\w-])", "my-" + language, file.read())
                with open(os.path.join(made, name), encoding="utf-8") as file:
                    self.assertEqual(file.read(), expected, f"{language}: {name}")
        self.assertTrue(os.access(os.path.join(self.folder, "my-python/app.py"), os.X_OK))

    def test_a_folder_that_is_there_stays_as_it_is(self):
        os.mkdir(os.path.join(self.folder, "pump"))
        self.assertIn("SKEP-4004", self.call("skep-client", "new-app", "pump", "--cpp", code=2))
        self.assertEqual(os.listdir(os.path.join(self.folder, "pump")), [])

    def test_the_first_files_stay_short(self):
        for name in ("embed_c/main.c", "embed_cpp/main.cc", "embed_python/app.py"):
            with open(os.path.join(SOURCE, "examples", name), encoding="utf-8") as file:
                self.assertLess(len(file.readlines()), 80, name)


class DevServer(Case):
    def children_of(self, process):
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            return [int(number) for number in file.read().split()]

    def assert_gone(self, process_ids):
        for number in process_ids:
            try:
                descriptor = os.pidfd_open(number)
            except ProcessLookupError:
                continue
            os.close(descriptor)
            with open(f"/proc/{number}/stat", encoding="ascii") as file:
                self.assertIn(") Z ", file.read(), f"{number} is still there")

    def test_a_signal_ends_it_and_all_that_it_made(self):
        server = self.dev_server()
        children = self.children_of(server)
        self.assertGreaterEqual(len(children), 1)
        self.terminate(server, 143)
        self.assert_gone(children)
        self.assertEqual(os.listdir(self.folder), [])

    def test_its_aggregator_does_not_outlive_a_kill(self):
        server = self.dev_server()
        descriptors = [os.pidfd_open(number) for number in self.children_of(server)]
        server.kill()
        server.wait()
        for descriptor in descriptors:
            readable, _, _ = select.select([descriptor], [], [], PATIENCE)
            self.assertEqual(readable, [descriptor])
            os.close(descriptor)

    def test_a_file_that_holds_no_join_string_stays_as_it_is(self):
        with open(self.join_file, "w", encoding="utf-8") as file:
            file.write("a novel\n")
        said = self.call("skep-client", "dev-server", "--join-file", self.join_file, *allowed([]), code=2)
        self.assertIn("SKEP-4004", said)
        with open(self.join_file, encoding="utf-8") as file:
            self.assertEqual(file.read(), "a novel\n")

    def test_a_join_string_of_before_is_not_taken_for_the_new_one(self):
        server = self.dev_server()
        with open(self.join_file, encoding="utf-8") as file:
            before = file.read()
        self.terminate(server, 143)
        with open(self.join_file, "w", encoding="utf-8") as file:
            file.write(before)
        self.dev_server()
        with open(self.join_file, encoding="utf-8") as file:
            self.assertNotEqual(file.read(), before)

    def test_without_an_aggregator_it_names_the_package(self):
        shutil.copy(BUILD + "/bin/skep-client", self.folder)
        said = self.call("./skep-client", "dev-server", *allowed([]), code=2, PATH=self.folder)
        self.assertIn("SKEP-1402", said)
        self.assertIn("skep-aggregator", said)

    def test_root_is_refused_without_allow_root(self):
        if os.geteuid() != 0:
            self.skipTest("this is not root")
        self.assertIn("SKEP-5210", self.call("skep-client", "dev-server", code=2))

    def test_the_join_string_is_printed_where_no_file_is_given(self):
        server = self.start("skep-client", "dev-server", *allowed([]))
        server.stdout.readline()
        self.assertRegex(server.stdout.readline(), r"^join   https://127\.0\.0\.1:\d+#SKEP1-\S{80}\n$")
        self.terminate(server, 143)


class Document(Case):
    """The commands of docs/embedding.md, as they stand there."""

    def commands_of(self, heading):
        with open(os.path.join(SOURCE, "docs/embedding.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn(f"\n### {heading}\n", text)
        section = text.split(f"\n### {heading}\n")[1].split("\n#")[0]
        commands = [line[2:] for block in re.findall(r"```console\n(.*?)```", section, re.S)
                    for line in block.splitlines() if line.startswith("$ ")]
        self.assertIn(" --storage state", commands[-1], "the last command is the application")
        return [c.split("  #")[0].rstrip() for c in commands]

    def follow(self, heading, folder, **changes):
        *first, app = self.commands_of(heading)
        script = "set -e\n" + "\n".join(first) + "\ntouch goes-on\nwait\n"
        if os.geteuid() == 0:
            self.assertIn("dev-server", script)
            script = script.replace("dev-server", "dev-server --allow-root")
        place = os.path.join(self.folder, folder)
        shell = self.start("bash", "-c", script, variables=environment(**changes))
        # Not before the last command's turn: all may be over, and join.txt gone, before the shell has looked for it.
        while shell.poll() is None and not os.path.exists(place + "/goes-on"):
            try:
                shell.wait(0.1)
            except subprocess.TimeoutExpired:
                pass
        self.assertIsNone(shell.poll(), shell.stdout.read() if shell.poll() is not None else "")
        program = self.start(*app.split(), folder=place, variables=app_environment(heading == "Python", **changes))
        served = self.finish(shell, others=[program])
        for number in (1, 2, 3):
            self.assertRegex(served, rf"round={number}/3 attempt=1 state=published .* ok=1 ")
        # The model learns what the readings say, so server and application mean the same by them.
        self.assertGreater(float(re.search(r"round=3/3 .*accuracy=([0-9.]+)", served)[1]), 0.85)
        said = self.terminate(program)
        self.assertRegex(said, "^" + LINE)
        self.call_app(app.split() + ["--forget"], place, heading, **changes)
        self.assertFalse(os.path.exists(place + "/state/identity/key.pem"))

    def call_app(self, words, place, heading, **changes):
        done = subprocess.run(words, cwd=place, env=app_environment(heading == "Python", **changes), check=False,
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_cpp(self):
        self.follow("C++", "pump")

    def test_c(self):
        self.follow("C", "pump")

    def test_python(self):
        self.follow("Python", "pump")

    def test_python_with_numpy(self):
        self.needs("numpy")
        self.follow("Python", "pump", PATH=f"{BUILD}/bin:{os.path.dirname(sys.executable)}:{os.environ['PATH']}")


class Examples(Case):
    def one_round(self, *program, is_python=False):
        server = self.dev_server("--rounds", "1")
        app = self.start(*program, "--join-file", self.join_file, "--storage", os.path.join(self.folder, "state"),
                         variables=app_environment(is_python))
        said = self.finish(app, others=[server])
        self.assertRegex(self.finish(server), r"^round=1/1 attempt=1 state=published .* ok=1 ")
        return said

    def test_c_without_cmake(self):
        flags = self.call("pkg-config", "--cflags", "--libs", "skep-client").split()
        program = os.path.join(self.folder, "pump")
        self.call("cc", "-std=c11", *WARNINGS.split(), os.path.join(SOURCE, "examples/embed_c/main.c"), *flags, "-o", program)
        server = self.dev_server("--rounds", "1")
        app = self.start(program, "--join-file", self.join_file, "--storage", os.path.join(self.folder, "state"), "--once",
                         variables=app_environment(False))
        self.assertRegex(self.finish(app), "^" + LINE + "$")
        self.finish(server)

    def test_a_trainer_of_its_own(self):
        said = self.one_round(self.build_with_cmake(os.path.join(SOURCE, "examples/own_trainer")))
        self.assertRegex(said, r"SKEP_OK: round 1: .*; come back in \d+ s\n$")

    def test_numpy_trains_in_python(self):
        self.needs("numpy")
        said = self.one_round(sys.executable, os.path.join(SOURCE, "examples/python_app/app.py"), is_python=True)
        self.assertRegex(said, r"OK: round 1: .*trained 412 examples in .*; come back in \d+ s\n$")


if __name__ == "__main__":
    BUILD, ASAN = os.path.abspath(sys.argv.pop(1)), sys.argv.pop(1)
    for tool in ("cmake", "pkg-config", "bash", "cc"):
        if shutil.which(tool) is None:
            print(f"SKIPPED: {tool} is not installed")
            sys.exit(77)
    unittest.main()
