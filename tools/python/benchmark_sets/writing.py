"""Exported files of a set's tasks as solutions: one for each definition, with a program for each workload that was searched."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

from importing.definitions import marks_in, reference_in

ENTRY, REFERENCE = "main.py", "reference.py"
# Their evaluators load a solution's files from a folder, as a package or from the path; by a file's own place both work.
_MAIN = '''"""One program for each workload that was searched, chosen by what the inputs are. Other inputs run the reference."""
import importlib.util
import pathlib
import sys

import torch

PROGRAMS = {programs}
_calls = {{}}


def _module(file):
    path = pathlib.Path(__file__).with_name(file)
    spec = importlib.util.spec_from_file_location(__name__.replace(".", "_") + "_" + path.stem, path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _call_for(key, values):
    if key not in PROGRAMS:
        return _module("{reference}").run
    module = _module(PROGRAMS[key])
    return module.ModelNew(*module.get_init_inputs()).to(next(v.device for v in values if isinstance(v, torch.Tensor)))


@torch.no_grad()
def run({names}):
    values = ({names},)
    key = tuple([(str(v.dtype), *v.shape) if isinstance(v, torch.Tensor) else v for v in values])
    call = _calls.get(key)
    if call is None:
        call = _calls[key] = _call_for(key, values)
    return call(*values)
'''


@dataclasses.dataclass(frozen=True)
class Exported:
    """A file of an export whose problem was made of a definition."""

    task: dict[str, Any]  # of index.json
    marks: dict[str, Any]
    source: str
    reference: str


def exported_in(folder: pathlib.Path) -> list[Exported]:
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    found = []
    for task in index["tasks"]:
        problem = (folder / task["problem_file"]).read_text(encoding="utf-8") if task.get("file") else ""
        if marks := marks_in(problem):
            found.append(Exported(task, marks, (folder / task["file"]).read_text(encoding="utf-8"), reference_in(problem)))
    return found


def _key(marks: dict[str, Any]) -> tuple[Any, ...]:
    return tuple((f"torch.{dtype}", *size) if isinstance(size, list) else size for _, dtype, size in marks["inputs"])


def _spec(of_set: str, hardware: list[str]) -> dict[str, Any]:
    spec: dict[str, Any] = {"target_hardware": hardware, "entry_point": f"{ENTRY}::run", "dependencies": ["torch"],
                            "destination_passing_style": False}
    if of_set == "sol-execbench":  # its list of hardware has two words
        spec["target_hardware"] = ["LOCAL", *(["B200"] if any("B200" in h for h in hardware) else [])]
        return {"languages": ["pytorch"], **spec}
    return {"language": "python", **spec}


def solution_of(files: list[Exported], hardware: list[str]) -> dict[str, Any]:
    """Of one definition. `hardware`: the models of the devices that the programs were measured on. Of workloads with equal
    inputs, which differ in stored values, the first program counts."""
    first = files[0].marks
    programs: dict[tuple[Any, ...], str] = {}
    sources = []
    for file in files:
        if _key(file.marks) not in programs:
            programs[_key(file.marks)] = f"workload_{len(sources)}.py"
            sources.append({"path": f"workload_{len(sources)}.py", "content": file.source})
    main = _MAIN.format(programs="{" + "".join(f"\n    {k!r}: {f!r}," for k, f in programs.items()) + "\n}", reference=REFERENCE,
                        names=", ".join(name for name, _, _ in first["inputs"]))
    speedups = ", ".join(f"{f.task['speedup']:.2f}x" for f in files)
    return {"name": f"cudal1_{first['definition']}", "definition": first["definition"], "author": "cudal1",
            "description": f"{len(programs)} programs of kernels, each for one workload's shapes (over the task's own program: "
                           f"{speedups}); inputs of other shapes run the reference.",
            "spec": _spec(first["set"], hardware),
            "sources": [{"path": ENTRY, "content": main}, {"path": REFERENCE, "content": files[0].reference}, *sources]}


def write_solutions(folder: pathlib.Path) -> list[pathlib.Path]:
    """FOLDER/solutions/SET/DEFINITION.json, one for each definition of the export in `folder`."""
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    hardware = sorted({e["model"] for e in index.get("environments", []) if e.get("model")}) or ["cuda"]
    by_definition: dict[tuple[str, str], list[Exported]] = {}
    for file in exported_in(folder):
        by_definition.setdefault((file.marks["set"], file.marks["definition"]), []).append(file)
    written = []
    for (of_set, definition), files in by_definition.items():
        path = folder / "solutions" / of_set / f"{definition.replace('/', '_')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(solution_of(files, hardware), indent=2) + "\n", encoding="utf-8")
        written.append(path)
    return written
