#!/usr/bin/env python3
"""Runs every command of the top-level README.md, as it stands there, and those of the README that `cudal1 export` writes.

    readme_test.py BIN        the folder of the programs

A section's commands run one after the other in one folder that looks like a clone with a user's files beside it, with a
data folder of their own. Budgets come from the configuration, answers of language models from a server here.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
import unittest

import torch

from scripted_models import ROOT, Server, answer, numbered, of_task

BIN = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else ROOT / "build/bin"
KEY = "sk-readme-5e1c"
SOFTMAX = (ROOT / "tools/examples/softmax_rows.cu1").read_text()

BUILDS = "builds and tests what this test is a part of; .ci/run runs tools/bootstrap.sh test"
SERVES = "stays until Ctrl-C; serve_test.py and mcp_test.py run it"
# The only commands that do not run here, or that a machine without a GPU refuses: why, and the exit status that they
# have here (None: they are not run, but the program must know the command and its options).
EXCEPTIONS = {
    "cudal1 run --model ./Qwen2.5-Coder-1.5B-Instruct --task softmax": ("3 GB; local_model_test.py has tiny ones", None),
    "cudal1 serve": (SERVES, None),
    "cudal1 mcp": (SERVES, None),
    "tools/bootstrap.sh demo": (BUILDS, None),
    "tools/bootstrap.sh test": (BUILDS, None),
    "tools/bootstrap.sh build": (BUILDS, None),
    "cudal1 export submission --format kernelbench": (
        "exported files are checked on the GPU that their kernels were searched on", 1),
}
# What a newcomer must see, by the command's first words.
SHOWN = {
    "cudal1 doctor": "All requirements are met.",
    "cudal1 run": "evaluations in ",
    "cudal1 evaluate diagonal_matmul": "correct",
    "cudal1 show": "CUDA source",
    "cudal1 prompt": "## Code",
    "cudal1 tasks import": "of them compared with their models",
    "cudal1 export fast": "exported to fast",
}

# Quick and coarse: what is tested is that the commands are right.
CONFIGURATION = """
[search]
evaluations_per_task = 2
[timing]
max_seconds = 20.0
target_half_width = 0.2
screening_half_width = 0.4
screened_limit = 10
confirmed_limit = 10
[device]
allow_weak_confinement = true
[llm]
parallel = 2
retry_delay_s = 0.05
"""

MODEL = """import torch

class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        return torch.relu(x * self.scale + 1) * 0.5 + torch.sigmoid(x)

def get_inputs():
    return [torch.randn(64, 4096)]

def get_init_inputs():
    return [4096]
"""

BLOCKS = """import torch

class SwiGLU(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(64, 128)
        self.up = torch.nn.Linear(64, 128)
        self.down = torch.nn.Linear(128, 64)

    def forward(self, x):
        return self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))

def example_inputs():
    return torch.randn(256, 64)
"""

PROBLEM = """import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1

def get_inputs():
    return [torch.randn(64, 4096)]

def get_init_inputs():
    return []
"""


def blocks_of(text):
    """(section, language, lines) of each fenced block."""
    section, inside, found = "", None, []
    for line in text.splitlines():
        if line.startswith("```"):
            if inside is None:
                inside = (section, line[3:].strip(), [])
            else:
                found.append(inside)
                inside = None
        elif inside is not None:
            inside[2].append(line)
        elif line.startswith("## "):
            section = line[3:]
    return found


def command_of(line):
    """The words without the comment; "" of a line that has none."""
    return " ".join(shlex.split(line, comments=True))


def commands_of(text):
    """(section, line) of each command."""
    return [(section, line) for section, language, lines in blocks_of(text) if language == "" for line in lines
            if command_of(line)]


README = (ROOT / "README.md").read_text()


class Clone:
    """A folder as a user has it after `git clone`, with files of the user's own."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("tools", "tests", "config"):
            (folder / name).symlink_to(ROOT / name)
        (folder / "build").mkdir()
        (folder / "build/bin").symlink_to(BIN)
        (folder / "model.py").write_text(MODEL)
        (folder / "blocks.py").write_text(BLOCKS)
        level1 = folder / "KernelBench/KernelBench/level1"
        level1.mkdir(parents=True)
        (level1 / "19_ReLU.py").write_text(PROBLEM)
        self.save_checkpoint()

    def save_checkpoint(self):
        scope = {}
        exec(BLOCKS, scope)
        torch.manual_seed(1)
        torch.save(scope["SwiGLU"]().state_dict(), self.folder / "swiglu.pt")


