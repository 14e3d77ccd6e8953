#!/usr/bin/env python3
"""`cudal1 diff`, `history` and `top`, as a user runs them.

    terminal_commands_test.py CUDAL1 WRITE_REPORT_STORE
"""

import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CUDAL1, WRITE_STORE = (pathlib.Path(p).resolve() for p in (sys.argv.pop(1), sys.argv.pop(1)))


def run(*words, code=0):
    done = subprocess.run([CUDAL1, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


class Top:
    """`cudal1 top` on a terminal of 80 columns and 24 lines."""

    def __init__(self, data):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(CUDAL1, [str(CUDAL1), "top", "--data", str(data)])
        self.shown = b""

    def wait_for(self, text, limit_s=20):
        end = time.monotonic() + limit_s
        while text not in self.shown.decode(errors="replace"):
            assert time.monotonic() < end, self.shown
            if select.select([self.terminal], [], [], 1)[0]:
                self.shown += os.read(self.terminal, 65536)

    def finish(self):
        try:
            while more := os.read(self.terminal, 65536):
                self.shown += more
        except OSError:
            pass  # the terminal's other side is closed
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.data = pathlib.Path(cls.temporary.name) / "data"
        subprocess.run([WRITE_STORE, cls.data, "full"], check=True)
        rows = json.loads(run("best", "--json", "--data", cls.data).stdout)["tasks"]
        cls.rows = [row for row in rows if not row["is_reference"]]

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_history_leads_to_the_best_variant(self):
        row = self.rows[0]
        steps = json.loads(run("history", row["name"], "--json", "--data", self.data).stdout)["steps"]
        self.assertGreater(len(steps), 1)
        self.assertEqual(steps[-1]["variant"], row["variant"])
        self.assertEqual(steps[-1]["score"], row["speedup"])
        scores = [step["score"] for step in steps]
        self.assertEqual(scores, sorted(scores), "each confirmed best was made of the one before")
        text = run("history", row["variant"][:12], "--data", self.data).stdout
        for step in steps:
            self.assertIn(step["variant"][:12], text)
            for move in step["moves"]["added"]:
                self.assertIn(move.split("(")[0], text)

    def test_diff_shows_times_moves_gates_and_source(self):
        row = self.rows[0]
        steps = json.loads(run("history", row["name"], "--json", "--data", self.data).stdout)["steps"]
        a, b = steps[-2]["variant"], steps[-1]["variant"]
        text = run("diff", a, row["name"], "--data", self.data).stdout
        for part in ("outcome", "speedup", "call time", "gate 2 close", "Moves", "Program\n  the same", "CUDA source\n@@"):
            self.assertIn(part, text)
        self.assertNotIn("\033", text, "no colours into a pipe")
        document = json.loads(run("diff", a, b, "--json", "--data", self.data).stdout)
        self.assertEqual(document["a"]["id"], a)
        self.assertEqual([line[0] for line in document["source"]], ["@", "-", "+", " ", " ", " "])
        same = run("diff", a, a, "--data", self.data).stdout
        self.assertEqual(same.count("  the same"), 3)
        other = next(r["name"] for r in self.rows if r["task"] != row["task"])
        self.assertIn("variants of two tasks", run("diff", a, other, "--data", self.data).stdout.replace("\n", " "))

    def test_what_is_not_there_is_an_error_with_advice(self):
        self.assertIn("has no variant nothing", run("diff", "nothing", "nothing", "--data", self.data, code=2).stderr)
        self.assertIn("has no variant nothing", run("history", "nothing", "--data", self.data, code=2).stderr)
        run("history", "softmax", "--data", self.data.parent / "none", code=2)

    def test_top_refuses_what_is_no_terminal(self):
        self.assertIn("`cudal1 status --json`", run("top", "--data", self.data, code=2).stderr.replace("\n", " "))

    def test_top_draws_on_a_terminal_until_q(self):
        top = Top(self.data)
        top.wait_for("`cudal1 run` starts one.")
        self.assertIn("\033[?1049h", top.shown.decode(), "the other screen")
        os.write(top.terminal, b"q")
        self.assertEqual(top.finish(), 0)
        self.assertTrue(top.shown.decode().rstrip().endswith("\033[?1049l"), "the screen is as before")

    def test_ctrl_c_leaves_top(self):
        top = Top(self.data)
        top.wait_for("cudal1 top")
        os.kill(top.pid, signal.SIGINT)
        self.assertEqual(top.finish(), 0)
        self.assertIn("\033[?1049l", top.shown.decode())

    def test_completion_and_help_know_them(self):
        words = subprocess.run([CUDAL1, "__complete", ""], capture_output=True, text=True).stdout
        for name in ("diff", "history", "top"):
            self.assertIn("Exit codes", run(name, "--help").stdout.replace("EXIT CODES", "Exit codes"))
            self.assertIn(f"{name}\t", words)


if __name__ == "__main__":
    unittest.main()
