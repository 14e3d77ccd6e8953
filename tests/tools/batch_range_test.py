#!/usr/bin/env python3
"""`cudal1 export --format torch --batch`: one variant for every batch size of a range, in a user's hands.

    batch_range_test.py CUDAL1 [--device cuda:0]
"""

import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import torch

DEVICE = "cpu"
MODELS = '''import torch
import torch.nn as nn


class Mlp(nn.Module):
    """A row kernel, a flat kernel and two products of the library."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.n = nn.Linear(48, 33), nn.Linear(33, 31), nn.LayerNorm(31)

    def forward(self, x, y):
        return torch.softmax(self.n(self.b(torch.nn.functional.gelu(self.a(x)))) * 2 + y, -1)


class Centred(nn.Module):
    """Each row depends on all others."""

    def forward(self, x, y):
        return torch.relu(x - x.mean(0)).sum(1) + y.sum(1)


def example_inputs():
    return torch.randn(64, 48), torch.randn(64, 31)
'''
QUICK = ["--set", "timing.max_seconds=1", "--set", "timing.second_look_factor=0", "--set", "device.flush_mb=4"]
STATE = {}


def run(*words, code=0):
    done = subprocess.run([CUDAL1, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert code is None or done.returncode == code, f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def verified(folder, name="ranged"):
    """Checked again, without times."""
    done = subprocess.run([sys.executable, "-m", name, "--no-times", "--json", "--device", DEVICE], stdout=subprocess.PIPE,
                          text=True, env=os.environ | {"PYTHONPATH": str(folder)})
    return done.returncode, json.loads(done.stdout)


def setUpModule():
    temporary = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(temporary.cleanup)
    folder = pathlib.Path(temporary.name)
    os.environ.update(CUDAL1_PYTHON=sys.executable, CUDAL1_DATA=str(folder / "data"), PYTHONDONTWRITEBYTECODE="1",
                      XDG_CACHE_HOME=str(folder / "cache"))
    unittest.addModuleCleanup(run, "stop", "--node", code=None)
    (folder / "batch_models.py").write_text(MODELS)
    run("tasks", "import", folder / "batch_models.py:Mlp", folder / "batch_models.py:Centred", "--out", folder / "tasks")
    run("run", "--tasks", folder / "tasks", "--device", DEVICE, "--evaluations", "6", "--time", "12s",
        "--policy", "random", *QUICK)
    said = run("export", folder / "out", "--format", "torch", "--name", "ranged", "--no-check", "--batch", "1..256", "--json")
    sys.path[:0] = [str(folder / "out"), str(folder)]
    STATE.update(folder=folder, said=json.loads(said), package=importlib.import_module("ranged"),
                 models=importlib.import_module("batch_models"))
    torch.set_num_threads(1)


class Ranges(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.model = STATE["models"].Mlp().to(DEVICE)
        self.package = STATE["package"]
        self.fast = self.package.optimize(self.model, "Mlp")
        self.operator = self.package._package.range_operator("batch_models.Mlp")
        self.before = self.operator.calls

    def inputs(self, rows):
        return torch.randn(rows, 48, device=DEVICE), torch.randn(rows, 31, device=DEVICE)

    def test_every_size_runs_and_the_tuned_one_its_own_variant(self):
        sizes = (1, 2, 7, 63, 65, 100, 128, 255, 256)
        with torch.no_grad():
            for rows in (*sizes, 64, *sizes):
                given = self.inputs(rows)
                torch.testing.assert_close(self.fast(*given), self.model(*given))
            self.assertEqual(self.operator.calls - self.before, 2 * len(sizes))
            given = self.inputs(257)
            torch.testing.assert_close(self.fast(*given), self.model(*given))
        self.assertEqual(self.operator.calls - self.before, 2 * len(sizes))
        self.assertTrue(any("there is one for batches of 1..256" in why for why in self.package.report().eager))
        self.assertEqual((self.operator.low, self.operator.high, self.operator.multiple), (1, 256, 1))

    def test_gradients(self):
        given = self.inputs(37)
        self.fast(*given).pow(2).sum().backward()
        found = self.model.a.weight.grad.clone()
        self.model.zero_grad()
        self.model(*given).pow(2).sum().backward()
        torch.testing.assert_close(found, self.model.a.weight.grad)
        self.assertEqual(self.operator.calls - self.before, 1)

    def test_one_compilation_serves_the_sizes(self):
        torch._dynamo.reset()
        graphs = []

        def backend(graph, given):
            graphs.append(graph)
            return graph.forward

        compiled = torch.compile(self.fast, backend=backend, dynamic=True, fullgraph=True)
        with torch.no_grad():
            for rows in (9, 33, 64, 120):
                given = self.inputs(rows)
                torch.testing.assert_close(compiled(*given), self.model(*given))
        self.assertEqual(len(graphs), 1)
        self.assertEqual(self.operator.calls - self.before, 4)

    def test_what_mixes_the_batch_is_refused_with_its_step(self):
        self.assertEqual(len(STATE["said"]["without_range"]), 1, STATE["said"])
        self.assertRegex(STATE["said"]["without_range"][0], r"batch_models.Centred: step 1 \(aten::mean.dim\): ")

    def test_it_is_checked_at_several_sizes(self):
        code, found = verified(STATE["folder"] / "out")
        (checked,) = found["ranges"]
        self.assertEqual((checked["status"], checked["why"]), ("right", ""), found)
        self.assertTrue({1, 2, 64, 255, 256} <= set(checked["sizes"]))

    def test_a_wrong_size_is_found(self):
        copy = STATE["folder"] / "wrong"
        shutil.copytree(STATE["folder"] / "out", copy)
        for file in (copy / "ranged/programs/batch_models_Mlp/batch").glob("p*.json"):
            document = json.loads(file.read_text())
            for step in document.get("head", document)["steps"]:
                if "launch" in step:
                    step["grid"][0] = 1  # enough for a few rows alone
            file.write_text(json.dumps(document))
        code, found = verified(copy)
        self.assertEqual(code, 1)
        self.assertEqual(found["ranges"][0]["status"], "wrong")
        self.assertRegex(found["ranges"][0]["why"], r"for a batch of \d+: ")

    def test_a_package_without_ranges_is_read(self):
        copy = STATE["folder"] / "before"
        shutil.copytree(STATE["folder"] / "out", copy)
        index = json.loads((copy / "ranged/index.json").read_text())
        del index["ranges"], index["without_range"]
        for m in index["models"]:
            del m["ranges"]
        (copy / "ranged/index.json").write_text(json.dumps(index))
        code, found = verified(copy)
        self.assertEqual(({c["status"] for c in found["cases"]}, found["ranges"]), ({"right"}, []), found)

    def test_other_formats_and_ranges_are_refused(self):
        run("export", STATE["folder"] / "no", "--format", "cpp", "--batch", "1..8", code=2)
        run("export", STATE["folder"] / "no", "--format", "torch", "--batch", "8..1", code=2)


if __name__ == "__main__":
    CUDAL1 = sys.argv.pop(1)
    if "--device" in sys.argv:
        at = sys.argv.index("--device")
        DEVICE = sys.argv[at + 1]
        del sys.argv[at:at + 2]
    unittest.main()
