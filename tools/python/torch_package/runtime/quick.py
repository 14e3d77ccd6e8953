"""A call like the last one, of a module, as one function that is written for it: between two calls of a model caches are
cold, and then each of Python's functions on the way to the kernels takes as long as a launch."""

from __future__ import annotations

from typing import Any, Callable

import torch

from . import native
from .operators import Direct

_included, _excluded = torch._C._dispatch_tls_local_include_set, torch._C._dispatch_tls_local_exclude_set


class NoPlan(Exception):
    """The call is of a kind for which none is written."""


def _walked(model: torch.nn.Module, path: list[str], anchors: dict) -> torch.nn.Module:
    """The submodule; notes each one on the way: the dictionary that holds it, its key there, and itself."""
    for word in path:
        child = model._modules.get(word)
        if child is None:
            raise NoPlan
        anchors[id(model._modules), word] = model._modules, word, child
        model = child
    return model


def _place(model: torch.nn.Module, name: str, anchors: dict) -> tuple[dict, str]:
    """The dictionary that holds a weight, and its key there."""
    *path, leaf = name.split(".")
    owner = _walked(model, path, anchors)
    for held in (owner._parameters, owner._buffers):
        if isinstance(held.get(leaf), torch.Tensor):
            return held, leaf
    raise NoPlan


class Plan:
    """A call that is written as lines of Python."""

    def __init__(self, call: Callable):
        self.call = call


def plan(model: torch.nn.Module, inputs: list[torch.Tensor], names: list[str], watched: Any, modes: dict[str, bool],
         run: Direct, counted: Callable, returned: Callable | None) -> Any:
    """An object whose call(arguments), tensors by position, gives what forward returns, or None for a call that is not like
    this one. `run`: with the weights of these names; `watched`: the places of those whose versions count; `returned`: a
    function of the outputs, or None for a tensor or a tuple of several. Raises NoPlan."""
    found: dict = {}
    places = [_place(model, name, found) for name in names]
    for name in modes:
        _walked(model, name.split(".") if name else [], found)
    if any([type(t) is not torch.Tensor for t in inputs]):
        raise NoPlan
    anchors = list(found.values())
    if isinstance(run.function, native.Function):
        anchors += [(model.get_submodule(name).__dict__, "training", training) for name, training in modes.items()]
        return run.function.quick(inputs, anchors, [(held, key, w, i in watched) for i, ((held, key), w) in
                                                    enumerate(zip(places, run.weights))], run.weights, run.kept, run.graph,
                                  returned)
    return Plan(_written(model, inputs, places, anchors, watched, modes, run, counted, returned or _alone))


def _alone(outputs: list[torch.Tensor]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _written(model: torch.nn.Module, inputs: list[torch.Tensor], places: list[tuple], anchors: list[tuple], watched: Any,
             modes: dict[str, bool], run: Direct, counted: Callable, returned: Callable) -> Callable:
    weights = run.weights
    space: dict[str, Any] = {"included": _included, "excluded": _excluded, "run": run, "counted": counted,
                             "returned": returned, "grad": torch.is_grad_enabled, "Tensor": torch.Tensor,
                             "Parameter": torch.nn.Parameter, "inside": _included().raw_repr(),
                             "outside": _excluded().raw_repr()}
    given = [f"a{i}" for i in range(len(inputs))]
    tests = ["included().raw_repr() != inside", "excluded().raw_repr() != outside"]
    for i, t in enumerate(inputs):
        space |= {f"dtype{i}": t.dtype, f"shape{i}": t.shape, f"stride{i}": t.stride(), f"device{i}": t.device}
        tests += [f"type(a{i}) is not Tensor", f"a{i}.dtype is not dtype{i}", f"a{i}.shape != shape{i}",
                  f"a{i}.stride() != stride{i}", f"a{i}.device != device{i}"]
    if inputs[0].is_cuda:
        space["current_device"] = torch.cuda.current_device
        tests.append(f"current_device() != {inputs[0].device.index}")
    for i, (held, key, child) in enumerate(anchors):
        space |= {f"m{i}": held.get, f"c{i}": child}
        tests.append(f"m{i}({key!r}) is not c{i}")
    for i, ((held, key), w) in enumerate(zip(places, weights)):
        space |= {f"p{i}": held.get, f"w{i}": w, f"t{i}": w.dtype}
        tests += [f"p{i}({key!r}) is not w{i}", f"w{i}.data_ptr() != {w.data_ptr()}", f"w{i}.dtype is not t{i}"]
        if i in watched:
            tests.append(f"w{i}._version != {w._version}")
    for i, (name, training) in enumerate(modes.items()):
        space[f"s{i}"] = model.get_submodule(name)
        tests.append(f"s{i}.training is not {training}")
    requiring = [f"a{i}.requires_grad" for i in range(len(inputs))] + [f"w{i}.requires_grad" for i in range(len(weights))]
    text = f"def quick(args):\n    if len(args) != {len(inputs)}:\n        return None\n    {', '.join(given)}, = args\n"
    for test in tests:
        text += f"    if {test}:\n        return None\n"
    text += f"    if grad() and ({' or '.join(requiring)}):\n        return None\n"
    text += f"    counted()\n    return returned(run([{', '.join(given)}]))\n"
    exec(compile(text, "<quick call>", "exec"), space)
    return space["quick"]

