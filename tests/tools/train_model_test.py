#!/usr/bin/env python3
"""A tiny pretrained model trained as a user trains one: chats formed from a search, then answers that a node judges; and
the training resumed.

    train_model_test.py CUDAL1 WRITE_TINY_MODEL
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

WRITER = os.path.abspath(sys.argv.pop(2))
CUDAL1 = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
# A machine that does other things, too, measures as well: what the scores are does not matter here.
NODE = [x for s in ("device.allow_weak_confinement=true", "timing.screened_limit=10") for x in ("--set", s)]
SETTINGS = [*NODE, "--set", "llm.form=schedule", "--set", "llm.prompt_tokens=3000"]


class TrainModel(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.data = self.folder / "data"
        subprocess.run([WRITER, str(self.folder / "tiny"), "1"], check=True)

    def tearDown(self):
        self.run_cudal1("stop", "--node")
        self.temporary.cleanup()

    def run_cudal1(self, *arguments):
        env = {k: v for k, v in os.environ.items() if not k.startswith("CUDAL1_")}
        env["CUDAL1_TASKS"] = str(ROOT / "config/tasks")
        return subprocess.run([CUDAL1, *arguments, "--data", str(self.data)], env=env, capture_output=True, text=True,
                              cwd=self.folder)

    def check(self, done, code=0):
        logs = "\n".join(p.read_text(errors="replace")[-4000:] for p in sorted(self.data.glob("*.log")))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr + logs)
        return done

    def progress(self):
        return [json.loads(line) for line in (self.folder / "run/progress.jsonl").read_text().splitlines()]

    def test_a_model_learns_chats_and_then_from_what_a_node_measures(self):
        self.check(self.run_cudal1("run", "--device", "cpu", "--task", "softmax", "--policy", "random",
                                   "--evaluations", "6", *NODE))
        done = self.check(self.run_cudal1("chats", "chats.jsonl", "--device", "cpu", "--better", "1", "--least", "0",
                                          "--model", "tiny"))
        self.assertRegex(done.stdout, r"chats\.jsonl: \d+ chats?, with \d+ distinct programs? as answers, of 1 task")
        for line in (self.folder / "chats.jsonl").read_text().splitlines():
            chat = json.loads(line)
            self.assertEqual([m["role"] for m in chat["messages"]], ["system", "user", "assistant"])
            self.assertIn("## Performance analysis", chat["messages"][-1]["content"])
            self.assertGreater(len(chat["source"]["exemplars"]), 0)
        train = ("train", "--model", "tiny", "--task", "softmax", "--measured-on", "cpu", "--chats", "chats.jsonl",
                 "--stages", "sft,self,contrastive", "--steps", "3,1,2", "--batch", "2", "--group", "3", "--repairs",
                 "1", "--answer-tokens", "400", "--out", "run", "--rank", "4", *SETTINGS)
        first = self.run_cudal1(*train, "--hours", "1e-9")
        self.check(first)
        self.assertIn("--resume goes on", first.stderr)
        self.assertEqual(len(self.progress()), 1)
        self.assertRegex(self.check(self.run_cudal1(*train), 2).stderr, "has a training already")
        done = self.check(self.run_cudal1(*train, "--resume"))
        steps = self.progress()
        self.assertEqual([s["stage"] for s in steps], ["supervised"] * 3 + ["self_supervised"] + ["contrastive"] * 2)
        for s in steps[3:]:
            self.assertEqual(s["answers"], 3)
            self.assertEqual(sum(s["outcomes"].values()), 3)
            self.assertLess(s["report"]["sampler_gap"], 1e-3)
            self.assertGreater(s["waiting"], 0)
        self.assertRegex(done.stderr, r"contrastive +2/2")
        adapter = json.loads((self.folder / "run/adapter/adapter_config.json").read_text())
        self.assertEqual((adapter["peft_type"], adapter["r"]), ("LORA", 4))
        self.assertTrue((self.folder / "run/adapter/adapter_model.safetensors").exists())
        self.assertIn('class="c-curve s0"', (self.folder / "run/curves.svg").read_text())
        self.assertRegex(self.check(self.run_cudal1(*train, "--resume", "--rate", "0.5"), 2).stderr, "other options")

    def test_kernels_in_the_tile_vocabulary_are_judged(self):
        self.check(self.run_cudal1("train", "--model", "tiny", "--task", "bias_relu_twice", "--measured-on", "cpu",
                                   "--stages", "contrastive", "--steps", "1", "--group", "3", "--answer-tokens", "700",
                                   "--out", "run", "--rank", "4", *NODE, "--set", "llm.form=tile", "--set",
                                   "llm.prompt=compact", "--set", "llm.prompt_tokens=3390", "--set", "llm.exemplars=1"))
        step = self.progress()[-1]
        self.assertEqual((step["answers"], sum(step["outcomes"].values())), (3, 3))

    def test_what_does_not_fit_together_is_said(self):
        space = str(ROOT / "tests/tools/recorded/sample_space.jsonl")
        for arguments, says in ((("--out", "run"), "exactly one of SPACE .* and --model"),
                                ((space, "--model", "tiny", "--out", "run"), "exactly one of SPACE .* and --model"),
                                (("--model", "tiny", "--out", "run", "--stages", "sft", "--steps", "1"), "--chats"),
                                (("--model", "tiny", "--out", "run", "--stages", "self", "--steps", "1"), "need tasks"),
                                (("--model", "tiny", "--out", "run", "--stages", "odd", "--steps", "1"), "odd"),
                                (("--model", "tiny", "--out", "run", "--layers", "3"), "--layers is of a training")):
            done = self.check(self.run_cudal1("train", *arguments), 2)
            self.assertRegex(done.stderr, says)
        self.assertEqual(self.check(self.run_cudal1("chats", "x.jsonl"), 2).stdout, "")


if __name__ == "__main__":
    unittest.main()
