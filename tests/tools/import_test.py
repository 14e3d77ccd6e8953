"""Tests tools/python/import_tasks.py on small models: imports all of them once, then checks what it wrote.
The first argument is the path of cudal1, which prints the list of operators."""

from __future__ import annotations

import contextlib
import hashlib
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

CUDAL1 = "cudal1"
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def model(init: str, forward: str, inputs: str, arguments: str = "x", doc: str = "A model.") -> str:
    """A problem with these bodies (lines joined by "; " or newlines)."""

    def body(text: str) -> str:
        return "\n        ".join(line for line in text.splitlines())

    return (
        f'{HEAD}\nclass Model(nn.Module):\n    """{doc}"""\n    def __init__(self):\n        super().__init__()\n'
        f"        {body(init)}\n    def forward(self, {arguments}):\n        {body(forward)}\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return []\n"
    )


GOOD = {
    "aliases": model(
        "pass",
        "y = torch.multiply(x, x)\ny = torch.true_divide(y, x)\ny = torch.subtract(y, x)\n"
        "y = torch.clip(torch.absolute(y), 0.0, 1.0)\ny = torch.special.expit(torch.swapaxes(y, 0, 1))\n"
        "y = torch.max(y, x.t())\nreturn torch.concat([y, y]), torch.greater(y, 0.75)",
        "torch.randn(64, 40)",
    ),
    "linear_relu": model(
        "self.l = nn.Linear(8, 4)",
        "return F.relu(self.l(x))",
        "torch.rand(3, 8)",
        doc="A linear layer.\\n\\n    And more.",
    ),
    "conv_norm": model(
        "self.c = nn.Conv2d(3, 4, 3, padding=1)\nself.n = nn.BatchNorm2d(4)",
        "return self.n(self.c(x))",
        "torch.randn(2, 3, 8, 8)",
    ),
    "lstm": model(
        "self.r = nn.LSTM(6, 5, 2, batch_first=True)\nself.h = torch.randn(2, 3, 5)",
        "self.h = self.h.to(x.device)\nreturn self.r(x, (self.h, self.h))[0]",
        "torch.randn(3, 7, 6)",
    ),
    "gru": model("self.r = nn.GRU(6, 5, bidirectional=True)", "return self.r(x)", "torch.randn(4, 3, 6)"),
    "many_outputs": model("pass", "y = x * 2\nreturn x, (y, y), y.t()", "torch.randn(1100, 4)"),
    "in_place": model("pass", "y = x + 1\ny.mul_(3).relu_()\ny += x\nreturn y", "torch.randn(1100, 4)"),
    "slices_in_place": model(
        "pass",
        "y = torch.zeros(4, 6, 300)\ny[:, 2] = x\ny[:, 4:] = 1.0\nreturn y * x[:, None]",
        "torch.randn(4, 300)",
    ),
    "tied": model(
        "self.a = nn.Linear(8, 8)\nself.b = nn.Linear(8, 8)\nself.b.weight = self.a.weight",
        "return self.b(self.a(x))",
        "torch.rand(300, 8)",
    ),
    "causal": model(
        "self.register_buffer('mask', torch.tril(torch.ones(16, 16)))",
        "s = (x @ x.transpose(1, 2)).masked_fill(self.mask[:8, :8] == 0, float('-inf'))\n"
        "return torch.softmax(s, -1) @ x",
        "torch.randn(20, 8, 8)",
    ),
    "made_in_forward": model(
        "pass",
        "return x + torch.arange(4, device=x.device).float() + torch.tensor(2.5)",
        "torch.randn(1100, 4)",
    ),
    "triangular": model(
        "pass",
        "return a @ b @ c",
        "torch.randn(64, 64).tril(), torch.randn(64, 64).triu(), torch.diag(torch.randn(64) * 1)",
        "a, b, c",
    ),
    "symmetric": model("pass", "return a @ a", "(lambda a: (a + a.T) / 2)(torch.randn(100, 100))", "a"),
    "scalars": model(
        "pass",
        "return torch.clamp(x * s, max=3.0) if flag else x",
        "torch.randn(1100, 4), 2.5, True",
        "x, s, flag",
    ),
    "loss": model(
        "pass", "return F.cross_entropy(x, t)", "torch.randn(1100, 7), torch.randint(0, 7, (1100,))", "x, t"
    ),
    "distributions": model(
        "pass",
        "return a * b * c * d * e.float() * f",
        "torch.rand(1100, 4) * 2 - 0.5, torch.randint(0, 2, (1100, 4)).float() * 2 - 1, "
        "torch.randn(1100, 4).softmax(dim=-1), torch.full((1100, 4), 3.0), "
        "torch.randint(0, 2, (1100, 4)).bool(), torch.randn(1100, 4) * 0.5 + 2",
        "a, b, c, d, e, f",
    ),
    "logarithm": model("pass", "return x.log()", "torch.rand(1100, 4)"),
    "unobserved_dropout": model(
        "self.d = nn.Dropout(0.3)", "return self.d(x.clamp(max=0.0).clamp(0.0, 1.0))", "torch.randn(1100, 4)"
    ),
    "dropout_of_nothing": model("self.d = nn.Dropout(0.0)", "return self.d(x) * 2", "torch.randn(1100, 4)"),
    "joined_products": model(
        "pass", "return torch.einsum('bij,jk->bik', a, b)", "torch.randn(4, 5, 6), torch.randn(6, 7)", "a, b"
    ),
    "no_gradient_inside": model(
        "pass", "with torch.no_grad():\n    y = x * 2\nreturn y + 1", "torch.randn(1100, 4)"
    ),
    "gpu_by_name": model(
        "self.w = nn.Parameter(torch.ones(4, device='cuda'))",
        "return x.cuda() * self.w.to('cuda:0')",
        "torch.randn(1100, 4, device='cuda')",
    ),
    "evaluating": model(
        "self.n = nn.BatchNorm1d(4)\nself.eval()", "return self.n(x)", "torch.randn(1100, 4)"
    ),
}

