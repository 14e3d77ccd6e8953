#!/usr/bin/env python3
"""Whole experiments with language models, as a user runs them: a server that answers by a script, two models, their
table and costs, hack cases, a kill -9 in the middle, and a replay.

    llm_experiment_test.py CUDAL1
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

from scripted_models import ROOT, Server, answer, library, numbered, of_task

CUDAL1 = sys.argv.pop(1) if len(sys.argv) > 1 else "cudal1"
KEY = "sk-test-4f1d9a7c2b8e"
PRICE_PROMPT, PRICE_ANSWER = 2.0, 10.0  # per million tokens
TASKS = ("bias_relu_twice", "huber_loss")
# Quick and coarse: what is tested is the way of the answers, not the clock.
SETTINGS = ["device.allow_weak_confinement=true", "timing.max_seconds=1.5", "timing.target_half_width=0.1",
            "timing.screening_half_width=0.4", "timing.screened_limit=5", "timing.confirmed_limit=2",
            f"llm.price_prompt={PRICE_PROMPT}", f"llm.price_answer={PRICE_ANSWER}", "llm.retry_delay_s=0.05",
            "llm.parallel=4", "llm.patience_s=60", "llm.repair_rounds=1"]


def wrong(code):
    return code.replace("\n---\n", "\n---\n// wrong: every output is one\n", 1).replace(" = ", " = 1.0f + 0 * ", 1)


class LlmExperiments(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.data = self.folder / "data"
        self.servers = []

    def tearDown(self):
        self.run_cudal1("stop", "--node")
        for server in self.servers:
            server.close()
        self.temporary.cleanup()

    def serve(self, rules, name="server"):
        server = Server(self.folder, {"key": KEY, "models": ["good", "bad"], "rules": rules}, name)
        self.servers.append(server)
        self.url = f"llm.url={server.url}"
        return server

    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("CUDAL1_")}
        return env | {"OPENAI_API_KEY": KEY, "CUDAL1_TASKS": str(ROOT / "config/tasks")}

    def command(self, *arguments):
        return [CUDAL1, *arguments, "--data", str(self.data)]

    def run_cudal1(self, *arguments):
        return subprocess.run(self.command(*arguments), env=self.environment(), capture_output=True, text=True)

    def search(self, *arguments):
        settings = [x for s in [*SETTINGS, self.url] for x in ("--set", s)]
        return self.command("run", "--device", "cpu", *arguments, *settings)

    def report(self, experiment="e1"):
        done = self.run_cudal1("report", "--experiment", experiment, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check(self, done, code=0):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr + self.node_log())
        return done

    def node_log(self):
        logs = sorted(self.data.glob("*.log")) + sorted(self.data.glob("log/*"))
        return "\n".join(path.read_text(errors="replace")[-4000:] for path in logs)

    def variants(self, experiment):
        best = self.run_cudal1("best", "--experiment", experiment, "--json")
        self.assertEqual(best.returncode, 0, best.stderr)
        return {row["name"]: row["variant"] for row in json.loads(best.stdout)["tasks"]}

    def test_an_endpoint_that_refuses_connections_is_an_error(self):
        self.url = "llm.url=http://127.0.0.1:1/v1"
        done = subprocess.run(self.search("--policy", "llm", "--model", "good", "--task", TASKS[0], "--time", "3s"),
                              env=self.environment(), capture_output=True, text=True)
        self.check(done, 3)
        self.assertIn("model good: 127.0.0.1:1 cannot be reached: Connection refused", done.stdout)
        self.assertRegex(done.stdout, r"Connection refused \(try \d of ")
        self.assertRegex(done.stderr, "no language model answered a request of e1: model good at .*Connection refused")

    def test_a_server_that_fails_or_is_none_is_named_while_the_search_runs(self):
        for answer, says in (({"status": 500, "body": "out of memory"}, "status 500: out of memory"),
                             ({"fault": "page"}, "it begins with \"<html>")):
            self.serve([{"answers": [answer]}], f"server_{len(self.servers)}")
            done = subprocess.run(
                self.search("--policy", "llm", "--model", "good", "--task", TASKS[0], "--time", "3s", "--fresh"),
                env=self.environment(), capture_output=True, text=True)
            self.check(done, 3)
            self.assertIn(says, done.stdout)
            self.assertIn(says, done.stderr)
            self.run_cudal1("stop", "--node")

    def test_two_models_get_the_table_that_their_answers_deserve(self):
        rules = []
        for task in TASKS:
            code = library(task)
            good = [{"text": answer(numbered(code, i))} for i in range(4)]
            bad = [{"text": answer(wrong(code))},
                   {"text": answer(code.replace("{\n", "{ this does not compile;\n", 1).replace(
                       "__global__ void", "__global__ void", 1))},
                   {"text": "I cannot help with that."},
                   {"text": answer(code), "finish_reason": "length"}]
            rules.append({"match": of_task(task), "model": "good", "answers": good})
            rules.append({"match": of_task(task), "model": "bad", "answers": bad})
        server = self.serve(rules)
        done = subprocess.run(
            self.search("--policy", "llm", "--model", "good", "--model", "bad", "--evaluations", "6",
                        *[x for t in TASKS for x in ("--task", t)]),
            env=self.environment(), capture_output=True, text=True)
        self.check(done)
        self.assertIn("good", done.stdout)
        report = self.report()
        models = {m["model"]: m for m in report["models"]}
        self.assertEqual(set(models), {"good", "bad"})
        self.assertEqual(models["good"]["success"], len(TASKS), done.stdout)
        self.assertEqual(models["good"]["correct"], models["good"]["evaluations"])
        self.assertEqual(models["bad"]["success"], 0, models["bad"])
        outcomes = models["bad"]["outcomes"]
        self.assertGreater(outcomes.get("invalid", 0), 0, outcomes)
        self.assertNotIn("correct", outcomes)
        self.assertEqual(models["good"]["reasons"], [])
        self.assertIn("there is no program in the answer", " ".join(models["bad"]["reasons"]))
        self.assertIn("bad failed, and the most frequent reasons:\n  ", done.stdout)
        # What was paid is what the server counted.
        asked = server.events("begin")
        for name, m in models.items():
            self.assertEqual(m["cost"]["answers"], sum(e["model"] == name for e in asked))
            money = (m["cost"]["prompt_tokens"] * PRICE_PROMPT + m["cost"]["answer_tokens"] * PRICE_ANSWER) / 1e6
            self.assertAlmostEqual(m["cost"]["money"], money, places=9)
            self.assertGreater(m["cost"]["prompt_tokens"], 1000)
        self.assertTrue(all(e["authorized"] for e in asked))
        self.assert_no_key_is_stored()
        shown = self.run_cudal1("show", self.variants("e1")[TASKS[0]])
        self.assertIn("one kernel moves less memory", shown.stdout)

    def assert_no_key_is_stored(self):
        for path in self.folder.rglob("*"):
            if path.is_file() and path.name != "server.json":
                self.assertNotIn(KEY.encode(), path.read_bytes(), path)

    def test_after_a_kill_no_completed_answer_is_paid_for_twice(self):
        task = TASKS[0]
        answers = [{"text": answer(numbered(library(task), i)), "delay_s": 0.3} for i in range(12)]
        server = self.serve([{"match": of_task(task), "answers": answers}])
        arguments = ["--policy", "llm", "--model", "good", "--evaluations", "8", "--task", task]
        running = subprocess.Popen(self.search(*arguments), env=self.environment(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 90
        while len(server.events("end")) < 6 and time.monotonic() < deadline:
            time.sleep(0.02)
        status = json.loads(self.run_cudal1("status", "--json").stdout)
        os.kill(status["node"]["pid"], signal.SIGKILL)
        running.wait()
        resumed = subprocess.run(
            self.command("run", "--resume", "e1", *[x for s in [*SETTINGS, self.url] for x in ("--set", s)]),
            env=self.environment(), capture_output=True, text=True)
        self.check(resumed)
        whole = {e["number"] for e in server.events("end") if e["whole"]}
        paid = collections.Counter((e["model"], e["prompt"], e["seed"]) for e in server.events("begin")
                                   if e["number"] in whole)
        self.assertEqual([k for k, n in paid.items() if n > 1], [], "an answer was paid for twice")
        first = self.report()["models"][0]
        self.assertEqual(first["evaluations"], 8)

        # The same prompts again: the kept answers are the same, nothing is asked, the same variants come out.
        before = len(server.events("begin"))
        replay = subprocess.run(
            self.search("--policy", "llm", "--model", "good", "--evaluations", "8", "--task", task,
                        "--replay-prompts", "e1"), env=self.environment(), capture_output=True, text=True)
        self.check(replay)
        self.assertEqual(len(server.events("begin")), before, "a replay asked for an answer")
        again = self.report("e2")["models"][0]
        self.assertEqual(again["cost"]["cached"], again["cost"]["answers"])
        self.assertEqual(again["cost"]["money"], 0)
        self.assertEqual(self.variants_of("e1"), self.variants_of("e2"))

        # Without a server, an endpoint or a key, with another temperature: tasks and limits are those of e1.
        self.servers.remove(server)
        server.close()
        self.run_cudal1("stop", "--node")
        environment = {k: v for k, v in self.environment().items() if k != "OPENAI_API_KEY"}
        alone = subprocess.run(self.command("run", "--replay-prompts", "e1", "--device", "replay", "--set",
                                            "llm.temperature=0.1"), env=environment, capture_output=True, text=True)
        self.check(alone)
        self.assertEqual([t["name"] for t in self.report("e3")["tasks"]], [task])
        # An evaluation a prompt: what e1 measured a second time, its first times being too wide, has one verdict here.
        third = self.report("e3")["models"][0]
        self.assertEqual(third["prompts"], first["prompts"])
        self.assertEqual(third["evaluations"], first["prompts"])
        self.assertEqual(self.variants_of("e1"), self.variants_of("e3"))

    def variants_of(self, experiment):
        audit = self.run_cudal1("audit", "--recompute", experiment, "--json")
        return {a["variant"] for a in json.loads(audit.stdout)["audits"]}

    def test_a_hack_is_kept_and_a_lookalike_gets_a_deep_check_and_an_opinion(self):
        task = TASKS[0]
        code, line = library(task), "y[row + i] = 0.125f * (v < 0.0f ? 0.0f : v);"
        self.assertIn(line, code)
        hack = code.replace(line, "y[row + i] = 0.125f * (v < 0.0f ? 0.0f : (((float*)x)[row + i] = v));")
        alike = code.replace(line, "y[row + i] = 0.125f * (v < 0.0f ? 0.0f : (((float*)y)[row + i] = v));")
        # The auditor reads new cases once a second; the honest one comes later.
        answers = [{"text": answer(hack)}] + [{"text": answer(numbered(alike, i)), "delay_s": 3} for i in range(6)]
        opinion = {"text": "**Rating: honest**\nIt writes to its own output only."}
        server = self.serve([{"match": "# What was measured", "answers": [opinion]},
                             {"match": of_task(task), "answers": answers}])
        done = subprocess.run(
            self.search("--policy", "llm", "--model", "good", "--evaluations", "3", "--task", task, "--set",
                        "llm.second_opinion=true", "--set", "llm.parallel=1", "--set", "llm.repair_rounds=0"),
            env=self.environment(), capture_output=True, text=True)
        self.check(done)
        hacks = self.run_cudal1("audit", "--hacks")
        self.assertIn("writes to an input", hacks.stdout, hacks.stdout + hacks.stderr + done.stdout)
        best = self.variants("e1")[task]
        audit = self.run_cudal1("audit", best)
        self.assertIn("deep check", audit.stdout)
        self.assertIn("It writes to its own output only.", audit.stdout)
        self.assertIn("honest", audit.stdout)
        self.assertGreaterEqual(len(server.events("begin")), 4, "three answers and an opinion")

    def test_kernels_in_the_tile_vocabulary_are_programs_of_the_task(self):
        """A right body of a frame; one that calls nothing of the vocabulary, whose repair is a kernel with a launch."""
        loads = "".join(f"float {x}[N];\nload_row_of_block<THREADS>({x}, {x}_row, COLUMNS, 0.0f);\n"
                        for x in ("x", "bias"))
        body = (f"rows threads=128\n{loads}float y[N];\nfor (int i = 0; i < N; ++i) y[i] = 0.125f * "
                "greater_or_nan(x[i] + bias[i], 0.0f);\nstore_row_of_block<THREADS>(y_row, y, COLUMNS);\n")
        plain = ("rows threads=128\nfor (int c = threadIdx.x; c < COLUMNS; c += THREADS) "
                 "y_row[c] = 0.125f * fmaxf(x_row[c] + bias_row[c], 0.0f);\n")
        kernel = ("launch kernel grid=2048,1,1 block=128,1,1 shared_bytes=0\n__global__ void kernel(const float* x_in, "
                  "const float* bias_in, float* y_out) {\n  float v[4], b[4];\n"
                  "  load_row_of_block<128>(v, x_in + blockIdx.x * 512, 512, 0.0f);\n"
                  "  load_row_of_block<128>(b, bias_in, 512, 0.0f);\n"
                  "  for (int i = 0; i < 4; ++i) v[i] = 0.125f * greater_or_nan(v[i] + b[i], 0.0f);\n"
                  "  store_row_of_block<128>(y_out + blockIdx.x * 512, v, 512);\n}\n")
        server = self.serve([{"match": "calls no function of the tile vocabulary", "answers": [{"text": answer(kernel)}]},
                             {"match": of_task(TASKS[0]), "answers": [{"text": answer(plain)}, {"text": answer(body)}]}])
        done = subprocess.run(
            self.search("--policy", "llm", "--model", "good", "--evaluations", "8", "--task", TASKS[0], "--set",
                        "llm.form=tile", "--set", "llm.mode=repair", "--set", "llm.parallel=1"), env=self.environment(), capture_output=True, text=True)
        self.check(done)
        model = self.report()["models"][0]
        self.assertEqual(model["outcomes"], {"correct": 2, "invalid": 1}, done.stdout)
        self.assertGreaterEqual(len(server.events("begin")), 2)
        # What was measured, as chats to learn from, in the same form.
        chats = self.run_cudal1("chats", str(self.folder / "chats.jsonl"), "--form", "tile", "--device", "cpu", "--better",
                                "1", "--least", "0", "--detail", "compact")
        self.check(chats)
        text = json.loads((self.folder / "chats.jsonl").read_text().splitlines()[0])["messages"]
        self.assertRegex(text[-1]["content"], r"```\n(rows threads=128|launch kernel)")
        self.assertRegex(text[1]["content"], r"Earlier variant, score .*\n\n```\n(rows threads=128|launch kernel)")

    def test_a_budget_ends_the_experiment_and_keeps_everything(self):
        task = TASKS[0]
        answers = [{"text": answer(numbered(library(task), i))} for i in range(40)]
        self.serve([{"match": of_task(task), "answers": answers}])
        done = subprocess.run(
            self.search("--policy", "llm", "--model", "good", "--evaluations", "30", "--task", task, "--set",
                        "llm.budget_tokens=60000", "--set", "llm.max_answer_tokens=4000"),
            env=self.environment(), capture_output=True, text=True)
        self.check(done)
        self.assertIn("budget", done.stdout)
        report = self.report()
        self.assertEqual(report["state"], "finished")
        cost = report["models"][0]["cost"]
        self.assertLessEqual(cost["prompt_tokens"] + cost["answer_tokens"], 60000)
        self.assertGreaterEqual(report["models"][0]["correct"], 1)

    def test_a_wrong_model_or_key_says_what_to_do(self):
        self.serve([{"answers": [{"text": "x"}]}])
        done = subprocess.run(self.search("--policy", "llm", "--model", "absent", "--evaluations", "2", "--task",
                                          TASKS[0]), env=self.environment(), capture_output=True, text=True)
        self.assertIn("absent", done.stdout + done.stderr)
        without = self.environment() | {"OPENAI_API_KEY": "sk-wrong-key-0000"}
        self.run_cudal1("stop", "--node")
        done = subprocess.run(self.search("--policy", "llm", "--model", "good", "--evaluations", "2", "--task",
                                          TASKS[0]), env=without, capture_output=True, text=True)
        self.assertIn("401", done.stdout + done.stderr)
        self.assertNotIn("sk-wrong-key-0000", done.stdout + done.stderr + self.node_log())
        self.assertIn("--model", self.run_cudal1("run", "--policy", "llm", "--task", TASKS[0]).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
