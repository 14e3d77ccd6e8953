#!/usr/bin/env python3
"""`cudal1 bench evaluator` with checkouts of both layouts. KernelBench's own evaluator asks for a GPU, so that what the
checkouts have in its place is a small one with the same functions, which compares numbers of Python.

    evaluator_test.py CUDAL1
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
PROBLEM = """
class Model:
    def __call__(self, x):
        return 2 * x
    def to(self, device):
        return self

def get_inputs():
    return [21]

def get_init_inputs():
    return []
"""
# As in every version of KernelBench: what is loaded, compiled ahead, and timed.
COMMON = """
import anthropic  # no such package: of language models alone
from litellm import completion

def set_seed(seed):
    pass

def load_original_model_and_inputs(source, context):
    exec(source, context)
    return context["Model"], context["get_init_inputs"], context["get_inputs"]

def build_compile_cache(source, verbose, build_dir):
    import pathlib
    with open(pathlib.Path(build_dir).parents[1] / "built", "a") as built:
        built.write("x")
    context = {}
    exec(source, context)

class Result:
    compiled, correctness, runtime, metadata = True, False, -1.0, None

def evaluated(problem, source, context):
    Model, get_init_inputs, get_inputs = load_original_model_and_inputs(problem, context)
    result = Result()
    result.metadata = {}
    try:
        exec(source, context)
    except SyntaxError as error:
        result.compiled, result.metadata["compilation_error"] = False, error
        return result
    expected, got = Model()(*get_inputs()), context["ModelNew"]()(*get_inputs())
    result.correctness = expected == got
    if not result.correctness:
        result.metadata.update(correctness_issue="Output mismatch", max_difference=["1.0", str(float(abs(expected - got)))])
    result.runtime = 2.0
    return result
"""
MAIN = COMMON + """
def eval_kernel_against_ref(original_model_src, custom_model_src, seed_num=42, num_correct_trials=1, num_perf_trials=10,
                            measure_performance=False, build_dir=None, device=None, backend="cuda", precision=None):
    assert (num_correct_trials, num_perf_trials, backend, str(precision)) == (5, 7, "cuda", "torch.float32")
    result = evaluated(original_model_src, custom_model_src, {})
    result.ref_runtime = 3.0
    return result
"""
V0 = COMMON + """
def time_execution_with_cuda_event(kernel_fn, *args, num_warmup=3, num_trials=10, verbose=True, device=None):
    kernel_fn(*args)
    return [5.0] * num_trials

def get_timing_stats(elapsed_times, device=None):
    return {"mean": sum(elapsed_times) / len(elapsed_times)}

def eval_kernel_against_ref(original_model_src, custom_model_src, seed_num=42, num_correct_trials=1, num_perf_trials=10,
                            verbose=False, measure_performance=False, build_dir=None, device=None):
    return evaluated(original_model_src, custom_model_src, {})