class ReadmeCommands(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.temporary.name)
        (folder / "clone").mkdir()
        self.clone = Clone(folder / "clone")
        home = folder / "home"
        (home / ".local/share/cudal1").mkdir(parents=True)
        (home / ".local/share/cudal1/cudal1.toml").write_text(CONFIGURATION)
        good = [{"text": answer(numbered(SOFTMAX, i))} for i in range(8)]
        self.server = Server(folder, {"key": KEY, "rules": [{"match": of_task("softmax"), "answers": good}]}, "server")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("CUDAL1_", "XDG_", "OPENAI_"))}
        self.environment |= {"HOME": str(home), "CUDAL1_PYTHON": sys.executable,
                             "PATH": f"{BIN}:{os.environ['PATH']}"}

    def tearDown(self):
        self.stop_node()
        self.server.close()
        self.temporary.cleanup()

    def stop_node(self):
        """An idle node ends by itself after two seconds, which a person takes between two commands."""
        subprocess.run([BIN / "cudal1", "stop", "--node"], env=self.environment, capture_output=True)

    def export_variables(self, line, folder):
        done = subprocess.run(["bash", "-euc", f"{line}\nenv -0"], cwd=folder, env=self.environment,
                              capture_output=True, text=True, check=True)
        self.environment = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
        for name, value in (("CUDAL1_LLM_URL", self.server.url), ("OPENAI_API_KEY", KEY)):
            if name in self.environment:
                self.environment[name] = value  # in place of a real endpoint

    def run_line(self, line, folder, code=0):
        command = command_of(line)
        if command.startswith("export "):
            return self.export_variables(line, folder)
        if command.split()[:2] in (["cudal1", "run"], ["cudal1", "evaluate"]):
            self.stop_node()
        began = time.monotonic()
        done = subprocess.run(["bash", "-euc", line], cwd=folder, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=200)
        print(f"{time.monotonic() - began:6.1f} s  {command}", flush=True)
        self.assertEqual(done.returncode, code, f"{command}\n{done.stdout}{done.stderr}")
        for words, text in SHOWN.items():
            if command.startswith(words):
                self.assertIn(text, done.stdout, command)
        return done

    def run_section(self, title):
        lines = [line for section, line in commands_of(README) if section == title]
        self.assertTrue(lines, title)
        for line in lines:
            reason, code = EXCEPTIONS.get(command_of(line), ("", 0))
            if code is not None:
                self.run_line(line, self.clone.folder, code)

    def run_export(self, folder):
        """The commands of the README that an export wrote, in its folder."""
        text = (folder / "README.md").read_text()
        lines = [line for _, line in commands_of(text)]
        self.assertEqual(len(lines), len(list(folder.glob("*.cu1"))), text)
        for line in lines:
            self.run_line(line, folder)
        return lines

    def test_two_commands(self):
        self.run_section("Two commands")

    def test_everyday_use(self):
        self.run_section("Everyday use")
        self.assertGreater(len(self.run_export(self.clone.folder / "fast")), 0)

    def test_your_own_model(self):
        self.run_section("Your own model")
        # A task that has the name of a built-in one and other sizes, and one with weights.
        mine = self.clone.folder / "mine"
        mine.mkdir()
        task = json.loads((ROOT / "config/tasks/gelu_by_hand.json").read_text())
        task["sizes"] = {profile: {"N": 96, "C": 512} for profile in ("cpu", "cuda")}
        (mine / "gelu_by_hand.json").write_text(json.dumps(task))
        self.run_line("cudal1 run --tasks mine", self.clone.folder)
        self.run_line("cudal1 export found", self.clone.folder)
        lines = self.run_export(self.clone.folder / "found")
        self.assertTrue(any("gelu_by_hand" in line for line in lines), lines)

    def test_agents_and_language_models(self):
        self.run_section("Agents and language models")
        asked = len(self.server.events("begin"))
        self.assertGreater(asked, 0)
        replays = [line for _, line in commands_of(README) if "--replay-prompts" in line]
        self.assertEqual(len(replays), 1)
        self.run_line(replays[0], self.clone.folder)
        self.assertEqual(len(self.server.events("begin")), asked, "a replay asked for an answer")

    def on_terminal_each_task_has_one_line(self, command):
        """What is measured at the moment is written over."""
        log = self.clone.folder / "terminal.log"
        subprocess.run(["script", "-qec", command, log], cwd=self.clone.folder, env=self.environment | {"TERM": "xterm"},
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=100, check=True)
        erased = r"\x1b\[J(\x1b\[\?25h)?"
        self.assertRegex(log.read_text(), f"(?s)softmax: eager\\x1b\\[K\n.*{erased}1 of 1  softmax: eager [0-9]")

    def test_the_demo_has_its_own_limit_and_folder_only_where_the_user_gives_none(self):
        """Its last step: what comes before it builds."""
        home = pathlib.Path(self.environment["HOME"])
        self.environment["CUDAL1_CONFIG"] = str(home / ".local/share/cudal1/cudal1.toml")

        def demo(arguments):
            return self.run_line(f". tools/bootstrap.sh; demo {arguments}", self.clone.folder).stdout

        advice = "which other commands need as --data or CUDAL1_DATA"
        self.assertIn(f"Kept in {self.clone.folder}/build/demo, {advice}. Next:", demo("--time 2s --task softmax"))
        usual = self.run_line("cudal1 run --task softmax --evaluations 2", self.clone.folder).stdout
        self.assertIn("Kept in ", usual)
        self.assertNotIn(advice, usual)
        demo("--evaluations=1 --task softmax")
        demo("--resume e2")
        demo("--data=mine --device-time 1s --task softmax")
        limits = lambda data: [
            (e["time_limit_s"], e["evaluations_per_task"], e["device_s_per_task"])
            for e in json.loads(self.run_line(f"cudal1 experiments --json --data {data}", self.clone.folder).stdout)[
                "experiments"]]
        self.assertEqual(limits("build/demo"), [(2, 0, 0), (0, 1, 0)])
        self.assertEqual(limits("mine"), [(0, 0, 1)])
        self.on_terminal_each_task_has_one_line("cudal1 baseline --kinds eager --task softmax --data build/demo")
        for data in ("build/demo", "mine"):
            self.run_line(f"cudal1 stop --node --data {data}", self.clone.folder)


