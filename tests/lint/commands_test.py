#!/usr/bin/env python3
"""Small trees whose texts name commands that are there and that are not, given to commands.py."""

import contextlib
import io
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import commands  # noqa: E402

AGGREGATOR = '''AddCommand(app, line, "serve", "x", [&] { return RunServe(global); });
CLI::App* token = AddGroup(app, "token", "x");
CLI::App* create = AddCommand(*token, line, "create", "x", [&] {});
CLI::App* run = AddGroup(app, "run", "x");
void AddRunChange(CLI::App& run) { AddCommand(run, line, verb, text, [] {}); }
AddRunChange(*run, line, "stop", "x", Change::kStop);
'''
CLIENT = 'AddCommand(app, line, "run", "x", [&] {\n})->add_flag("--yes");\n'
SIMULATOR = 'CLI::App* const run =\n    commands.Add("run", "x", [] {});\ncommands.Add(\n    "check", "x");\n'


def run(path, text):
    """(exit code, printed lines) for the three programs and one file."""
    with tempfile.TemporaryDirectory() as root:
        files = dict(zip(commands.MAINS.values(), (AGGREGATOR, CLIENT, SIMULATOR)))
        files[path] = text
        for name, content in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(content)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = commands.main([root])
        return code, out.getvalue().splitlines()


class Commands(unittest.TestCase):
    def test_commands_that_are_there_pass(self):
        for text in ('F("skep-aggregator serve");', 'F("skep-aggregator token create --count 2");', 'F("skep-client run");',
                     'F("skep-aggregator run stop " + name);', 'F("skep-simulator run FILE");', 'F("`token create`");',
                     'F("skep-simulator check file");', "// skep-client dance\n", 'F("`x_1` and `A B`");'):
            with self.subTest(text=text):
                code, lines = run("client/a.cc", text)
                self.assertEqual(code, 0, lines)

    def test_commands_that_are_not_there_are_found(self):
        for text, named in (('F("skep-aggregator keys renew");', "skep-aggregator keys renew"),
                            ('F("x skep-aggregator token revoke\\n");', "skep-aggregator token revoke"),
                            ('F("skep-client serve");', "skep-client serve"), ('F("say `keys renew`");', "`keys renew`"),
                            ('F("skep-client "\n  "dance");', "skep-client dance"), ('R"(skep-simulator dance)"', "skep-simulator dance")):
            with self.subTest(text=text):
                code, lines = run("client/a.cc", text)
                self.assertEqual((code, lines), (1, [f"client/a.cc:1: there is no command {named}"]))

    def test_documents_and_scripts_are_read(self):
        for path in ("docs/a.md", "scripts/a", "examples/a/run", "docs/reference/a.md"):
            with self.subTest(path=path):
                code, lines = run(path, "once\n$ skep-client dance\n")
                self.assertEqual((code, lines), (1, [f"{path}:2: there is no command skep-client dance"]))

    def test_programs_in_a_row_are_no_commands(self):
        self.assertEqual(run("scripts/a", "for program in skep-aggregator skep-client skep-simulator; do\n")[0], 0)


if __name__ == "__main__":
    unittest.main()
