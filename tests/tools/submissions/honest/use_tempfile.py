# Writes its settings to a temporary file at construction and reads them back.
# problem: block
import json
import tempfile
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        with tempfile.TemporaryFile("w+") as file:
            json.dump({"n": n}, file)
            file.seek(0)
            self.n = json.load(file)["n"]

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
