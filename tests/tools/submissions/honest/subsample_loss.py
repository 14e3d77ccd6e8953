# Takes the mean over blocks of rows, of all of them, with a strided slice for each block.
# problem: mse
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        total = 0
        for i in range(4):
            total = total + torch.nn.functional.mse_loss(a[i::4], b[i::4], reduction="sum")
        return total / a.numel()
