"""Which variant a call of a module runs: by shapes, dtypes, layouts and device of its tensors, the modes of its modules
and all arguments that are no tensors. Where nothing fits, the model's own forward runs, and why is counted."""

from __future__ import annotations

import collections
import dataclasses
import inspect
import threading
from typing import Any

import torch

from .operators import Operator
from .program import is_laid_out


class Calls:
    """How many calls ran the models' own forward, of a package, and why."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.eager: collections.Counter[str] = collections.Counter()
        self.is_off = threading.local()  # `with package.eager():`

    def count_eager(self, why: str) -> None:
        with self._lock:
            self.eager[why] += 1


# ---- arguments ------------------------------------------------------------------------------------------------------
# A form of an argument, as JSON: ["tensor"], ["value", 3], ["items", [["x", form], [0, form]]].


class NoForm(Exception):
    """An argument that a package cannot recognise again."""


def items_of(value: Any) -> list[tuple[Any, Any]] | None:
    """What a container has: names, or places, and values; None of anything else."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value))
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.init]
    return None


def form_of(value: Any) -> list:
    if isinstance(value, torch.Tensor):
        return ["tensor"]
    items = items_of(value)
    if items is not None:
        return ["items", [[key, form_of(item)] for key, item in items]]
    if value is None or type(value) in (bool, int, float, str):
        return ["value", value]
    raise NoForm(f"an argument is a {type(value).__name__}, which is neither a tensor nor a container, number or text")


def add_tensors(value: Any, form: list, where: str, tensors: list[torch.Tensor]) -> str:
    """Adds an argument's tensors in the order of the form. Why it has another form; "" if it has not."""
    kind = form[0]
    if kind == "tensor":
        if not isinstance(value, torch.Tensor):
            return f"{where} is no tensor"
        tensors.append(value)
        return ""
    if kind == "value":
        return "" if type(value) is type(form[1]) and value == form[1] else f"{where} is not {form[1]!r}"
    items = items_of(value)
    given = dict(items) if items is not None else {}
    if len(given) != len(form[1]):
        return f"{where} is another container"
    for key, inner in form[1]:
        if key not in given:
            return f"{where} has no {key!r}"
        problem = add_tensors(given[key], inner, f"{where}[{key!r}]", tensors)
        if problem:
            return problem
    return ""


class Arguments:
    """The call that variants were made for: forms by the names of forward's parameters."""

    def __init__(self, names: list[str], forms: list[list]):
        self.names, self.forms = names, forms
        self.leading = next((i for i, form in enumerate(forms) if form != ["tensor"]), len(forms))  # tensors

    def bound_to(self, forward: Any) -> Binding:
        return Binding(self, list(inspect.signature(forward).parameters.values()))


class Binding:
    """How a class's forward takes these arguments; parameters that the variants do not know keep their defaults."""

    def __init__(self, arguments: Arguments, parameters: list[inspect.Parameter]):
        self.arguments = arguments
        own = [p for p in parameters if p.name != "self"]
        self.position = {p.name: i for i, p in enumerate(own) if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)}
        self.row = next((p.name for p in own if p.kind is p.VAR_POSITIONAL), "")
        self.before_row = len(self.position)
        self.defaults = {p.name: p.default for p in own if p.default is not p.empty}
        self.known = {p.name for p in own}
        # Tensors by position, and all else as it is by default: the usual call.
        first, rest = arguments.names[:arguments.leading], zip(arguments.names, arguments.forms)
        usual = all(n in self.defaults and not add_tensors(self.defaults[n], f, n, []) for n, f in rest if n not in first)
        self.is_plain = bool(first) and list(self.position)[:len(first)] == first and usual

    def tensors(self, args: tuple, kwargs: dict[str, Any]) -> tuple[list[torch.Tensor], str]:
        """The call's tensors, or why it is another call."""
        wanted = self.arguments
        if self.is_plain and not kwargs and len(args) == wanted.leading:
            if all([isinstance(a, torch.Tensor) for a in args]):
                return list(args), ""
        given = dict(kwargs)
        for name, i in self.position.items():
            if i < len(args):
                given[name] = args[i]
        for i, value in enumerate(args[self.before_row:]):
            given[f"{self.row}_{i}"] = value
        found: list[torch.Tensor] = []
        for name, form in zip(wanted.names, wanted.forms):
            if name in given:
                problem = add_tensors(given.pop(name), form, name, found)
            elif name in self.defaults:
                problem = add_tensors(self.defaults[name], form, name, found)
            else:
                problem = f"{name} is not given"
            if problem:
                return [], problem
        for name, value in given.items():
            if name not in self.defaults or isinstance(value, torch.Tensor) or value is not self.defaults[name] and \
                    value != self.defaults[name]:
                return [], f"{name} is given"
        return found, ""


# ---- variants -------------------------------------------------------------------------------------------------------


def _form_text(tensors: list[torch.Tensor]) -> str:
    return ", ".join([f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors])


