"""Writes the files of a package of variants."""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import re
import shutil
from typing import Any

from .runtime.constants import read_tensors, tensors_text
from .staged import Case, Refused, Staged, fixed_weights, word

PARTS = pathlib.Path(__file__).resolve().parent
LARGEST_CONSTANTS = 64 << 20  # bytes
TORCH = "torch>=2.11"
RUNTIME_TORCH = "2.11"  # libcudal1_package_runtime.so is for this one; with others steps run from Python
CPP_TYPES = {"float64": "at::kDouble", "float32": "at::kFloat", "float16": "at::kHalf", "bfloat16": "at::kBFloat16",
             "int64": "at::kLong", "int32": "at::kInt", "int16": "at::kShort", "int8": "at::kChar", "uint8": "at::kByte",
             "bool": "at::kBool"}
EXAMPLE_IN_CPP = """// example FOLDER: calls a model of the package with made-up weights and inputs. FOLDER has index.json.
//
// By CMake: CMakeLists.txt. By hand, where T is the folder of Python's torch, or that of a LibTorch, and C that of CUDA's
// libraries (of a wheel: T/../nvidia/cu13/lib), in this folder:
//
//   c++ -std=c++20 example.cpp -o example -I . -I T/include -I T/include/torch/csrc/api/include -L . -L T/lib
//     -lcudal1_package -ltorch -ltorch_cpu -lc10 -Wl,--disable-new-dtags,-rpath,$PWD:T/lib:C
#include <cstdio>
#include <exception>

#include <ATen/ATen.h>

#include "cudal1/model_package.hpp"

int main(int count, char** words) try {{
  const cudal1::model_package package(count > 1 ? words[1] : ".");
  const at::TensorOptions on(at::Device("{device}"));
  // By the names of the model's state_dict; yours come from a checkpoint.
  const std::map<std::string, at::Tensor> weights{{
      {weights}}};
  const auto module = package.module("{model}", weights);
  for (const auto& t : module.forward({{{inputs}}}))
    std::printf("%s, mean %g\\n", t.toString().c_str(), t.to(at::kDouble).mean().item<double>());
}} catch (const std::exception& e) {{
  std::fprintf(stderr, "%s\\n", e.what());
  return 1;
}}
"""


