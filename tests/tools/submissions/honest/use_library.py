# Registers an operator of its own in a library of its own.
# problem: block
import torch
import torch.nn as nn

lib = torch.library.Library("mine2", "DEF")
lib.define("step(Tensor x, Tensor w, Tensor b) -> Tensor")


def step(x, w, b):
    return torch.relu(torch.addmm(b, x, w.t())) + x


lib.impl("step", step, "CompositeImplicitAutograd")


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        return torch.ops.mine2.step(x, self.linear.weight, self.linear.bias)
