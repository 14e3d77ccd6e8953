"""A model as a Python text of ATen's operators, which a node imports (`cudal1.optimize(..., node=)`): with the names of its
state_dict, its forward's parameters and what it returns, but none of its classes and not its weights' values. Needs torch."""

from __future__ import annotations

import copy
import inspect
import operator
import re
import warnings
from typing import Any, Dict, List, Tuple

import torch
from torch.utils import _pytree as pytree

from .errors import InvalidRequest

_LARGEST_LITERAL = 1 << 12  # elements of a tensor whose values are in the text
_NAMES = {"inf", "nan", "device", "torch"}  # that the code of a graph may use
_HEAD = '''"""Written by cudal1.optimize: {name} in ATen's operators."""
import torch
from torch import device, inf, nan


def drawn(shape, dtype, mean, std, low, high):
    return (torch.randn(shape) * std + mean).clamp(low, high).to(dtype)


def part_at(module, parts):
    for part in parts:
        if part not in module._modules:
            module.add_module(part, torch.nn.Module())
        module = module._modules[part]
    return module


def place_of(module, name):
    *parts, last = name.split(".")
    return part_at(module, parts), last


def tensor_at(module, name):
    return getattr(*place_of(module, name))


def put_parameter(module, name, value, trained):
    module, last = place_of(module, name)
    module.register_parameter(last, torch.nn.Parameter(value, requires_grad=trained))


def put_buffer(module, name, value):
    module, last = place_of(module, name)
    module.register_buffer(last, value)


def put_constant(module, name, value):
    setattr(*place_of(module, name), value)


def put_mode(module, name, training):
    part_at(module, name.split(".") if name else []).training = training


'''


def source_of(model: torch.nn.Module, call: Any) -> Tuple[str, Dict[str, bool]]:
    """The text, with Model, get_inputs and get_init_inputs; and the modes of the modules, where they decide what is
    computed: none where training and evaluation are the same. `call`: what forward is called with, as optimize() takes it.
    Raises InvalidRequest, with the reason, for what such a text cannot say."""
    args = () if isinstance(call, dict) else tuple(call) if isinstance(call, (tuple, list)) else (call,)
    kwargs = dict(call) if isinstance(call, dict) else {}
    here = _copied(model)
    args, kwargs = pytree.tree_map(lambda v: v.detach().cpu() if isinstance(v, torch.Tensor) else v, (args, kwargs))
    signature = inspect.signature(type(model).forward)
    given = dict(list(signature.bind(model, *args, **kwargs).arguments.items())[1:])
    parameters = list(signature.parameters.values())[1:]
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name in given:
            raise InvalidRequest(f"forward takes any number of arguments (*{p.name}), which a node cannot import")
    for name, value in given.items():
        if not isinstance(value, torch.Tensor):
            _literal(value, f"forward's {name}")
    program = _exported(here, args, kwargs)
    code = _code(program)
    names = _names_of_tensors(program)
    in_order = iter([*list(given)[:len(args)], *kwargs])
    placeholders = [n.name for n in program.graph.nodes if n.op == "placeholder"]
    passed = [f"tensor_at(self, {names[p]!r})" if p in names else next(in_order) for p in placeholders]
    modes = _modes(here, args, kwargs, code)
    text = (_HEAD.format(name=type(model).__name__) + code + "\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
            "        super().__init__()\n" + _tensors(here, program)
            + "".join([f"        put_mode(self, {name!r}, {on})\n" for name, on in modes.items()]) + f"\n    def forward(self, {_signature(parameters, given)}):\n        out = graph({', '.join(passed)})\n"
            f"        return {_returned(program)}\n\n\ndef get_init_inputs():\n    return []\n\n\ndef get_inputs():\n"
            "    return {" + ", ".join(f"{n!r}: {_input(v, n)}" for n, v in given.items()) + "}\n")
    return text, modes


def _copied(model: torch.nn.Module) -> torch.nn.Module:
    try:
        return copy.deepcopy(model).cpu()
    except Exception as e:  # whatever cannot be copied
        raise InvalidRequest(f"{type(model).__name__} cannot be copied: {e}") from e


def _exported(model: torch.nn.Module, args: tuple, kwargs: Dict[str, Any]) -> Any:
    try:
        with torch.no_grad():
            return torch.export.export(model, args, kwargs)
    except Exception as e:  # whatever torch.export refuses
        first = next((line.strip() for line in str(e).splitlines() if line.strip()), type(e).__name__)
        raise InvalidRequest(f"torch.export cannot export {type(model).__name__}, so that no node can import it: {first}") from e


def _code(program: Any) -> str:
    """The graph as the function `graph` of its placeholders."""
    with warnings.catch_warnings():  # PyTorch warns of its own code
        warnings.simplefilter("ignore", FutureWarning)
        changed = program.run_decompositions({}).graph_signature  # what operators change in place is named there
    if changed.buffers_to_mutate or changed.user_inputs_to_mutate:
        raise InvalidRequest("its forward changes buffers or inputs, as running statistics in training mode: call eval() first")
    for node in program.graph.nodes:
        plain = node.op != "call_function" or node.target is operator.getitem or (
            getattr(node.target, "namespace", "") == "aten")
        if not plain or node.op not in ("placeholder", "call_function", "output"):
            raise InvalidRequest(f"its graph has {node.target}, which is no operator of ATen")
    made = program.graph.python_code("self")
    text = made.src.strip().replace("def forward(self, ", "def graph(", 1)
    if not text.startswith("def graph("):
        raise InvalidRequest("its graph has no inputs")
    for name in set(made.globals) - _NAMES:
        if re.search(rf"\b{re.escape(name)}\b", text):
            raise InvalidRequest(f"its graph uses {name}, which a node does not have")
    return text + "\n"


