#!/usr/bin/env python3
"""Compares the commands that texts name with those that the programs have.

    commands.py [ROOT]

"skep-aggregator token create" in a message, a document or a script has to be a command of that program, and so has what a
message puts in backquotes: `token create`. A message without either names none. Prints what does not exist; exit 1 when there
is something.
"""

import glob
import os
import re
import sys

sys.dont_write_bytecode = True
import source  # noqa: E402

MAINS = {"skep-aggregator": "aggregator/server/main.cc", "skep-client": "client/cli/main.cc",
         "skep-simulator": "simulator/main.cc"}
PRODUCT = ("shared/", "crypto/", "kernels/", "client/", "aggregator/", "simulator/")
DOCUMENTS = ("*.md", "docs/*.md", "docs/reference/*.md", "examples/*/*", "scripts/*")

ADDS = re.compile(r'\b(?:AddCommand|AddRunChange)\(\s*\*?(\w+),\s*line,\s*"([a-z-]+)"|\b(commands)\.Add\(\s*"([a-z-]+)"')
GROUP = re.compile(r'\b(\w+) = AddGroup\(\s*app,\s*"([a-z-]+)"')
JOIN = re.compile(r'"\s*\n\s*"')  # a literal that goes on in the next line
NAMED = re.compile(r"\b(skep-(?:aggregator|client|simulator)) (?:\n*)(?!skep-)([a-z][a-z-]*)(?: \n*([a-z][a-z-]*))?")
QUOTED = re.compile(r"`([a-z][a-z-]*)(?: ([a-z][a-z-]*))?`")


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def commands_of(text):
    """{command: set of the commands below it} of a program's main.cc."""
    text = source.without_comments(text)
    groups = {match[1]: match[2] for match in GROUP.finditer(text)}
    commands = {name: set() for name in groups.values()}
    for match in ADDS.finditer(text):
        parent, name = match[1] or match[3], match[2] or match[4]
        if parent in groups:
            commands[groups[parent]].add(name)
        elif parent == "run" and "run" in commands:  # a parameter of that name: AddRunChange
            commands["run"].add(name)
        else:
            commands.setdefault(name, set())
    return commands


def exists(commands, first, second):
    """Whether `first second` is a command; behind one that has none below it anything may stand."""
    return first in commands and (not commands[first] or second is None or second in commands[first])


def texts(root):
    """(path, text, whether it is source) of all that names commands."""
    for path in source.source_files(root):
        if path.startswith(PRODUCT):
            yield path, JOIN.sub(lambda m: "\n" * m[0].count("\n"), source.without_comments(read(root, path))), True
    for pattern in DOCUMENTS:
        for path in sorted(glob.glob(os.path.join(root, pattern))):
            if os.path.isfile(path):
                yield os.path.relpath(path, root), read(root, os.path.relpath(path, root)), False


def main(arguments):
    root = arguments[0] if arguments else "."
    programs = {name: commands_of(read(root, path)) for name, path in MAINS.items()}
    found = []
    for path, text, is_source in texts(root):
        for match in NAMED.finditer(text):
            if not exists(programs[match[1]], match[2], match[3]):
                found.append((path, source.line_of(text, match.start()), " ".join(match[0].split())))
        for match in QUOTED.finditer(text) if is_source else ():
            if match[1] not in MAINS and not any(exists(have, match[1], match[2]) for have in programs.values()):
                found.append((path, source.line_of(text, match.start()), match[0]))
    for path, line, words in found:
        print(f"{path}:{line}: there is no command {words}")
    if not found:
        print("commands: every one that is named exists (" +
              ", ".join(f"{name} has {len(have)}" for name, have in programs.items()) + ")")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
