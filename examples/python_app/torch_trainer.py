"""A trainer for skep.Client that trains a PyTorch module: the application's model, its own optimiser.

    import skep
    from torch_trainer import TorchTrainer

    network = torch.nn.Sequential(torch.nn.Linear(4, 2))
    client = skep.Client(..., trainer=TorchTrainer(network, names={"fc1.weight": "0.weight",
                                                                   "fc1.bias": "0.bias"}))

`names` maps the plan's names of tensors to the module's (state_dict); without it they are the same.
PyTorch runs on the CPU or on any device of its own; the library's arrays are copied in and out.
"""

import torch


class TorchTrainer:
    def __init__(self, network, names=None, loss=torch.nn.functional.cross_entropy, device="cpu"):
        self._network = network.to(device)
        self._names = names or {}
        self._loss = loss
        self._device = device

    def train(self, task, model):
        self._load(model)
        self._network.train()
        optimiser = torch.optim.SGD(self._network.parameters(), lr=task.number("client.learning_rate", 0.1),
                                    momentum=task.number("client.momentum", 0.0),
                                    weight_decay=task.number("client.weight_decay", 0.0))
        for x, y, _ in task.batches():
            optimiser.zero_grad()
            loss = self._loss(self._network(self._tensor(x)), self._tensor(y))
            loss.backward()
            optimiser.step()
            task.progress(-1, loss.item())
        self._store(model)
        return task.examples

    def evaluate(self, task, model):
        self._load(model)
        self._network.eval()
        correct = 0
        with torch.no_grad():
            for x, y, _ in task.batches():
                correct += int((self._network(self._tensor(x)).argmax(dim=1) == self._tensor(y)).sum())
        task.metric("accuracy", correct / max(task.examples, 1))
        return task.examples

    def _tensor(self, batch):
        return torch.from_numpy(batch).to(self._device)

    def _load(self, model):
        """Copies, as the arrays end with the call and the network does not."""
        self._network.load_state_dict({self._names.get(name, name): torch.tensor(values)
                                       for name, values in model.items()})

    def _store(self, model):
        state = self._network.state_dict()
        for name, values in model.items():
            values[...] = state[self._names.get(name, name)].cpu().numpy()
