"""Right in inference mode, in another way."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        y = self.linear(x)
        return y.relu_().add_(x) if torch.is_inference_mode_enabled() else torch.relu(y) + x
