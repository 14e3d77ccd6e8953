"""Casts, views, copies, constants and writes in place: what a task computes is what its model does, to the last bit of
each conversion. By examples, and by random models (random_models).

The first argument is the path of cudal1."""

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
from importing import checkpoint, exporting, passes, replay, structure  # noqa: E402
from importing.program import Program  # noqa: E402
from importing.refusal import Refused  # noqa: E402
from importing.rewriting_check import checked  # noqa: E402
from random_models import random_model, values_of  # noqa: E402
from task_model import module_of  # noqa: E402

CUDAL1 = sys.argv.pop(1)
RANDOM = 24  # models
SEEDS = (42, 7, 8)  # of inputs

MODEL = """import torch
import torch.nn.functional as F
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, {inputs}):
        {body}
def get_inputs():
    return [{given}]
def get_init_inputs():
    return []
"""


def model(body: str, inputs: str = "x", given: str = "torch.randn(6, 8)", init: str = "pass") -> str:
    return MODEL.format(body=body.replace("\n", "\n        "), inputs=inputs, given=given, init=init)


def there_and_back(to: str, view: str = "") -> str:
    return model(f"return ((x * 10).clamp(0, 100).to(torch.{to}){view}.to(torch.float32) + 1).reshape(6, 8)")


LOSSY = ("float16", "bfloat16", "int32", "int64", "int16", "int8", "uint8", "bool")

MODELS = {
    **{to: there_and_back(to) for to in LOSSY},
    **{f"{to}_seen_otherwise": there_and_back(to, ".view(-1).unsqueeze(0)") for to in LOSSY},
    "wider": model("return torch.relu(x.double().float() * 2)"),
    # Under autocast of a GPU nobody can compare on the CPU.
    "under_autocast": model(
        'q = (x * 4).to(torch.int32).to(torch.float32) / 4\nwith torch.autocast("cuda", dtype=torch.bfloat16):\n'
        "    y = torch.softmax(self.layer(q), -1)\nreturn y.float() + q",
        init="self.layer = torch.nn.Linear(8, 8)",
    ),
    "of_a_constant": model("return x + torch.tensor([1.3, 2.7, 3.9]).to(torch.int32).to(torch.float32).sum()"),
    "of_an_output": model("y = x * 3\nreturn y, y.half(), x.to(torch.bfloat16)"),
    "eighths": model("return torch.relu(x).to(torch.float8_e4m3fn).float() * 2"),
    "unsigned": model("return (x.abs() * 9).to(torch.int32).to(torch.uint16).float() * 2"),
    "copied_and_written": model("a, b = torch.zeros(6, 8), x + 1\na.copy_(b)\nb.mul_(3)\nreturn a, b"),
    "written_behind_a_dropout": model("a = x + 1\nb = F.dropout(a, 0.3, training=False)\na.mul_(2)\nreturn a + b, b"),
    "written_behind_a_type": model("a = x + 1\nb = a.type_as(x)\nb.add_(1)\nreturn a"),
    "written_transposed": model("a = torch.zeros(6, 8).copy_((x * 2).t().contiguous().t())\nreturn a.view(-1)"),
    "empty_of_another_type": model("return torch.cat([torch.zeros(0), (x * 3).half()])"),
    "number_of_another_type": model(
        "return i > torch.tensor(16777216.0, dtype=torch.float64)", "i", "torch.randint(16777215, 16777219, (99,))"
    ),
    "turned_constant": model("return x + torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t().reshape(-1)[1]"),
}


# Takes 5 ms by the importer's estimate.
SLOW = {
    "of_a_batch": model(
        "return self.layer(torch.relu(x)) * 2", given="torch.randn(4096, 64)", init="self.layer = torch.nn.Linear(64, 64)"
    ),
    "of_this_batch": model("return torch.relu(x).view(4096, 8, 8) * 2", given="torch.randn(4096, 64)"),
    "keeps_what_it_reads": model("KEPT.append(1)\nreturn torch.relu(x) * len(KEPT)", given="torch.randn(4096, 64)") + "KEPT = []\n",
}


def import_all(folder: pathlib.Path, out: pathlib.Path, *more: str) -> tuple[dict, dict]:
    """The report's lines of what was imported, and the reasons of what was not, by name."""
    words = [str(folder), "--out", str(out), "--json", "--jobs", "2", "--rules", CUDAL1, *more]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        import_tasks.main(words)
    report = json.loads(said.getvalue())
    return {r["name"]: r for r in report["imported"]}, {r["name"]: r["reason"] for r in report["refused"]}