BAD = {
    "dropout": (
        model("self.d = nn.Dropout(0.5)", "return self.d(x)", "torch.randn(1100, 4)"),
        "live randomness (aten::dropout with p = 0.5)",
    ),
    "noise": (
        model("pass", "return x + torch.randn_like(x)", "torch.randn(1100, 4)"),
        "live randomness (aten::randn",
    ),
    "random_lstm": (
        model("self.r = nn.LSTM(6, 5, 2, dropout=0.2)", "return self.r(x)[0]", "torch.randn(3, 7, 6)"),
        "aten::lstm.input with p = 0.2",
    ),
    "data_dependent": (model("pass", "return x[x > 0]", "torch.randn(1100, 4)"), "depend on values"),
    "branch": (model("pass", "return x if x.sum() > 0 else -x", "torch.randn(1100, 4)"), "depend on values"),
    "backward": (
        model(
            "self.w = nn.Parameter(torch.ones(4))",
            "y = (x * self.w).sum()\ny.backward()\nreturn y",
            "torch.randn(1100, 4)",
        ),
        "backward pass",
    ),
    "two_gpus": (model("pass", "return x.to('cuda:1')", "torch.randn(1100, 4)"), "cuda:1"),
    "odd_values": (
        model("pass", "return x", "torch.randn(1100, 4) ** 2"),
        "no distribution that a task can have",
    ),
    "same_every_time": (
        model("pass", "return x * 2", "torch.linspace(0, 1, 1100)"),
        "the same for every seed",
    ),
    "wrong_code": (model("pass", "return x.no_such_method()", "torch.randn(1100, 4)"), "no_such_method"),
    "no_package": (f"import no_such_package_here\n{HEAD}", "no_such_package_here"),
    "no_model": (HEAD, "it defines no Model"),
    "imports_neighbour": ("from neighbour_of_it import f\n", "one file"),
    "number_out": (model("pass", "return x * 2, 3.0", "torch.randn(1100, 4)"), "Python value 3.0"),
    "reads_statistics": (
        model(
            "self.n = nn.BatchNorm1d(4)",
            "y = self.n(x)\nreturn y, self.n.running_mean * 2",
            "torch.randn(1100, 4)",
        ),
        "running statistics",
    ),
}


