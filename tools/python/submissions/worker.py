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
import os
import random
import socket
import sys
import traceback
import types
from typing import Any

import torch

from submissions import evidence, failed_builds
from submissions.protocol import (DONE, FAILED, GO, READY, Arena, Broken, Line, copy_all, flattened, leaf_of,
                                  rebuilt)

# Beside what a build keeps: some submissions compile into a folder next to their file.
SUBMISSION, PROBLEM = "/tmp/build/submission.py", "/tmp/build/problem.py"
KEPT = 4  # answers, as they were returned: pool.KEPT
detach, copy_into, synchronize = torch.Tensor.detach, torch.Tensor.copy_, torch.cuda.synchronize
fill, place_all = torch.Tensor.fill_, copy_all


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
        self.arenas: list[Any] = []
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
            if "cpp_extension" in request["submission"]:
                failed_builds.keep_failures()
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
            self.arenas.append(self.arena)  # a model may hold a tensor of an earlier one
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
        """get_inputs of the problem after a seed, once, or once for each of `offsets`: there its tensors go in shared
        memory."""
        set_seed(request["seed"])
        described: dict[str, Any] = {}
        for offsets in request.get("offsets") or [[]]:
            leaves: list[torch.Tensor] = []
            tree = flattened(self.new_inputs(), leaves)
            described = {"tree": tree, "leaves": [leaf_of(t) for t in leaves]}
            for t, leaf, offset in zip(leaves, described["leaves"], offsets):
                self.arena.view(leaf, offset).copy_(t)
        return described

    def rehearse(self, request: dict[str, Any]) -> dict[str, Any]:
        """A call on inputs of its own, in each mode, for what is compiled then; before anything is timed."""
        set_seed(request["seed"])
        inputs = self.on_device(self.new_inputs())
        self.model(*inputs)
        for trains, grad in ((False, "no_grad"), (True, "grad"), (True, "inference"), (True, "no_grad")):
            with contextlib.suppress(Exception), mode_of({"train": trains, "grad": grad}, self.model):
                self.model(*inputs)
        return {}

    def open_folder(self, _: dict[str, Any]) -> dict[str, Any]:
        """Lets other users read what a build leaves: libraries make folders of their own user's, as drivers' caches."""
        for folder, _, names in os.walk(os.path.dirname(SUBMISSION)):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                if not os.path.islink(path):
                    with contextlib.suppress(OSError):  # not its own: it is read as it is, or refused
                        mode = os.stat(path).st_mode
                        os.chmod(path, mode | (0o755 if os.path.isdir(path) else 0o644))
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


class Burst:
    """What a request for calls needs, ready before the clock starts."""

    def __init__(self, served: Served, request: dict[str, Any]):
        self.tree, self.double, self.on_gpu = request["tree"], served.double, served.device != "cpu"
        self.views = [[served.arena.view(leaf, offset) for leaf, offset in zip(request["leaves"], offsets)]
                      for offsets in request["inputs"]]
        self.arguments = [] if self.double else [rebuilt(self.tree, views) for views in self.views]
        self.targets = [[served.arena.view(leaf, offset) for leaf, offset in zip(request["output_leaves"], offsets)]
                        for offsets in request["outputs"]]
        self.late = {call: (self.views[call][i].view(-1)[begin:end], value)
                     for call, i, begin, end, value in request.get("late", ())}
        self.at_once = set() if self.double else set(request.get("at_once", ()))
        self.nothing = torch.zeros(1, device=served.device) if self.on_gpu and not self.views else None

    def run(self, model: Any, results: list[Any]) -> None:
        """All calls, with no synchronize between them: one that is replaced by a submission gives it no time."""
        if self.double:
            for views in self.views:
                views = [v.double() if v.is_floating_point() else v.clone() for v in views]
                results.append(model(*rebuilt(self.tree, views)))
            return
        for call, arguments in enumerate(self.arguments):
            if call in self.late:
                fill(*self.late[call])
            results.append(model(*arguments))
            if call in self.at_once:
                place_all(self.pairs_of(results[call], call)[0])

    def pairs_of(self, result: Any, call: int) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], Any]:
        """Each of its tensors with its place, which one of another shape or dtype has not; and its form."""
        tensors: list[torch.Tensor] = []
        tree = flattened(result, tensors)
        return [(into, detach(t)) for t, into in zip(tensors, self.targets[call])
                if t.shape == into.shape and (self.double or t.dtype == into.dtype)], (tree, tensors)

    def place(self, results: list[Any]) -> list[tuple[Any, list[torch.Tensor]]]:
        """Copies the outputs behind all calls, so that the copies are never hidden behind the calls' work, and returns
        the form of each."""
        forms, pairs = [], []
        for call, result in enumerate(results):
            some, form = self.pairs_of(result, call)
            forms.append(form)
            if call not in self.at_once:
                pairs += some
        place_all(pairs)
        if self.nothing is not None:
            fill(self.nothing, 1.0)
        return forms


def call(served: Served, request: dict[str, Any], line: Line) -> dict[str, Any]:
    """A burst of calls, from GO to the byte that says that all outputs are in shared memory."""
    burst = Burst(served, request)
    model, send = served.model, line.stream.send
    problem, results, forms = None, [], []
    if burst.on_gpu:
        synchronize()
    with mode_of(request, model):
        send(READY)
        if line.byte() != GO:
            raise Broken("the referee said something else")
        try:
            burst.run(model, results)
            forms = burst.place(results)
            if burst.on_gpu:
                synchronize()
        except Exception as caught:  # an answer, which the referee judges
            problem = caught
        send(FAILED if problem is not None else DONE)
    if problem is not None:
        return {"problem": sentence(problem)}
    described: list[dict[str, Any]] = []
    for tree, tensors in forms:
        served.kept.append(tensors)
        form = {"tree": tree, "leaves": [leaf_of(t) for t in tensors]}
        if form not in described:
            described.append(form)
    return {"forms": described}


def make_context(device: str) -> None:
    """What every worker on a GPU needs first, before anything of a problem or submission is there."""
    t = torch.ones(8, 8, device=device)
    torch.mm(t, t).add_(1)
    synchronize()


def serve(stream: socket.socket, device: str) -> None:
    line, served = Line(stream), Served(device)
    names = {"load", "map", "draw", "rehearse", "open_folder", "put_state", "load_state", "report", "kept_again"}
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
        if what in ("load", "rehearse"):  # what these have made stays
            gc.collect()
            gc.freeze()
        gc.collect(0)
        line.say(reply)
