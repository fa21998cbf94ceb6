#!/usr/bin/env python3
"""Compares the error numbers in the code with the catalogue, both ways.

    error_numbers.py [ROOT]

Prints the numbers that are used but have no entry in shared/base/error_catalogue*.cc, and the
entries that nothing uses; exit 1 when there is one. A number counts as used where the code makes an
error of it: Error{1012, ...}, a call or initialiser that begins with it, .code = 1012, a constant
kSomething = 1012, or "SKEP-1012" in a text. An entry counts as used wherever its number stands.
"""

import glob
import os
import re
import sys

sys.dont_write_bytecode = True
import source  # noqa: E402

CATALOGUE = "shared/base/error_catalogue*.cc"
PRODUCT = ("shared/", "crypto/", "kernels/", "client/", "aggregator/", "simulator/")

# What another version's aggregator may say: the client obeys the retry class of its entry.
FROM_PEERS = {3329, 3404}

ENTRY = re.compile(r"\{\s*(?:\.(?:number|code)\s*=\s*)?([1-9]\d{3})\s*,")
MAKES_ERROR = re.compile(
    r"\bError\s*\{\s*([1-9]\d{3})\b|\bError\s*\{\s*\.code\s*=\s*([1-9]\d{3})\b|\bcode\s*[=!]?=\s*([1-9]\d{3})\b")
IN_TEXT = re.compile(r"SKEP-([1-9]\d{3})\b")
ANY_NUMBER = re.compile(r"(?<![\w.])([1-9]\d{3})(?![\w.])")


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return source.without_comments(file.read())


def catalogue(root):
    """{number: place} of the catalogue's entries, and the numbers that stand there twice."""
    entries = {}
    twice = []
    for path in sorted(glob.glob(os.path.join(root, CATALOGUE))):
        path = os.path.relpath(path, root)
        text = read(root, path)
        for match in ENTRY.finditer(text):
            number = int(match[1])
            place = f"{path}:{source.line_of(text, match.start())}"
            if number in entries:
                twice.append((number, place))
            entries.setdefault(number, place)
    return entries, twice


def uses(root):
    """({number: place} where the code makes an error of a number, the set of all four-digit numbers)."""
    makes = {}
    anywhere = set()
    for path in source.source_files(root):
        if not path.startswith(PRODUCT) or path.startswith("shared/base/error_catalogue"):
            continue
        text = read(root, path)
        for pattern in (MAKES_ERROR, IN_TEXT):
            for match in pattern.finditer(text):
                number = int(next(group for group in match.groups() if group))
                makes.setdefault(number, f"{path}:{source.line_of(text, match.start())}")
        anywhere.update(int(match[1]) for match in ANY_NUMBER.finditer(text))
        anywhere.update(int(match[1]) for match in IN_TEXT.finditer(text))
    return makes, anywhere


def main(arguments):
    root = arguments[0] if arguments else "."
    entries, twice = catalogue(root)
    if not entries:
        print(f"error_numbers: no entries in {CATALOGUE}", file=sys.stderr)
        return 2
    makes, anywhere = uses(root)
    unknown = {number: place for number, place in sorted(makes.items()) if number not in entries}
    unused = {number: place for number, place in sorted(entries.items()) if number not in anywhere | FROM_PEERS}
    for number, place in unknown.items():
        print(f"{place}: SKEP-{number} is used but not in the catalogue")
    for number, place in twice:
        print(f"{place}: SKEP-{number} has two entries")
    for number, place in unused.items():
        print(f"{place}: SKEP-{number} is in the catalogue but nothing uses it")
    print(f"error_numbers: {len(entries)} entries, {len(unknown)} missing, {len(twice)} double, {len(unused)} unused")
    return 1 if unknown or twice or unused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
