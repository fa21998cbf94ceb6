#!/usr/bin/env python3
"""Small trees with and without a fault in their error numbers, given to error_numbers.py."""

import contextlib
import io
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import error_numbers  # noqa: E402

CATALOGUE = 'const Entry kEntries[] = {\n    {1012, "unknown key"},\n    {2104, "update is not finite"},\n};\n'


def run(user, catalogue=CATALOGUE):
    """(exit code, printed lines) for a tree of one catalogue and one file that uses it."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in (("shared/base/error_catalogue.cc", catalogue), ("client/a.cc", user)):
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = error_numbers.main([root])
        return code, out.getvalue().splitlines()


class ErrorNumbers(unittest.TestCase):
    def test_a_tree_that_agrees_passes(self):
        code, lines = run('return Error{1012, "x"};\nFail(2104);\n')
        self.assertEqual(code, 0, lines)

    def test_a_number_without_an_entry_is_found_in_each_form(self):
        for form in ('Error{1999, "x"}', "Error{.code = 1999}", "problem.code = 1999;", "if (e.code == 1999) F();",
                     'Print("see SKEP-1999");'):
            with self.subTest(form=form):
                code, lines = run("F(1012, 2104);\n" + form + "\n")
                self.assertEqual((code, lines[0]), (1, "client/a.cc:2: SKEP-1999 is used but not in the catalogue"))

    def test_an_entry_that_nothing_uses_is_found(self):
        code, lines = run('return Error{1012, "x"};  // 2104\n')
        self.assertEqual((code, lines[0]),
                         (1, "shared/base/error_catalogue.cc:3: SKEP-2104 is in the catalogue but nothing uses it"))

    def test_a_number_with_two_entries_is_found(self):
        code, lines = run("F(1012, 2104);\n", CATALOGUE + 'const Entry kMore[] = {{1012, "again"}};\n')
        self.assertEqual((code, lines[0]), (1, "shared/base/error_catalogue.cc:5: SKEP-1012 has two entries"))

    def test_other_numbers_are_left_alone(self):
        code, lines = run("F(1012, 2104, 4096);\nint year = 2016;\n")
        self.assertEqual(code, 0, lines)

    def test_a_tree_without_a_catalogue_is_an_error(self):
        self.assertEqual(run("F();\n", catalogue="")[0], 2)


if __name__ == "__main__":
    unittest.main()
