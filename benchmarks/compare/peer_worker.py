"""The frame of a peer's worker: commands on standard input, one line of JSON for each.

The commands are those of worker.cc, but for `make` and `ceilings`. A peer is a dictionary from
variants to makers; a maker takes a Case and gives an object with
    reset()         initial weights, first batch
    run(steps)      trains and waits for the end; the last loss
    weights()       one flat float32 array, tensors in the case's order and PyTorch's shapes
"""
import json
import os
import platform
import sys
import time

import numpy as np


class Case:
    """A training step as compare_worker wrote it: arrays in the order of the data."""

    def __init__(self, folder):
        with open(os.path.join(folder, "case.json"), encoding="utf-8") as file:
            facts = json.load(file)
        self.name, self.batch = facts["name"], facts["batch"]
        self.input, self.classes = facts["input"], facts["classes"]
        self.positions, self.learning_rate = facts["positions"], facts["learning_rate"]
        x = np.fromfile(os.path.join(folder, "x.f32"), "<f4").reshape(-1, *self.input)
        self.x = x.astype(np.int64) if facts["symbols"] else x
        labels = np.fromfile(os.path.join(folder, "labels.i32"), "<i4")
        self.labels = labels.reshape(len(x), self.positions).astype(np.int64)
        order = np.fromfile(os.path.join(folder, "order.i32"), "<i4")
        self.order = order.reshape(-1, self.batch).astype(np.int64)
        flat = np.fromfile(os.path.join(folder, "weights.f32"), "<f4")
        self.tensors, place = {}, 0
        for tensor in facts["tensors"]:
            count = int(np.prod(tensor["shape"]))
            self.tensors[tensor["name"]] = flat[place:place + count].reshape(tensor["shape"])
            place += count

    def flat(self, tensors):
        """One array from arrays by name."""
        return np.concatenate([np.asarray(tensors[name], np.float32).ravel() for name in self.tensors])


def timed_run(model, steps):
    wall, cpu = time.perf_counter(), time.process_time()
    loss = model.run(steps)
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "loss": float(loss)}


def answer(words, about, makers, models):
    command = words[0]
    if command == "about":
        return about
    variant, rest = words[1], words[2] if len(words) > 2 else ""
    if command == "open":
        case = Case(rest)
        models[variant] = makers(case)[variant](case)
        models[variant].reset()
    elif command == "variants":
        return {"variants": list(makers(Case(variant)))}
    elif command == "reset":
        models[variant].reset()
    elif command == "run":
        return timed_run(models[variant], int(rest))
    elif command == "weights":
        models[variant].weights().astype("<f4").tofile(rest)
    elif command == "close":
        del models[variant]
    else:
        raise ValueError("unknown command: " + command)
    return {}


def serve(about, makers):
    """`makers` gives, for a case, the makers of its variants by name."""
    about["python"] = platform.python_version()
    # What the libraries print of themselves must not land among the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    models = {}
    for line in sys.stdin:
        try:
            reply = answer(line.rstrip("\n").split(" ", 2), about, makers, models)
        except Exception as failure:  # whatever a peer throws is an answer, not the end
            reply = {"error": f"{type(failure).__name__}: {failure}"}
        print(json.dumps(reply), file=answers, flush=True)
