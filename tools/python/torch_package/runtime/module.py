"""Modules that run variants: of the class of a model, with its very parameters, buffers, state_dict and signature."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import threading
from typing import Any, Callable

import torch
from torch.utils import _pytree

from . import native, quick
from .dispatch import Dispatcher

_HOOKS_OF_ALL = (torch.nn.modules.module._global_backward_pre_hooks, torch.nn.modules.module._global_backward_hooks,
                 torch.nn.modules.module._global_forward_hooks, torch.nn.modules.module._global_forward_pre_hooks)
PLAN = "_cudal1_plan"  # in a module's dictionary: what makes a call like the last one
_classes: dict[tuple[str, str, type], type] = {}
_lock = threading.Lock()


def returned(structure: Any, outputs: list[torch.Tensor], home: str) -> Any:
    """What forward returns: a place among the outputs, None, or containers of these (sandbox/program/task_interface.hpp).
    `home`: the module of classes that are named without one."""
    if structure is None:
        return None
    if isinstance(structure, int):
        return outputs[structure]
    (kind, items), = structure.items()
    if kind == "object":
        module, _, name = items[0].rpartition(":")
        found: Any = sys.modules.get(module or home) or importlib.import_module(module or home)
        for word in name.split("."):
            found = getattr(found, word)
        return found(**{key: returned(value, outputs, home) for key, value in items[1:]})
    if kind == "dict":
        return {key: returned(value, outputs, home) for key, value in items}
    made = [returned(item, outputs, home) for item in items]
    return tuple(made) if kind == "tuple" else made


def is_watched(tensors: list[torch.Tensor]) -> bool:
    """Whether PyTorch must see a call as one of an operator: while something records, traces or transforms operators, or
    where tensors have no memory of their own to read."""
    if torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state() is not None:
        return True
    return any([type(t) is not torch.Tensor and type(t) is not torch.nn.Parameter or t.is_meta for t in tensors])


def needs_gradients(tensors: list[torch.Tensor], weights: list[torch.Tensor]) -> bool:
    return torch.is_grad_enabled() and (any([t.requires_grad for t in tensors]) or any([w.requires_grad for w in weights]))


def with_own_elements(t: torch.Tensor) -> torch.Tensor:
    """A copy of what was expanded, as a mask often is; the variant was made for one whose elements have their own memory."""
    return t.contiguous() if any([n > 1 and stride == 0 for n, stride in zip(t.shape, t.stride())]) else t


def call(dispatcher: Dispatcher, binding: Any, home: str, eager: Callable, model: torch.nn.Module, args: tuple,
         kwargs: dict[str, Any]) -> Any:
    """`eager`: the model's own forward."""
    tensors, why = binding.tensors(args, kwargs)
    compiling = torch.compiler.is_compiling()
    if not why:
        why = dispatcher.reason_for_eager(model, tensors) if not compiling else _reason_while_compiling(tensors)
    case, is_copied = None, False
    if not why:
        case, weights, why = dispatcher.choose(model, tensors)
        if case is None and not compiling:
            own = [with_own_elements(t) for t in tensors]
            is_copied = any([a is not b for a, b in zip(own, tensors)])
            if is_copied:
                tensors = own
                case, weights, why = dispatcher.choose(model, tensors)
    if case is not None and not compiling:
        if torch._C._functorch.peek_interpreter_stack() is not None or torch._C._is_fwd_grad_enabled() and any(
                [torch.autograd.forward_ad.unpack_dual(t).tangent is not None for t in tensors]):
            case, why = None, "torch.func transforms it, or a tensor has a tangent"
        else:
            why = case.operator.problem_on(tensors[0].device) if not tensors[0].is_meta else ""
            case = None if why else case
    if case is None:
        if not compiling:
            dispatcher.calls.count_eager(f"{dispatcher.name}: {why}")
        return eager(model, *args, **kwargs)
    operator = case.operator
    direct = not (compiling or is_watched(tensors))
    if not direct or needs_gradients(tensors, weights):
        outputs = operator.operator(tensors, weights)
    else:
        outputs = operator.run([t.detach() if t.requires_grad else t for t in tensors], weights)
    if direct and not is_copied and binding.is_plain and not kwargs and len(args) == dispatcher.arguments.leading:
        model.__dict__[PLAN] = _plan(dispatcher, case, home, model, tensors, weights)
    return _returned(dispatcher, home, outputs)


