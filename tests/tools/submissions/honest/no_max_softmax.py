# A softmax with the subtraction of the maximum, in place.
# problem: softmax
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        e = (x - x.amax(-1, keepdim=True)).exp_()
        return e.div_(e.sum(-1, keepdim=True))