"""
FILES = {
    "right": "class ModelNew:\n    def __call__(self, x):\n        return x + x\n",
    "wrong": "class ModelNew:\n    def __call__(self, x):\n        return x\n",
    "unbuilt": "class ModelNew(:\n",
    "crashing": "class ModelNew:\n    def __call__(self, x):\n        import os\n        os.kill(os.getpid(), 11)\n",
    "hanging": "class ModelNew:\n    def __call__(self, x):\n        import time\n        time.sleep(1000)\n",
    "unjudged": "class ModelNew:\n    def __init__(self):\n        raise RuntimeError('not for me')\n",
}


class Evaluator(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        for name, text in (("main/src/kernelbench/eval.py", MAIN), ("v0/src/eval.py", V0)):
            (self.folder / name).parent.mkdir(parents=True)
            (self.folder / name).write_text(text)
        self.exported = self.folder / "exported"
        (self.exported / "problems").mkdir(parents=True)
        (self.exported / "problems/double.py").write_text(PROBLEM)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("CUDAL1_") or k == "CUDAL1_PYTHON"}
        self.environment["CUDAL1_DATA"] = str(self.folder / "data")

    def tearDown(self):
        self.temporary.cleanup()

    def export(self, *names):
        for name in names:
            (self.exported / f"{name}_kernel.py").write_text(FILES[name])
        tasks = [{"task": name, "id": f"id of {name}", "level": 1 + i % 2, "problem": i + 1, "file": f"{name}_kernel.py",
                  "problem_file": "problems/double.py"} for i, name in enumerate(names)]
        without = {"task": "none", "id": "0", "level": 1, "problem": 9, "file": "", "problem_file": ""}
        (self.exported / "index.json").write_text(json.dumps({"tasks": [*tasks, without]}))

    def start(self, checkout, *options):
        words = [CUDAL1, "bench", "evaluator", str(self.exported), "--kernelbench", str(self.folder / checkout), "--device", "cpu",
                 "--trials", "7", *options]
        return subprocess.Popen(words, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True)

    def evaluate(self, checkout, *options):
        process = self.start(checkout, *options)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def results(self):
        return json.loads((self.exported / "evaluator.json").read_text())

    def built(self):
        return len((self.exported / "evaluator/built").read_text())

    def test_main(self):
        self.export(*(name for name in FILES if name != "hanging"))
        code, out, err = self.evaluate("main")
        self.assertEqual(code, 1, err)
        found = {t["task"]: t for t in self.results()["tasks"]}
        self.assertEqual({n: t["verdict"] for n, t in found.items()},
                         {"right": "accepted", "wrong": "refused", "unbuilt": "refused", "crashing": "refused",
                          "unjudged": "not_judged"})
        self.assertEqual((found["right"]["reference_ms"], found["right"]["ms"], found["right"]["speedup"]), (3.0, 2.0, 1.5))
        self.assertIn("largest difference 21.0", found["wrong"]["why"])
        self.assertIn("does not compile", found["unbuilt"]["why"])
        self.assertIn("SIGSEGV", found["crashing"]["why"])
        self.assertIn("RuntimeError: not for me", found["unjudged"]["why"])
        self.assertRegex(out, r"right +accepted +3\.00 ms +2\.00 ms +1\.50x")
        self.assertIn("accepts 1 of 5 files, refuses 3, could not judge 1; geometric mean of the accepted 1.50x", " ".join(out.split()))

        # What was accepted or refused is not evaluated again.
        built = self.built()
        self.export("right", "wrong", "hanging")
        code, out, err = self.evaluate("main", "--json", "--timeout", "3s")
        self.assertEqual(code, 1, err)
        document = json.loads(out)
        self.assertEqual([t["kept"] for t in document["evaluator"]["tasks"]], [True, True, False], out)
        self.assertIn("longer than 3 s", document["evaluator"]["tasks"][2]["why"])
        self.assertEqual([(s["group"], s["accepted"], s["refused"]) for s in document["summaries"]],
                         [("all", 1, 2), ("level 1", 1, 1), ("level 2", 0, 1)])
        self.assertEqual(self.built(), built + 1)

    def test_v0_whose_function_does_not_time_the_problem(self):
        self.export("right")
        code, out, err = self.evaluate("v0")
        self.assertEqual(code, 0, err)
        right = self.results()["tasks"][0]
        self.assertEqual((right["verdict"], right["reference_ms"], right["speedup"]), ("accepted", 5.0, 2.5))
        self.assertEqual(self.results()["layout"], "v0")

    def test_ctrl_c_ends_what_runs_and_keeps_what_is_done(self):
        self.export("right", "hanging")
        process = self.start("main")
        until = time.monotonic() + 60
        while time.monotonic() < until and not (self.exported / "evaluator/logs/hanging.judge.log").exists():
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual([t["verdict"] for t in self.results()["tasks"]], ["accepted"])
        until = time.monotonic() + 20
        while time.monotonic() < until and self.runs_here():
            time.sleep(0.05)
        self.assertEqual(self.runs_here(), [])

    def runs_here(self):
        """The processes that have this test's folder on their command line."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(self.exported) in words:
                found.append(words.replace("\0", " "))
        return found

    def test_says_what_is_missing(self):
        self.export()
        code, _, err = self.evaluate("main")
        self.assertEqual(code, 2, err)
        self.assertIn("no exported file", err)
        self.export("right")
        code, _, err = self.evaluate("exported")
        self.assertEqual(code, 3, err)
        self.assertIn("git clone https://github.com/ScalingIntelligence/KernelBench", err)


if __name__ == "__main__":
    unittest.main()
