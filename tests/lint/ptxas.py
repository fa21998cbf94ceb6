#!/usr/bin/env python3
"""What the assembler of kernels says about them (-Xptxas -v), against what they may cost.

    ptxas.py LOG      a log that cmake/keep_log.sh kept, of the whole kernel list
    ptxas.py --none REASON   there is no device code in this build: SKIPPED

Every kernel of kernels/body/kernel_list.h for every architecture of the log: no spills, static shared memory of at most
48 KiB, registers of a block of at most 65,536, and a barrier where and only where the body says that it synchronises.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_SHARED = 48 * 1024
MOST_REGISTERS = 65536

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:, used (\d+) barriers)?")
SHARED = re.compile(r"(\d+) bytes smem")


def kernels_of(root):
    """Names of the list, each with whether it synchronises."""
    body = root / "kernels/body"
    listed = re.findall(r"body::(\w+)", (body / "kernel_list.h").read_text())
    text = "\n".join(path.read_text() for path in sorted(body.glob("*_body.h")))
    kernels = {}
    for name in listed:
        found = re.search(r"struct " + name + r" \{.*?kSynchronises = (true|false);", text, re.S)
        kernels[name] = bool(found) and found.group(1) == "true"
    return kernels


def block_threads(root):
    text = (root / "kernels/cuda/device_api.h").read_text()
    return int(re.search(r"kMostBlockThreads = (\d+);", text).group(1))


def parse(log):
    """(mangled name, architecture) -> what was said: spills, registers, barriers, shared."""
    entries = {}
    current = None
    for line in log.splitlines():
        if found := ENTRY.search(line):
            current = entries.setdefault(found.groups(), {"spills": None, "registers": None, "barriers": 0, "shared": 0})
        if current is None:
            continue
        if found := SPILLS.search(line):
            current["spills"] = max(current["spills"] or 0, int(found.group(1)) + int(found.group(2)))
        if found := USED.search(line):
            current["registers"] = int(found.group(1))
            current["barriers"] = int(found.group(2) or 0)
        if found := SHARED.search(line):
            current["shared"] = int(found.group(1))
    return entries


def findings(log, kernels, threads):
    """One line a fault."""
    entries = parse(log)
    architectures = sorted({architecture for _, architecture in entries})
    if not architectures:
        yield "the log names no kernel"
    for name, synchronises in kernels.items():
        part = f"{len(name)}{name}E"
        for architecture in architectures:
            here = [said for (mangled, of), said in entries.items() if of == architecture and part in mangled]
            if len(here) != 1:
                yield f"{name} for {architecture}: {len(here)} entries in the log, not 1"
                continue
            yield from (f"{name} for {architecture}: {fault}" for fault in faults(here[0], synchronises, threads))


def faults(said, synchronises, threads):
    if said["spills"] is None or said["registers"] is None:
        yield "the log does not say what it uses"
        return
    if said["spills"] > 0:
        yield f"{said['spills']} bytes are spilled"
    if said["shared"] > MOST_SHARED:
        yield f"{said['shared']} bytes of static shared memory, at most {MOST_SHARED}"
    if said["registers"] * threads > MOST_REGISTERS:
        yield f"{said['registers']} registers x {threads} threads, at most {MOST_REGISTERS}"
    if synchronises and said["barriers"] == 0:
        yield "no barrier, but its body says that it synchronises"
    if not synchronises and said["barriers"] > 0:
        yield "a barrier, but its body says that it does not synchronise"


def main(arguments):
    if arguments[:1] == ["--none"]:
        print("SKIPPED: no device code in this build: " + " ".join(arguments[1:]))
        return 77
    log = pathlib.Path(arguments[0])
    if not log.exists():
        print(f"{log}: there is none; build the target skep-cuda first")
        return 1
    kernels = kernels_of(ROOT)
    found = list(findings(log.read_text(), kernels, block_threads(ROOT)))
    for fault in found:
        print(fault)
    if not found:
        entries = parse(log.read_text())
        most = max(said["registers"] for said in entries.values())
        print(f"{len(kernels)} kernels, {len(entries)} entries: no spills, at most {most} registers a thread")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
