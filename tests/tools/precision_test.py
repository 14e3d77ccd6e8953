#!/usr/bin/env python3
"""--precision: variants that multiply in float32, in 11 bits and in bfloat16, evaluated, shown, exported and verified by the
commands that a user calls.

    precision_test.py CUDAL1
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CUDAL1 = ""
MODEL = '''import torch


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.v = torch.nn.Parameter(torch.randn(256))

    def forward(self, x, y):
        h = x
        for _ in range(4):
            h = torch.relu(h) * 0.75 + y * 2.0
        return torch.mv(h, self.v)


def example_inputs():
    return torch.randn(512, 256), torch.randn(512, 256)
'''
PROGRAM = '''{ "format": 1, "name": "head",
  "inputs": [{"name": "x", "dtype": "float32", "shape": [512, 256]}, {"name": "y", "dtype": "float32", "shape": [512, 256]}],
  "weights": [{"name": "v", "dtype": "float32", "shape": [256]}],
  "steps": [{"alloc": "z", "dtype": "float32", "shape": [512]},
            {"launch": "head", "grid": [8, 1, 1], "block": [64, 1, 1],
             "args": [{"in": "x"}, {"in": "y"}, {"in": "v"}, {"out": "z"}]}],
  "outputs": ["z"] }
---
__device__ float next(float h, float a) { return (h > 0.0f || h != h ? h : 0.0f) * 0.75f + a; }
__device__ float rounded(float v) { return ROUNDED; }
__global__ void head(const float* __restrict__ x, const float* __restrict__ y, const float* __restrict__ v,
                     float* __restrict__ z) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int j = 0; j < 256; j += 8) {
    for (int k = 0; k < 8; ++k) {
      const float a = y[row * 256 + j + k] * 2.0f;
      sums[k] += rounded(next(next(next(next(x[row * 256 + j + k], a), a), a), a)) * rounded(v[j + k]);
    }
  }
  z[row] = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}
'''
QUICK = ["--set", "timing.max_seconds=1", "--set", "timing.second_look_factor=0", "--set", "device.flush_mb=4"]


def rounded_to(bits):
    """Of a float32's 24 bits of significand."""
    lost = 24 - bits
    return f"fabsf(v) < 3.4e38f ? __int_as_float((__float_as_int(v) + {1 << lost - 1}) & ~{(1 << lost) - 1}) : v"


def run(*words, code=0):
    done = subprocess.run([CUDAL1, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == code, f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout if code == 0 or done.stdout else done.stderr


class Precision(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        os.environ.update(CUDAL1_PYTHON=sys.executable, CUDAL1_DATA=str(cls.folder / "data"))
        cls.addClassCleanup(lambda: subprocess.run([CUDAL1, "stop", "--node"], capture_output=True))
        (cls.folder / "head.py").write_text(MODEL)
        run("tasks", "import", cls.folder / "head.py:Head", "--out", cls.folder / "tasks")
        cls.programs = {}
        for name, text in (("exact", "v"), ("half", rounded_to(11)), ("bfloat16", rounded_to(8))):
            cls.programs[name] = cls.folder / f"{name}.cu1"
            cls.programs[name].write_text(PROGRAM.replace("ROUNDED", text))

    def evaluate(self, *names, precision, code, settings=()):
        said = run("evaluate", self.folder / "tasks/head.Head.json", *[self.programs[n] for n in names], "--device", "cpu",
                   "--precision", precision, "--json", *QUICK, *settings, code=code)
        return [r["result"] for r in json.loads(said)["programs"]]

    def test_what_is_accepted_and_where_it_is_shown(self):
        exact, half = self.evaluate("exact", "half", precision="eager", code=1)
        self.assertEqual((exact["result"], half["result"]), ("correct", "wrong_answer"))
        self.assertIn("gate 2 close", half["reason"])
        other = subprocess.run([CUDAL1, "evaluate", "softmax", "--schedule", "row_kernel(steps=0)", "--precision", "half"],
                               capture_output=True, text=True)
        self.assertEqual(other.returncode, 2)  # not under another accuracy than was asked for
        self.assertIn("verification.tolerance=half has no effect", other.stderr)
        run("stop", "--node")

        half, bfloat16 = self.evaluate("half", "bfloat16", precision="half", code=1, settings=["--set", "device.memory_mb=4096"])
        self.assertEqual((half["result"], bfloat16["result"]), ("correct", "wrong_answer"), half["reason"])
        self.assertIn("gate 3 error", bfloat16["reason"])
        self.assertIn("0.000977 is allowed", bfloat16["reason"])  # 2^-10, of one product
        self.assertNotEqual(half["environment_id"], exact["environment_id"])

        usual, apart = (json.loads(run("best", "--json", *words)) for words in ((), ("--precision", "half")))
        self.assertEqual([r["variant"] for r in usual["tasks"]], [exact["variant"]])
        self.assertEqual([(r["variant"], r["precision"]) for r in apart["tasks"]], [(half["variant"], "half")])
        self.assertEqual([usual["tasks"][0]["evaluations"], apart["tasks"][0]["evaluations"]], [2, 2])
        self.assertAlmostEqual(usual["geometric_mean"], exact["score"])
        self.assertAlmostEqual(apart["geometric_mean"], half["score"])
        text = run("best", "--precision", "half")
        self.assertRegex(text, r"head.Head .*\] ½ ")
        self.assertIn("½ held to --precision half", text)
        self.assertIn("of its memory at most 4096 MiB; products in half precision accepted", " ".join(text.split()))
        self.assertIn("`--precision half` shows it", run("best"))
        self.assertIn("½", run("best", "head.Head", "--precision", "half"))
        self.assertNotIn("½", run("best", "head.Head"))
        self.assertIn("½", run("report", "--precision", "half"))
        self.assertIn("½", run("report", "--experiment", json.loads(run("best", "head.Head", "--precision", "half", "--json"))
                               ["variants"][0]["experiment"]))
        self.assertIn("`cudal1 run --precision strict`", run("best", "--precision", "strict"))
        self.package()

    def package(self):
        folder = self.folder / "fast"
        run("export", folder, "--format", "torch", "--name", "fast_head", "--no-check", "--precision", "half")
        entry, = json.loads((folder / "fast_head/index.json").read_text())["programs"]
        self.assertEqual((entry["precision"], entry["error_bound"]), ("half", 2**-10))
        self.assertIn("| half |", (folder / "README.md").read_text())
        case, = json.loads(run("verify", folder, "--no-times", "--json"))["cases"]
        self.assertEqual((case["status"], case["precision"]), ("right", "half"))
        self.assertGreater(case["error"], 1e-4)
        self.assertLess(case["error"], 2**-10)
        self.assertIn("none of these variants has any", run("export", folder, "--format", "torch", "--arch", "sm_80", "--force",
                                                             "--no-check", code=2))
        self.assertIn("nonsense is no architecture", run("export", folder, "--format", "torch", "--arch", "nonsense", code=2))
        self.assertIn("no evaluations held to precision strict", run("export", folder, "--format", "torch", "--force",
                                                                      "--precision", "strict", code=2))


if __name__ == "__main__":
    CUDAL1 = sys.argv.pop(1)
    unittest.main()
