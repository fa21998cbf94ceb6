#!/usr/bin/env python3
"""A Python application whose device takes part, with a training loop of its own in NumPy.

    app.py --join-file join.txt --storage state

One check-in; a scheduler calls it again after the time that it prints. For runs whose model is one
layer: "PART.weight" of [classes, columns] and "PART.bias" of [classes]. Without `trainer=` the library
would train the plan's layers itself, whatever they are.
"""

import argparse
import sys

import numpy
import skep


def readings():
    """The application's own data: four vibration values a reading, and whether the bearing was worn."""
    i = numpy.arange(412)
    is_worn = i % 2
    x = (i[:, None] * 37 + numpy.arange(4) * 11) % 100 / 100 + is_worn[:, None] * 0.5
    return x.astype(numpy.float32), is_worn


def find(model, end):
    """The tensor whose name ends so; names come from the plan."""
    return next(tensor for name, tensor in model.items() if name.endswith(end))


def softmax(weight, bias, x):
    z = x @ weight.T + bias
    p = numpy.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


class Softmax:
    def train(self, task, model):
        weight, bias = find(model, "weight"), find(model, "bias")
        rate = task.number("client.learning_rate", 0.1)
        for x, y, _ in task.batches():
            p = softmax(weight, bias, x)
            loss = -numpy.log(p[numpy.arange(len(y)), y]).mean()
            p[numpy.arange(len(y)), y] -= 1  # now the gradient of the loss
            weight -= rate * p.T @ x / len(y)
            bias -= rate * p.mean(axis=0)
            task.progress(-1, loss)
        return task.examples

    def evaluate(self, task, model):
        weight, bias = find(model, "weight"), find(model, "bias")
        correct = sum(int((softmax(weight, bias, x).argmax(axis=1) == y).sum()) for x, y, _ in task.batches())
        task.metric("accuracy", correct / max(task.examples, 1))
        return task.examples


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--join-file", required=True)
    parser.add_argument("--storage", required=True)
    arguments = parser.parse_args()
    with open(arguments.join_file, encoding="utf-8") as file:
        join = file.read()
    with skep.Client(join=join, storage_dir=arguments.storage, data=lambda task: readings(), trainer=Softmax(),
                     require_idle=False, require_unmetered=False) as client:
        outcome = client.run_once(300)
    print(f"{outcome.status.name}: {outcome.message}; come back in {outcome.retry_after} s")
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main())
