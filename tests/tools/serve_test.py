#!/usr/bin/env python3
"""The HTTP interface of a node on `cpu`, by the Python client and by bytes: evaluations, jobs, limits, a kill in the
middle, garbage, slow and vanished clients, and the OpenAPI document held against the server.

    serve_test.py BIN
"""

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
import unittest

from served_node import ROOT, ServedNode, program

import cudal1

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else str(ROOT / "build/bin")
RIGHT = program()
WRONG = program("a[row * rows + row] + b[row * columns + column]", "wrong")


def problems(value, schema, where="answer", root=None):
    """What in a document does not follow a schema of the OpenAPI document."""
    root = root or schema
    if "$ref" in schema:
        target = root
        for name in schema["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        schema = target
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return [f"{where}: {value!r} is no {schema['type']}"]
    found = [f"{where}: {value!r} is not in {schema['enum']}"] if "enum" in schema and value not in schema["enum"] else []
    if isinstance(value, dict):
        found += [f"{where}: {name} is missing" for name in schema.get("required", []) if name not in value]
        known = schema.get("properties", {})
        for name, member in value.items():
            if name in known:
                found += problems(member, known[name], f"{where}.{name}", root)
            elif schema.get("additionalProperties") is False:
                found.append(f"{where}: {name} is not in the schema")
    if isinstance(value, list) and "items" in schema:
        for item in value:
            found += problems(item, schema["items"], where + "[]", root)
    return found


class Serving(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = ServedNode(BIN)
        cls.client = cls.node.client()
        cls.tiny = cls.client.task("tiny")

    @classmethod
    def tearDownClass(cls):
        cls.node.close()

    def test_a_variant_is_judged_as_by_the_command_line(self):
        right = self.tiny.evaluate(RIGHT, label="first")
        self.assertEqual((right.outcome, right.correct, right.hint is not None), ("correct", True, True), right)
        self.assertGreater(right.speedup, 0)
        self.assertLessEqual(right.interval[0], right.speedup)
        self.assertIn("2 close", [g.name for g in right.gates])
        wrong, invalid = self.tiny.evaluate_batch([WRONG, cudal1.Variant(schedule="no_such_move()")])
        self.assertEqual((wrong.outcome, wrong.correct, wrong.speedup), ("wrong_answer", False, None))
        self.assertTrue(wrong.failed_gate and wrong.hint and wrong.reason)
        self.assertEqual(invalid.outcome, "invalid")
        self.assertIn("no_such_move", invalid.reason)
        self.assertEqual(self.tiny.best()[0].variant, right.variant)
        explained = self.client._http.ask("GET", f"/v1/variants/{wrong.variant[:12]}/verdict")
        self.assertEqual((explained["outcome"], explained["hint"]), (wrong.outcome, wrong.hint))
        shown = subprocess.run([f"{BIN}/cudal1", "show", right.variant, "--json", "--data", self.node.data], check=True,
                               capture_output=True, text=True, env=self.node.environment).stdout
        self.assertIn('"correct"', shown)

    def test_schedules_answers_and_python_files(self):
        answer = f"I think that row scaling is best.\n\n## Code\n\n```\n{RIGHT}```\n"
        read, moves = self.tiny.evaluate_batch([cudal1.Variant(answer=answer),
                                                cudal1.Variant(schedule="row_kernel(steps=0)")])
        self.assertEqual(read.outcome, "correct", read)
        self.assertIn(moves.outcome, ("correct", "invalid"))

    def test_python_files_are_judged_beside_variants(self):
        problem = self.tiny.python()
        self.assertIn("class Model(", problem)
        right = f"{problem}\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, a, b):\n        return a @ b\n"
        stale = ("import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, a, b):\n"
                 "        self.kept = getattr(self, 'kept', None)\n        if self.kept is None:\n"
                 "            self.kept = a @ b\n        return self.kept\n")
        job = self.tiny.submit([cudal1.Variant(python=right), cudal1.Variant(python=stale), cudal1.Variant(python="x = 1")])
        quick = self.tiny.evaluate(RIGHT)  # does not wait for them
        self.assertEqual(quick.outcome, "correct")
        try:
            job.wait(240)
        except cudal1.InfrastructureError:
            self.fail(job.document)
        if any(r["error"] and "confine" in r["error"]["message"] for r in job.document["results"]):
            self.skipTest(str(job.document))
        first, second, third = job.verdicts()
        self.assertEqual((first.outcome, first.correct), ("correct", True), first)
        self.assertLess(first.interval[0], first.interval[1])
        self.assertFalse(second.correct, second)
        self.assertTrue(second.failed_gate and second.hint and second.reason)
        self.assertEqual((third.outcome, third.failed_gate), ("invalid", "file"))
        self.assertIn("ModelNew", third.reason)
        self.assertEqual([(f["correct"], f["kind"]) for f in self.told("best", "tiny")["files"]],
                         [(True, ""), (False, second.failed_gate)])  # kept by the node; not what could not be judged

    def told(self, *words):
        return json.loads(subprocess.run([f"{BIN}/cudal1", *words, "--json", "--data", self.node.data], check=True,
                                         capture_output=True, text=True, env=self.node.environment).stdout)

    def test_the_same_key_is_the_same_job(self):
        body = {"task": "tiny", "variants": [{"program": RIGHT}]}
        first = self.node.get("/v1/evaluate", "POST", body, Idempotency_Key="k1")
        again = self.node.get("/v1/evaluate", "POST", body, Idempotency_Key="k1")
        self.assertEqual((first[0], again[0], first[2]["id"]), (202, 202, again[2]["id"]))
        self.assertEqual(first[1]["Location"], f"/v1/jobs/{first[2]['id']}")
        body["variants"] *= 2
        self.assertEqual(self.node.get("/v1/evaluate", "POST", body, Idempotency_Key="k1")[0], 422)
        self.client.job(first[2]["id"]).wait()

    def test_jobs_are_followed_and_cancelled(self):
        variants = [cudal1.Variant(program=program(f"{k}.0f * a[row * rows + row] * b[row * columns + column]"))
                    for k in range(2, 8)]
        job = self.tiny.submit(variants)
        self.assertIn("expected_wait_s", job.document)
        states = []
        for now in job.events():
            states.append(now.document["finished"])
            if states[-1] >= 1:
                now.cancel()
                break
        self.assertEqual(job.refresh().document["state"] in ("cancelled", "running"), True)
        job.wait(30)
        self.assertEqual(job.document["state"], "cancelled")
        with self.assertRaises(cudal1.InfrastructureError):
            job.verdicts()
        self.wait_until_idle()

    def wait_until_idle(self):
        end = time.monotonic() + 30
        while True:
            health = self.client.health()
            if health["running"] == health["waiting"] == 0:
                return
            self.assertLess(time.monotonic(), end, health)
            time.sleep(0.05)

    def test_a_client_that_vanishes_frees_its_device(self):
        body = ('{"task": "softmax", "wait_s": 60, "variants": [{"schedule": "row_kernel(steps=0)"}, '
                '{"schedule": "row_kernel(steps=0); graph()"}]}').encode()
        head = f"POST /v1/evaluate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        with socket.create_connection(("127.0.0.1", self.node.port)) as s:
            s.sendall(head.encode() + b"\r\n\r\n" + body)
            time.sleep(0.3)
        self.wait_until_idle()
        newest = self.client.job(self.client.jobs()[0]["id"])
        self.assertEqual(newest.document["state"], "cancelled")

    def test_only_this_machines_programs_are_served(self):
        for headers, status in (({"Host": "evil.example"}, 403), ({"Origin": "http://evil.example"}, 403),
                                ({"X-Forwarded-For": "10.1.2.3"}, 401), ({"Authorization": "Bearer cudal1_00"}, 401)):
            answer = self.node.get("/v1/health", **{k.replace("-", "_"): v for k, v in headers.items()})
            self.assertEqual(answer[0], status, headers)
            self.assertTrue(answer[2]["error"]["hint"])
        self.assertEqual(self.node.get("/v1/tasks", "POST", {"name": "m", "source": "x"})[0], 403)
        with self.assertRaises(cudal1.NotFound):
            self.client.task("sofmax")
        for name in ("..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "-h", "x.json"):
            self.assertIn(self.node.get(f"/v1/tasks/{name}")[0], (400, 404), name)

    def test_garbage_and_slow_clients_harm_nobody(self):
        randomly = random.Random(1)
        for garbage in (b"\0\xff\xfe\r\n\r\n", b"a" * 100_000, b"GET /v1/health HTTP/9.9\r\n\r\n",
                        b"GET /v1/health HTTP/1.1\r\nX: " + b"b" * 20_000 + b"\r\n\r\n", randomly.randbytes(3000),
                        b"POST /v1/evaluate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                        b"POST /v1/evaluate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            self.assertNotIn(b" 200 ", self.node.raw(garbage, end=True)[:20], garbage[:40])
        self.assertIn(b" 413 ", self.node.raw(b"POST /v1/evaluate HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                              b"application/json\r\nContent-Length: 99999999\r\n\r\n")[:20])
        idle = [socket.create_connection(("127.0.0.1", self.node.port)) for _ in range(200)]
        for s in idle[:100]:
            s.sendall(b"GET /v1/health HT")
        start = time.monotonic()
        self.assertEqual(self.client.health()["status"], "ready")
        self.assertLess(time.monotonic() - start, 5)
        for s in idle:
            s.close()

    def test_searches_run_and_are_stopped(self):
        search = self.client.search("tiny", evaluations=2, seed=1, show=False)
        self.assertTrue(search.progress.has_ended)
        self.assertIn(search.experiment, repr(search))
        self.assertIn("<table>", search._repr_html_())
        self.assertTrue(self.client.search("tiny", time_s=60, wait=False).stop().experiment)

    def test_rewards_of_groups(self):
        from cudal1.adapters import Judge, RewardRule, python_of
        from cudal1.adapters.trl_reward import reward_function, rows

        answers = [f"## Code\n\n```\n{text}```\n" for text in (RIGHT, WRONG)] + ["I do not know.", ""]
        judge = Judge(self.client, rule=RewardRule(correct=1.0, most=1.0))
        judged = judge.judge(["tiny"] * 4, answers)
        self.assertEqual([j.verdict.outcome for j in judged], ["correct", "wrong_answer", "invalid", "invalid"])
        self.assertGreaterEqual(judged[0].reward, 0)
        self.assertEqual([j.reward for j in judged[1:]], [0.0] * 3)
        self.assertIn("first gate that failed", judged[1].feedback)
        rewards = reward_function(judge)(completions=[[{"role": "assistant", "content": answers[1]}]], task=["tiny"], ids=[1])
        self.assertEqual(rewards, [0.0])
        self.assertIn("tiny", rows(["tiny"], 1, judge)[0]["prompt"])
        with self.assertRaises(cudal1.NotFound):
            judge.judge(["nothing"], ["x"])
        files = Judge(self.client, form="python")
        self.assertIn("def get_inputs", files.prompt("tiny"))
        self.assertEqual(python_of("One:\n```python\nx\n```\n```py\nclass ModelNew: 1\n```\n"), "class ModelNew: 1\n")
        os.environ["CUDAL1_URL"] = self.node.url
        try:
            from cudal1.adapters.verl_reward import compute_score

            self.assertEqual(compute_score("cudal1", "nothing", "tiny")["score"], 0.0)
        finally:
            del os.environ["CUDAL1_URL"]
        with self.assertRaises(cudal1.InfrastructureError):  # never a reward
            cudal1.connect("http://127.0.0.1:9")._http.ask("GET", "/v1/health", retry_limit_s=0)

    def test_the_openapi_document_is_what_is_served(self):
        document = self.node.get("/v1/openapi.json")[2]
        values = {"task": "tiny", "variant": self.tiny.evaluate(RIGHT).variant, "job": self.client.jobs()[0]["id"],
                  "experiment": "e1", "gpu": "H200"}
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                with self.subTest(method=method, path=path):
                    self.check_operation(document, path, method.upper(), operation, values)

    def check_operation(self, document, path, method, operation, values):
        def ask(names, query="", body=None):
            target = path
            for name, value in names.items():
                target = target.replace("{" + name + "}", value)
            status, headers, answer = self.node.get(target + query, method, body)
            described = operation["responses"].get(str(status))
            self.assertIsNotNone(described, (status, answer))
            kind = headers["Content-Type"].split(";")[0]
            self.assertIn(kind, described["content"], (status, answer))
            schema = described["content"][kind]["schema"]
            if kind == "application/json":
                self.assertEqual(problems(answer, schema, root=document if "$ref" in schema else None), [])
            self.assertLess(status, 500, answer)
            return status

        if method == "GET":
            status = ask(values)
            # tiny was neither measured with PyTorch nor confirmed, and has no floor on a GPU
            self.assertIn(status, (200,) if "export" not in path and "bounds" not in path else (200, 404, 422, 400))
            ask({name: "~" for name in values})
            self.assertEqual(ask(values, "?no_such_parameter=1"), 400)
        elif method == "POST":
            for body in ("", "[]", "{}", "\xff", '{"task": 1}', '{"task": "tiny", "variants": []}', "{" * 1000):
                self.assertIn(ask({}, body=body.encode("latin-1")), (400, 403))
            self.assertIn(self.node.get(path, "POST", "{}", Content_Type="text/plain")[0], (403, 415))
        else:
            ask({"job": "j" + "0" * 16, "experiment": "e99999"})
        status, headers, _ = self.node.get(path.replace("{", "").replace("}", ""), "PATCH")
        self.assertEqual((status, sorted(headers["Allow"].lower().split(", "))), (405, sorted(document["paths"][path])))


class Killed(unittest.TestCase):
    def test_an_accepted_job_survives_a_kill(self):
        node = ServedNode(BIN)
        try:
            task = node.client().task("tiny")
            job = task.submit([program(f"a[row * rows + row] * b[row * columns + column] + {k} * 0.0f", f"v{k}")
                               for k in range(5)])
            for now in job.events():
                if now.document["finished"] >= 1:
                    break
            node.kill()
            node.start()
            after = node.client().job(job.id)
            after.wait(120)
            verdicts = after.verdicts()
            self.assertEqual([v.outcome for v in verdicts], ["correct"] * 5)
            self.assertEqual(len({v.variant for v in verdicts}), 5)
            # A clean end finishes what runs, and keeps what waits.
            job = node.client().task("tiny").submit([program(f"{k + 2}.0f * b[column]", f"w{k}") for k in range(6)])
            self.assertEqual(node.kill(2), 0, node.log()[-2000:])
            node.start()
            after = node.client().job(job.id).wait(120)
            self.assertEqual([v.outcome for v in after.verdicts()], ["wrong_answer"] * 6)
        finally:
            node.close()


class Limited(unittest.TestCase):
    def test_greedy_clients_wait_and_others_do_not(self):
        node = ServedNode(BIN, "--serve", "127.0.0.1:0", "--serve-waiting", "8", "--serve-rate", "20")
        try:
            greedy, small = node.client(name="greedy"), node.client(name="small")
            jobs = [greedy.submit("tiny", [program(f"{i}.0f * b[column]", f"g{i}")] * 4) for i in range(2)]
            with self.assertRaises(cudal1.TooManyRequests) as caught:
                greedy._http.ask("POST", "/v1/evaluate", {"task": "tiny", "variants": [{"program": RIGHT}] * 8},
                                 retry_limit_s=0)
            self.assertGreaterEqual(caught.exception.retry_after, 1)
            one = small.task("tiny").submit([WRONG])
            self.assertLess(one.document["position"] or 0, 8)
            one.wait(60)
            self.assertEqual(one.verdicts()[0].outcome, "wrong_answer")
            self.assertFalse(all(j.refresh().has_ended for j in jobs), "the greedy client's jobs came first")
            for j in jobs:
                j.cancel()
            statuses = [node.get("/v1/health", X_Cudal1_Client="fast")[0] for _ in range(60)]
            self.assertIn(429, statuses)
            self.assertEqual(node.get("/v1/health", X_Cudal1_Client="calm")[0], 200)
        finally:
            node.close()

    def test_other_machines_need_tokens_and_tls(self):
        with self.assertRaisesRegex(RuntimeError, "no client has a token"):
            ServedNode(BIN, "--serve", "0.0.0.0:0")
        node = ServedNode(BIN)
        try:
            self.assertEqual(node.kill(15), 0)
            make = [f"{BIN}/cudal1", "serve", "--data", str(node.data), "--new-token"]
            made = subprocess.run(make + ["ann", "--may", "evaluate,search"], capture_output=True, text=True,
                                  env=node.environment)
            self.assertEqual(made.returncode, 0, made.stderr)
            token = made.stdout.strip()
            node.flags = ["--serve", "0.0.0.0:0"]
            with self.assertRaisesRegex(RuntimeError, "without TLS"):
                node.start()
            node.flags.append("--serve-insecure")
            node.start()
            url = f"http://127.0.0.1:{node.port}"
            self.assertEqual(node.get("/v1/health")[0], 401)
            client = cudal1.connect(url, token)
            self.assertEqual(client.health()["status"], "ready")
            with self.assertRaises(cudal1.NotAllowed):
                client.import_model("m", "x")
            self.assertNotIn(token, node.log())
            self.assertEqual(node.kill(15), 0)
            # With the cluster's certificate.
            subprocess.run([f"{BIN}/cudal1", "cluster", "init", "--data", str(node.data)], check=True, capture_output=True,
                           env=node.environment)
            node.flags = ["--serve", "0.0.0.0:0"]
            node.start()
            self.assertTrue(node.url.startswith("https"))
            client = cudal1.connect(f"https://127.0.0.1:{node.port}", token, insecure_tls=True)
            verdict = client.task("tiny").evaluate(WRONG)  # with events, over TLS
            self.assertEqual(verdict.outcome, "wrong_answer")
        finally:
            node.close()


MODEL = """import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1

def get_inputs():
    return [torch.randn(64, 512)]

def get_init_inputs():
    return []
"""


class Imported(unittest.TestCase):
    def test_a_model_becomes_a_task_where_that_is_allowed(self):
        node = ServedNode(BIN, "--serve", "127.0.0.1:0", "--serve-local-import")
        try:
            client = node.client()
            self.assertEqual(client.import_model("my_model", MODEL), ["my_model"])
            self.assertIn("my_model", client.tasks())
            self.assertIn("my_model", client.task("my_model").prompt())
            self.assertEqual(client.task("my_model").evaluate(schedule="no_such()").outcome, "invalid")
            with self.assertRaises(cudal1.InvalidRequest):
                client.import_model("softmax", MODEL)  # would hide the built-in task
            with self.assertRaisesRegex(cudal1.InvalidRequest, "refused"):
                client.import_model("broken", "import no_such_module")
        finally:
            node.close()


class Commands(unittest.TestCase):
    def test_serve_starts_a_node_and_stays(self):
        node = ServedNode(BIN)  # for its data folder
        try:
            node.kill(15)
            process = subprocess.Popen(
                [f"{BIN}/cudal1", "serve", "--address", "127.0.0.1:0", "--data", str(node.data), "--device", "cpu", "--set",
                 "device.allow_weak_confinement=true"], env=node.environment, stdout=subprocess.PIPE, text=True)
            line = process.stdout.readline()
            self.assertRegex(line, r"served at http://127\.0\.0\.1:\d+")
            url = line.split("served at ")[1].split()[0]
            os.environ["CUDAL1_DATA"] = str(node.data)
            self.assertEqual(cudal1.connect()._http.url, url)
            self.assertEqual(cudal1.connect(url).health()["status"], "ready")
            process.send_signal(2)
            self.assertEqual(process.wait(30), 0)
            process.stdout.close()
        finally:
            os.environ.pop("CUDAL1_DATA", None)
            subprocess.run([f"{BIN}/cudal1", "stop", "--node", "--data", str(node.data)], env=node.environment,
                           capture_output=True)
            node.close()


class Many(unittest.TestCase):
    def test_64_clients_at_once(self):
        node = ServedNode(BIN)
        try:
            answers = []

            def work(i):
                task = node.client(name=f"c{i}").task("tiny")
                answers.append((i % 2, task.evaluate(schedule=f"no_such_move(n={i})").outcome))

            threads = [threading.Thread(target=work, args=(i,)) for i in range(64)]
            for t in threads:
                t.start()
            for t in threads:
                t.join(120)
            self.assertEqual([outcome for _, outcome in answers], ["invalid"] * 64)
        finally:
            node.close()


if __name__ == "__main__":
    unittest.main()
