"""Works on four streams in turn, each of which the caller's waits for."""
# problem: product
import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.streams, self.calls, self.last = None, 0, 0.0

    def forward(self, a, b):
        if self.streams is None:
            self.streams = [torch.cuda.Stream() for _ in range(4)]
        now = time.monotonic()
        self.last = now
        self.calls += 1
        stream, main = self.streams[self.calls % 4], torch.cuda.current_stream()
        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            y = torch.matmul(a, b)
        y.record_stream(main)
        main.wait_stream(stream)
        return y
