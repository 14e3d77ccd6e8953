"""Tests tools/python/verify_tasks.py on small models: correct tasks agree, and changed ones are found.

The first arguments are the programs cudal1-replay and cudal1, which the importer asks.
"""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "python"))

import import_tasks  # noqa: E402
import torch  # noqa: E402
import verify_tasks  # noqa: E402

REPLAY = sys.argv.pop(1)
CUDAL1 = sys.argv.pop(1)
MODEL = """import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
        self.norm = nn.BatchNorm2d(width)
        self.fc = nn.Linear(width, 5)
        self.register_buffer("order", torch.tensor([3, 0, 4]))
    def forward(self, x, scale):
        h = torch.relu(self.fc(self.norm(self.conv(x)).mean((2, 3))))
        return h.index_select(1, self.order) * scale.mean(1, keepdim=True)
def get_inputs():
    return [torch.rand(6, 3, 18, 18), torch.randn(220, 6).t()]
def get_init_inputs():
    return [8]
"""
PLAIN = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2, x.sum()
def get_inputs():
    return [torch.randn(1100, 4)]
def get_init_inputs():
    return []
"""
STATEFUL = """import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.randn(3, 4)
        self.register_buffer("calls", torch.zeros(()))
    def forward(self, x):
        self.calls += 1
        x.add_(self.calls)
        self.hidden = torch.tanh(x + self.hidden)
        return {"hidden": self.hidden, "twice": [self.hidden * 2]}
def get_inputs():
    return [torch.rand(3, 4)]
def get_init_inputs():
    return []
"""


class Verified(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.scratch = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.scratch.name)
        (folder / "models").mkdir()
        (folder / "models" / "net.py").write_text(MODEL)
        (folder / "models" / "plain.py").write_text(PLAIN)
        (folder / "models" / "stateful.py").write_text(STATEFUL)
        cls.tasks = folder / "tasks"
        words = [str(folder / "models"), "--out", str(cls.tasks), "--jobs", "1", "--rules", CUDAL1]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            assert import_tasks.main(words) == 0, said.getvalue()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.scratch.cleanup()

    def verify(self, *arguments: str) -> tuple[int, dict[str, dict]]:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = verify_tasks.main([str(self.tasks), "--device", "cpu", "--replay", REPLAY, "--runs", "2", "--json",
                                      *arguments])
        return code, {line["task"]: line for line in map(json.loads, said.getvalue().splitlines())}

    def write(self, name: str, text: str) -> None:
        path = self.tasks / f"{name}.json"
        path.write_text(text)
        self.addCleanup(path.unlink)

    def test_what_was_imported_agrees_bit_for_bit(self) -> None:
        code, lines = self.verify("--only", "net,plain,stateful")
        self.assertEqual(code, 0, lines)
        self.assertEqual({name: line["verdict"] for name, line in lines.items()},
                         dict.fromkeys(("net", "plain", "stateful"), verify_tasks.AGREES))

    def test_another_program_is_found(self) -> None:
        task = json.loads((self.tasks / "plain.json").read_text())
        task["name"] = "wrong"
        step = next(s for s in task["steps"] if s["aten"].startswith("aten::mul"))
        step["args"]["other"] = 2.001
        self.write("wrong", json.dumps(task))
        code, lines = self.verify("--only", "wrong")
        self.assertEqual((code, lines["wrong"]["verdict"]), (1, verify_tasks.OFF), lines)
        self.assertAlmostEqual(lines["wrong"]["replay"]["rms"], 0.0005, places=5)

    def test_weights_of_another_seed_and_tasks_that_cannot_run_are_reported(self) -> None:
        task = json.loads((self.tasks / "net.json").read_text())
        task["origin"]["seed"] = 43
        self.write("seed", json.dumps({**task, "name": "seed"}))
        self.write("broken", json.dumps({**json.loads((self.tasks / "plain.json").read_text()), "name": "broken",
                                         "outputs": ["nobody"]}))
        code, lines = self.verify("--only", "seed,broken,plain")
        self.assertEqual(code, 1)
        self.assertRegex(lines["seed"]["reason"], "its weight .* is not what this machine makes from source and seed")
        self.assertRegex(lines["broken"]["reason"], 'cudal1-replay: .*there is no value "nobody"')
        self.assertEqual(lines["plain"]["verdict"], verify_tasks.AGREES)


class Differences(unittest.TestCase):
    def test_noise_is_what_runs_differ_by(self) -> None:
        cpu = torch.device("cpu")
        a = torch.tensor([1.0, -2.0, float("nan"), float("inf")])
        self.assertTrue(verify_tasks.difference(a, a.clone(), cpu).same)
        off = verify_tasks.difference(a + torch.tensor([0.5, 0, 0, 0]), a, cpu)
        self.assertEqual((off.same, off.largest), (False, 0.5))
        self.assertTrue(off.within(off))
        self.assertFalse(off.within(verify_tasks.Difference(False, 0.4, 1.0)))
        self.assertEqual(verify_tasks.difference(torch.zeros(4), a, cpu).largest, float("inf"))
        self.assertFalse(verify_tasks.difference(torch.tensor([0.0]), torch.tensor([-0.0]), cpu).same)
        with self.assertRaises(verify_tasks.NotCompared):
            verify_tasks.difference(a.double(), a, cpu)


if __name__ == "__main__":
    unittest.main()