class Imported(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = pathlib.Path(cls.folder.name)
        cls.records = subprocess.run([CUDAL1, "operators", "--json"], check=True, capture_output=True).stdout
        (cls.root / "operators.json").write_bytes(cls.records)
        sources = cls.root / "models"
        sources.mkdir()
        for name, text in {**GOOD, **{k: v[0] for k, v in BAD.items()}}.items():
            (sources / f"{name}.py").write_text(text)
        (sources / "_neighbour_of_it").mkdir()
        (sources / "neighbour_of_it").mkdir()
        cls.code, cls.report = cls.run_import(sources, cls.root / "tasks")
        cls.refused = {line["name"]: line["reason"] for line in cls.report["refused"]}

    @classmethod
    def run_import(cls, source: pathlib.Path, out: pathlib.Path, *words: str) -> tuple[int, dict]:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            if "--operators" not in words:
                words = (*words, "--operators", str(cls.root / "operators.json"), "--keep-others")
            code = import_tasks.main([str(source), "--out", str(out), "--json", "--jobs", "2", *words])
        return code, json.loads(said.getvalue())

    def task(self, name: str) -> dict:
        self.assertNotIn(name, self.refused, self.refused.get(name))
        return json.loads((self.root / "tasks" / f"{name}.json").read_text())

    def steps(self, name: str) -> list[str]:
        return [s["aten"] for s in self.task(name)["steps"]]

    def draws(self, name: str) -> list[dict]:
        return [i["draw"] for i in self.task(name)["inputs"]]

    def content(self, file: str) -> dict[str, torch.Tensor]:
        """Reads a safetensors file without the importer's code."""
        data = (self.root / "tasks" / "blobs" / file).read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        types = {"F32": torch.float32, "BOOL": torch.bool, "I64": torch.int64}
        return {
            name: torch.frombuffer(
                bytearray(data[8 + length + e["data_offsets"][0] : 8 + length + e["data_offsets"][1]]),
                dtype=types[e["dtype"]],
            ).view(e["shape"])
            for name, e in header.items()
        }

    def test_all_good_models_give_the_same_bits_as_their_steps(self) -> None:
        verified = {line["name"]: line["verified"] for line in self.report["imported"]}
        self.assertEqual(verified, dict.fromkeys(GOOD, True), self.refused)
        self.assertEqual(self.code, 1, "something was refused")

    def test_refusals_give_the_reason(self) -> None:
        for name, (_, words) in BAD.items():
            with self.subTest(name):
                self.assertIn(words, self.refused.get(name, "(imported)"))
                self.assertFalse((self.root / "tasks" / f"{name}.json").exists())

    def test_weights_are_those_of_seed_42(self) -> None:
        task = self.task("linear_relu")
        torch.manual_seed(42)
        layer = torch.nn.Linear(8, 4)
        file = task["weights"][0]["content"]["file"]
        kept = self.content(file)
        self.assertTrue(torch.equal(kept["l.weight"], layer.weight))
        self.assertTrue(torch.equal(kept["l.bias"], layer.bias))
        data = (self.root / "tasks" / "blobs" / file).read_bytes()
        self.assertEqual(hashlib.sha256(data).hexdigest(), file.split(".")[0])
        self.assertEqual([w["name"] for w in task["weights"]], ["l_weight", "l_bias"])
        self.assertEqual(task["family"], "matmul")
        self.assertEqual(task["summary"], "A linear layer.")
        source = self.root / "tasks" / "blobs" / task["origin"]["source"]
        self.assertEqual(source.read_text(), GOOD["linear_relu"])

    def test_batch_norm_trains_without_keeping_statistics(self) -> None:
        task = self.task("conv_norm")
        self.assertEqual(self.steps("conv_norm"), ["aten::conv2d", "aten::batch_norm"])
        args = task["steps"][1]["args"]
        self.assertEqual((args["running_mean"], args["running_var"], args["training"]), (None, None, True))
        self.assertEqual([w["name"] for w in task["weights"]], ["c_weight", "c_bias", "n_weight", "n_bias"])
        self.assertEqual(task["weights"][2]["draw"], {"distribution": "normal", "mean": 1.0, "std": 0.2})

    def test_evaluating_batch_norm_reads_its_statistics(self) -> None:
        weights = {w["name"]: w for w in self.task("evaluating")["weights"]}
        self.assertEqual(
            weights["n_running_var"]["draw"],
            {"distribution": "uniform", "low": 0.5, "high": 1.5, "min": 0.01},
        )
        self.assertEqual(weights["n_running_var"]["facts"], ["non_negative"])

    def test_recurrent_operators_stay_whole(self) -> None:
        self.assertEqual(self.steps("lstm"), ["aten::lstm.input"])
        self.assertEqual(self.steps("gru"), ["aten::gru.input"])
        self.assertEqual(self.task("lstm")["family"], "recurrent")
        state = next(w for w in self.task("lstm")["weights"] if w["name"] == "h")
        self.assertNotIn("fixed", state["content"], "values that depend on the seed are not part of the definition")
        zeros = next(w for w in self.task("gru")["weights"] if w["content"].get("fixed"))
        self.assertEqual(zeros["shape"], [2, 3, 5])

    def test_outputs_have_memory_and_names_of_their_own(self) -> None:
        task = self.task("many_outputs")
        self.assertEqual(len(set(task["outputs"])), 4)
        self.assertEqual(self.steps("many_outputs").count("aten::clone"), 2)

    def test_operators_in_place_become_functions(self) -> None:
        self.assertEqual(
            self.steps("in_place"), ["aten::add.Scalar", "aten::mul.Scalar", "aten::relu", "aten::add.Tensor"]
        )
        self.assertIn("aten::cat", self.steps("slices_in_place"))

    def test_tied_weights_appear_once(self) -> None:
        self.assertEqual([w["name"] for w in self.task("tied")["weights"]], ["a_weight", "a_bias", "b_bias"])

    def test_what_depends_on_no_input_is_a_fixed_weight(self) -> None:
        mask = self.task("causal")["weights"][0]
        self.assertEqual((mask["dtype"], mask["shape"], mask["content"]["fixed"]), ("bool", [8, 8], True))
        self.assertEqual(self.task("causal")["family"], "attention")
        made = self.task("made_in_forward")
        self.assertEqual(self.steps("made_in_forward"), ["aten::add.Tensor", "aten::add.Scalar"])
        self.assertTrue(made["weights"][0]["content"]["fixed"])
        self.assertEqual(made["steps"][1]["args"]["other"], 2.5)

    def test_facts_are_found(self) -> None:
        facts = [i["facts"] for i in self.task("triangular")["inputs"]]
        self.assertEqual(facts[:2], [["lower_triangular"], ["upper_triangular"]])
        self.assertEqual(facts[2], ["diagonal"])
        self.assertEqual(self.task("symmetric")["inputs"][0]["facts"], ["symmetric"])
        self.assertAlmostEqual(self.draws("symmetric")[0]["std"], 0.707, delta=0.05)

    def test_numbers_become_constants(self) -> None:
        task = self.task("scalars")
        self.assertEqual([i["name"] for i in task["inputs"]], ["x"])
        self.assertEqual(
            task["steps"][0],
            {"aten": "aten::mul.Scalar", "args": {"self": "x", "other": 2.5}, "out": ["mul"]},
        )

    def test_distributions_are_recognised(self) -> None:
        self.assertEqual(self.draws("loss")[1], {"distribution": "integer", "low": 0, "high": 7})
        self.assertEqual(
            self.draws("distributions"),
            [
                {"distribution": "uniform", "low": -0.5, "high": 1.5},
                {"distribution": "signs"},
                {"distribution": "simplex"},
                {"distribution": "constant", "value": 3.0},
                {"distribution": "bernoulli", "probability": 0.5},
                {"distribution": "normal", "mean": 2.0, "std": 0.5},
            ],
        )
        self.assertEqual(self.draws("linear_relu")[0], {"distribution": "uniform", "low": 0.0, "high": 1.0})

    def test_operators_that_are_not_defined_everywhere_keep_the_range_of_their_input(self) -> None:
        self.assertEqual(
            self.draws("logarithm")[0],
            {"distribution": "uniform", "low": 0.0, "high": 1.0, "min": 0.0, "max": 1.0},
        )

    def test_dropout_without_effect_is_removed(self) -> None:
        self.assertEqual(self.steps("unobserved_dropout"), ["aten::clamp", "aten::clamp"])
        self.assertEqual(self.steps("dropout_of_nothing"), ["aten::mul.Scalar"])

    def test_einsum_becomes_a_product(self) -> None:
        self.assertEqual([s for s in self.steps("joined_products") if s != "aten::view"], ["aten::bmm"])

    def test_the_same_source_gives_the_same_bytes(self) -> None:
        self.run_import(self.root / "models" / "conv_norm.py", self.root / "again")
        for folder in (self.root / "again", self.root / "again" / "blobs"):
            for path in folder.iterdir():
                if path.is_file():
                    other = self.root / "tasks" / path.relative_to(self.root / "again")
                    self.assertEqual(path.read_bytes(), other.read_bytes(), path.name)

    def test_json_lines_name_tasks_by_level_and_problem(self) -> None:
        lines = [
            {"level": 1, "problem_id": 7, "code": GOOD["loss"]},
            {"level": 2, "problem_id": 8, "name": "8_Two words.", "code": GOOD["tied"]},
        ]
        path = self.root / "problems.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in lines))
        code, report = self.run_import(path, self.root / "lines")
        self.assertEqual(
            [line["name"] for line in report["imported"]], ["level1_007", "level2_008_Two_words"]
        )
        self.assertEqual(code, 0)
        code, report = self.run_import(path, self.root / "lines", "--only", "level1_007")
        self.assertEqual(len(report["imported"]), 1)
        folder = self.root / "level3"
        folder.mkdir()
        (folder / "12_Some_Net.py").write_text(GOOD["loss"])
        _, report = self.run_import(folder, self.root / "lines")
        self.assertEqual(report["imported"][0]["name"], "level3_012_Some_Net")
        origin = json.loads((self.root / "lines" / "level3_012_Some_Net.json").read_text())["origin"]
        self.assertEqual(
            (origin["kind"], origin["level"], origin["problem"], origin["seed"]), ("kernelbench", 3, 12, 42)
        )

    def test_aliases_become_one_name(self) -> None:
        self.assertEqual(
            self.steps("aliases"),
            ["aten::mul.Tensor", "aten::div.Tensor", "aten::sub.Tensor", "aten::abs", "aten::clamp"]
            + ["aten::transpose.int", "aten::sigmoid", "aten::t", "aten::maximum", "aten::cat", "aten::gt.Scalar"],
        )
        swap = self.task("aliases")["steps"][5]
        self.assertEqual((swap["args"]["dim0"], swap["args"]["dim1"]), (0, 1))

    def test_operators_that_tasks_do_not_support_are_decomposed_or_refused(self) -> None:
        few = {"aten::addmm", "aten::t", "aten::relu", "aten::mul.Scalar"}
        known = self.root / "few_operators.json"
        records = [r for r in json.loads(self.records)["operators"] if r["name"] in few]
        self.assertEqual({r["name"] for r in records}, few)
        known.write_text(json.dumps({"operators": records}))
        models = self.root / "few"
        models.mkdir()
        for name in ("linear_relu", "logarithm"):
            (models / f"{name}.py").write_text(GOOD[name])
        _, report = self.run_import(models, self.root / "few_tasks", "--operators", str(known))
        task = json.loads((self.root / "few_tasks" / "linear_relu.json").read_text())
        self.assertEqual([s["aten"] for s in task["steps"]], ["aten::t", "aten::addmm", "aten::relu"])
        self.assertIn("aten::log", report["refused"][0]["reason"])


if __name__ == "__main__":
    CUDAL1 = sys.argv.pop(1)
    unittest.main()
