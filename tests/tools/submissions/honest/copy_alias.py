# Copies through a second view of the input.
# problem: copy
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.view(-1).clone().view(x.shape)
