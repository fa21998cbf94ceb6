#!/usr/bin/env python3
"""What the documents say of the GPU, against docs/gpu-evidence.json.

    gpu_evidence.py [ROOT]

Evidence holds if scripts/gpu_check wrote it on a device, nothing failed there, and it names the hash of every kernel body and
of everything that launches them, as they are now. Without it docs/gpu.md says "compiled and emulated, not run on a GPU" and no
document says "run on hardware" of them; with it, it is the other way round.
"""

import hashlib
import json
import pathlib
import re
import sys

NOT_RUN = "compiled and emulated, not run on a GPU"
RUN = "run on hardware"
STAGES = ("operations", "tf32", "lanes", "parity", "timing")
FAULTS = ("sync", "tf32", "stride")


def present_sources(root):
    paths = sorted((root / "kernels/body").glob("*.h"))
    paths += sorted(p for p in (root / "kernels/cuda/runtime").iterdir() if p.suffix in (".cu", ".cc", ".h"))
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}


def why_not(run, sources):
    """Why this evidence does not hold; None if it does."""
    if run is None:
        return "there was no run"
    if run.get("fake", True):
        return "it comes from the fake device"
    if not run.get("sound", False):
        return "something failed"
    for stage in STAGES:
        if run.get("stages", {}).get(stage, {}).get("verdict") != "ok":
            return f"stage {stage} is not ok"
    for fault in FAULTS:
        if run.get("faults", {}).get(fault, {}).get("verdict") != "found":
            return f"the planted fault {fault} was not found"
    for path, now in sources.items():
        if run.get("sources", {}).get(path) != now:
            return f"{path} has changed since"
    return None


def text_of(path):
    """Without line breaks, so that a sentence may be wrapped."""
    return re.sub(r"\s+", " ", path.read_text())


def findings(root):
    evidence = json.loads((root / "docs/gpu-evidence.json").read_text())
    why = why_not(evidence.get("run"), present_sources(root))
    page = root / "docs/gpu.md"
    documents = [root / "README.md"] + sorted((root / "docs").rglob("*.md"))
    if why is None:
        if RUN not in text_of(page):
            yield f'docs/gpu.md does not say "{RUN}", but docs/gpu-evidence.json shows it'
        for path in documents:
            if NOT_RUN in text_of(path):
                yield f'{path.relative_to(root)} says "{NOT_RUN}", but docs/gpu-evidence.json shows a run'
        return
    if NOT_RUN not in text_of(page):
        yield f'docs/gpu.md does not say "{NOT_RUN}": {why}'
    for path in documents:
        if RUN in text_of(path).lower():
            yield f'{path.relative_to(root)} says "{RUN}": {why}'


def main(arguments):
    found = list(findings(pathlib.Path(arguments[0] if arguments else ".")))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
