"""A client of `cudal1 serve`: evaluates programs and schedules for tasks, on a node here or elsewhere.

    import cudal1
    client = cudal1.connect()                        # CUDAL1_URL, else the node that serves on the data folder
    task = client.task("softmax")
    verdict = task.evaluate(schedule="row_kernel(steps=0)")
    print(verdict.correct, verdict.speedup, verdict.hint)

    fast = cudal1.optimize(model, inputs)            # a torch.nn.Module, by the program `cudal1` of this machine
"""

from .client import Client, Job, Search, Task, connect
from .errors import (
    Cudal1Error,
    InfrastructureError,
    InvalidRequest,
    NotAllowed,
    NotFound,
    TooManyRequests,
    TimeLimit,
)
from .optimize import NothingFaster, cudal1_package, optimize
from .records import Best, Gate, Item, Progress, Variant, Verdict

__all__ = [
    "Best",
    "Client",
    "Cudal1Error",
    "Gate",
    "InfrastructureError",
    "InvalidRequest",
    "Item",
    "Job",
    "NotAllowed",
    "NotFound",
    "NothingFaster",
    "Progress",
    "Search",
    "Task",
    "TimeLimit",
    "TooManyRequests",
    "Variant",
    "Verdict",
    "connect",
    "cudal1_package",
    "optimize",
]
