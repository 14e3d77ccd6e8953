"""A solution (JSON) of FlashInfer-Bench or SOL-ExecBench, read: as the text of a Python file with ModelNew."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

from importing.definitions import Definition, Unusable, Workload, axes_of, definition_files, pairs_of, read_definition, shape_of

PYTHON = ("python", "pytorch", "triton", "cute_dsl", "cutile", "cudnn_frontend", "tilelang")
COMPILED = ("cuda", "cpp", "cuda_cpp", "cutlass", "cudnn", "cublas")
ON_CPU = ("python", "pytorch", "cpp")  # all others need a GPU
UNITS = (".cu", ".cpp", ".cc", ".cxx", ".c")


@dataclasses.dataclass(frozen=True)
class Solution:
    name: str
    path: pathlib.Path
    definition: str  # its name
    languages: tuple[str, ...]
    entry_file: str
    entry: str  # the function
    writes_outputs: bool  # they are arguments, behind the inputs
    binding: str  # of compiled ones: torch or tvm-ffi
    flags: dict[str, list[str]]
    sources: dict[str, str]


def is_solution(value: Any) -> bool:
    return isinstance(value, dict) and {"definition", "spec", "sources"} <= value.keys()


def read_solution(path: pathlib.Path) -> Solution:
    """Unusable where it is none, or its files are not what it says."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        spec = record["spec"]
        of_sol = "languages" in spec
        languages = tuple(spec["languages"]) if of_sol else (spec["language"],)
        entry_file, _, entry = spec["entry_point"].partition("::")
        sources = {s["path"]: s["content"] for s in record["sources"]}
        solution = Solution(record.get("name") or path.stem, path, record["definition"], languages, entry_file, entry,
                            spec.get("destination_passing_style", True), spec.get("binding") or ("torch" if of_sol else "tvm-ffi"),
                            spec.get("compile_options") or {}, sources)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unusable(f"{path} is no solution: {type(error).__name__}: {error}") from error
    if entry_file not in sources or not entry.isidentifier():
        raise Unusable(f"{path}: its entry point {spec['entry_point']} is in none of its sources")
    for name in sources:
        if pathlib.PurePosixPath(name).is_absolute() or ".." in pathlib.PurePosixPath(name).parts:
            raise Unusable(f"{path}: the source {name} is outside of its folder")
    return solution


def find_definition(solution: Solution, where: pathlib.Path | None) -> pathlib.Path:
    """Its definition's file: in `where` (a file or a folder), else in a folder above it. Unusable if there is none."""
    if where is not None and where.is_file():
        return where
    folders = [where] if where is not None else list(solution.path.resolve().parents)[:4]
    for folder in folders:
        for file in definition_files(folder) if where is not None or (folder / "definitions").is_dir() or (
                folder / "definition.json").is_file() else ():
            try:
                if read_definition(file).name == solution.definition:
                    return file
            except Unusable:
                continue
    raise Unusable(f"{solution.path}: its definition {solution.definition} was not found: name its file, or the folder of "
                   "definitions, with --problems")


def workloads_of(solution: Solution, where: pathlib.Path | None) -> list[tuple[Definition, Workload]]:
    pairs = pairs_of(find_definition(solution, where), None)
    if pairs[0][0].name != solution.definition:
        raise Unusable(f"{solution.path} solves {solution.definition}, and {pairs[0][0].path} defines {pairs[0][0].name}")
    return pairs


def refusal_of(solution: Solution) -> str:
    """Why it cannot be loaded at all, "" if it can."""
    unknown = [w for w in solution.languages if w not in PYTHON + COMPILED]
    if unknown:
        return f"the language {unknown[0]} is unknown"
    if any(w in COMPILED for w in solution.languages) and solution.binding != "torch":
        return f"its binding {solution.binding} is not supported: a compiled solution is loaded by torch's alone"
    return ""


def language_of(solution: Solution) -> tuple[str, bool]:
    """For people, and whether it needs a GPU."""
    texts = " ".join(solution.sources.values())
    on_gpu = any(w not in ON_CPU for w in solution.languages) or any(w in texts for w in ("__global__", ".cuda(", "import triton"))
    return "+".join(solution.languages), on_gpu


# Files beside the submission, since Triton and compilers read them. Modules find each other by their names or relatively.
_LOADER = '''
import importlib
import pathlib
import sys

import torch

_FOLDER = pathlib.Path(__file__ + ".parts") / "solution"
for _name, _text in _SOURCES.items():
    (_FOLDER / _name).parent.mkdir(parents=True, exist_ok=True)
    (_FOLDER / _name).write_text(_text)
'''
_PYTHON = '''
sys.path[:0] = [str(_FOLDER.parent), str(_FOLDER)]
_entry = getattr(importlib.import_module({module!r}), {entry!r})
'''
_COMPILED = '''
from torch.utils.cpp_extension import load
_entry = getattr(load(name={name!r}, sources=[str(_FOLDER / n) for n in {units!r}], extra_include_paths=[str(_FOLDER)],
                      extra_cflags={cflags!r}, extra_cuda_cflags={cuda_cflags!r}, extra_ldflags={ld_flags!r}, with_cuda={cuda!r}),
                 {entry!r})
'''
_MODEL = '''

class ModelNew(torch.nn.Module):
    OUTPUTS = {outputs!r}

    def forward(self, *inputs):
        {call}
        if isinstance(found, dict):
            found = [found[name] for name, _, _ in self.OUTPUTS]
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        return found if len(found) > 1 else found[0]
'''
_RETURNS = "found = _entry(*inputs)"
_WRITES = """device = next(x.device for x in inputs if isinstance(x, torch.Tensor))
        found = [torch.empty(shape, dtype=getattr(torch, dtype), device=device) for _, dtype, shape in self.OUTPUTS]
        _entry(*inputs, *found)"""


def module_text(solution: Solution, definition: Definition, workload: Workload) -> str:
    """A Python file with ModelNew, for one workload."""
    sizes = axes_of(definition, workload)
    outputs = [(t.name, t.dtype, shape_of(t, sizes)) for t in definition.outputs]
    if any(w in COMPILED for w in solution.languages):
        flags = {"cflags": [], "cuda_cflags": ["-O3"], "ld_flags": [], **solution.flags}
        loading = _COMPILED.format(name="solution_" + "".join(c if c.isalnum() else "_" for c in solution.name)[:60],
                                   units=sorted(n for n in solution.sources if n.endswith(UNITS)), entry=solution.entry,
                                   cuda=any(w != "cpp" for w in solution.languages), **flags)
    else:
        module = "solution." + solution.entry_file.removesuffix(".py").replace("/", ".")
        loading = _PYTHON.format(module=module, entry=solution.entry)
    model = _MODEL.format(outputs=outputs, call=_WRITES if solution.writes_outputs else _RETURNS)
    return f"_SOURCES = {solution.sources!r}\n{_LOADER}{loading}{model}"