class Casts(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = pathlib.Path(cls.folder.name)
        cls.texts = {**MODELS, **{f"random_{i}": random_model(f"casts/{i}") for i in range(RANDOM)}}
        for name, text in cls.texts.items():
            (cls.root / f"{name}.py").write_text(text)
        cls.imported, cls.refused = import_all(cls.root, cls.root / "tasks")

    def task(self, name: str) -> dict:
        self.assertNotIn(name, self.refused, f"{self.refused.get(name)}\n{self.texts[name]}")
        return json.loads((self.root / "tasks" / f"{name}.json").read_text())

    def casts(self, name: str) -> list[str]:
        return [s["args"]["dtype"] for s in self.task(name)["steps"] if s["aten"] == "aten::to.dtype"]

    def results(self, name: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Of the task's steps with the task's own weights."""
        task = self.task(name)
        steps = module_of(task).Model()
        for i, weight in enumerate(task["weights"]):
            content = weight["content"]
            tensors = checkpoint.read_tensors(self.root / "tasks" / "blobs" / content["file"])
            setattr(steps, f"w{i}", tensors[content["tensor"]])
        with torch.no_grad():
            made = steps(*inputs)
        return [made] if isinstance(made, torch.Tensor) else list(made)

    def check(self, name: str) -> None:
        """The model's bits: nothing here sums terms in another order."""
        task = self.task(name)
        for seed in SEEDS:
            own, inputs = values_of(self.texts[name], seed)
            given = [x.clone() for x in inputs]
            with torch.no_grad():
                returned = own(*given)
            expected = [returned] if isinstance(returned, torch.Tensor) else list(returned)
            made = self.results(name, inputs)
            ours = [made[i] for i in structure.places_in(task["returns"])] if "returns" in task else made
            for state in task.get("states", ()):  # an input that forward writes into
                ours.append(made[task["outputs"].index(state["output"])])
                expected.append(given[[i["name"] for i in task["inputs"]].index(state["input"])])
            for a, b in zip(ours, expected, strict=True):
                self.assertTrue(replay.same(a, b), f"{name}, seed {seed}:\n{self.texts[name]}")

    def test_a_conversion_that_loses_something_stays(self) -> None:
        for to in LOSSY:
            for name in (to, f"{to}_seen_otherwise"):
                with self.subTest(name):
                    self.assertEqual(self.casts(name), [to, "float32"])
                    self.assertTrue(self.imported[name]["verified"])
                    self.check(name)

    def test_it_stays_where_no_call_of_the_model_could_show_it(self) -> None:
        self.assertFalse(self.imported["under_autocast"]["verified"])
        why = 'a CPU does not cast as torch.autocast("cuda") does'
        self.assertEqual(self.imported["under_autocast"]["uncompared"], why)
        self.assertEqual(self.task("under_autocast")["origin"]["uncompared"], why)
        self.assertNotIn("uncompared", self.task("int32")["origin"])
        self.assertEqual(self.casts("under_autocast")[:2], ["int32", "float32"])

    def test_conversions_of_constants_and_outputs_are_the_models(self) -> None:
        for name in ("wider", "of_a_constant", "of_an_output", "empty_of_another_type", "number_of_another_type"):
            with self.subTest(name):
                self.check(name)
        self.assertNotIn("aten::clone", [s["aten"] for s in self.task("of_an_output")["steps"]], "a new tensor already")

    def test_a_type_that_no_task_has_is_the_reason_of_the_refusal(self) -> None:
        for name, dtype in (("eighths", "float8_e4m3fn"), ("unsigned", "uint16")):
            self.assertIn(f"it computes a tensor of {dtype} (aten::to.dtype) ({name}.py:8:", self.refused[name])

    def test_what_is_written_shows_under_all_names_of_a_tensor_and_no_others(self) -> None:
        for name in MODELS:
            if "written" in name or "turned" in name:
                with self.subTest(name):
                    self.check(name)

    def test_random_models_give_their_own_bits(self) -> None:
        for i in range(RANDOM):
            with self.subTest(i):
                self.check(f"random_{i}")

    def test_what_a_rewriting_changes_is_run_before_and_after(self) -> None:
        self.assertGreater(self.imported["int32_seen_otherwise"]["rewritings"], 0)
        self.assertEqual(self.imported["int32_seen_otherwise"]["unchecked"], [])

        def without_conversions(program: Program) -> None:
            integers = [s for s in program.steps if s.args.get("dtype") == torch.int32]
            program.substitute({s.outs[0]: next(s.reads()) for s in integers})

        # The second has so many elements that two rows are run in the place of its 5000.
        for text in (MODELS["int32"], model("return (x * 10).to(torch.int32).float() + 1", given="torch.randn(5000, 300)")):
            own, inputs = values_of(text, 42)
            program, _ = exporting.export(own, inputs)
            passes.make_task_program(program, lambda v: True)
            with self.assertRaisesRegex(Refused, r"rewriting \(without conversions\) would change (to_1|add),"):
                checked(program, without_conversions)

    def test_a_result_without_finite_elements_is_said(self) -> None:
        folder = self.root / "not_finite"
        folder.mkdir()
        (folder / "nan.py").write_text(model("return x / 0 * 0, x"))
        (folder / "infinite.py").write_text(model("return x.abs() / 0"))
        (folder / "a_mask.py").write_text(model("return torch.where(x > 0, float('-inf'), x)"))
        imported, _ = import_all(folder, folder / "tasks")
        for name, kind in (("nan", "NaN"), ("infinite", "infinite")):
            self.assertRegex(imported[name]["notes"][0], rf"^output 0 \({name}.py:8: .*\) is {kind} in every element")
        self.assertEqual(imported["a_mask"]["notes"], [])

    def test_what_is_too_slow_is_compared_on_a_part_of_its_batch(self) -> None:
        folder = self.root / "slow"
        folder.mkdir()
        for name, text in SLOW.items():
            (folder / f"{name}.py").write_text(text)
        imported, refused = import_all(folder, folder / "tasks", "--verify", "0.002")
        self.assertTrue(imported["of_a_batch"]["verified"])
        self.assertRegex(imported["of_a_batch"]["notes"][0], r"^compared with the model on \d+ of 4096 of its batch$")
        self.assertRegex(imported["of_this_batch"]["uncompared"], "a call of its model is estimated to take")
        self.assertIn("something that a recording cannot see", refused["keeps_what_it_reads"])
        _, refused = import_all(folder, folder / "tasks", "--verify", "0")
        self.assertEqual(refused, {})


if __name__ == "__main__":
    unittest.main()
