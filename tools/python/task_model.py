"""A task's own ATen steps as a PyTorch model, for tasks that were not imported from a model.

The text of `forward` is written once, one call of torch.ops a step, so that what is timed is PyTorch's eager mode and no
interpreter of this file's. Inputs follow the task's distributions and facts (diagonal, ...).
"""

from __future__ import annotations

import json
import keyword
import types
from typing import Any

TAKEN = {"self", "ops", "float", "torch"}  # by the text of forward


def read_task(path: str) -> types.ModuleType:
    """A module with Model and get_inputs of a task file whose sizes are numbers."""
    with open(path, encoding="utf-8") as file:
        return module_of(json.load(file))


def module_of(task: dict, after_step: str = "") -> types.ModuleType:
    """`after_step`: a statement of Python that follows each step."""
    import torch

    module = types.ModuleType("cudal1_task_" + task["name"])
    weights = task.get("weights", [])
    text, constants = forward_text(torch, task, [f"w{i}" for i in range(len(weights))], after_step)
    namespace: dict[str, Any] = {"ops": torch.ops.aten, **constants}
    exec(compile(text, f"<{task['name']}>", "exec"), namespace)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for i, declaration in enumerate(weights):
                self.register_buffer(f"w{i}", draw(torch, declaration))

    Model.forward = namespace["forward"]
    module.Model = Model
    module.get_inputs = lambda: [draw(torch, declaration) for declaration in task["inputs"]]
    return module


def is_word(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith(("_", "torch_"))


def forward_text(torch: Any, task: dict, members: list[str], after_step: str = "") -> tuple[str, dict]:
    """The function, and the constants that it names (dtypes and memory formats). `members`: the weights' names in self."""
    names: dict[str, str] = {}
    constants: dict[str, Any] = {}

    def bind(name: str) -> str:
        if name not in names:
            names[name] = name if is_word(name) and name not in TAKEN else f"v{len(names)}_"
        return names[name]

    def constant(what: Any) -> str:
        name = str(what).replace(".", "_")
        constants[name] = what
        return name

    def value(kind: str, v: Any) -> str:
        if v is None:
            return "None"
        if "Tensor" in kind:
            if isinstance(v, str):
                return names[v]
            return "[" + ", ".join("None" if n is None else names[n] for n in v) + "]"
        if isinstance(v, str) and hasattr(torch, v) and isinstance(getattr(torch, v), (torch.dtype, torch.memory_format)):
            return constant(getattr(torch, v))
        if isinstance(v, str) and v in ("inf", "-inf", "nan"):
            return f"float('{v}')"
        return repr(v)

    lines = [f"def forward(self{''.join(', ' + bind(d['name']) for d in task['inputs'])}):"]
    lines += [f"    {bind(d['name'])} = self.{member}"
              for member, d in zip(members, task.get("weights", []))]
    for step in task["steps"]:
        packet, _, overload = step["aten"].removeprefix("aten::").partition(".")
        if step["aten"] == "aten::view":  # attention has another layout on a GPU, which may need a copy
            step = {**step, "args": {"self": step["args"]["self"], "shape": step["args"]["size"]}}
            packet = "reshape"
        schema = getattr(getattr(torch.ops.aten, packet), overload or "default")._schema
        arguments: list[str] = []
        in_order = True  # until one is left out; a keyword `self` would be Python's own
        for a in schema.arguments:
            in_order = in_order and a.name in step["args"] and not a.kwarg_only
            if a.name in step["args"]:
                text = value(str(a.type), step["args"][a.name])
                arguments.append(text if in_order else f"{a.name}={text}")
        results = ", ".join(bind(name) if name else "_" for name in step["out"])
        lines.append(f"    {results} = ops.{packet}.{overload or 'default'}({', '.join(arguments)})")
        if after_step:
            lines.append(f"    {after_step}")
    lines.append(f"    return {', '.join(names[name] for name in task['outputs'])}")
    return "\n".join(lines) + "\n", constants


def draw(torch: Any, declaration: dict) -> Any:
    shape = declaration["shape"]
    dtype = getattr(torch, declaration["dtype"])
    how = declaration.get("draw", {"distribution": "bernoulli" if dtype is torch.bool else "normal"})
    kind = how["distribution"]
    if kind == "uniform":
        t = torch.rand(shape) * (how["high"] - how["low"]) + how["low"]
    elif kind == "integer":
        t = torch.randint(int(how["low"]), int(how["high"]), shape)
    elif kind == "bernoulli":
        t = torch.rand(shape) < how.get("probability", 0.5)
    elif kind == "signs":
        t = 2.0 * torch.randint(0, 2, shape) - 1
    elif kind == "simplex":
        t = torch.softmax(torch.randn(shape), -1)
    elif kind == "constant":
        t = torch.full(shape, how["value"])
    else:
        t = torch.randn(shape) * how.get("std", 1) + how.get("mean", 0)
    if "min" in how or "max" in how:
        t = t.clamp(min=how.get("min"), max=how.get("max"))
    for fact in declaration.get("facts", ()):
        if fact == "diagonal":
            t = t * torch.eye(shape[-2], shape[-1], dtype=t.dtype)
        elif fact == "upper_triangular":
            t = torch.triu(t)
        elif fact == "lower_triangular":
            t = torch.tril(t)
        elif fact == "symmetric":
            t = torch.tril(t) + torch.tril(t, -1).transpose(-1, -2)
        elif fact == "one_hot":
            t = torch.nn.functional.one_hot(torch.randint(0, shape[-1], shape[:-1]), shape[-1])
        elif fact == "non_negative":
            t = t.abs()
    t = t.to(dtype)
    strides = declaration.get("strides")
    if strides is None:
        return t
    laid_out = torch.empty_strided(shape, strides, dtype=dtype)
    return laid_out.copy_(t)
