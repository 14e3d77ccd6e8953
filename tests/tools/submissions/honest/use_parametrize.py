# Uses a hook on itself, deep copies and pickles of its own layer.
# problem: block
import copy
import pickle
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        copy.deepcopy(self.linear)
        pickle.loads(pickle.dumps(self.linear.state_dict()))

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
