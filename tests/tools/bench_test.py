#!/usr/bin/env python3
"""`cudal1 bench kernelbench` on two small problems on the CPU: interrupted in the search, gone on with, and refused for
another request.

    bench_test.py CUDAL1
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CUDAL1 = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return {expression}

def get_inputs():
    return [torch.rand(64, 4096)]

def get_init_inputs():
    return []
"""
# KernelBench's own asks for a GPU. This one has its function, for files that are numbers.
EVALUATOR = """
import types

def eval_kernel_against_ref(original_model_src, custom_model_src, num_correct_trials, num_perf_trials, measure_performance,
                            build_dir, device):
    expected, found = {}, {}
    exec(original_model_src, expected)
    exec(custom_model_src, found)
    right = expected["right"] == found["right"]
    return types.SimpleNamespace(compiled=True, correctness=right, runtime=1.0, ref_runtime=3.0,
                                 metadata={} if right else {"correctness_issue": "it does not match"})
"""
CONFIGURATION = """
[device]
allow_weak_confinement = true
[timing]
max_seconds = 20.0
target_half_width = 0.2
screening_half_width = 0.4
screened_limit = 10
confirmed_limit = 10
"""


class Bench(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        (self.folder / "cudal1.toml").write_text(CONFIGURATION)
        problems = self.folder / "level1"
        problems.mkdir()
        (problems / "19_ReLU.py").write_text(PROBLEM.format(expression="torch.relu(x) * 2.0 + 1.0"))
        (problems / "21_Sigmoid.py").write_text(PROBLEM.format(expression="torch.sigmoid(x) - 0.5"))
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("CUDAL1_") or k == "CUDAL1_PYTHON"}
        self.environment |= {"CUDAL1_DATA": str(self.folder / "data"), "CUDAL1_TASKS": str(ROOT / "config/tasks"),
                             "CUDAL1_CONFIG": str(self.folder / "cudal1.toml")}

    def tearDown(self):
        subprocess.run([CUDAL1, "stop", "--node"], env=self.environment, capture_output=True)
        self.temporary.cleanup()

    def start(self, *options):
        return subprocess.Popen([CUDAL1, "bench", "kernelbench", "level1", "--device", "cpu", "--kinds", "eager", *options],
                                env=self.environment, cwd=self.folder, text=True, start_new_session=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run_bench(self, *options):
        process = self.start(*options)
        output = process.communicate(timeout=400)[0]
        return process.returncode, output

    def state(self):
        return json.loads((self.folder / "bench" / "bench.json").read_text())

    def test_goes_on_after_ctrl_c(self):
        options = ("--evaluations", "3")
        process = self.start(*options)
        until = time.monotonic() + 200
        while time.monotonic() < until and process.poll() is None:
            store = subprocess.run([CUDAL1, "experiments", "--json"], env=self.environment, capture_output=True, text=True)
            if store.returncode == 0 and json.loads(store.stdout)["experiments"]:
                break
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        output = process.communicate(timeout=100)[0]
        self.assertEqual(process.returncode, 130, output)
        self.assertIn("the same command goes on", output)
        self.assertEqual((self.state()["done"], self.state()["experiment"]), (["import"], "e1"))

        code, output = self.run_bench(*options)
        self.assertEqual(code, 0, output)
        self.assertNotIn("tasks import", output)
        self.assertIn("run --resume e1", output)
        self.assertEqual(self.state()["done"], ["import", "search", "baseline"])
        report = json.loads((self.folder / "bench" / "eager.json").read_text())
        self.assertEqual(sorted(row["name"] for row in report["tasks"]), ["level1_019_ReLU", "level1_021_Sigmoid"])
        page = (self.folder / "bench" / "report.html").read_text()
        self.assertTrue("level1_019_ReLU" in page and "level1_021_Sigmoid" in page, page[:2000])

        code, output = self.run_bench(*options)
        self.assertEqual(code, 0, output)
        self.assertNotIn("$ cudal1 run", output, "nothing is searched twice")
        self.evaluates_what_was_exported(options, report["tasks"])
        code, output = self.run_bench("--evaluations", "4")
        self.assertEqual(code, 2, output)
        self.assertIn("another folder with --out", output)

    def evaluates_what_was_exported(self, options, tasks):
        """From there on as on a GPU, where the export has written files; these are of PyTorch alone."""
        submission = self.folder / "bench" / "submission"
        submission.mkdir()
        (submission / "problem.py").write_text("right = 4\n")
        for number, task in enumerate(tasks):
            (submission / f"{number}_kernel.py").write_text(f"right = {4 + number}\n")
        index = {"tasks": [{"task": t["name"], "id": t["task"], "level": 1, "problem": n, "file": f"{n}_kernel.py",
                            "problem_file": "problem.py"} for n, t in enumerate(tasks)]}
        (submission / "index.json").write_text(json.dumps(index))
        state = self.state()
        state["done"].append("export")
        (self.folder / "bench" / "bench.json").write_text(json.dumps(state))

        code, output = self.run_bench(*options)
        self.assertEqual(code, 0, output)
        self.assertIn("git clone https://github.com/ScalingIntelligence/KernelBench", output)
        checkout = self.folder / "KernelBench" / "src" / "kernelbench"
        checkout.mkdir(parents=True)
        (checkout / "eval.py").write_text(EVALUATOR)
        code, output = self.run_bench(*options, "--kernelbench", "KernelBench")
        self.assertEqual(code, 0, output)
        self.assertEqual(self.state()["done"][-1], "evaluator")
        self.assertIn("accepts 1 of 2 files, refuses 1; geometric mean of the accepted 3.00x", " ".join(output.split()))
        page = (self.folder / "bench" / "report.html").read_text()
        self.assertTrue("By KernelBench&#39;s own evaluator" in page and "does not match" in page)
        code, output = self.run_bench(*options, "--kernelbench", "KernelBench")
        self.assertEqual(code, 0, output)
        self.assertNotIn("$ cudal1 bench evaluator", output)

    def test_leaves_a_folder_of_others_alone(self):
        (self.folder / "bench").mkdir()
        (self.folder / "bench" / "mine.txt").write_text("mine")
        code, output = self.run_bench()
        self.assertEqual(code, 2, output)
        self.assertEqual(os.listdir(self.folder / "bench"), ["mine.txt"])


if __name__ == "__main__":
    unittest.main()
