#!/usr/bin/env python3
"""The arms of a plan with a tiny model, as a user compares them: stopped by time, killed in the middle, gone on with.

    compare_model_test.py CUDAL1 WRITE_TINY_MODEL
"""

import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

WRITER = os.path.abspath(sys.argv.pop(2))
CUDAL1 = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
# Coarse: what the scores are does not matter here.
PLAN = """
name = "tiny"
seeds = [5]
answers = 4
samples = [1, 4]
settings = ["device.allow_weak_confinement=true", "timing.max_seconds=0.3", "timing.screened_limit=10",
            "timing.confirmed_limit=10", "llm.parallel=2"]
[tasks]
names = ["softmax", "bias_relu_twice"]
held_out_operators = ["aten::softmax.int"]
[pool]
evaluations = 3
[prompts]
answers = 2
tokens = 3000
[decoding]
tokens = 300
[training]
steps = [1, 1, 1]
batch = 1
group = 2
better = 1.0
adapter = {rank = 2, alpha = 4, targets = ["q_proj"]}
[[arms]]
name = "untrained"
[[arms]]
name = "shuffled scores"
prompt = "shuffled"
[[arms]]
name = "trained"
weights = "contrastive"
prompt = "contrastive"
"""
ARMS = 3
ANSWERS = 4


class CompareModel(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.out = self.folder / "out"
        subprocess.run([WRITER, str(self.folder / "tiny"), "1"], check=True)
        (self.folder / "plan.toml").write_text(PLAN)

    def tearDown(self):
        for data in [self.out / "data", *self.out.glob("*-data"), *self.out.glob("training/*/data")]:
            subprocess.run([CUDAL1, "stop", "--node", "--data", str(data)], capture_output=True)
        self.temporary.cleanup()

    def command(self, *more):
        return [CUDAL1, "compare", "--model", "tiny", "--plan", "plan.toml", "--measured-on", "cpu", "--out", "out", *more]

    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("CUDAL1_")}
        return env | {"CUDAL1_TASKS": str(ROOT / "config/tasks"), "CUDAL1_DATA": str(self.folder / "unused")}

    def run_cudal1(self, command, code=0):
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, cwd=self.folder)
        logs = "\n".join(p.read_text(errors="replace")[-4000:] for p in sorted(self.out.rglob("node.log")))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr + logs)
        return done

    def records(self, kind):
        path = self.out / "records.jsonl"
        if not path.exists():
            return []
        lines = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
        return [line[kind] for line in lines if line[kind] is not None]

    def test_a_comparison_goes_on_after_its_time_and_after_a_kill(self):
        # The variants that prompts show are measured; then there is no time for answers.
        done = self.run_cudal1(self.command("--time", "1ms"))
        self.assertIn("the same command goes on", done.stderr)
        self.assertIn("0 of 4 answers are judged", done.stdout)
        self.assertEqual(self.records("answer"), [])
        pool = json.loads((self.out / "pool.json").read_text())
        self.assertEqual(list(pool["tasks"]), ["softmax"])
        # Killed with an answer written and others under way, and its node, too.
        running = subprocess.Popen(self.command(), env=self.environment(), cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not self.records("answer") and time.monotonic() < deadline:
            time.sleep(0.005)
        status = subprocess.run([CUDAL1, "status", "--json", "--data", str(self.out / "data")], env=self.environment(),
                                capture_output=True, text=True)
        running.kill()
        running.wait()
        os.kill(json.loads(status.stdout)["node"]["pid"], signal.SIGKILL)
        before = (self.out / "records.jsonl").read_bytes()
        done = self.run_cudal1(self.command("--json"))
        whole = (self.out / "records.jsonl").read_bytes()
        self.assertTrue(whole.startswith(before[:before.rfind(b"\n") + 1]), "what was kept stays")

        for kind in ("answer", "verdict"):
            keys = collections.Counter((r["form"], r["arm"], r["task"], r["seed"], r["number"]) for r in self.records(kind))
            self.assertEqual(len(keys), ARMS * ANSWERS)
            self.assertEqual({n for n in keys.values()}, {1}, "nothing is done twice")
        answers = {(a["arm"], a["number"]): a for a in self.records("answer")}
        self.assertEqual(answers[("untrained", 0)]["shown"], [])
        for arm in ("shuffled scores", "trained"):
            self.assertEqual([len(answers[(arm, i)]["shown"]) for i in range(ANSWERS)], [2] * ANSWERS)
        for i in range(ANSWERS):
            self.assertEqual(set(answers[("shuffled scores", i)]["shown"]), set(answers[("trained", i)]["shown"]))
            self.assertNotEqual(answers[("shuffled scores", i)]["prompt"], answers[("trained", i)]["prompt"])
        measured = [(v["task"], v["program"]) for v in self.records("verdict") if v["is_measured"]]
        self.assertEqual(len(measured), len(set(measured)), "a program is measured once")

        report = json.loads(done.stdout)
        self.assertTrue(report["is_complete"], report["deviations"])
        self.assertEqual(report["deviations"], [])
        self.assertEqual((report["head"]["held_out"], report["head"]["trained"]), (["softmax"], ["bias_relu_twice"]))
        self.assertGreater(sum(row["correct"] for row in report["rows"]), 0, report["rows"])
        self.assertGreater(report["time"]["generate"]["answer_tokens"], 0)
        progress = [json.loads(line) for line in (self.out / "training/schedule-5/progress.jsonl").read_text().splitlines()]
        self.assertEqual([p["stage"] for p in progress], ["supervised", "self_supervised", "contrastive"])
        for chat in (self.out / "chats-schedule.jsonl").read_text().splitlines():
            self.assertIn("bias_relu_twice", json.loads(chat)["messages"][1]["content"])
            self.assertNotIn("softmax", json.loads(chat)["messages"][1]["content"], "it is held out")

        # All is done: nothing is begun, and the report alone says the same.
        self.run_cudal1(self.command())
        self.assertEqual(len(self.records("verdict")), ARMS * ANSWERS)
        text = self.run_cudal1([CUDAL1, "report", "--comparison", "out"]).stdout
        self.assertIn(f"SHA-256 {report['head']['plan']}", text)
        self.assertIn("Nothing deviated from the plan.", text)
        # A plan does not change afterwards.
        (self.folder / "plan.toml").write_text(PLAN.replace("seeds = [5]", "seeds = [6]"))
        self.assertIn("a plan does not change", self.run_cudal1(self.command(), 2).stderr)

    def test_what_does_not_fit_together_is_said(self):
        space = str(ROOT / "tests/tools/recorded/sample_space.jsonl")
        for arguments, says in ((("--plan", "plan.toml"), "--out"),
                                ((), "exactly one of SPACE"),
                                ((space, "--plan", "plan.toml", "--out", "out"), "exactly one of SPACE"),
                                ((space, "--time", "1m"), "--time is of a comparison with --plan"),
                                (("--plan", "plan.toml", "--out", "out", "--model", "tiny", "--seeds", "3"),
                                 "--seeds is of a comparison on a recorded space"),
                                (("--plan", "plan.toml", "--out", "out"), "needs --model"),
                                (("--out", "out", "--report"), "has no comparison.json")):
            self.assertRegex(self.run_cudal1([CUDAL1, "compare", *arguments], 2).stderr, says)


if __name__ == "__main__":
    unittest.main()
