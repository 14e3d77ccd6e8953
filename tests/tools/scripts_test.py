#!/usr/bin/env python3
"""The shell scripts of tools/: what their steps show on a terminal of 80 columns, in a log, and of a failure; what
bundle.sh and wheel.sh refuse before they build."""

import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import tempfile
import termios
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
STEPS = TOOLS / "steps.sh"
# Lines as ninja writes them, over more than a second so that the clock moves.
BUILD = """
plan_steps 2
skip_step "packages of the system" "all are installed"
begin_step "building" "a moment"
logged "$LOG" bash -c 'for i in $(seq 1 24); do
  echo "[$i/24] Building CXX object policy/codegen/CMakeFiles/cudal1_codegen.dir/a/name/that/is/long_$i.cpp.o"
  sleep 0.1; done'
end_step "24 objects"
"""


class Steps(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.log = pathlib.Path(self.temporary.name) / "build.log"

    def tearDown(self):
        self.temporary.cleanup()

    def command(self, script):
        return ["bash", "-euo", "pipefail", "-c", f". {STEPS}\n{script}"]

    def environment(self):
        return os.environ | {"LOG": str(self.log)}

    def piped(self, script):
        return subprocess.run(self.command(script), env=self.environment(), capture_output=True, text=True)

    def on_terminal(self, script):
        """What a terminal of 80 columns gets."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        running = subprocess.Popen(self.command(script), env=self.environment(), stdin=its, stdout=its, stderr=its)
        os.close(its)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # the last writer is gone
            pass
        os.close(ours)
        self.assertEqual(running.wait(), 0)
        return shown.decode()

    def test_a_terminal_has_one_line_that_changes_and_fits(self):
        shown = re.sub(r"\x1b\[[0-9;]*[mK]", "", self.on_terminal(BUILD))
        states = [line for line in re.split(r"[\r\n]+", shown) if " of 24 (" in line]
        self.assertGreater(len(states), 12)
        self.assertIn("12 of 24 (50%)", "\n".join(states))
        self.assertRegex(states[-1], r"^      24 of 24 \(100%\), 0:0[2-9] so far$")
        self.assertLess(max(len(line) for line in re.split(r"[\r\n]+", shown)), 80)
        self.assertIn("[2/2] building (usually a moment)", shown)
        self.assertRegex(shown, r"done in 0:0[2-9]: 24 objects")
        self.assertEqual(shown.replace("\r\n", "\n").count("\n"), 3, shown)

    def test_a_log_gets_plain_lines_at_intervals(self):
        done = self.piped("seconds_between_lines=1\n" + BUILD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotRegex(done.stderr, r"[\r\x1b]")
        between = re.findall(r"^      \d+ of 24 \(\d+%\), 0:0\d so far$", done.stderr, re.M)
        self.assertTrue(1 <= len(between) <= 4, done.stderr)
        self.assertEqual(self.log.read_text().count("\n"), 24)

    def test_the_time_that_is_left_follows_from_what_is_finished(self):
        of = lambda line, taken: self.piped(f"progress_text '{line}' {taken}").stdout
        self.assertEqual(of("[30/120] x", 60), "30 of 120 (25%), 1:00 so far, about 3 min left")
        self.assertEqual(of("[90/120] x", 60), "90 of 120 (75%), 1:00 so far, about 20 s left")
        self.assertEqual(of("[3/120] x", 60), "3 of 120 (2%), 1:00 so far")
        self.assertEqual(of("Unpacking libcaf-dev", 7), "0:07 so far: Unpacking libcaf-dev")

    def test_a_failure_shows_the_logs_telling_lines_and_keeps_its_status(self):
        done = self.piped("""logged "$LOG" bash -c '
          echo "[1/9] Building CXX object fine.cpp.o"
          echo "FAILED: wrong.cpp.o"; echo "wrong.cpp:3:1: error: no type named x"; exit 7'""")
        self.assertEqual(done.returncode, 7)
        self.assertIn(f"from {self.log}:\n      | FAILED: wrong.cpp.o\n      | wrong.cpp:3:1: error", done.stderr)
        self.assertNotIn("fine.cpp", done.stderr)
        other = self.piped('logged "$LOG" bash -c "seq 1 50; exit 1"')
        self.assertIn("      | 50\n", other.stderr)
        self.assertNotIn("      | 20\n", other.stderr)


class Packing(unittest.TestCase):
    """bundle.sh and wheel.sh."""

    def run_script(self, name, *arguments, prefix=()):
        return subprocess.run([*prefix, "bash", TOOLS / f"{name}.sh", *arguments], capture_output=True, text=True)

    def test_the_trial_is_refused_before_anything_is_built_where_it_is_not_possible(self):
        nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        for name in ("bundle", "wheel"):
            done = self.run_script(name, prefix=nobody)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, rf"^{name}: the trial .* needs root: .* tools/{name}.sh --no-trial\n$")

    def test_an_unknown_option_is_an_error(self):
        for name in ("bundle", "wheel"):
            done = self.run_script(name, "--trial")
            self.assertEqual(done.returncode, 2)
            self.assertIn("no option --trial", done.stderr)

    def test_help_is_the_comment_of_the_script(self):
        for name in ("bundle", "wheel"):
            done = self.run_script(name, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn(f"tools/{name}.sh [--no-trial]", done.stdout)
            self.assertRegex(done.stdout, r"Exit status: .*\n$")
            self.assertNotIn("set -euo", done.stdout)


if __name__ == "__main__":
    unittest.main()
