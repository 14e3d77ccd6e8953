"""A worker: runs one problem's Model, or one submission's ModelNew, in a process that the zygote has confined.

What is here runs beside the submission, which can change all of it. So nothing is decided here: the referee reads bytes
from shared memory when its own clock has stopped, and the evidence that this process reports is only ever used against
the submission.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import linecache
import random
import socket
import sys
import traceback
import types
from typing import Any

import torch

from submissions import evidence
from submissions.protocol import DONE, FAILED, GO, Arena, Broken, Line, flattened, leaf_of, rebuilt

SUBMISSION, PROBLEM = "/tmp/submission.py", "/tmp/problem.py"
KEPT = 4  # answers, as they were returned: pool.KEPT
detach, copy_into, synchronize = torch.Tensor.detach, torch.Tensor.copy_, torch.cuda.synchronize


def sentence(problem: BaseException) -> str:
    text = " ".join(line.strip() for line in str(problem).splitlines() if line.strip())
    name = type(problem).__name__
    where = [f.lineno for f in traceback.extract_tb(problem.__traceback__) if f.filename == SUBMISSION]
    at = f" (line {where[-1]})" if where else ""
    return f"{name}: {text[:300]}{at}" if text else name + at


def set_seed(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)


def run_source(source: str, path: str, name: str, names: dict[str, Any]) -> types.ModuleType:
    """As a module in a file, so that torch.compile, inspect and messages find its source."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    linecache.checkcache(path)
    module = types.ModuleType(name)
    module.__dict__.update(names)
    module.__file__ = path
    sys.modules[name] = module
    exec(compile(source, path, "exec"), module.__dict__)
    return module


