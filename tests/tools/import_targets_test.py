"""Models under any name, their example inputs and their checkpoints, as a user names them on the command line of
tools/python/import_tasks.py. The first argument is the path of cudal1, the second that of cudal1-replay."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "python"
sys.path.insert(0, str(TOOLS))

import import_tasks  # noqa: E402
import torch  # noqa: E402

CUDAL1, REPLAY = sys.argv.pop(1), sys.argv.pop(1)

BLOCKS = '''import dataclasses
import torch
import torch.nn as nn
import torch.nn.functional as F


class Gated(nn.Module):
    """A gated layer."""

    def __init__(self, dim=8, hidden=16):
        super().__init__()
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.register_buffer("scale", torch.full((dim,), 0.5))
        self.register_buffer("shift", torch.zeros(dim))

    def forward(self, x):
        return self.down(F.silu(self.up(x))) * self.scale + self.shift

    @staticmethod
    def example_inputs():
        return torch.randn(300, 8)


class ByKeyword(nn.Module):
    def forward(self, *, hidden, mask=None, scale=2.0, causal=False):
        hidden = hidden * scale
        if causal:
            hidden = hidden.tril()
        return {"hidden": hidden if mask is None else hidden.masked_fill(~mask, 0.0)}


class Sized(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.layer = nn.Linear(dim, dim)

    def forward(self, x):
        return self.layer(x)


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    y: torch.Tensor | None = None


class Nested(nn.Module):
    def forward(self, batch, pair):
        return Batch(batch.x * 2 + pair[0], pair[1]["k"] - pair[1]["n"])


def rotate(x, angles, *, half=False):
    """Turns pairs."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def make(depth=2):
    return nn.Sequential(*[nn.Linear(8, 8) for _ in range(depth)])


net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 8)).eval()
numbers = torch.randn(300, 8)


def row():
    return (torch.randn(300, 8),)


def by_keyword():
    return {"mask": torch.rand(16, 8) > 0.5, "hidden": torch.randn(16, 8), "causal": True}


def nested():
    return Batch(torch.randn(100, 16)), (torch.rand(100, 16), {"k": torch.randn(100, 16), "n": 3})


def several():
    for n in (16, 32):
        yield torch.randn(2, n, 64), torch.rand(n, 32)


def one():
    return {"x": torch.randn(300, 64), "angles": torch.rand(300, 32)}
'''

POSITIONS = '''import torch
from .helper import act


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(20, 8)

    def forward(self, x, positions):
        return act(x) + self.table(positions)


def example_inputs():
    torch.manual_seed(0)
    return {"x": torch.randn(20, 8), "positions": torch.arange(20)}
'''

DICTIONARY = '''import torch
from package.helper import act


class Model(torch.nn.Module):
    def __init__(self, n):
        super(Model, self).__init__()
        self.layer = torch.nn.Linear(n, n)

    def forward(self, x, *, y):
        return act(self.layer(x)) + y


def get_inputs():
    return {"y": torch.randn(200, 8), "x": torch.randn(200, 8)}


def get_init_inputs():
    return [8]
