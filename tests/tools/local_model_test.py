#!/usr/bin/env python3
"""Whole experiments with local models, as a user runs them: tiny ones of random weights, whose answers are constrained;
the same again from the cache, and a replay without the model's files.

    local_model_test.py CUDAL1 WRITE_TINY_MODEL
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

WRITER = os.path.abspath(sys.argv.pop(2))
CUDAL1 = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTINGS = ["device.allow_weak_confinement=true", "llm.max_answer_tokens=700", "llm.repair_rounds=1",
            "llm.parallel=4", "llm.prompt_tokens=7000"]


class LocalModels(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.data = self.folder / "data"
        for name, seed in (("first", 1), ("second", 2)):
            subprocess.run([WRITER, str(self.folder / name), str(seed)], check=True)

    def tearDown(self):
        self.run_cudal1("stop", "--node")
        self.temporary.cleanup()

    def run_cudal1(self, *arguments, settings=SETTINGS):
        env = {k: v for k, v in os.environ.items() if not k.startswith("CUDAL1_")}
        env["CUDAL1_TASKS"] = str(ROOT / "config/tasks")
        command = [CUDAL1, *arguments, "--data", str(self.data)]
        if arguments[0] == "run":
            command += [x for s in settings for x in ("--set", s)]
        return subprocess.run(command, env=env, capture_output=True, text=True, cwd=self.folder)

    def check(self, done, code=0):
        logs = "\n".join(p.read_text(errors="replace")[-4000:] for p in sorted(self.data.glob("*.log")))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr + logs)
        return done

    def report(self, experiment):
        return json.loads(self.check(self.run_cudal1("report", "--experiment", experiment, "--json")).stdout)

    def test_local_models_take_turns_and_are_replayed_without_their_files(self):
        search = ("run", "--device", "cpu", "--task", "softmax", "--model", "./first", "--model", "second",
                  "--evaluations", "4")
        done = self.check(self.run_cudal1(*search))
        self.assertRegex(done.stdout, r"first: prompts of \d+ tokens took [\d.]+ s, answers of \d+ tokens [\d.]+ s")
        first = self.report("e1")
        rows = {row["model"]: row for row in first["models"]}
        self.assertEqual(set(rows), {str(self.folder / "first"), str(self.folder / "second")})
        for row in rows.values():
            self.assertGreater(row["cost"]["answers"], 0)
            self.assertGreater(row["cost"]["answer_tokens"], 0)
            self.assertGreater(row["cost"]["seconds"], row["cost"]["prompt_seconds"])
            self.assertGreater(row["cost"]["model_bytes"], 0)
        # What the models wrote is on disk: neither they nor a device are needed again.
        self.check(self.run_cudal1("stop", "--node"))
        for name in ("first", "second"):
            shutil.rmtree(self.folder / name)
        self.check(self.run_cudal1("run", "--replay-prompts", "e1", "--device", "replay"))
        again = {row["model"]: row for row in self.report("e2")["models"]}
        for model, row in again.items():
            self.assertEqual(row["cost"]["cached"], row["cost"]["answers"])
            self.assertEqual(row["cost"]["answer_tokens"], rows[model]["cost"]["answer_tokens"])
            self.assertEqual(row["outcomes"], rows[model]["outcomes"])

    def test_what_is_wrong_with_a_model_is_said_before_the_search(self):
        for name, says in (("./nowhere.gguf", "there is no folder or file .*nowhere.gguf"),
                           ("./empty", "empty/config.json")):
            (self.folder / "empty").mkdir(exist_ok=True)
            done = self.run_cudal1("run", "--device", "cpu", "--task", "softmax", "--model", name, "--evaluations", "1")
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stdout + done.stderr, says)
        self.check(self.run_cudal1("stop", "--node"))
        done = self.run_cudal1("run", "--device", "cpu", "--task", "softmax", "--model", "./first", "--evaluations", "1",
                               settings=[*SETTINGS, "llm.device=cuda:7"])
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout + done.stderr, "llm.device is cuda:7")

    def test_the_prompt_command_counts_by_the_models_tokenizer(self):
        done = self.check(self.run_cudal1("prompt", "softmax", "--device", "cpu", "--tokens", str(self.folder / "first")))
        self.assertRegex(done.stderr, r"Counted \d+ tokens of 4096, compact")


if __name__ == "__main__":
    unittest.main()
