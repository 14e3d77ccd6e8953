# Writes a line to standard error at construction, as a file that logs does, and computes honestly.
# problem: deep
import json
import sys
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
        sys.stderr.write(json.dumps({"correct": True, "width": n}) + "\n")
        print("made a model of width", n)

    def forward(self, x):
        return self.layers(x)
