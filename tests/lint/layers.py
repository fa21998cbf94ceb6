#!/usr/bin/env python3
"""Checks what the compiler cannot: layers, banned calls, and the length of files and functions.

    layers.py [ROOT]

Prints one line a finding, FILE:LINE: RULE: what is wrong, and what to do. Exit 1 when there is one.
Warnings (files that are nearly too long) do not fail. The rules are in docs/architecture.md; each
has a planted violation in layers_test.py.
"""

import os
import re
import sys

sys.dont_write_bytecode = True
import layer_table  # noqa: E402
import source  # noqa: E402

MAX_FILE_LINES = 550
WARN_FILE_LINES = 500
MAX_FUNCTION_LINES = 75
MAX_ASIO_FILES = 8


class Finding:
    def __init__(self, path, line, rule, text, is_warning=False):
        self.path = path
        self.line = line
        self.rule = rule
        self.text = text
        self.is_warning = is_warning

    def __str__(self):
        return f"{self.path}:{self.line}: {'warning: ' if self.is_warning else ''}{self.rule}: {self.text}"


class Tree:
    """The source files below a root, read once."""

    def __init__(self, root):
        self.root = root
        self.paths = source.source_files(root)
        self.text = {}
        for path in self.paths:
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
                self.text[path] = file.read()
        self.includes = {path: source.includes(text) for path, text in self.text.items()}
        self.code = {path: source.without_directives(source.bare_code(text)) for path, text in self.text.items()}

    def includes_asio(self, path, seen=None):
        """Whether a file includes Asio or Beast, itself or through headers of the project."""
        seen = seen if seen is not None else set()
        if path in seen or path not in self.includes:
            return False
        seen.add(path)
        return any(name.startswith(("boost/asio", "boost/beast")) or self.includes_asio(name, seen)
                   for _, name, _ in self.includes[path])


# --- include edges ------------------------------------------------------------------------------


def check_edges(tree):
    for path in tree.paths:
        module = layer_table.module_of(path)
        if module is None:
            yield Finding(path, 1, "layer", "this folder is not in tests/lint/layer_table.py")
            continue
        for line, name, is_quoted in tree.includes[path]:
            # An example is a project of its own: its files lie beside each other.
            if path.startswith("examples/") and os.path.join(os.path.dirname(path), name) in tree.includes:
                continue
            yield from _check_include(path, module, line, name, is_quoted)


def _check_include(path, module, line, name, is_quoted):
    target = layer_table.module_of(name)
    if is_quoted and not name.endswith(".pb.h"):
        if target is None:
            yield Finding(path, line, "layer", f'"{name}" is not a path from the root of the repository')
        elif module != "free" and (target == "free" or
                                   (target != module and target not in layer_table.EDGES[module])):
            yield Finding(path, line, "layer", f"{module} may not include {name}")
        return
    if name in layer_table.BANNED_HEADERS:
        yield Finding(path, line, "header", f"<{name}> is missing in GCC 12 or clang 14")
        return
    for what, pattern, homes in layer_table.THIRD_PARTY:
        if re.match(pattern, name):
            is_free = module == "free" and what != "Catch2" and homes != layer_table.NOBODY
            if not is_free and not re.match(homes, path):
                yield Finding(path, line, "third party", f"{what} ({name}) has no place in this file")
            return
    if not layer_table.SYSTEM.match(name):
        yield Finding(path, line, "third party", f"{name} belongs to no library that the project uses")


def check_asio_count(tree):
    """Each of these files takes minutes and gigabytes to compile under sanitizers."""
    heavy = [p for p in tree.paths
             if p.endswith(".cc") and layer_table.module_of(p) != "free" and tree.includes_asio(p)]
    if len(heavy) > MAX_ASIO_FILES:
        yield Finding(heavy[-1], 1, "asio", f"{len(heavy)} files include Asio or Beast, at most {MAX_ASIO_FILES}: "
                      + ", ".join(heavy))


# --- banned calls -------------------------------------------------------------------------------

CLOCK = r"shared/base/clock\."
RANDOM = r"shared/base/rng\.|crypto/csprng\."

