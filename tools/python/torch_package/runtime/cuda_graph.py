"""A program's steps as one CUDA graph, for programs that were measured as one. Inputs are copied into the graph's memory
and outputs out of it, so that a result never changes with a later call."""

from __future__ import annotations

import threading
from typing import Any, Callable

import torch

_WARM_UP = 2  # libraries choose and load their kernels in the first calls


class Graph:
    """Of one set of weights on one GPU. `steps`: a function of the inputs. One call at a time goes through it."""

    def __init__(self, steps: Callable, inputs: list[torch.Tensor]):
        self._lock = threading.Lock()
        device = inputs[0].device
        self._inputs = [torch.empty_like(t).copy_(t) for t in inputs]
        here, apart = torch.cuda.current_stream(device), torch.cuda.Stream(device)
        apart.wait_stream(here)
        with torch.cuda.stream(apart):
            for _ in range(_WARM_UP):
                steps(self._inputs)
        here.wait_stream(apart)
        torch.cuda.synchronize(device)
        self._graph = torch.cuda.CUDAGraph()
        # Other threads may call CUDA meanwhile.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._outputs = steps(self._inputs)
        self._free = torch.cuda.Event()  # the last replay's outputs are copied
        self._free.record(torch.cuda.current_stream(device))

    def __call__(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        with self._lock:
            stream = torch.cuda.current_stream(inputs[0].device)
            stream.wait_event(self._free)  # calls on other streams
            torch._foreach_copy_(self._inputs, inputs)
            self._graph.replay()
            outputs: list[Any] = [torch.empty_like(t) for t in self._outputs]
            torch._foreach_copy_(outputs, self._outputs)
            self._free.record(stream)
            return outputs
