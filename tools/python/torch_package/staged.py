"""What `cudal1 export --format torch` has staged for a package: a folder for each task, with its definition, the variant's
program and its compiled kernels; and what the model's own source says of its call."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import inspect
import json
import pathlib
import re
import sys
import types
from typing import Any

import torch

from .runtime.constants import read_tensors
from .runtime.dispatch import NoForm, form_of
from .runtime.operators import values_digest
from .runtime.verify import model_of

SEPARATOR = "\n---\n"


class Refused(Exception):
    """Why a task is not in the package."""


def word(text: str) -> str:
    return re.sub(r"\W", "_", text, flags=re.ASCII)


@dataclasses.dataclass
class Staged:
    """A task that `cudal1 export` has staged."""

    folder: pathlib.Path
    facts: dict[str, Any]
    task: dict[str, Any]
    head: dict[str, Any]
    source: str  # CUDA C++
    model: str  # the text of the model's file

    @property
    def name(self) -> str:
        return self.task["name"]


def staged_in(folder: pathlib.Path, blobs: pathlib.Path) -> Staged:
    facts = json.loads((folder / "variant.json").read_text(encoding="utf-8"))
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    head, _, source = (folder / "program.cu1").read_text(encoding="utf-8").partition(SEPARATOR)
    origin = task.get("origin")
    if origin is None:
        raise Refused("it was not imported from Python, so there is no module that could run it")
    if origin.get("part"):
        raise Refused(f"it is the module {origin['part']} of a model, alone: only a whole model can be exported")
    if task.get("states"):
        raise Refused("it keeps tensors from call to call, which packages cannot yet; --format kernelbench can")
    model = blobs / origin["source"]
    if not model.is_file():
        raise Refused("the source of its model is not in the data folder any more")
    return Staged(folder, facts, task, json.loads(head), source, model.read_text(encoding="utf-8"))


# ---- models ---------------------------------------------------------------------------------------------------------


def without_inputs(text: str) -> str:
    """A model's source without what gives its inputs: of one model with several example inputs all are the same."""
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if not (isinstance(node, ast.FunctionDef) and node.name == "get_inputs")
                 and not isinstance(node, (ast.Import, ast.ImportFrom))]
    return ast.dump(tree)


def load_source(text: str, name: str) -> Any:
    """The model's module; executes it, as the import has."""
    module = types.ModuleType(name)
    module.__file__ = f"{name}.py"
    sys.modules[name] = module
    exec(compile(text, module.__file__, "exec"), module.__dict__)
    return module


@dataclasses.dataclass
class Case:
    staged: Staged
    module: str  # of its source, in the package
    names: list[str]  # of forward's parameters
    forms: list[list]
    modes: dict[str, bool]
    weights: list[str]

    def key(self) -> str:
        """Cases of one dispatcher."""
        same = [without_inputs(self.staged.model), self.names, self.forms, self.staged.task.get("returns")]
        return hashlib.sha256(json.dumps(same, default=str).encode()).hexdigest()


def check_statistics(model: torch.nn.Module, modes: dict[str, bool]) -> None:
    for name, training in modes.items():
        module = model.get_submodule(name)
        if training and isinstance(module, torch.nn.modules.batchnorm._NormBase) and module.running_mean is not None:
            raise Refused(f"{name} is in training mode, where each call updates its running statistics, and variants do not: "
                          "call eval() in the model and search again")


def case_of(staged: Staged) -> Case:
    digest = hashlib.sha256(staged.model.encode()).hexdigest()[:12]
    module = f"{word(staged.name)}_{digest}"
    source = load_source(staged.model, f"cudal1_source_{module}")
    given = source.get_inputs()
    parameters = list(inspect.signature(source.Model.forward).parameters.values())[1:]
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    values = dict(given) if isinstance(given, dict) else {}
    if not isinstance(given, dict):
        by_position = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        row = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")
        names = by_position + [f"{row}_{i}" for i in range(len(given) - len(by_position))]
        values = dict(zip(names, given))
    values |= {name: default for name, default in defaults.items() if name not in values}
    try:
        forms = [form_of(v) for v in values.values()]
    except NoForm as e:
        raise Refused(str(e)) from e
    modes = staged.task["origin"].get("modes")
    if modes is None:
        model = model_of(source, source.Model, 0, torch.device("cpu"))
        all_modes = {name: m.training for name, m in model.named_modules()}
    else:
        all_modes = {n: True for n in modes["training"]} | {n: False for n in modes["evaluation"]}
    if any(all_modes.values()):
        check_statistics(model_of(source, source.Model, 0, torch.device("cpu")), all_modes)
    weights = []
    for w in staged.task.get("weights", []):
        if "content" not in w:
            raise Refused(f"its weight {w['name']} has no name in the module")
        weights.append(w["content"]["tensor"])
    return Case(staged, module, list(values), forms, all_modes, weights)


def fixed_weights(staged: Staged, blobs: pathlib.Path) -> tuple[dict[int, str], dict[str, Any]]:
    """Weights that belong to the definition: the digests of their values by their places, and the values by name."""
    digests, values = {}, {}
    for i, w in enumerate(staged.task.get("weights", [])):
        content = w["content"]
        if content.get("fixed"):
            value = read_tensors(blobs / content["file"], content["tensor"])[content["tensor"]]
            digests[i], values[content["tensor"]] = values_digest(value), value
    return digests, values