'''


class Targets(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.addClassCleanup(os.chdir, os.getcwd())
        cls.root = pathlib.Path(folder.name).resolve()
        os.chdir(cls.root)
        (cls.root / "package").mkdir()
        for name, text in {
            "blocks.py": BLOCKS,
            "package/__init__.py": "",
            "package/helper.py": "import torch\n\n\ndef act(x):\n    return torch.relu(x)\n",
            "package/inner.py": POSITIONS,
            "dictionary.py": DICTIONARY,
            "alone.py": DICTIONARY.replace("from package.helper import act", "act = torch.relu"),
        }.items():
            (cls.root / name).write_text(text)

    def run_import(self, *words: str) -> dict:
        words = (*words, "--out", "tasks", "--json", "--rules", CUDAL1)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            import_tasks.main(list(words))
        return json.loads(said.getvalue())

    def imported(self, *words: str) -> list[tuple[dict, dict]]:
        """The tasks, each with its line of the report; all compared with their models, and their sources work alone."""
        report = self.run_import(*words)
        self.assertEqual(report["refused"], [])
        found = []
        for line in report["imported"]:
            self.assertTrue(line["verified"])
            found.append((json.loads((self.root / "tasks" / line["file"]).read_text()), line))
        return found

    def refusal(self, *words: str) -> str:
        report = self.run_import(*words)
        self.assertEqual(report["imported"], [])
        return report["refused"][0]["reason"]

    def inputs(self, task: dict) -> list[str]:
        return [i["name"] for i in task["inputs"]]

    def tensors(self, task: dict) -> dict[str, torch.Tensor]:
        from importing import checkpoint

        return checkpoint.read_tensors(self.root / "tasks" / "blobs" / task["weights"][0]["content"]["file"])

    def test_a_class_by_name_with_inputs_of_its_own(self) -> None:
        ((task, _),) = self.imported("blocks.py:Gated")
        self.assertEqual((task["name"], task["summary"]), ("blocks.Gated", "A gated layer."))
        self.assertEqual(self.inputs(task), ["x"])
        self.assertEqual(task["inputs"][0]["draw"], {"distribution": "normal", "mean": 0.0, "std": 1.0})
        self.assertEqual([w["content"]["tensor"] for w in task["weights"][:2]], ["up.weight", "down.weight"])

    def test_an_object_a_factory_and_a_function(self) -> None:
        ((task, _),) = self.imported("blocks.py:net", "--inputs", "row")
        self.assertEqual([s["aten"] for s in task["steps"]], ["aten::linear", "aten::gelu", "aten::linear"])
        self.assertEqual(task["weights"][0]["content"]["tensor"], "0.weight", "under its own name")
        ((task, _),) = self.imported("blocks.py:make", "--inputs", "row")
        self.assertEqual(len(task["weights"]), 4)
        ((task, _),) = self.imported("blocks.py:rotate", "--inputs", "one")
        self.assertEqual((self.inputs(task), task["summary"]), (["x", "angles"], "Turns pairs."))

    def test_a_value_may_be_the_inputs(self) -> None:
        ((task, _),) = self.imported("blocks.py:net", "--inputs", "numbers")
        self.assertEqual(task["inputs"][0]["draw"]["distribution"], "normal")
        self.assertNotIn("content", task["inputs"][0])

    def test_a_dictionary_gives_inputs_by_keyword(self) -> None:
        ((task, _),) = self.imported("blocks.py:ByKeyword", "--inputs", "by_keyword")
        self.assertEqual(self.inputs(task), ["hidden", "mask"], "in the order of forward's parameters")
        self.assertEqual(task["returns"], {"dict": [["hidden", 0]]})
        self.assertIn("aten::tril", [s["aten"] for s in task["steps"]], "causal=True chose the branch")
        ((task, _),) = self.imported("alone.py")
        self.assertEqual(self.inputs(task), ["x", "y"])

    def test_inputs_in_dataclasses_tuples_and_dictionaries(self) -> None:
        ((task, _),) = self.imported("blocks.py:Nested", "--inputs", "nested")
        self.assertEqual(len(task["inputs"]), 3)
        self.assertEqual(task["returns"], {"object": ["Batch", ["x", 0], ["y", 1]]})

    def test_several_examples_are_several_tasks(self) -> None:
        found = self.imported("blocks.py:rotate", "--inputs", "several")
        self.assertEqual([t["name"] for t, _ in found], ["blocks.rotate_2x16x64", "blocks.rotate_2x32x64"])
        self.assertEqual([t["inputs"][0]["shape"] for t, _ in found], [[2, 16, 64], [2, 32, 64]])
        found = self.imported("blocks.py:net", "--inputs", "row", "--inputs", "numbers")
        self.assertEqual([t["name"] for t, _ in found], ["blocks.net_row", "blocks.net_numbers"])
        files = {t["weights"][0]["content"]["file"] for t, _ in found}
        self.assertEqual(len(files), 1, "they share their weights")

    def test_a_model_of_a_package(self) -> None:
        ((task, line),) = self.imported("package.inner:Inner")
        self.assertEqual(task["name"], "inner.Inner")
        self.assertIn(f"package.inner is imported from {self.root}", line["notes"][0])
        positions = task["inputs"][1]
        self.assertEqual((positions["content"]["draws"], positions["content"]["fixed"]), (1, True))
        self.assertIn("positions is given by its values, and always these", line["notes"])
        self.assertNotIn("content", task["inputs"][0], "a seed set in the function does not hide what draws it")

    def test_a_file_that_imports_its_neighbours(self) -> None:
        ((task, line),) = self.imported("dictionary.py")
        self.assertEqual(self.inputs(task), ["x", "y"])
        self.assertIn("dictionary is imported from", line["notes"][0])

    def test_the_files_that_were_read_are_reported(self) -> None:
        report = self.run_import("dictionary.py")
        paths = {pathlib.Path(f["path"]).name for f in report["files"]}
        self.assertLessEqual({"dictionary.py", "helper.py"}, paths)

    def test_what_is_tested_against_eager_is_the_stored_source(self) -> None:
        """cudal1-replay and eager, which is made of the source that the task keeps, agree."""
        self.write_weights("gated.pt", {})
        self.imported("blocks.py:ByKeyword", "--inputs", "by_keyword")
        self.imported("blocks.py:Nested", "--inputs", "nested")
        self.imported("blocks.py:net", "--inputs", "row")
        self.imported("blocks.py:make", "--inputs", "row")
        self.imported("blocks.py:Gated", "--weights", "gated.pt")
        self.imported("package.inner:Inner")
        words = [sys.executable, str(TOOLS / "verify_tasks.py"), str(self.root / "tasks"), "--device", "cpu", "--replay", REPLAY, "--runs", "2"]
        only = "blocks.ByKeyword,blocks.Nested,blocks.net,blocks.make,blocks.Gated,inner.Inner"
        done = subprocess.run([*words, "--only", only], capture_output=True, text=True, cwd="/")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    # ---- checkpoints ----

    def write_weights(self, name: str, other: dict, change=lambda state: state) -> dict[str, torch.Tensor]:
        torch.manual_seed(7)
        state = {
            "up.weight": torch.randn(16, 8),
            "down.weight": torch.randn(8, 16),
            "scale": torch.full((8,), 0.5),
            "shift": torch.rand(8),
            **other,
        }
        torch.save(change(dict(state)), self.root / name)
        return state

    def test_a_checkpoint_gives_the_weights(self) -> None:
        state = self.write_weights("gated.pt", {})
        ((task, line),) = self.imported("blocks.py:Gated", "--weights", "gated.pt")
        self.assertIn("its weights are those of gated.pt", line["notes"])
        kept = self.tensors(task)
        for name, t in kept.items():
            self.assertTrue(torch.equal(t, state[name]), name)
        fixed = {w["name"]: w["content"].get("fixed", False) for w in task["weights"]}
        # What the checkpoint changed is drawn like a parameter; what it has as the class makes it belongs to the task.
        self.assertEqual(fixed, {"up_weight": False, "down_weight": False, "scale": True, "shift": False})

    def test_checkpoints_of_training_loops_and_wrappers(self) -> None:
        self.write_weights(
            "nested.pt", {}, lambda s: {"model": {f"module.{k}": v for k, v in s.items()}, "step": 7, "optimizer": {"lr": 0.1}}
        )
        self.imported("blocks.py:Gated", "--weights", "nested.pt")

    def test_safetensors(self) -> None:
        from importing import weights

        state = self.write_weights("unused.pt", {})
        name = weights.write_tensors(state, self.root)
        (self.root / name).rename(self.root / "gated.safetensors")
        ((task, _),) = self.imported("blocks.py:Gated", "--weights", "gated.safetensors")
        self.assertTrue(torch.equal(self.tensors(task)["up.weight"], state["up.weight"]))

    def test_a_checkpoint_beside_the_file_is_taken_where_it_fits(self) -> None:
        text = DICTIONARY.replace("from package.helper import act", "act = torch.relu")
        (self.root / "beside.py").write_text(text)
        state = {"layer.weight": torch.rand(8, 8), "layer.bias": torch.rand(8)}
        torch.save(state, self.root / "beside.pt")
        ((task, line),) = self.imported("beside.py")
        self.assertIn("its weights are those of beside.pt", line["notes"])
        self.assertTrue(torch.equal(self.tensors(task)["layer.bias"], state["layer.bias"]))
        del state["layer.bias"]
        torch.save(state, self.root / "beside.pt")
        ((task, line),) = self.imported("beside.py")
        self.assertRegex(line["notes"][0], "beside.pt was not taken: .* it has no layer.bias")

    def test_checkpoints_of_another_model_or_with_code_are_refused(self) -> None:
        self.write_weights("other.pt", {"more": torch.rand(3)})
        self.assertRegex(self.refusal("blocks.py:Gated", "--weights", "other.pt"), "other.pt is not .* the model has no more")
        self.write_weights("large.pt", {"up.weight": torch.rand(3, 3)})
        self.assertRegex(self.refusal("blocks.py:Gated", "--weights", "large.pt"), r"up.weight \[3, 3\] for \[16, 8\]")
        torch.save(torch.nn.Linear(8, 8), self.root / "whole.pt")
        self.assertRegex(self.refusal("blocks.py:Gated", "--weights", "whole.pt"), "save the state_dict alone")
        self.assertRegex(self.refusal("blocks.py:Gated", "--weights", "none.pt"), "there is no such file")

    # ---- refusals ----

    def test_refusals_say_what_to_name_instead(self) -> None:
        for words, wanted in {
            ("blocks.py",): r"blocks.py defines no Model; name one of its own, as in FILE.py:Gated \(Gated, ByKeyword,",
            ("blocks.py:Gate",): "blocks.py defines no Gate; name one of its own",
            ("blocks.py:numbers",): "numbers is a Tensor; name a torch.nn.Module",
            ("blocks.py:Batch",): "Batch is a type; name a torch.nn.Module",
            ("blocks.py:Sized",): r"Sized cannot be made without arguments \(missing a required argument: 'dim'\); write a function",
            ("blocks.py:make",): r"there are no inputs to call make with: write a function example_inputs\(\)",
            ("blocks.py:Gated", "--inputs", "rows"): "blocks.py defines no rows",
            ("blocks.py:rotate", "--inputs", "by_keyword"): r"called with mask, hidden, causal by keyword, and rotate\(x, angles",
            ("no_such.module:Thing",): "it needs the Python package no_such",
        }.items():
            with self.subTest(words):
                self.assertRegex(self.refusal(*words), wanted)

    def test_lines_are_of_the_users_source_or_of_a_library(self) -> None:
        from importing import lines

        def stack(*files: str) -> str:
            return lines.of_stack("".join(f'  File "{file}", line {i + 3}, in forward\n' for i, file in enumerate(files)))

        library, torchs = "/env/lib/site-packages/library/net.py", "/env/lib/site-packages/torch/nn/linear.py"
        lines.own("users_model.py")
        self.assertEqual(stack("users_model.py", library, torchs), " (users_model.py:3)")
        self.assertEqual(stack(library, torchs, "<string>"), " (net.py:3)")
        self.assertEqual(stack(torchs), "")

    def test_inputs_that_never_change_are_not_all_there_is(self) -> None:
        (self.root / "fixed.py").write_text(
            "import torch\ndef twice(x):\n    return x * 2\ndef example_inputs():\n    return torch.arange(20)\n"
        )
        self.assertRegex(self.refusal("fixed.py:twice"), "same values in every call, and it has no weights")


if __name__ == "__main__":
    unittest.main()
