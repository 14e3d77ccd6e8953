"""A thread does the work, and is waited for."""
# problem: block
import threading

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        out = []
        grad = torch.is_grad_enabled()


        def work():
            with torch.set_grad_enabled(grad), torch.inference_mode(inference):
                out.append(torch.relu(self.linear(x)) + x)


        inference = torch.is_inference_mode_enabled()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return out[0]