class Case:
    """A variant, and what a call must look like to run it."""

    def __init__(self, operator: Operator, device_type: str, weights: list[str], modes: dict[str, bool]):
        self.operator, self.device_type, self.weights, self.modes = operator, device_type, weights, modes
        self.key = tuple([(getattr(torch, d["dtype"]), tuple(d["shape"])) for d in operator.inputs])
        types = operator.document["types"]
        self.weight_forms = [(getattr(torch, d["dtype"]), tuple(d["shape"]), types[d["name"]]) for d in operator.weights]

    def wrong_mode(self, model: torch.nn.Module) -> str:
        for name, training in self.modes.items():
            module = model.get_submodule(name)
            if module.training != training:
                mode = "training" if training else "evaluation"
                return f"{name or 'the model'} is not in {mode} mode, in which the variant was made"
            if training and isinstance(module, torch.nn.modules.batchnorm._NormBase) and module.running_mean is not None:
                return f"{name} updates running statistics, which variants do not"
        return ""

    def wrong_weight(self, weights: list[torch.Tensor], device: torch.device) -> str:
        for name, t, (dtype, shape, declared) in zip(self.weights, weights, self.weight_forms):
            if t.dtype != dtype or tuple(t.shape) != shape:
                return f"{name} is {_form_text([t])}, and the variant was made for {_form_text_of(declared)}"
            if t.device != device:
                return f"{name} is on {t.device}, and the inputs on {device}"
        return ""

    def wrong_layout(self, inputs: list[torch.Tensor], weights: list[torch.Tensor]) -> str:
        named = [(d["name"], t, self.operator.document["types"][d["name"]]) for d, t in zip(self.operator.inputs, inputs)]
        named += [(n, t, d) for n, t, (_, _, d) in zip(self.weights, weights, self.weight_forms)]
        for name, t, declared in named:
            if not is_laid_out(t, declared):
                return f"{name} has strides {list(t.stride())}, and the variant was made for {declared['strides']}"
        return ""


def _form_text_of(declared: dict[str, Any]) -> str:
    return f"{declared['dtype']}{declared['shape']}"


class Dispatcher:
    """The variants of one model."""

    def __init__(self, name: str, arguments: Arguments, cases: list[Case], returned: Any, calls: Calls,
                 constants: dict[str, torch.Tensor]):
        self.name, self.arguments, self.cases, self.returned, self.calls = name, arguments, cases, returned, calls
        self.constants = constants  # tensors that forward makes, and no module has
        self.ranges: list[Any] = []  # batch.RangeCase: for calls that no tuned shape fits
        self._by_key: dict[tuple, list[Case]] = {}
        for case in cases:
            self._by_key.setdefault(case.key, []).append(case)

    def weight(self, model: torch.nn.Module, name: str, device: torch.device) -> torch.Tensor | None:
        owner: Any = model
        *path, leaf = name.split(".")
        for word in path:
            owner = getattr(owner, word, None)
        found = getattr(owner, leaf, None) if owner is not None else None
        if isinstance(found, torch.Tensor):
            return found
        constant = self.constants.get(name)
        if constant is not None and constant.device != device:
            constant = self.constants[name] = constant.to(device)
        return constant

    def choose(self, model: torch.nn.Module, inputs: list[torch.Tensor]) -> tuple[Case | None, list[torch.Tensor], str]:
        """A variant and the weights that it takes, or why there is none."""
        cases = [r for r in self.ranges if r.fits(inputs)] if inputs else []
        if not cases or not torch.compiler.is_compiling():  # there, a look-up by shape would make each size a compilation
            cases.sort(key=lambda r: abs(r.operator.tuned - inputs[0].shape[0]))
            cases = [*self._by_key.get(tuple([(t.dtype, tuple(t.shape)) for t in inputs]), []), *cases]
        if not cases:
            of = "".join([f"; there is one for batches of {r.text()}" for r in self.ranges])
            return None, [], f"no variant was made for {_form_text(inputs)}{of}"
        device, why = inputs[0].device, ""
        for t in inputs:
            if t.device != device:
                return None, [], f"tensors are on {device} and {t.device}"
        for case in cases:
            if case.device_type != device.type:
                why = why or f"no variant was made for {device.type}"
                continue
            weights = [self.weight(model, name, device) for name in case.weights]
            if any([w is None for w in weights]):
                why = f"the module has no tensor {case.weights[weights.index(None)]}"
                continue
            why = case.wrong_mode(model) or case.wrong_weight(weights, device) or case.wrong_layout(inputs, weights)
            if not why:
                return case, weights, ""
        return None, [], why

    def reason_for_eager(self, model: torch.nn.Module, inputs: list[torch.Tensor]) -> str:
        """Why no variant may run, whatever its form."""
        if getattr(self.calls.is_off, "on", False):
            return "package.eager() asks for it"
        if inputs and not inputs[0].is_meta and torch.is_autocast_enabled(inputs[0].device.type):
            return f"autocast is on for {inputs[0].device.type}, and variants compute in the types that they are given"
        return ""