def _names_of_tensors(program: Any) -> Dict[str, str]:
    """Of the placeholders that are tensors of the model: their names there."""
    s = program.graph_signature
    return {**s.inputs_to_parameters, **s.inputs_to_buffers, **s.inputs_to_lifted_tensor_constants}


def _tensors(model: torch.nn.Module, program: Any) -> str:
    """The lines that make the model's tensors. Weights are drawn as the model's are distributed."""
    constants = set(program.graph_signature.inputs_to_lifted_tensor_constants.values())
    parameters, buffers = dict(model.named_parameters(remove_duplicate=False)), dict(model.named_buffers(remove_duplicate=False))
    lines = ""
    for name in dict.fromkeys(_names_of_tensors(program).values()):
        if name in constants:
            lines += f"        put_constant(self, {name!r}, {_values(program.constants[name], name)})\n"
        elif name in parameters:
            value = parameters[name]
            lines += f"        put_parameter(self, {name!r}, {_weight(value, name)}, {value.requires_grad})\n"
        else:
            lines += f"        put_buffer(self, {name!r}, {_weight(buffers[name], name)})\n"
    return lines


def _weight(t: torch.Tensor, name: str) -> str:
    t = t.detach()
    if not t.is_contiguous():
        raise InvalidRequest(f"{name} is not contiguous, which a node cannot import")
    if not t.dtype.is_floating_point or t.numel() == 0 or not t.isfinite().all():
        return _values(t, name)
    wide = t.double()
    mean, std, low, high = [n.item() for n in (wide.mean(), wide.std(correction=0), wide.min(), wide.max())]
    if std == 0:  # an initial value, which training changes
        std = max(0.1 * abs(mean), 0.1)
        low, high = mean - 3 * std, mean + 3 * std
    return f"drawn({list(t.shape)}, {t.dtype}, {mean:.9g}, {std:.9g}, {low:.9g}, {high:.9g})"


def _values(t: torch.Tensor, name: str) -> str:
    if t.numel() > _LARGEST_LITERAL:
        raise InvalidRequest(f"{name} is a table of {t.numel()} values that decide what is computed; a node takes up to "
                             f"{_LARGEST_LITERAL} in a model: search on this machine")
    return f"torch.tensor({t.detach().cpu().tolist()!r}, dtype={t.dtype}).reshape({list(t.shape)})"


def _literal(value: Any, what: str) -> str:
    if value is None or type(value) in (bool, int, float, str):
        return f"float({str(value)!r})" if type(value) is float else repr(value)
    raise InvalidRequest(f"{what} is a {type(value).__name__}; through a node it can be a tensor, a number, a text or None")


def _signature(parameters: List[inspect.Parameter], given: Dict[str, Any]) -> str:
    """Of forward, with all of its defaults: calls with other values are other calls."""
    words: List[str] = []
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        if p.kind is p.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        has_default = p.default is not p.empty
        words.append(p.name + (f"={_literal(p.default, f'the default of {p.name}')}" if has_default else ""))
    return ", ".join(words)


def _returned(program: Any) -> str:
    def text(value: Any) -> str:
        if isinstance(value, _Place):
            return f"out[{value.number}]"
        if type(value) in (tuple, list):
            items = "".join([text(v) + ", " for v in value])
            return f"({items})" if type(value) is tuple else f"[{items}]"
        if type(value) is dict:
            return "{" + ", ".join([f"{k!r}: {text(v)}" for k, v in value.items()]) + "}"
        raise InvalidRequest(f"forward returns a {type(value).__name__}; through a node it can return tensors in tuples, lists "
                             "and dicts")

    spec = program.call_spec.out_spec
    return text(pytree.tree_unflatten([_Place(i) for i in range(spec.num_leaves)], spec))


class _Place:
    def __init__(self, number: int):
        self.number = number


def _input(value: Any, name: str) -> str:
    """How it is drawn, as the importer reads it."""
    if not isinstance(value, torch.Tensor):
        return _literal(value, f"forward's {name}")
    if not value.is_contiguous():
        raise InvalidRequest(f"forward's {name} is not contiguous, which a node cannot import")
    shape = list(value.shape)
    if value.numel() == 0:
        return f"torch.empty({shape}, dtype={value.dtype})"
    if value.dtype == torch.bool:
        return f"torch.randint(0, 2, {shape}).to(torch.bool)"
    if not value.dtype.is_floating_point:
        return f"torch.randint({int(value.min())}, {int(value.max()) + 1}, {shape}).to({value.dtype})"
    low, high = float(value.min()), float(value.max())
    how = f"torch.rand({shape})" if 0 <= low and high <= 1 else f"torch.randn({shape})"
    return how if value.dtype == torch.float32 else f"{how}.to({value.dtype})"


def _modes(model: torch.nn.Module, args: tuple, kwargs: Dict[str, Any], code: str) -> Dict[str, bool]:
    modes = {name: m.training for name, m in model.named_modules()}
    for m in model.modules():
        m.training = not m.training
    try:
        return {} if _code(_exported(model, args, kwargs)) == code else modes
    except InvalidRequest:
        return modes
