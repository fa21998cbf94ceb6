"""Reads C++ source the way the lint needs it: without comments and literals, cut into functions.

Not a parser: it follows brackets, which is enough for code that clang-format has formatted. Used by
layers.py and error_numbers.py.
"""

import os
import re

FOLDERS = ("shared", "crypto", "kernels", "client", "aggregator", "simulator", "tests", "benchmarks",
           "examples")
SUFFIXES = (".h", ".hpp", ".cc", ".c", ".cu", ".cuh")


def source_files(root):
    """Paths, relative to root and sorted, of the C++ and CUDA files below the source folders."""
    found = []
    for folder in FOLDERS:
        for place, folders, files in os.walk(os.path.join(root, folder)):
            folders[:] = [f for f in folders if not f.startswith(".") and f != "build"]
            found += [os.path.relpath(os.path.join(place, f), root) for f in files if f.endswith(SUFFIXES)]
    return sorted(found)


_TOKEN = re.compile(
    r"""//[^\n]*(?:\\\n[^\n]*)*          # line comment, also a continued one
      | /\*.*?\*/                        # block comment
      | R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"   # raw string
      | "(?:\\.|[^"\\\n])*"              # string
      | (?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'   # character; not the digit separator of 1'000
    """, re.S | re.X)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    """The same text with every comment turned into blanks; lines and columns stay."""
    return _TOKEN.sub(lambda m: _blank(m[0]) if m[0].startswith(("//", "/*")) else m[0], text)


def bare_code(text):
    """The same text with comments and the insides of literals turned into blanks."""

    def replace(match):
        token = match[0]
        if token.startswith(("//", "/*")):
            return _blank(token)
        start = token.index('"') + 1 if '"' in token[:2] else 1
        return token[:start] + _blank(token[start:-1]) + token[-1]

    return _TOKEN.sub(replace, text)


def without_directives(code):
    """Blanks out preprocessor lines, with their continuations."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: _blank(m[0]), code, flags=re.M)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def includes(text):
    """(line, name, is_quoted) of every include of a file."""
    found = []
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)',
                             without_comments(text), re.M):
        found.append((line_of(text, match.start()), match[1] or match[2], match[1] is not None))
    return found


class Function:
    """A function definition: its header text, first and last line, and offsets of its body."""

    def __init__(self, header, first_line, last_line, begin, end):
        self.header = header
        self.first_line = first_line
        self.last_line = last_line
        self.begin = begin
        self.end = end

    @property
    def name(self):
        match = re.search(r"([\w~:]+)\s*\(", re.sub(r"\b(?:alignas|noexcept)\s*\(", " ", self.header))
        return match[1] if match else self.header.strip()


def _kind(header):
    plain = re.sub(r"\btemplate\s*<[^{};]*?>\s*(?=\w|\[)", " ", header)
    if re.search(r"\bnamespace\b", plain) or re.search(r'\bextern\s*"\s*"\s*$', plain):
        return "scope"
    if re.search(r"\b(?:class|struct|union|enum)\b", plain) and "(" not in re.sub(
            r"\balignas\s*\([^)]*\)", "", plain):
        return "scope"
    if re.search(r"[=(,]\s*$", plain) or "(" not in plain:
        return "data"
    return "function"


def functions(text):
    """The function definitions of a file, outermost only: a lambda belongs to its function."""
    code = without_directives(bare_code(text))
    found = []
    stack = []  # (kind, header, offset of the header's first word)
    depth_in_function = 0
    begin_of_header = 0
    for match in re.finditer(r"[{};]", code):
        mark, at = match[0], match.start()
        if mark == "{":
            header = code[begin_of_header:at]
            if depth_in_function:
                depth_in_function += 1
                kind = "block"
            else:
                kind = _kind(header)
                if kind in ("function", "data"):
                    depth_in_function = 1
            first = begin_of_header + len(header) - len(header.lstrip())
            stack.append((kind, header, first))
        elif mark == "}" and stack:
            kind, header, first = stack.pop()
            if depth_in_function:
                depth_in_function -= 1
            if kind == "function":
                found.append(Function(header, line_of(code, first), line_of(code, at), first, at))
        begin_of_header = at + 1
    return found