class Served:
    """One model and what the referee asks of it."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.arena: Any = None
        self.model: Any = None
        self.problem: Any = None
        self.double = False
        self.drawn: list[torch.Tensor] = []
        self.kept: collections.deque[list[torch.Tensor]] = collections.deque(maxlen=KEPT)
        self.fd: list[int] = []

    # Each request by its name; a reply is what is returned.

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Runs the problem, then the submission in the same names, and makes the model after a seed."""
        set_seed(request["seed"])
        self.problem = run_source(request["problem"], PROBLEM, "cudal1_problem", {"__name__": "cudal1_problem"})
        set_seed(request["seed"])
        initial = self.problem.get_init_inputs() if hasattr(self.problem, "get_init_inputs") else []
        initial = self.on_device(initial)
        made_by = self.problem.Model
        if request["submission"] is not None:
            evidence.watch(SUBMISSION)
            names = {k: v for k, v in vars(self.problem).items() if not k.startswith("__")}
            set_seed(request["seed"])
            module = run_source(request["submission"], SUBMISSION, "cudal1_submission", names)
            if not hasattr(module, "ModelNew"):
                raise TypeError("the submission defines no ModelNew")
            made_by = module.ModelNew
        set_seed(request["seed"])
        self.model = made_by(**initial) if isinstance(initial, dict) else made_by(*initial)
        self.double = request["double"]
        if self.double:
            self.model = self.model.double()
        if self.device != "cpu" and isinstance(self.model, torch.nn.Module):
            self.model = self.model.to(self.device)
        return {"state": self.state_of()}

    def state_of(self) -> list[dict[str, Any]]:
        if not isinstance(self.model, torch.nn.Module):
            return []
        parameters = {name for name, _ in self.model.named_parameters()}
        return [dict(leaf_of(t), name=name, parameter=name in parameters)
                for name, t in self.model.state_dict().items() if isinstance(t, torch.Tensor)]

    def map(self, request: dict[str, Any]) -> dict[str, Any]:
        fd = self.fd.pop()
        if self.device == "cpu":
            self.arena = Arena(fd, request["size"])
        else:
            from submissions.device_memory import DeviceArena

            self.arena = DeviceArena(fd, request["size"], int(self.device.removeprefix("cuda:")))
        return {}

    def on_device(self, value: Any) -> Any:
        """As KernelBench's evaluator does: the tensors of a list of arguments go to the device."""
        if self.device == "cpu":
            return value
        if isinstance(value, dict):
            return {k: self.on_device(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.on_device(v) for v in value)
        return value.to(self.device) if isinstance(value, torch.Tensor) else value

    def new_inputs(self) -> list[Any]:
        """On a GPU they are drawn there: a processor would take seconds for the large ones."""
        with torch.device(self.device) if self.device != "cpu" else contextlib.nullcontext():
            return list(self.problem.get_inputs())

    def draw(self, request: dict[str, Any]) -> dict[str, Any]:
        """get_inputs of the problem after a seed. With `offsets` the tensors go to shared memory."""
        set_seed(request["seed"])
        leaves: list[torch.Tensor] = []
        tree = flattened(self.new_inputs(), leaves)
        described = [leaf_of(t) for t in leaves]
        if request.get("offsets"):
            for t, leaf, offset in zip(leaves, described, request["offsets"]):
                self.arena.view(leaf, offset).copy_(t)
        return {"tree": tree, "leaves": described}

    def rehearse(self, request: dict[str, Any]) -> dict[str, Any]:
        """A call on inputs of its own, in each mode, for what is compiled then; before anything is timed."""
        set_seed(request["seed"])
        inputs = self.on_device(self.new_inputs())
        self.model(*inputs)
        for trains, grad in ((False, "no_grad"), (True, "grad"), (True, "inference"), (True, "no_grad")):
            with contextlib.suppress(Exception), mode_of({"train": trains, "grad": grad}, self.model):
                self.model(*inputs)
        return {}

    def put_state(self, request: dict[str, Any]) -> dict[str, Any]:
        for name, offset in request["offsets"].items():
            t = self.model.state_dict()[name]
            self.arena.view(leaf_of(t), offset).copy_(t.detach())
        return {}

    def load_state(self, request: dict[str, Any]) -> dict[str, Any]:
        given = {leaf["name"]: self.arena.view(leaf, leaf["offset"]).clone() for leaf in request["state"]}
        self.model.load_state_dict(given)
        return {}

    def inputs_of(self, request: dict[str, Any]) -> list[Any]:
        views = [self.arena.view(leaf, offset) for leaf, offset in zip(request["leaves"], request["inputs"])]
        if self.double:
            return views  # turned to float64 when they have arrived
        return rebuilt(request["tree"], views)

    def report(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"evidence": evidence.changed()}

    def kept_again(self, request: dict[str, Any]) -> dict[str, Any]:
        """Places what an earlier call returned, as it is now."""
        placed = self.kept[-1 - request["back"]]
        for t, (leaf, offset) in zip(placed, request["outputs"]):
            copy_into(self.arena.view(leaf, offset), detach(t))
        return {}


@contextlib.contextmanager
def mode_of(request: dict[str, Any], model: Any) -> Any:
    trains = request.get("train", True)
    if isinstance(model, torch.nn.Module) and model.training != trains:
        model.train(trains)
    with {"no_grad": torch.no_grad, "grad": torch.enable_grad, "inference": torch.inference_mode}[request["grad"]]():
        yield


def call(served: Served, request: dict[str, Any], line: Line) -> dict[str, Any]:
    """One call, from GO to the byte that says that all outputs are in shared memory."""
    inputs = served.inputs_of(request)
    targets = [served.arena.view(leaf, offset) for leaf, offset in request["outputs"]]
    model, kept, send, double = served.model, served.kept, line.stream.send, served.double
    problem, leaves, tree, tensors = None, [], None, []
    if request.get("reseed") is not None:
        set_seed(request["reseed"])
    with mode_of(request, model):
        if line.byte() != GO:
            raise Broken("the referee said something else")
        try:
            if double:
                inputs = rebuilt(request["tree"], [v.double() if v.is_floating_point() else v.clone() for v in inputs])
            out = model(*inputs)
            tree = flattened(out, tensors)
            for t, into in zip(tensors, targets):
                if t.shape == into.shape and (double or t.dtype == into.dtype):
                    copy_into(into, detach(t))
            if served.device != "cpu":
                synchronize()
        except Exception as caught:  # an answer, which the referee judges
            problem = caught
        send(FAILED if problem is not None else DONE)
    if problem is not None:
        return {"problem": sentence(problem)}
    leaves = [leaf_of(t) for t in tensors]
    kept.append(tensors)
    return {"tree": tree, "leaves": leaves}


def serve(stream: socket.socket, device: str) -> None:
    line, served = Line(stream), Served(device)
    names = {"load", "map", "draw", "rehearse", "put_state", "load_state", "report", "kept_again"}
    while True:
        request = line.hear(served.fd)
        what = request["do"]
        try:
            if what == "call":
                reply = call(served, request, line)
            elif what in names:
                with torch.no_grad():
                    reply = getattr(served, what)(request)
                if device != "cpu":
                    synchronize()
            else:
                raise Broken(f"there is no request {what}")
        except (Broken, KeyboardInterrupt):
            raise
        except BaseException as problem:  # sys.exit in a submission too
            traceback.print_exc()
            reply = {"problem": sentence(problem)}
        gc.collect(0)
        line.say(reply)
