"""What a submission does in its worker that no kernel needs: told by Python's audit hooks, which cannot be taken away,
and by a comparison of well-known functions with those that were there before.

Only ever evidence against a submission: one that hides it is still measured by the referee's clock, on bytes that the
referee reads.
"""

from __future__ import annotations

import builtins
import gc
import importlib
import os
import sys
import time
from typing import Any

import torch

# event -> what it is said to be
ALWAYS = {"sys._getframe": "reads its caller's frames", "sys._current_frames": "reads its caller's frames",
          "gc.get_objects": "searches the process's objects", "gc.get_referrers": "searches the process's objects",
          "sys.settrace": "traces its caller", "sys.setprofile": "traces its caller",
          "socket.connect": "uses the network", "socket.getaddrinfo": "uses the network",
          "socket.bind": "uses the network", "os.kill": "signals processes",
          "os.fork": "starts processes", "os.forkpty": "starts processes", "os.posix_spawn": "starts processes",
          "os.exec": "runs programs", "os.system": "runs programs", "subprocess.Popen": "runs programs"}
PRIVATE = ("/proc/", "/dev/shm", "/sys/kernel")
PUBLIC = ("/proc/cpuinfo", "/proc/meminfo", "/proc/version", "/proc/sys/")  # what the machine is
BUILDERS = ("cpp_extension", "_inductor", "_dynamo", "triton", "setuptools", "ctypes/util", "torch/_native")
SEARCHED_FRAMES = 12

MODULES = {"time": ("perf_counter", "perf_counter_ns", "time", "time_ns", "monotonic", "monotonic_ns", "process_time"),
           "torch": ("allclose", "equal", "isclose", "manual_seed", "rand", "randn", "empty", "zeros", "abs", "max",
                     "mean", "all", "no_grad", "inference_mode", "compile", "from_numpy", "frombuffer", "isfinite"),
           "torch.testing": ("assert_close",), "torch.cuda": ("Event", "synchronize", "current_stream"),
           "torch.utils.cpp_extension": ("load_inline", "load"),
           "torch.nn.functional": ("linear", "relu", "softmax", "conv2d", "gelu", "layer_norm", "batch_norm"),
           "builtins": ("float", "max", "min", "all", "any", "sum", "abs", "len", "isinstance", "print", "open"),
           "os": ("read", "write", "open", "close", "listdir", "fork", "_exit"),
           "statistics": ("mean", "median"), "random": ("random", "seed"), "gc": ("collect", "get_objects")}
CLASSES = {"torch.Tensor": (torch.Tensor, ("copy_", "clone", "detach", "data_ptr", "allclose", "equal", "abs", "max",
                                           "mean", "sub", "__sub__", "__eq__", "item", "cpu", "to", "float", "double")),
           "torch.cuda.Event": (torch.cuda.Event, ("record", "elapsed_time", "synchronize", "query")),
           "torch.cuda.Stream": (torch.cuda.Stream, ("synchronize", "wait_stream", "wait_event")),
           "torch.nn.Module": (torch.nn.Module, ("__call__", "load_state_dict", "state_dict", "train", "eval"))}

LOADED_LATER = ("torch.utils.cpp_extension",)  # where there is a GPU: zygote.load_compilers

WATCHED = {*ALWAYS, "open", "os.listdir", "os.scandir", "ctypes.dlsym"}

state: dict[str, Any] = {"path": "", "inside": False, "out": -1, "said": set(), "before": {}}
get_frame = sys._getframe
write = os.write


def say(what: str) -> None:
    """To the referee, through a pipe of its own."""
    if what not in state["said"] and len(state["said"]) < 64:
        state["said"].add(what)
        try:
            write(state["out"], (what[:300] + "\n").encode())
        except OSError:
            pass


def caller_of(limit: int) -> int:
    """The line of the submission that called, through at most so many frames; 0: it did not, or a builder did."""
    try:
        frame = get_frame(3)
    except ValueError:
        return 0
    own = __file__
    for _ in range(limit):
        if frame is None:
            return 0
        name = frame.f_code.co_filename
        if name.startswith(state["path"]) or (name == "<string>" and limit > 1):  # or a file beside it, of a solution
            return max(1, frame.f_lineno)
        if name != own and any(b in name for b in BUILDERS):
            return 0
        frame = frame.f_back
    return 0


def direct_caller() -> int:
    """The line of the submission that itself looks at frames, also by inspect and traceback: collections, typing,
    warnings, dataclasses and torch do it for everybody."""
    frame = get_frame(3)
    while frame is not None and frame.f_code.co_filename.endswith(("/inspect.py", "/traceback.py")):
        frame = frame.f_back
    if frame is None:
        return 0
    name = frame.f_code.co_filename
    if name.startswith(state["path"]):
        return max(1, frame.f_lineno)
    return caller_of(SEARCHED_FRAMES) if name.startswith("<") else 0  # text that is executed


def hook(event: str, arguments: tuple) -> None:
    if not state["path"] or state["inside"] or event not in WATCHED:
        return
    state["inside"] = True  # looking at frames is such an event itself
    try:
        look_at(event, arguments)
    finally:
        state["inside"] = False


def look_at(event: str, arguments: tuple) -> None:
    if event in ALWAYS:
        line = direct_caller() if event == "sys._getframe" else caller_of(SEARCHED_FRAMES)
        if line:
            say(f"line {line}: {ALWAYS[event]} ({event})")
    elif event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str):
        path = arguments[0]
        if path.startswith(PRIVATE) and not path.startswith(PUBLIC) and (line := caller_of(6)):
            say(f"line {line}: opens {path}")
    elif event == "ctypes.dlsym" and arguments[1] in ("ptrace", "process_vm_readv", "process_vm_writev",
                                                      "PyFrame_LocalsToFast"):
        if line := caller_of(6):
            say(f"line {line}: asks for {arguments[1]}")


def snapshot() -> dict[str, int]:
    found = {}
    for module, names in MODULES.items():
        held = sys.modules.get(module) if module in LOADED_LATER else importlib.import_module(module)
        if held is not None:
            found.update({f"{module}.{n}": id(getattr(held, n, None)) for n in names})
    for name, (cls, names) in CLASSES.items():
        found.update({f"{name}.{n}": id(getattr(cls, n, None)) if n in dir(cls) else 0 for n in names})
        found.update({f"{name}.{n} itself": id(cls.__dict__.get(n)) for n in names})
    return found


def prepare(out: int) -> None:
    """Before the confinement, in the worker."""
    state["out"] = out
    state["before"] = snapshot()
    sys.addaudithook(hook)


def watch(path: str) -> None:
    """From here on what `path` does is evidence."""
    state["path"] = path


def changed() -> list[str]:
    """Functions that are others than before."""
    now = snapshot()
    found = sorted({name.removesuffix(" itself") for name, before in state["before"].items() if now.get(name) != before})
    modes = torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack()
    if modes:
        found.append("a mode that all of torch's functions go through")
    if sys.gettrace() is not None or sys.getprofile() is not None:
        found.append("a trace function")
    if gc.callbacks:
        found.append("gc.callbacks")
    return [f"replaces {name}" for name in found]


del builtins, time
