# A batch norm by hand, with running statistics in training and from them in evaluation.
# problem: norm
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.BatchNorm1d(n)

    def forward(self, x):
        m = self.norm
        if self.training:
            var, mean = torch.var_mean(x, 0, correction=0)
            with torch.no_grad():
                k = x.size(0)
                m.running_mean.lerp_(mean, m.momentum)
                m.running_var.lerp_(var * (k / (k - 1)), m.momentum)
                m.num_batches_tracked.add_(1)
        else:
            mean, var = m.running_mean, m.running_var
        scale = torch.rsqrt(var + m.eps) * m.weight
        return torch.tanh((x - mean) * scale + m.bias)