# (rule, pattern in code without comments and literals, pattern of the files that may have it, what to do)
CALLS = (
    ("clock", r"\b\w*_clock::now\b|\b(?:clock_gettime|gettimeofday|timespec_get|ftime)\s*\(|\bstd::(?:time|clock)\s*\("
     r"|(?<![\w.:>])(?:::)?time\s*\(\s*(?:nullptr|NULL|0|&\w+)\s*\)", CLOCK, "time comes from shared/base/clock.h or with Step"),
    ("sleep", r"\bsleep_(?:for|until)\b|\b(?:usleep|nanosleep|clock_nanosleep)\s*\(|(?<![\w.>])sleep\s*\(", CLOCK,
     "wait for the event itself, with a deadline"),
    ("random", r"\b(?:s?rand|rand_r|random|drand48|arc4random\w*|getrandom|getentropy)\s*\(|\brandom_device\b|\bmt19937\w*"
     r"|\bdefault_random_engine\b|\bminstd_rand\w*|\bRAND_(?:priv_)?bytes\b|\bstd::(?:shuffle|sample)\b", RANDOM,
     "draws come from shared/base/rng.h, secrets from crypto/csprng.h"),
    ("detach", r"\basio::detached\b|\.detach\s*\(\s*\)", None, "every task has somebody who waits for it"),
    ("views", r"\bviews::\w", None, "clang 14 rejects std::views: write the loop"),
    ("coroutine", r"\?[^;{}?]*\bco_await\b", None, "GCC 12 miscompiles co_await in a conditional operator: write if and else"),
    ("coroutine", r"[\w>=,(]\s*\{[^;{}]*\bco_await\b[^;{}]*\}", None,
     "GCC 12 miscompiles co_await in an initialiser: bind each value to a local first"),
    ("coroutine", r"\bco_await\b(?:(?!\)\s*\{)[^;])*[(,]\s*[A-Za-z_][\w:]*(?:<[^;(){}]*>)?\s*\{\s*[^\s}]", None,
     "GCC 12 miscompiles an aggregate made inside co_await's arguments: name it first"),
    ("coroutine", r"\bco_await\b(?:(?!\)\s*\{)[^;])*[(,]\s*\{\s*\.\w", None,
     "GCC 12 miscompiles an aggregate made inside co_await's arguments: name it first"),
    ("coroutine", r"\bif\s*\([^;{}]*\bco_await\b[^;{}]*\)\s*co_return\b", None,
     "GCC 12.2 destroys the temporaries of co_await too early before a co_return without braces: write { co_return; }"),
)
VERIFY_NONE = re.compile(r"\bSSL_VERIFY_NONE\b|\bverify_none\b")


def check_calls(tree):
    for path in tree.paths:
        code = tree.code[path]
        for rule, pattern, homes, advice in CALLS:
            if homes and re.match(homes, path):
                continue
            for match in re.finditer(pattern, code):
                yield Finding(path, source.line_of(code, match.start()), rule,
                              f"{' '.join(match[0].split())[:60]}: {advice}")
        yield from _check_detached(tree, path)
        yield from _check_random_files(tree, path)
        yield from _check_verify_none(tree, path)


def _check_detached(tree, path):
    # The bare word is the completion token only where Asio is in sight; elsewhere it is a state of a session.
    if not tree.includes_asio(path):
        return
    code = tree.code[path]
    for match in re.finditer(r",\s*detached\s*\)|\busing\s+[\w:]*\bdetached\b", code):
        yield Finding(path, source.line_of(code, match.start()), "detach", "every co_spawn has a completion handler")


def _check_random_files(tree, path):
    if re.match(RANDOM, path):
        return
    text = source.without_comments(tree.text[path])
    for match in re.finditer(r"/dev/u?random", text):
        yield Finding(path, source.line_of(text, match.start()), "random", f"{match[0]}: secrets come from crypto/csprng.h")


def _check_verify_none(tree, path):
    # Enrolment is the one place where a client has no certificate yet: functions that say so in their name.
    code = tree.code[path]
    allowed = [f for f in source.functions(tree.text[path]) if re.search(r"[Ee]nrol", f.name)]
    for match in VERIFY_NONE.finditer(code):
        if not any(f.begin <= match.start() <= f.end for f in allowed):
            yield Finding(path, source.line_of(code, match.start()), "verify",
                          f"{match[0]} is only for the enrolment listener (a function named ...Enrol...)")


# --- lengths ------------------------------------------------------------------------------------


def check_lengths(tree):
    for path in tree.paths:
        lines = tree.text[path].count("\n")
        if lines > WARN_FILE_LINES:
            yield Finding(path, lines, "length", f"{lines} lines; a file has at most {WARN_FILE_LINES}",
                          is_warning=lines <= MAX_FILE_LINES)
        for function in source.functions(tree.text[path]):
            length = function.last_line - function.first_line + 1
            if length > MAX_FUNCTION_LINES:
                yield Finding(path, function.first_line, "length",
                              f"{function.name} has {length} lines, at most {MAX_FUNCTION_LINES}")


CHECKS = (check_edges, check_asio_count, check_calls, check_lengths)


def findings(root):
    tree = Tree(root)
    return [finding for check in CHECKS for finding in check(tree)]


def main(arguments):
    root = arguments[0] if arguments else "."
    tree = Tree(root)
    if not tree.paths:
        print(f"layers: no source files below {root}", file=sys.stderr)
        return 2
    found = [finding for check in CHECKS for finding in check(tree)]
    for finding in found:
        print(finding)
    errors = sum(not f.is_warning for f in found)
    print(f"layers: {len(tree.paths)} files, {errors} errors, {len(found) - errors} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