class Writer:
    """Writes a package's files to a folder that becomes it."""

    def __init__(self, root: pathlib.Path, o: argparse.Namespace):
        self.root, self.o = root, o
        self.module = root / o.name
        self.index: dict[str, Any] = {"format": 1, "name": o.name, "version": "1.0.0", "made_by": f"cudal1 {o.version}",
                                      "models": [], "programs": [], "ranges": [],
                                      "without_range": list(o.without_range), "refused": list(o.refused),
                                      "not_built": list(o.not_built), "files": {}}

    def put(self, place: str, data: bytes | str) -> None:
        path = self.module / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    def program(self, case: Case) -> str:
        """The operator's name."""
        s, facts = case.staged, case.staged.facts
        place = f"programs/{word(s.name)}"
        reference = {"name": s.name, "views": facts["reference_views"],
                     **{k: s.task.get(k, []) for k in ("inputs", "weights", "steps", "outputs")}}
        digests, values = fixed_weights(s, self.o.staging / "blobs")
        document = {"head": s.head, "types": facts["types"], "views": facts["views"], "relayout": facts["relayout"],
                    "reference": reference, "fixed": digests}
        self.put(f"{place}/program.json", json.dumps(document))
        self.put(f"{place}/plan.json", (s.folder / "plan.json").read_bytes())
        entry: dict[str, Any] = {k: facts[k] for k in ("task", "id", "variant", "device_type", "environment", "explanation",
                                                       "speedup", "speedup_interval", "reference_us", "variant_us", "precision")}
        if "error_bound" in facts:
            entry["error_bound"] = facts["error_bound"]
        entry["program"], entry["plan"] = f"{place}/program.json", f"{place}/plan.json"
        entry["operator"] = f"{word(self.o.name)}__{word(s.name)}_{facts['variant'][:12]}"
        entry["headers"] = s.head.get("headers", [])
        if "architecture" in facts:
            self.put(f"{place}/program.cu", s.source)
            entry["kernels"] = self.kernels(s.folder, facts, place)
        self.index["programs"].append(entry)
        self.constants |= values
        if (s.folder / "batch" / "variant.json").is_file():
            self.range(s, entry, digests)
        return entry["operator"]

    def kernels(self, folder: pathlib.Path, facts: dict[str, Any], place: str) -> dict[str, Any]:
        ending = "so" if facts["device_type"] == "cpu" else "cubin"
        kernels = {"architecture": facts["architecture"], "compiler": facts["compiler"],
                   "object": f"{place}/kernels.{facts['architecture']}.{ending}", "others": {}}
        self.put(kernels["object"], (folder / "kernels.object").read_bytes())
        for architecture, file in facts.get("others", {}).items():
            kernels["others"][architecture] = f"{place}/kernels.{architecture}.cubin"
            self.put(kernels["others"][architecture], (folder / file).read_bytes())
        if (folder / "kernels.cu").is_file():
            kernels.update(source=f"{place}/kernels.cu", options=facts["options"])
            self.put(kernels["source"], (folder / "kernels.cu").read_bytes())
        return kernels

    def range(self, s: Staged, program: dict[str, Any], digests: dict[int, str]) -> None:
        """The variant for a range of batch sizes, beside that of the tuned shape."""
        folder, place = s.folder / "batch", f"programs/{word(s.name)}/batch"
        facts = json.loads((folder / "variant.json").read_text(encoding="utf-8"))
        document = {k: facts[k] for k in ("head", "types", "views", "relayout", "reference")} | {"fixed": digests}
        self.put(f"{place}/program.json", json.dumps(document))
        self.put(f"{place}/plan.json", (folder / "plan.json").read_bytes())
        entry = {k: facts[k] for k in ("low", "high", "multiple", "why_multiples", "tuned", "device_type")}
        entry |= {"task": s.name, "program": f"{place}/program.json", "plan": f"{place}/plan.json",
                  "operator": f"{program['operator']}_batch"}
        if "architecture" in facts:
            self.put(f"{place}/program.cu", (folder / "program.cu").read_bytes())
            entry["kernels"] = self.kernels(folder, facts, place)
        self.index["ranges"].append(entry)

    def model(self, name: str, cases: list[Case]) -> None:
        self.constants: dict[str, Any] = {}
        entry: dict[str, Any] = {"name": name, "module": cases[0].module, "returns": None, "cases": [],
                                 "arguments": {"names": cases[0].names, "forms": cases[0].forms}}
        if "returns" in cases[0].staged.task:
            entry["returns"] = {"structure": cases[0].staged.task["returns"]}
        for case in cases:
            self.program(case)
            self.put(f"models/{case.module}.py", case.staged.model)
            entry["cases"].append({"task": case.staged.name, "device_type": case.staged.facts["device_type"],
                                   "weights": case.weights, "modes": case.modes, "module": case.module})
        entry["ranges"] = [r["task"] for r in self.index["ranges"] if r["task"] in {c.staged.name for c in cases}]
        elsewhere = sorted(set(re.findall(r"sys\.path\.insert\(0, '([^']+)'\)", cases[0].staged.model)))
        if elsewhere:
            entry["source_needs"] = elsewhere
        if self.constants:
            if sum(t.numel() * t.element_size() for t in self.constants.values()) > LARGEST_CONSTANTS:
                raise Refused(f"its constants have more than {LARGEST_CONSTANTS >> 20} MiB")
            entry["constants"] = f"models/{cases[0].module}.constants"
            self.put(entry["constants"], tensors_text(self.constants))
        self.index["models"].append(entry)

    def fixed_parts(self) -> None:
        for path in sorted((PARTS / "runtime").glob("*.py")):
            self.put(f"_cudal1/{path.name}", path.read_bytes())
        for place in ("_cudal1/__init__.py", "models/__init__.py", "programs/__init__.py"):
            self.put(place, "")
        (self.module / "programs" / "__init__.py").unlink()
        self.put("__init__.py", (PARTS / "package_init.py").read_bytes())
        self.put("__main__.py", (PARTS / "package_main.py").read_bytes())
        on_cpu = any(p["device_type"] == "cpu" and "kernels" in p for p in self.index["programs"])
        on_gpu = any(p["device_type"] != "cpu" and "kernels" in p for p in self.index["programs"])
        if on_cpu:
            self.put("libcudal1_cpu_kernels.so", self.o.library.read_bytes())
        self.put(self.o.runtime.name, self.o.runtime.read_bytes())
        self.index["runtime"] = {"library": self.o.runtime.name, "torch": RUNTIME_TORCH}
        (self.root / "pyproject.toml").write_text(
            '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n\n[project]\n'
            f'name = "{self.o.name.replace("_", "-")}"\nversion = "{self.index["version"]}"\n'
            f'description = "Fast variants of {", ".join(m["name"] for m in self.index["models"])}, found by cudal1"\n'
            f'requires-python = ">=3.10"\ndependencies = ["{TORCH}"]\n\n[tool.cudal1]\nmodule = "{self.o.name}"\n'
            'tag = "py3-none-linux_x86_64"\n', encoding="utf-8")
        shutil.copy(PARTS / "backend.py", self.root / "backend.py")
        (self.root / "licences").mkdir(exist_ok=True)
        headers = sorted({h for p in self.index["programs"] for h in p["headers"]})
        for name in licences_of(on_cpu, headers):
            shutil.copy(PARTS / "licences" / name, self.root / "licences" / name)
        if self.o.cpp:
            self.cpp_parts()
        (self.root / "NOTICE").write_text(notice(self.o.name, on_cpu, on_gpu, headers), encoding="utf-8")

    def cpp_parts(self) -> None:
        """What a program in C++ needs beside the package."""
        shutil.copytree(PARTS / "cpp", self.root / "cpp", dirs_exist_ok=True)
        shutil.copy(self.o.cpp, self.root / "cpp" / self.o.cpp.name)
        (self.root / "cpp" / "example.cpp").write_text(self.example_in_cpp(), encoding="utf-8")

    def example_in_cpp(self) -> str:
        model = self.index["models"][0]
        case = model["cases"][0]
        entry = next(p for p in self.index["programs"] if p["task"] == case["task"])
        head = json.loads((self.module / entry["program"]).read_text(encoding="utf-8"))["head"]
        device = "cpu" if case["device_type"] == "cpu" else "cuda:0"

        def made(d: dict[str, Any]) -> str:
            shape = ", ".join(map(str, d["shape"]))
            kind = CPP_TYPES[d["dtype"]]
            how = f"at::randn({{{shape}}}, on" if "float" in d["dtype"] else f"at::zeros({{{shape}}}, on"
            return f"{how}.dtype({kind}))"

        constants = read_tensors(self.module / model["constants"]) if "constants" in model else {}
        weights = ",\n      ".join(f'{{"{name}", {made(d)}}}' for name, d in zip(case["weights"], head.get("weights", []))
                                   if name not in constants)
        inputs = ", ".join(made(d) for d in head["inputs"])
        return EXAMPLE_IN_CPP.format(device=device, model=model["name"], weights=weights, inputs=inputs)

    def close(self) -> None:
        files = sorted(p for p in self.module.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
        self.index["files"] = {p.relative_to(self.module).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
                               for p in files if p.name != "index.json"}
        self.put("index.json", json.dumps(self.index, indent=1))
        (self.root / "README.md").write_text(readme(self.index), encoding="utf-8")


def licences_of(on_cpu: bool, headers: list[str]) -> list[str]:
    """Files of licences/ for what is inside. libcu++'s exceptions to its licence ask for no copy with compiled code."""
    return ["boost.txt", "pytorch.txt", *(["fmt.txt"] if on_cpu else []), *[f"{h}.txt" for h in ("cub", "cutlass") if h in headers]]


def notice(name: str, on_cpu: bool, on_gpu: bool, headers: list[str]) -> str:
    text = (f"{name}\n\nA package of programs that cudal1 found, with cudal1's code to run them (_cudal1/).\n\n"
            "models/ has the source of the models, which is its authors', under their licence.\n")
    text += ("\nlibcudal1_package_runtime.so and libcudal1_package.so contain code of Boost.JSON (Boost Software License 1.0) and "
             "inline\nfunctions of PyTorch's headers (BSD 3-Clause); licences/ has their texts.\n")
    if on_cpu:
        text += ("\nlibcudal1_cpu_kernels.so contains code of Boost.Context (Boost Software License 1.0) and fmt (MIT); "
                 "licences/ has\ntheir texts.\n")
    of = {"cutlass": "CUTLASS (BSD 3-Clause, https://github.com/NVIDIA/cutlass)",
          "cub": "CUB (BSD 3-Clause, https://github.com/NVIDIA/cccl)",
          "libcu++": "libcu++ (Apache License 2.0 with LLVM exceptions, https://github.com/NVIDIA/cccl)",
          "cuda": "NVIDIA's CUDA headers (the CUDA Toolkit's End User License Agreement)"}
    used = [of[h] for h in headers if h in of]
    if used:
        text += "\nCubins contain code of " + "; ".join(used) + ".\n"
    if on_gpu:
        text += ("\nCubins may contain functions of libdevice, which NVRTC links into kernels (the CUDA Toolkit's End User License\n"
                 "Agreement, https://docs.nvidia.com/cuda/eula).\n")
    return text


def readme(index: dict[str, Any]) -> str:
    name = index["name"]
    text = f"# {name}\n\nVariants that {index['made_by']} found, as modules of PyTorch.\n\n```\npip install .\npython -m {name}"
    text += "          # checks and measures it on this machine\n```\n\n```python\n"
    text += f"import {name}\nmodule = {name}.optimize(model)    # shares the model's parameters; runs the variants where they fit\n"
    text += f"print({name}.report())              # which calls did, and why others ran the model's own forward\n```\n\n"
    text += ("| task | device | precision | call of the module | eager | speedup, 95% | as a program |\n"
             "|---|---|---|---|---|---|---|\n")
    for p in index["programs"]:
        measured = "unmeasured | | "
        if "module_speedup" in p:
            low, high = p["module_interval"]
            measured = f"{p['module_us']:.0f} us | {p['eager_us']:.0f} us | {p['module_speedup']:.2f}x [{low:.2f}, {high:.2f}]"
        where = p["environment"]["model"]
        text += f"| {p['task']} | {where} | {p['precision']} | {measured} | {p['speedup']:.2f}x over its own steps |\n"
    for r in index["ranges"]:
        of = f", multiples of {r['multiple']}" if r["multiple"] > 1 else ""
        text += f"\n{r['task']} also runs batches of {r['low']}..{r['high']}{of}"
        text += ".\n" if "times" not in r else ": " + ", ".join(
            f"of {t['batch']} {t['speedup']:.2f}x [{t['interval'][0]:.2f}, {t['interval'][1]:.2f}] over eager"
            for t in r["times"]) + ".\n"
    for line in index["without_range"]:
        text += f"\nFor its tuned batch alone: {line}.\n"
    for line in index["not_built"]:
        text += f"\nNot compiled: {line}.\n"
    for m in index["models"]:
        if "source_needs" in m:
            text += (f"\nThe source of {m['name']} imports from {', '.join(m['source_needs'])}: where that is not, use "
                     f"`{name}.optimize(model)` with a model of yours.\n")
    text += "\nGradients are those of the model's own steps, computed again in backward(); they have no gradients themselves.\n"
    return text
