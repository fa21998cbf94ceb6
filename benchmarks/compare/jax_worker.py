"""JAX's side of benchmarks/compare: the same steps compiled by jax.jit, one thread.

Variants: `scan` runs all steps of a turn as one lax.scan within one call, `step` makes one call a
step. Arrays lie as suits XLA (images channel last, dense weights [inputs, outputs]); they are
turned on the way in and out, outside the time.
"""
import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

# pylint: disable=wrong-import-position
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from peer_worker import serve

IMAGES = ("NHWC", "HWIO", "NHWC")


def conv(x, weight, stride=1):
    pad = weight.shape[0] // 2
    return lax.conv_general_dilated(x, weight, (stride, stride), ((pad, pad), (pad, pad)), dimension_numbers=IMAGES)


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def group_norm(x, weight, bias):
    groups = x.reshape(x.shape[0], -1, 8, x.shape[-1] // 8)
    mean = groups.mean((1, 3), keepdims=True)
    variance = jnp.square(groups - mean).mean((1, 3), keepdims=True)
    return ((groups - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape) * weight + bias


def dense_logits(w, x):
    count = sum(name.endswith("weight") for name in w)
    for i in range(1, count):
        x = jax.nn.relu(x @ w[f"fc{i}.weight"] + w[f"fc{i}.bias"])
    return x @ w[f"fc{count}.weight"] + w[f"fc{count}.bias"]


def cnn_logits(w, x):
    for i in (1, 2):
        x = max_pool(jax.nn.relu(conv(x, w[f"conv{i}.weight"]) + w[f"conv{i}.bias"]))
    return dense_logits({name: w[name] for name in w if name.startswith("fc")}, x.reshape(x.shape[0], -1))


def resnet_logits(w, x):
    def normalised(x, i, stride=1):
        return group_norm(conv(x, w[f"conv{i}.weight"], stride), w[f"norm{i}.weight"], w[f"norm{i}.bias"])

    x = jax.nn.relu(normalised(x, 1))
    for block, stride in enumerate((1, 2, 2)):
        y = normalised(jax.nn.relu(normalised(x, 2 * block + 2, stride)), 2 * block + 3)
        kept = x[:, ::stride, ::stride, :]
        x = jax.nn.relu(y + jnp.pad(kept, ((0, 0), (0, 0), (0, 0), (0, y.shape[-1] - kept.shape[-1]))))
    return x.mean((1, 2)) @ w["fc1.weight"] + w["fc1.bias"]


def lstm_layer(w, i, xs):
    # The inputs' part of all gates is one product before the loop over time.
    gates = xs @ w[f"lstm{i}.weight_ih"] + w[f"lstm{i}.bias"]

    def cell(state, gate):
        h, c = state
        g = gate + h @ w[f"lstm{i}.weight_hh"]
        take, forget, new, give = jnp.split(g, 4, 1)
        c = jax.nn.sigmoid(forget) * c + jax.nn.sigmoid(take) * jnp.tanh(new)
        h = jax.nn.sigmoid(give) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((xs.shape[1], w[f"lstm{i}.weight_hh"].shape[0]))
    return lax.scan(cell, (zero, zero), gates)[1]


def lstm_logits(w, x):
    h = lstm_layer(w, 2, lstm_layer(w, 1, w["embedding1.weight"][x.T]))
    logits = h @ w["fc1.weight"] + w["fc1.bias"]
    return logits.transpose(1, 0, 2).reshape(-1, logits.shape[-1])


LOGITS = {"softmax": dense_logits, "2nn": dense_logits, "fedavg-cnn": cnn_logits, "resnet8": resnet_logits,
          "char-lstm": lstm_logits}


def turned(name, values, case, is_in):
    """From PyTorch's shape to ours, or back."""
    if values.ndim == 4:
        return values.transpose(2, 3, 1, 0) if is_in else values.transpose(3, 2, 0, 1)
    if values.ndim != 2 or name.startswith("embedding"):
        return values
    if case.name == "fedavg-cnn" and name == "fc1.weight":  # of a flattened image
        if is_in:
            return values.reshape(-1, 64, 7, 7).transpose(2, 3, 1, 0).reshape(-1, values.shape[0])
        return values.reshape(7, 7, 64, -1).transpose(3, 2, 0, 1)
    return values.transpose()


def make_step(case):
    logits, rate = LOGITS[case.name], case.learning_rate

    def mean_loss(w, x, labels):
        logarithms = jax.nn.log_softmax(logits(w, x))
        return -jnp.mean(jnp.take_along_axis(logarithms, labels.reshape(-1, 1), 1))

    def step(w, data, k):
        x, labels, order = data
        rows = order[k % order.shape[0]]
        loss, gradient = jax.value_and_grad(mean_loss)(w, x[rows], labels[rows])
        return jax.tree.map(lambda a, g: a - rate * g, w, gradient), loss

    return step


class Jitted:
    def __init__(self, case):
        self.case = case
        x = case.x.transpose(0, 2, 3, 1) if case.x.ndim == 4 else case.x
        if x.dtype != np.float32:
            x = x.astype(np.int32)
        self.data = tuple(jnp.asarray(a) for a in (x, case.labels.astype(np.int32), case.order.astype(np.int32)))
        self.step = make_step(case)
        self.prepare()

    def reset(self):
        self.next = 0
        self.w = {n: jnp.asarray(np.ascontiguousarray(turned(n, v, self.case, True)))
                  for n, v in self.case.tensors.items()}

    def weights(self):
        return self.case.flat({n: turned(n, np.asarray(v), self.case, False) for n, v in self.w.items()})


class Scan(Jitted):
    def prepare(self):
        @functools.partial(jax.jit, donate_argnums=0, static_argnums=3)
        def many(w, data, first, steps):
            w, losses = lax.scan(lambda w, k: self.step(w, data, k), w, first + jnp.arange(steps))
            return w, losses[-1]

        self.many = many

    def run(self, steps):
        self.w, loss = self.many(self.w, self.data, self.next, steps)
        self.next += steps
        jax.block_until_ready(self.w)
        return loss


class Step(Jitted):
    def prepare(self):
        self.one = jax.jit(self.step, donate_argnums=0)

    def run(self, steps):
        for k in range(self.next, self.next + steps):
            self.w, loss = self.one(self.w, self.data, np.int32(k))
        self.next += steps
        jax.block_until_ready(self.w)
        return loss


if __name__ == "__main__":
    serve({"peer": "jax", "version": jax.__version__}, lambda case: {"scan": Scan, "step": Step})
