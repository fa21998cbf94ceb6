"""PyTorch's side of benchmarks/compare: the same steps in eager mode, one thread.

Variants: `eager` is autograd and torch.optim.SGD as they come; `fused` the same with the fused SGD;
`channels_last` and `channels_last_fused` with images and weights in that memory format; `by_hand`
(dense models) has no autograd: products written out, the update added into the weights by them.
"""
import numpy as np
import torch
from torch import nn

from peer_worker import serve

torch.set_num_threads(1)


class ShortcutBlock(nn.Module):
    """Two convolutions with group norm beside a shortcut without parameters (every second place,
    zeros in new channels)."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.stride = 1 if inputs == outputs else 2
        self.more = outputs - inputs
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, self.stride, 1, bias=False), nn.GroupNorm(8, outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.GroupNorm(8, outputs))

    def forward(self, x):
        kept = x
        if self.more:
            kept = nn.functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, self.more))
        return torch.relu(self.body(x) + kept)


class CharLstm(nn.Module):
    """nn.LSTM has two biases that add up; the second stays 0, so that the sum moves once a step."""

    def __init__(self, symbols):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(symbols, 8), nn.LSTM(8, 256, 2, batch_first=True)
        self.out = nn.Linear(256, symbols)
        for layer in ("bias_hh_l0", "bias_hh_l1"):
            parameter = getattr(self.lstm, layer)
            nn.init.zeros_(parameter)
            parameter.requires_grad = False

    def forward(self, x):
        return self.out(self.lstm(self.embedding(x))[0]).flatten(0, 1)


def make_network(case):
    if case.name == "softmax":
        return nn.Sequential(nn.Linear(784, 10))
    if case.name == "2nn":
        return nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10))
    if case.name == "fedavg-cnn":
        return nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                             nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10))
    if case.name == "resnet8":
        return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(8, 16), nn.ReLU(),
                             ShortcutBlock(16, 16), ShortcutBlock(16, 32), ShortcutBlock(32, 64),
                             nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    if case.name == "char-lstm":
        return CharLstm(case.classes)
    raise ValueError("no model for " + case.name)


class Eager:
    def __init__(self, case, is_channels_last=False, is_fused=False):
        self.case = case
        self.network = make_network(case)
        self.trained = [p for p in self.network.parameters() if p.requires_grad]
        if [tuple(p.shape) for p in self.trained] != [t.shape for t in case.tensors.values()]:
            raise ValueError("the network's tensors differ from the case's")
        self.x, self.labels = torch.from_numpy(case.x), torch.from_numpy(case.labels)
        self.order = torch.from_numpy(case.order)
        self.is_channels_last = is_channels_last
        if is_channels_last:
            self.network = self.network.to(memory_format=torch.channels_last)
            self.x = self.x.contiguous(memory_format=torch.channels_last)
        options = {"fused": True} if is_fused else {}
        self.optimiser = torch.optim.SGD(self.trained, lr=case.learning_rate, **options)
        self.loss = nn.CrossEntropyLoss()
        self.next = 0

    def reset(self):
        self.next = 0
        with torch.no_grad():
            for parameter, values in zip(self.trained, self.case.tensors.values()):
                parameter.copy_(torch.from_numpy(values))

    def batch(self):
        rows = self.order[self.next]
        self.next = (self.next + 1) % len(self.order)
        x = self.x.index_select(0, rows)
        if self.is_channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        return x, self.labels.index_select(0, rows).flatten()

    def step(self):
        x, labels = self.batch()
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.loss(self.network(x), labels)
        loss.backward()
        self.optimiser.step()
        return loss

    def run(self, steps):
        for _ in range(steps):
            loss = self.step()
        return loss.detach()

    def weights(self):
        values = [p.detach().contiguous().numpy() for p in self.trained]
        return np.concatenate([v.ravel() for v in values])


class ByHand(Eager):
    """Only for models of dense layers: what the matrix products alone allow."""

    def __init__(self, case):
        super().__init__(case)
        self.dense = [m for m in self.network if isinstance(m, nn.Linear)]
        self.rows = torch.arange(case.batch)

    @torch.no_grad()
    def step(self):
        x, labels = self.batch()
        rate, inputs = self.case.learning_rate, [x]
        for layer in self.dense[:-1]:
            inputs.append(torch.addmm(layer.bias, inputs[-1], layer.weight.t()).relu_())
        last = self.dense[-1]
        logarithms = torch.addmm(last.bias, inputs[-1], last.weight.t()).log_softmax(1)
        loss = -logarithms[self.rows, labels].mean()
        delta = logarithms.exp_()
        delta[self.rows, labels] -= 1
        delta.div_(len(labels))
        for layer in reversed(self.dense):
            below = inputs.pop()
            down = (delta @ layer.weight).mul_(below > 0) if inputs else None
            layer.weight.addmm_(delta.t(), below, alpha=-rate)
            layer.bias.sub_(delta.sum(0), alpha=rate)
            delta = down
        return loss


def makers(case):
    found = {"eager": Eager}
    has_fused = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 4)
    if has_fused:
        found["fused"] = lambda case: Eager(case, is_fused=True)
    if len(case.input) == 3:
        found["channels_last"] = lambda case: Eager(case, is_channels_last=True)
        if has_fused:
            found["channels_last_fused"] = lambda case: Eager(case, is_channels_last=True, is_fused=True)
    if len(case.input) == 1 and case.name != "char-lstm":
        found["by_hand"] = ByHand
    return found


if __name__ == "__main__":
    serve({"peer": "torch", "version": torch.__version__}, makers)