class ReadmeText(unittest.TestCase):
    def test_every_command_is_run_or_excepted(self):
        run = {"Two commands", "Everyday use", "Your own model", "Agents and language models"}
        for section, line in commands_of(README):
            self.assertIn(section, run, f"no test runs: {line}")
        known = {command_of(line) for _, line in commands_of(README)}
        self.assertEqual(set(EXCEPTIONS) - known, set(), "exceptions for commands that the README does not have")

    def test_no_command_hides_in_another_kind_of_block(self):
        for _, language, lines in blocks_of(README):
            self.assertIn(language, ("", "text"))
            if language == "text":
                self.assertEqual([line for line in lines if re.match(r"\s*(cudal1|tools/)", line)], [])

    def options_are_known(self, command, span):
        usage = subprocess.run([BIN / "cudal1", *command, "--help"], capture_output=True, text=True)
        self.assertEqual(usage.returncode, 0, span)
        for option in re.findall(r"--[a-z-]+", span):
            self.assertIn(option, usage.stdout, span)

    def test_the_programs_know_the_commands_that_are_not_run(self):
        for command, (_, code) in EXCEPTIONS.items():
            program, word, *_ = command.split()
            if code is None and program == "cudal1":
                self.options_are_known([word], command)
            elif code is None:
                usage = subprocess.run([ROOT / program, "--help"], capture_output=True, text=True)
                self.assertIn(f"{program} {word} ", usage.stdout)

    def test_the_commands_in_its_sentences_exist(self):
        for span in re.findall(r"`(cudal1 [a-z][^`]*)`", README):
            words = span.split()[1:]
            command = words[: 2 if words[:2] in (["tasks", "import"], ["tasks", "parts"]) else 1]
            self.options_are_known(command, span)

    def test_its_links_lead_somewhere(self):
        for target in re.findall(r"\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", README):
            self.assertTrue((ROOT / target).exists(), target)

    def test_its_links_name_headings(self):
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]*)\)", README):
            headings = [re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-")
                        for h in re.findall(r"^#+ (.*)$", (ROOT / target).read_text(), re.M)]
            self.assertIn(anchor, headings, target)

    def test_it_is_short(self):
        lines = README.splitlines()
        self.assertLessEqual(len(lines), 200)
        tables = False
        for number, line in enumerate(lines, 1):
            if line.startswith("```"):
                tables = not tables
            if not tables and not line.startswith("|"):
                self.assertLessEqual(len(line), 120, f"line {number}")


if __name__ == "__main__":
    unittest.main()