def _returned(dispatcher: Dispatcher, home: str, outputs: list[torch.Tensor]) -> Any:
    if dispatcher.returned is None:
        return outputs[0] if len(outputs) == 1 else tuple(outputs)
    return returned(dispatcher.returned["structure"], outputs, home)


def _plan(dispatcher: Dispatcher, case: Any, home: str, model: torch.nn.Module, tensors: list[torch.Tensor],
          weights: list[torch.Tensor]) -> Any:
    """What makes the next call like this one, by its call(arguments); None where there is nothing like that."""
    operator = case.operator
    run = operator.direct(tensors, weights)
    if run is None or dispatcher.constants:
        return None
    give = None if dispatcher.returned is None else lambda outputs: _returned(dispatcher, home, outputs)
    try:
        return quick.plan(model, tensors, case.weights, operator.watched, case.modes, run, operator.counted, give)
    except quick.NoPlan:
        return None


def _reason_while_compiling(tensors: list[torch.Tensor]) -> str:
    return "autocast is on" if torch.is_autocast_enabled(tensors[0].device.type) else ""


def optimized_class(package: str, dispatcher: Dispatcher, base: type) -> type:
    """A subclass of `base` whose forward runs variants; one for each package, model and class."""
    key = package, dispatcher.name, base
    with _lock:
        if key not in _classes:
            _classes[key] = _made_class(package, dispatcher, base)
        return _classes[key]


def _made_class(package: str, dispatcher: Dispatcher, base: type) -> type:
    original = base.forward
    binding = dispatcher.arguments.bound_to(original)
    home, off = base.__module__, dispatcher.calls.is_off

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and not torch.compiler.is_compiling():
            plan = self.__dict__.get(PLAN)
            if plan is not None and not off.__dict__:
                outputs = plan.call(args)
                if outputs is not None:
                    return outputs
        return call(dispatcher, binding, home, original, self, args, kwargs)

    def reduced(self: Any, protocol: int) -> Any:
        own = getattr(base, "__getstate__", None)
        state = own(self) if own is not None and own is not getattr(object, "__getstate__", None) else self.__dict__
        return rebuild, (package, dispatcher.name, base), {k: v for k, v in state.items() if k != PLAN}

    members: dict[str, Any] = {"forward": forward, "__reduce_ex__": reduced, "__doc__": base.__doc__,
                               "__module__": base.__module__, "_cudal1_package": package}
    quick_call, usual = native.call_module(), torch.nn.Module.__call__
    if quick_call is not None and base.__call__ is usual:
        is_compiling = torch.compiler.is_compiling

        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            """As nn.Module's, which takes longer than a small kernel's launch."""
            if not kwargs and not is_compiling() and not off.__dict__:
                outputs = quick_call(self.__dict__, args, PLAN, _HOOKS_OF_ALL)
                if outputs is not None:
                    return outputs
            return usual(self, *args, **kwargs)

        members["__call__"] = called
    made = type(base.__name__, (base,), members)
    made.__qualname__ = base.__qualname__
    made.forward.__signature__ = inspect.signature(original)
    return made


def rebuild(package: str, name: str, base: type) -> torch.nn.Module:
    """A module without its state, for pickle and copy."""
    found = importlib.import_module(package)._package.dispatcher(name)
    made = optimized_class(package, found, base)
    return made.__new__(made)


def optimized(package: str, dispatcher: Dispatcher, model: torch.nn.Module) -> torch.nn.Module:
    """The model with its forward by variants: it shares all parameters, buffers, submodules and hooks."""
    made = optimized_class(package, dispatcher, type(model))
    new = made.__new__(made)
    new.__dict__.update({k: v for k, v in model.__dict__.items() if k != PLAN})
    # What is registered later on one is not on the other; tensors and submodules are the same.
    for name in ("_parameters", "_buffers", "_modules"):
        new.__dict__[name] = type(model.__dict__[name])(model.__dict__[name])
    return new


def leaves(value: Any) -> list[torch.Tensor]:
    return [t for t in _pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]
