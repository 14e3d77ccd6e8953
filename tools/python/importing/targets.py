"""Models under any name, with example inputs of any form, as what a task keeps as its source: a file with Model, get_inputs
and get_init_inputs, whose items forward is called with by position. The user's own text comes first and stays as it is;
what is added behind it makes these three of what was named. A model of a package, or a file that imports its neighbours,
is imported by that source from where it lies."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import itertools
import pathlib
import sys
import types
from typing import Any

import torch

from . import lines
from .problems import Problem, word
from .refusal import Refused
from .source import SEED, ImportsNeighbour, Loaded, OnCpu, running, set_seed
from .structure import class_name, register

EXAMPLES = ("example_inputs", "get_inputs")  # in the order in which they are looked for
_RULE = "# ---- added by cudal1: the model and its inputs under the names that a task's source has ----"


@dataclasses.dataclass
class Adapted:
    problem: Problem
    notes: list[str]


@dataclasses.dataclass
class _Place:
    """Where names are found: the user's module, and its text as the source has it."""

    name: str  # as the user knows it
    module: types.ModuleType
    head: str  # before what is added
    prefix: str  # of the names there: "" where the head is the module's own text
    notes: list[str]

    def has(self, name: str) -> bool:
        return hasattr(self.module, name)

    def get(self, name: str) -> Any:
        if not self.has(name):
            raise Refused(f"{self.name} defines no {name}{_instead(self)}")
        return getattr(self.module, name)


def _instead(place: _Place) -> str:
    """The models that a module does define."""
    own = [
        name
        for name, value in vars(place.module).items()
        if inspect.isclass(value)
        and issubclass(value, torch.nn.Module)
        and value.__module__ == place.module.__name__
        or isinstance(value, torch.nn.Module)
    ]
    return f"; name one of its own, as in FILE.py:{own[0]} ({', '.join(own[:9])})" if own else ""


def _imported(module: str, root: str, where: str) -> _Place:
    """A module of Python's path, or of the folder `root`, which the source then names."""
    if root not in sys.path:
        sys.path.insert(0, root)
    lines.own(f"{root}/")
    with running(f"importing {module}"), OnCpu():
        set_seed(SEED)
        found = importlib.import_module(module)
    file = pathlib.Path(getattr(found, "__file__", None) or module).resolve()
    top = file.parent if file.name == "__init__.py" else file
    for _ in module.split(".")[1:]:
        top = top.parent
    lines.own(str(top) if top.is_file() else f"{top}/")  # which may be installed
    head = f"import {module} as _cudal1_source"
    notes = []
    if top.parent != file and "site-packages" not in top.parts and str(top.parent) in sys.path:
        head = f"import sys\nif {str(top.parent)!r} not in sys.path:\n    sys.path.insert(0, {str(top.parent)!r})\n{head}"
        notes = [f"{module} is imported from {top.parent}: eager and exported files need it there"]
    return _Place(module, found, f"# Written by cudal1, for {where}.\n{head}\n", "_cudal1_source.", notes)


def _place_of(problem: Problem) -> _Place:
    if problem.module:
        return _imported(problem.module, str(pathlib.Path.cwd()), f"{problem.module}:{problem.target}")
    try:
        module = Loaded(problem).module
    except ImportsNeighbour as e:
        stem = pathlib.Path(problem.file or "").stem
        if not stem.isidentifier():
            raise Refused(f"it imports a neighbour, and so is imported as a module: {stem} is no name of one") from e
        return _imported(stem, problem.folder or ".", problem.file or "")
    return _Place(problem.file or problem.name, module, problem.code.decode("utf-8", "replace"), "", [])


# ---- the inputs -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Example:
    expression: str  # what gives it
    head: str  # lines that the expression needs
    value: Any
    label: str = ""  # where there are several


def _values_of(expression: str, head: str, found: Any, label: str) -> list[_Example]:
    """A function is called, what yields gives several examples, and anything else is one itself."""
    if not callable(found) or isinstance(found, torch.Tensor):
        head += "import copy as _cudal1_copy\n"
        return [_Example(f"_cudal1_copy.deepcopy({expression})", head, found, label)]
    with running(expression.removeprefix("_cudal1_source.")), torch.no_grad(), OnCpu():
        set_seed(SEED)
        value = found()
        if not isinstance(value, types.GeneratorType):
            return [_Example(f"{expression}()", head, value, label)]
        values = list(value)
    head += "import itertools as _cudal1_itertools\n"
    at = f"next(_cudal1_itertools.islice({expression}(), {{}}, None))"
    return [_Example(at.format(i), head, value, f"{label}{i + 1}") for i, value in enumerate(values)]


