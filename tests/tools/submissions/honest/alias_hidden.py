# Keeps a record of its own of the shapes of earlier results in a deque, clears it, and returns a fresh tensor.
# problem: copy
import collections
import torch
import torch.nn as nn


record = collections.deque(maxlen=4)


class ModelNew(nn.Module):
    def forward(self, x):
        record.clear()
        record.append(x.shape)
        return x.view(-1).clone().view(x.shape)
