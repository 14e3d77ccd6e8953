"""Which modules the steps of a task come from, and one module of a model as a task.

The first argument is the path of cudal1, beside which cudal1-replay is."""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "python"))
import import_tasks  # noqa: E402
import torch  # noqa: E402
from importing import weights  # noqa: E402
from verify_tasks import read_tensors  # noqa: E402

CUDAL1 = sys.argv.pop(1)

STACK = """import torch
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.linear = torch.nn.Linear(8, 8)
    def forward(self, x):
        return x + torch.relu(self.linear(self.norm(x)))
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Linear(4, 8)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(3))
        self.shared = Block()
        self.turned = torch.nn.Linear(6, 8)
    def forward(self, x, scale):
        x = self.stem(x) * scale
        for block in self.blocks:
            x = block(x)
        x = self.shared(self.shared(x))
        return self.turned(x.transpose(1, 2)) * 2
def get_inputs():
    return [torch.rand(5, 6, 4), torch.rand(5, 6, 8)]
def get_init_inputs():
    return []
"""

COUNTER = STACK.replace("x = self.stem(x)", "self.count = self.count + 1\n        x = self.stem(x)").replace(
    "super().__init__()\n        self.stem", "super().__init__()\n        self.count = torch.zeros(())\n        self.stem"
).replace("* 2", "* self.count")


class Parts(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def imported(self, text: str, *more: str) -> dict:
        (self.root / "stack.py").write_text(text)
        words = [str(self.root / "stack.py"), "--out", str(self.root), "--json", *more]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            import_tasks.main([*words, "--rules", CUDAL1])
        return json.loads(said.getvalue())

    def task(self, *more: str) -> dict:
        report = self.imported(STACK, *more)
        self.assertEqual(report["refused"], [])
        self.path = self.root / report["imported"][0]["file"]
        words = [CUDAL1, "tasks", report["imported"][0]["name"], "--tasks", str(self.root)]
        checked = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        return json.loads(self.path.read_text())

    def test_steps_know_their_modules_and_layers_that_are_alike(self) -> None:
        modules = self.task()["origin"]["modules"]
        calls = {(m["path"], m["first"]): m for m in modules}
        blocks = [m for m in modules if m["kind"] == "Block"]
        self.assertEqual(
            [m["path"] for m in blocks], ["blocks.0", "blocks.1", "blocks.2", "shared", "shared"], "each call"
        )
        self.assertEqual([m["count"] for m in blocks], [4] * 5)
        self.assertNotIn("like", blocks[0])
        for m in blocks[1:]:
            self.assertEqual(modules[m["like"]], blocks[0])
        self.assertEqual(calls["stem", 0]["count"], 1)
        self.assertNotIn("like", next(m for m in modules if m["path"] == "turned"))

    def replayed(self, given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        tensors = self.root / weights.write_tensors(given, self.root)
        request = {"task": str(self.path), "tensors": str(tensors), "out": str(self.root / "out")}
        words = [str(pathlib.Path(CUDAL1).with_name("cudal1-replay"))]
        said = subprocess.run(words, input=json.dumps(request) + "\n", capture_output=True, text=True, check=True)
        self.assertNotIn("error", said.stdout)
        return list(read_tensors(self.root / "out").values())

    def test_a_module_alone_computes_what_it_does_in_the_model(self) -> None:
        for path, shape in (("blocks.1", (5, 6, 8)), ("turned", (5, 8, 6)), ("stem", (5, 6, 4))):
            task = self.task("--module", path)
            self.assertEqual(task["name"], f"stack.{path}")
            self.assertEqual(task["origin"]["part"], path)
            names = {}
            exec(STACK, names)
            torch.manual_seed(task["origin"]["seed"])
            model = names["Model"]()
            self.assertEqual([w["content"]["tensor"].startswith(path) for w in task["weights"]], [True] * len(task["weights"]))
            (given,) = task["inputs"]
            strides = given.get("strides", torch.empty(shape).stride())
            x = torch.empty_strided(shape, strides).copy_(torch.randn(shape))
            (y,) = self.replayed({given["name"]: x})
            with torch.no_grad():
                torch.testing.assert_close(y, model.get_submodule(path)(x))

    def test_inputs_that_other_modules_make_are_recorded_in_calls_of_the_model(self) -> None:
        task = self.task("--module", "blocks.1")
        (given,) = task["inputs"]
        self.assertEqual(given["content"]["draws"], 8)
        names = {}
        exec(STACK, names)
        torch.manual_seed(task["origin"]["seed"])
        model = names["Model"]()
        torch.manual_seed(task["origin"]["seed"])
        seen = []
        model.blocks[1].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
        with torch.no_grad():
            model(*names["get_inputs"]())
        recorded = read_tensors(self.root / "blobs" / given["content"]["file"])
        self.assertTrue(torch.equal(recorded[f"{given['content']['tensor']}.0"], seen[0]))
        self.assertFalse(torch.equal(recorded[f"{given['content']['tensor']}.1"], seen[0]))

    def test_the_layout_of_what_others_make_is_kept(self) -> None:
        (given,) = self.task("--module", "turned")["inputs"]
        self.assertEqual((given["shape"], given["strides"]), ([5, 8, 6], [48, 1, 8]))

    def test_an_input_of_the_model_is_drawn_as_there(self) -> None:
        (given,) = self.task("--module", "stem")["inputs"]
        self.assertNotIn("content", given)
        self.assertEqual(given["draw"]["distribution"], "uniform")

    def reason(self, text: str, module: str) -> str:
        return self.imported(text, "--module", module)["refused"][0]["reason"]

    def test_a_module_that_is_not_there_is_refused_with_names_that_are(self) -> None:
        self.assertRegex(self.reason(STACK, "block.1"), r"forward calls no module block\.1; it calls blocks\.\d, ")

    def test_a_model_that_keeps_something_is_not_searched_in_parts(self) -> None:
        self.assertRegex(self.reason(COUNTER, "blocks.1"), "it keeps count from call to call, and only the whole")


if __name__ == "__main__":
    unittest.main()