def _named_examples(place: _Place, word_: str, several: bool) -> list[_Example]:
    """Of --inputs: NAME of the same module, FILE.py:NAME or package.module:NAME."""
    where, _, name = word_.rpartition(":")
    label = f"{name}" if several else ""
    if not where:
        return _values_of(f"{place.prefix}{name}", "", place.get(name), label)
    is_file = where.endswith(".py")
    root = str(pathlib.Path(where).resolve().parent) if is_file else str(pathlib.Path.cwd())
    other = _imported(pathlib.Path(where).stem if is_file else where, root, word_)
    head = other.head.replace("_cudal1_source", "_cudal1_inputs")
    return _values_of(f"_cudal1_inputs.{name}", head, other.get(name), label)


def _examples(place: _Place, target: str, inputs: list[str]) -> list[_Example]:
    if inputs:
        return [e for text in inputs for e in _named_examples(place, text, len(inputs) > 1)]
    own = place.get(target)
    given = getattr(own, EXAMPLES[0], None)
    if inspect.isfunction(given) and inspect.isclass(own) and list(inspect.signature(given).parameters)[:1] == ["self"]:
        raise Refused(f"{target}.{EXAMPLES[0]} needs an object: make it a static method, or a function beside the class")
    if given is not None:
        return _values_of(f"{place.prefix}{target}.{EXAMPLES[0]}", "", given, "")
    for name in EXAMPLES:
        if place.has(name):
            return _values_of(f"{place.prefix}{name}", "", place.get(name), "")
    raise Refused(
        f"there are no inputs to call {target} with: write a function example_inputs() beside it that gives them (a tuple by "
        "position, a dict by keyword; yield several), or name one with --inputs"
    )


# ---- the model ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Target:
    """How Model is made of what was named."""

    name: str  # as the source refers to it
    forward: Any  # whose signature counts
    is_function: bool = False
    made_by: str = ""  # an expression for a module, where it is no class
    made_type: str = ""  # and one for its class
    init: bool = False  # whether get_init_inputs gives the class's arguments
    in_place: bool = False  # the class is called Model already, in the source's own text


def _without_self(function: Any) -> inspect.Signature:
    signature = inspect.signature(function)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _of_module(name: str, module: torch.nn.Module, made_by: str, made_type: str) -> _Target:
    if isinstance(module, torch.jit.ScriptModule) or type(module).__name__ == "OptimizedModule":
        raise Refused(f"{name} is a module that torch.jit or torch.compile has made; name the one that it is made of")
    return _Target(name, inspect.signature(module.forward), made_by=made_by, made_type=made_type)


def _of_class(place: _Place, name: str, found: type) -> _Target:
    target = _Target(place.prefix + name, _without_self(found.forward), in_place=name == "Model" and not place.prefix)
    if target.in_place and place.has("get_init_inputs"):
        target.init = True
        return target
    try:
        inspect.signature(found).bind()
    except TypeError as e:
        if not place.has("get_init_inputs"):
            raise Refused(
                f"{name} cannot be made without arguments ({e}); write a function that makes it, def make(): return "
                f"{name}(...), and name that, or one get_init_inputs() that gives them as a list or a dict"
            ) from e
        target.init = True
    return target


def _target(place: _Place, name: str) -> _Target:
    found = place.get(name)
    at = place.prefix + name
    if inspect.isclass(found) and issubclass(found, torch.nn.Module):
        return _of_class(place, name, found)
    if isinstance(found, torch.nn.Module):
        return _of_module(at, found, f"_cudal1_copy.deepcopy({at})", f"type({at})")
    if inspect.isclass(found) or not callable(found):
        raise Refused(f"{name} is a {type(found).__name__}; name a torch.nn.Module, a function that makes one, or a function")
    try:
        signature = inspect.signature(found)
        signature.bind()
    except TypeError:
        return _Target(at, signature, is_function=True)
    except ValueError as e:
        raise Refused(f"{name} is a function of C, whose parameters Python does not know; call it in one of your own") from e
    with contextlib.suppress(Exception), torch.no_grad(), OnCpu():
        set_seed(SEED)
        made = found()
        if isinstance(made, torch.nn.Module):
            return _of_module(at, made, f"{at}()", f"type({at}())")
    return _Target(at, signature, is_function=True)


# ---- the call -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Call:
    """How forward is called with an example: names of its own parameters for the items, and how it passes them on."""

    items: str  # get_inputs' result, of the example `given`
    names: list[str]
    by_keyword: list[str]  # or, by position, nothing
    plain: bool  # whether forward takes the items by position as it is


def _binds(signature: inspect.Signature, *args: Any, **kwargs: Any) -> bool:
    try:
        signature.bind(*args, **kwargs)
        return True
    except TypeError:
        return False


