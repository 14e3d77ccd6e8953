# Uses torch.jit.trace at its first call for each shape.
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.traced = {}

    def forward(self, x):
        if torch.is_grad_enabled() or torch.is_inference_mode_enabled():
            return torch.relu(self.linear(x)) + x
        key = tuple(x.shape)
        if key not in self.traced:
            self.traced[key] = torch.jit.trace(lambda a, w, b: torch.relu(torch.addmm(b, a, w.t())) + a, (x, self.linear.weight, self.linear.bias), check_trace=False)
        return self.traced[key](x, self.linear.weight, self.linear.bias)
