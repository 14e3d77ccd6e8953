#!/usr/bin/env python3
"""Definitions, workloads and solutions of FlashInfer-Bench and SOL-ExecBench: imported as tasks, written of exported files,
and judged.

    definitions_test.py CUDAL1
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

CUDAL1 = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "python"))
sys.dont_write_bytecode = True

import torch  # noqa: E402
from benchmark_sets import solutions, writing  # noqa: E402
from importing import definitions  # noqa: E402
from importing.problems import find_problems  # noqa: E402
from submissions import readers  # noqa: E402

SCALED = {  # as SOL-ExecBench has them: an expression, a number, inputs that the reference makes
    "name": "scaled_rows",
    "op_type": "scale",
    "axes": {"batch": {"type": "var"}, "heads": {"type": "const", "value": 2}, "size": {"type": "const", "value": 32},
             "rows": {"type": "expr", "expression": "batch * heads"}},
    "inputs": {"x": {"shape": ["rows", "size"], "dtype": "float32"}, "norm_weight": {"shape": ["size"], "dtype": "bfloat16"},
               "ids": {"shape": ["rows"], "dtype": "int64"}, "eps": {"shape": None, "dtype": "float32"}},
    "outputs": {"y": {"shape": ["rows", "size"], "dtype": "float32"}, "taken": {"shape": ["rows", "size"], "dtype": "float32"}},
    "custom_inputs_entrypoint": "made",
    "reference": "import torch\n\ndef made(axes_and_scalars, device):\n"
                 "    n = axes_and_scalars['rows']\n    assert axes_and_scalars['eps'] == 1\n"
                 "    return {'ids': torch.randint(0, n, (n,), device=device)}\n\n@torch.no_grad()\ndef run(x, norm_weight, ids, eps):\n"
                 "    y = x * norm_weight.float() + eps\n    return {'taken': y[ids], 'y': y}\n",
}
SCALED_INPUTS = {"x": {"type": "random"}, "norm_weight": {"type": "random"}, "ids": {"type": "custom"},
                 "eps": {"type": "scalar", "value": 1}}
GEMM = {  # as FlashInfer-Bench has them
    "name": "gemm_n64", "op_type": "gemm", "axes": {"M": {"type": "var"}, "N": {"type": "const", "value": 64}},
    "inputs": {"A": {"shape": ["M", "N"], "dtype": "float32"}, "B": {"shape": ["N", "N"], "dtype": "float32"},
               "rows": {"shape": ["M"], "dtype": "int32"}},
    "outputs": {"C": {"shape": ["M", "N"], "dtype": "float32"}},
    "reference": "import torch\n\ndef run(A, B, rows):\n    return torch.matmul(A, B.T) * rows[:, None]\n",
}


def write_safetensors(path: pathlib.Path, key: str, values: list[int]) -> None:
    data = struct.pack(f"<{len(values)}i", *values)
    head = json.dumps({key: {"dtype": "I32", "shape": [len(values)], "data_offsets": [0, len(data)]}}).encode()
    path.parent.mkdir(parents=True)
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)


class Sets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temporary.name)
        cls.sol = cls.root / "sol" / "L1" / "scaled_rows"
        cls.sol.mkdir(parents=True)
        (cls.sol / "definition.json").write_text(json.dumps(SCALED))
        lines = [{"uuid": f"w{n}", "axes": {"batch": n}, "inputs": SCALED_INPUTS} for n in (2, 3)]
        (cls.sol / "workload.jsonl").write_text("\n".join(map(json.dumps, lines)))
        cls.trace = cls.root / "trace"
        write_safetensors(cls.trace / "blob" / "gemm" / "a.safetensors", "rows", [3, 1, 2, 7])
        for kind in ("definitions", "workloads"):
            (cls.trace / kind / "gemm").mkdir(parents=True)
        (cls.trace / "definitions/gemm/gemm_n64.json").write_text(json.dumps(GEMM))
        inputs = {"A": {"type": "random"}, "B": {"type": "random"},
                  "rows": {"type": "safetensors", "path": "elsewhere/blob/gemm/a.safetensors", "tensor_key": "rows"}}
        line = {"definition": "gemm_n64", "solution": None, "evaluation": None,
                "workload": {"uuid": "g4", "axes": {"M": 4}, "inputs": inputs}}
        (cls.trace / "workloads/gemm/gemm_n64.jsonl").write_text(json.dumps(line))
        cls.environment = {k: v for k, v in os.environ.items() if not k.startswith("CUDAL1_") or k == "CUDAL1_PYTHON"}
        cls.environment["CUDAL1_DATA"] = str(cls.root / "data")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def cudal1(self, *words: object):
        return subprocess.run([CUDAL1, *map(str, words)], env=self.environment, capture_output=True, text=True, timeout=200)

    def definition(self, name: str, **changes: object) -> pathlib.Path:
        folder = self.root / name
        folder.mkdir()
        (folder / "definition.json").write_text(json.dumps({**SCALED, **changes}))
        return folder / "definition.json"

    def module(self, path: pathlib.Path) -> dict:
        names: dict = {"__name__": "problem"}
        exec(path.read_text(), names)
        return names

    def test_imports_both_sets(self) -> None:
        out = self.root / "tasks"
        ended = self.cudal1("tasks", "import", self.root / "sol", self.trace, "--out", out, "--json", "--jobs", "2")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        names = ["scaled_rows_batch2", "scaled_rows_batch3", "gemm_n64_M4"]
        found = json.loads(ended.stdout)["imported"]
        self.assertEqual([t["name"] for t in found], names)
        self.assertTrue(all(t["verified"] for t in found), ended.stdout)
        task = json.loads((out / "scaled_rows_batch3.json").read_text())
        inputs = {i["name"]: i for i in task["inputs"]}
        self.assertEqual({n: (i["dtype"], i["shape"]) for n, i in inputs.items()},
                         {"x": ("float32", [6, 32]), "norm_weight": ("bfloat16", [32]), "ids": ("int64", [6])})
        self.assertEqual(inputs["x"]["draw"]["distribution"], "normal")
        # Where the set has ones, numbers around one: no program may leave the weight out.
        self.assertNotEqual(inputs["norm_weight"]["draw"]["distribution"], "constant")
        self.assertEqual(len(task["outputs"]), 2)
        gemm = json.loads((out / "gemm_n64_M4.json").read_text())
        self.assertTrue(next(i for i in gemm["inputs"] if i["name"] == "rows")["content"]["fixed"])
        problem = self.module(next((out / "blobs").glob(gemm["origin"]["source"])))
        self.assertEqual(problem["get_inputs"]()[2].tolist(), [3, 1, 2, 7])

    def test_workloads_may_be_elsewhere(self) -> None:
        alone = self.definition("alone")
        ended = self.cudal1("tasks", "import", alone, "--out", self.root / "t", "--only", "alone")
        self.assertIn("no workloads beside it; give them with --workloads", ended.stdout)
        found = find_problems([str(alone)], self.sol / "workload.jsonl")
        self.assertEqual([p.name for p in found], ["scaled_rows_batch2", "scaled_rows_batch3"])

    def test_says_what_it_cannot_use(self) -> None:
        def refusal(name: str, **changes: object) -> str:
            return find_problems([str(self.definition(name, **changes))], self.sol / "workload.jsonl")[0].refusal

        wrong = {**SCALED["inputs"], "x": {"shape": ["rows"], "dtype": "float4_e2m1"}}
        self.assertIn("dtype float4_e2m1", refusal("dtype", inputs=wrong))
        self.assertIn("no function run", refusal("run", reference="def ran():\n    return 1\n"))
        self.assertIn("names no function that makes", refusal("custom", custom_inputs_entrypoint=None))
        axes = {**SCALED["axes"], "rows": {"type": "expr", "expression": "batch * lanes"}}
        self.assertIn("depend on axes that are not there", refusal("axis", axes=axes))
        axes = {**SCALED["axes"], "rows": {"type": "expr", "expression": "__import__('os').getpid() + batch"}}
        self.assertTrue(refusal("code", axes=axes))

    def exported(self) -> pathlib.Path:
        """As an export leaves it, but with files of PyTorch alone."""
        folder = self.root / "exported"
        (folder / "problems").mkdir(parents=True, exist_ok=True)
        tasks = []
        for problem in find_problems([str(self.sol), str(self.trace)]):
            text = problem.code.decode()
            (folder / "problems" / f"{problem.name}.py").write_text(text)
            (folder / f"{problem.name}_kernel.py").write_text(text + "\n\nclass ModelNew(Model):\n    ran_by = 'cudal1'\n")
            tasks.append({"task": problem.name, "file": f"{problem.name}_kernel.py", "speedup": 2.0,
                          "problem_file": f"problems/{problem.name}.py"})
        (folder / "index.json").write_text(json.dumps({"tasks": tasks, "environments": [{"model": "NVIDIA B200"}]}))
        return folder

    def test_exported_files_become_a_solution_of_each_definition(self) -> None:
        folder = self.exported()
        ended = self.cudal1("bench", "solutions", folder, "--json")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        written = json.loads(ended.stdout)["solutions"]
        self.assertEqual(sorted((w["set"], w["definition"]) for w in written),
                         [("flashinfer-bench", "gemm_n64"), ("sol-execbench", "scaled_rows")])
        for w in written:  # what the set's package says, where it is installed; else how to get it
            self.assertTrue(w["schema"] == "valid" or "is not installed" in w["note"], w)
        scaled = json.loads((folder / "solutions/sol-execbench/scaled_rows.json").read_text())
        self.assertEqual((scaled["spec"]["languages"], scaled["spec"]["target_hardware"]), (["pytorch"], ["LOCAL", "B200"]))
        gemm = json.loads((folder / "solutions/flashinfer-bench/gemm_n64.json").read_text())
        self.assertEqual((gemm["spec"]["language"], gemm["spec"]["target_hardware"]), ("python", ["NVIDIA B200"]))
        self.assertEqual([s["path"] for s in scaled["sources"]], ["main.py", "reference.py", "workload_0.py", "workload_1.py"])

        # Loaded as FlashInfer-Bench does, as a package, and as SOL-ExecBench does, from the path.
        for place, module in (("pkg", "pkg.main"), ("", "main")):
            files = self.root / f"loaded_{place}" / place
            files.mkdir(parents=True)
            for source in scaled["sources"]:
                (files / source["path"]).write_text(source["content"])
            sys.path.insert(0, str(self.root / f"loaded_{place}"))
            loaded = importlib.import_module(module)
            for rows, by in ((4, True), (6, True), (10, False)):  # of workloads, and of none
                x, weight, ids = torch.randn(rows, 32), torch.randn(32).bfloat16(), torch.randint(0, rows, (rows,))
                got = loaded.run(x, weight, ids, 1.0)
                got = [got["y"], got["taken"]] if isinstance(got, dict) else list(got)
                y = x * weight.float() + 1.0
                torch.testing.assert_close(got, [y, y[ids]])
                call = next(c for k, c in loaded._calls.items() if k[0][1] == rows)
                self.assertEqual(getattr(call, "ran_by", "") == "cudal1", by)

    def solution(self, name: str, sources: dict[str, str], entry: str, **spec: object) -> pathlib.Path:
        path = self.sol / f"{name}.json"
        record = {"name": name, "definition": "scaled_rows", "author": "test", "sources": [
            {"path": p, "content": c} for p, c in sources.items()], "spec": {
            "languages": ["pytorch"], "target_hardware": ["LOCAL"], "entry_point": entry, "dependencies": [], **spec}}
        path.write_text(json.dumps(record))
        self.addCleanup(path.unlink)
        return path

    def test_solutions_are_judged_on_each_workload(self) -> None:
        writes = ("from .parts import scale\n\ndef run(x, norm_weight, ids, eps, y, taken):\n"
                  "    y.copy_(scale(x, norm_weight, eps))\n    taken.copy_(y[ids])\n")
        self.solution("right", {"kernel.py": writes, "parts.py": "def scale(x, w, eps):\n    return eps + w.float() * x\n"},
                      "kernel.py::run")
        returns = "def run(x, norm_weight, ids, eps):\n    y = x * norm_weight.float()\n    return y, y[ids]\n"
        self.solution("wrong", {"main.py": returns}, "main.py::run", destination_passing_style=False)
        ended = self.cudal1("audit", "--kernelbench", self.sol, "--pools", "1", "--json")
        if ended.returncode == 3:
            self.skipTest(ended.stderr)
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        self.assertEqual([(v["name"], v["correct"], v["verdict"] == "refused") for v in json.loads(ended.stdout)["submissions"]],
                         [("right@scaled_rows_batch2", True, False), ("right@scaled_rows_batch3", True, False),
                          ("wrong@scaled_rows_batch2", False, True), ("wrong@scaled_rows_batch3", False, True)])

    def test_what_cannot_be_judged_says_why(self) -> None:
        def read(path: pathlib.Path) -> readers.Submission:
            return readers.read(path, None)[0]

        cuda = self.solution("cuda", {"k.cu": "__global__ void f() {}"}, "k.cu::run", languages=["cuda_cpp"])
        self.assertEqual((read(cuda).language, read(cuda).refusal_on("cpu")), ("cuda_cpp", "cuda_cpp needs a GPU: --device cuda:0"))
        self.assertIn("cpp_extension", read(cuda).source)
        ffi = self.solution("ffi", {"k.cu": ""}, "k.cu::run", languages=["cuda_cpp"], binding="tvm-ffi")
        self.assertIn("binding tvm-ffi is not supported", read(ffi).refusal)
        lost = self.solution("lost", {"k.py": ""}, "other.py::run")
        self.assertIn("is in none of its sources", read(lost).refusal)
        outside = self.solution("outside", {"../k.py": "x"}, "../k.py::run")
        self.assertIn("outside of its folder", read(outside).refusal)
        away = self.root / "away.json"
        away.write_text(cuda.read_text().replace("scaled_rows", "unknown"))
        self.assertIn("its definition unknown was not found", read(away).refusal)
        self.assertTrue(solutions.is_solution(json.loads(cuda.read_text())) and writing.exported_in(self.exported()))
        self.assertIsNone(definitions.marks_in("x = 1"))


if __name__ == "__main__":
    unittest.main()