def _call_of(target: _Target, value: Any) -> _Call:
    signature = target.forward
    parameters = list(signature.parameters.values())
    if isinstance(value, dict) and all(isinstance(k, str) and k.isidentifier() for k in value):
        if _binds(signature, **value):
            names = [p.name for p in parameters if p.name in value]
            names += [k for k in value if k not in names]
            first = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD][: len(names)]
            items = ", ".join(f"given[{k!r}]" for k in names)
            return _Call(f"[{items}]", names, names, first == names)
        if not _binds(signature, value):
            signature_text = f"{target.name.rpartition('.')[2]}{signature}"
            raise Refused(f"it is called with {', '.join(value)} by keyword, and {signature_text} does not take these")
    several = isinstance(value, (tuple, list)) and not hasattr(value, "_fields") and _binds(signature, *value)
    bound = signature.bind_partial(*(value if several else (value,)))
    names = []
    for name in bound.arguments:
        more = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        names += [f"{name}_{i}" for i in range(len(bound.arguments[name]))] if more else [name]
    return _Call("list(given)" if several else "[given]", names, [], True)


def _forward_text(call: _Call, to: str, indent: str, name: str = "forward") -> str:
    passed = ", ".join(f"{n}={n}" for n in call.by_keyword) if call.by_keyword else ", ".join(call.names)
    return f"{indent}def {name}({', '.join(['self', *call.names])}):\n{indent}    return {to}({passed})\n"


def _model_text(target: _Target, call: _Call) -> str:
    inner = "    "
    if target.is_function:
        body = _forward_text(call, target.name, inner)
        return f"class Model(_cudal1_torch.nn.Module):\n{inner}__doc__ = {target.name}.__doc__\n\n{body}"
    if target.made_by:
        begin = (
            f"class Model({target.made_type}):\n{inner}def __init__(self):\n"
            f"{inner}    _cudal1_torch.nn.Module.__init__(self)\n"
            f"{inner}    self.__dict__.update({target.made_by}.__dict__)\n"
        )
        return begin + ("" if call.plain else "\n" + _forward_text(call, "super().forward", inner))
    if call.plain:
        return "" if target.in_place else f"Model = {target.name}\n"
    if not target.in_place:
        return f"class Model({target.name}):\n" + _forward_text(call, "super().forward", inner)
    # Its methods may say super(Model, self), so it stays the class of that name.
    given = call.by_keyword and _Call(call.items, call.names, ["self", *call.by_keyword], False) or call
    text = _forward_text(given, "_cudal1_forward", "", "_cudal1_by_position")
    return f"{text}\n\n_cudal1_forward, Model.forward = Model.forward, _cudal1_by_position\n"


def _adapter(place: _Place, target: _Target, example: _Example) -> str:
    call = _call_of(target, example.value)
    registered = ""
    for cls in register(example.value):
        name = class_name(cls, place.module.__name__ if not place.prefix else "")
        if ":" in name:
            module, name = name.split(":")
            registered += f"import {module}\n"
            name = f"{module}.{name}"
        registered += (
            f"if {name} not in _cudal1_torch.utils._pytree.SUPPORTED_NODES:\n"
            f"    _cudal1_torch.utils._pytree.register_dataclass({name})\n"
        )
    expression, alias = example.expression, ""
    if not place.prefix and place.has("get_inputs") and "get_inputs" in expression:
        alias = "_cudal1_given = get_inputs\n"
        expression = expression.replace("get_inputs", "_cudal1_given")
    imports = f"{example.head}import torch as _cudal1_torch\n"
    if "_cudal1_copy" in target.made_by and "_cudal1_copy" not in imports:
        imports = f"import copy as _cudal1_copy\n{imports}"
    text = f"\n\n{_RULE}\n{imports}{alias}\n{registered}{_model_text(target, call)}\n\n"
    text += f"def get_inputs():\n    given = {expression}\n    return {call.items}\n"
    if not target.init:
        text += "\n\ndef get_init_inputs():\n    return []\n"
    elif place.prefix:
        text += f"\n\nget_init_inputs = {place.prefix}get_init_inputs\n"
    return text


def _labels(examples: list[_Example]) -> list[str]:
    """What the tasks of several examples are called behind the model's name: by --inputs, or by the first shape that
    differs, else by number."""
    tensors = [[t for t in torch.utils._pytree.tree_leaves(e.value) if isinstance(t, torch.Tensor)] for e in examples]
    for places in itertools.zip_longest(*tensors) if len(examples) > 1 else ():
        shapes = ["x".join(map(str, t.shape)) if t is not None else "" for t in places]
        if len(set(shapes)) == len(examples) and all(shapes):
            return [f"_{s}" for s in shapes]
    return [f"_{e.label}" if len(examples) > 1 else "" for e in examples]


def adapted(problem: Problem, inputs: list[str]) -> list[Adapted]:
    """The tasks of a problem: one for each example."""
    place = _place_of(problem)
    name = problem.target or "Model"
    target = _target(place, name)
    examples = _examples(place, name, inputs)
    if not examples:
        raise Refused("its example inputs are none: yield at least one")
    found = []
    for example, label in zip(examples, _labels(examples)):
        code = place.head.rstrip("\n") + "\n" + _adapter(place, target, example)
        renamed = dataclasses.replace(problem, name=word(problem.name + label), code=code.encode())
        found.append(Adapted(renamed, place.notes))
    return found
