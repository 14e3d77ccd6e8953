"""Tests tools/python/import_tasks.py on small models: imports all of them once, then checks what it wrote.
The first argument is the path of cudal1, which the importer asks."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "python"))

import import_tasks  # noqa: E402
import torch  # noqa: E402
from importing import operators, replay  # noqa: E402
from importing.problems import find_problems  # noqa: E402

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
    "attention_fast_path": model(
        "self.a = nn.MultiheadAttention(512, 8, batch_first=True)",
        "return self.a(x, x, x, need_weights=False)[0]",
        "torch.randn(2, 197, 512)",
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
    "smooth_l1": model(
        "pass",
        "return F.smooth_l1_loss(x, t)",
        "torch.rand(128, 4), torch.randint(0, 2, (128, 1)).float() * 2 - 1",
        "x, t",
    ),
    "made_in_steps": model(
        "pass",
        "return a * b * c * d * e * f * g",
        "torch.randint(0, 2, (128, 1)).float() * 2 - 1, torch.rand(50, 4)[:1].new_empty(1, 4).uniform_(-1, 1), "
        "(torch.rand(128, 4) > 0.25).float(), torch.bernoulli(torch.full((128, 4), 0.2, dtype=torch.float64)), "
        "torch.rand(128, 4).round(), 3 - 2 * torch.randint(0, 2, (128, 4)), -torch.rand(128, 4)",
        "a, b, c, d, e, f, g",
    ),
    "random_scale": model(
        "pass",
        "return F.kl_div(a.log(), b.softmax(-1), reduction='batchmean') + c.sum()",
        "(torch.rand(64, 40) * torch.rand(())).softmax(dim=-1), torch.randn(64, 40) * torch.rand(()), "
        "torch.rand(64, 40).softmax(dim=-1)",
        "a, b, c",
    ),
    "one_hot": model("pass", "return x @ w", "F.one_hot(torch.randint(0, 9, (300,)), 9).float(), torch.rand(9, 4)", "x, w"),
    "odd_values": model("pass", "return x * 2 + y", "torch.randn(1100, 4) ** 2, torch.randn(4).exp()", "x, y"),
    "permuted": model("pass", "return x[p]", "torch.rand(100, 4), torch.randperm(100)", "x, p"),
    "written_into": model(
        "pass", "return x * 2", "(lambda x: (x.view(-1).__setitem__(slice(0, 2000), 1.0), x)[1])(torch.rand(1100, 4))"
    ),
    "half_types": model(
        "self.l = nn.Linear(8, 4).half()",
        "return self.l(x), y * 2, z + y",
        "torch.randn(300, 8, dtype=torch.float16), torch.rand(300, 8).bfloat16(), "
        "torch.randn(300, 8).to(torch.bfloat16) * 0.5 + 1",
        "x, y, z",
    ),
    "many_half_values": model(
        "pass",
        "return x * y * z",
        "torch.randn(600, 1024, dtype=torch.bfloat16), torch.randn(600, 1024, dtype=torch.float16), "
        "torch.randn(600, 1024, dtype=torch.bfloat16) * torch.randn(600, 1024, dtype=torch.bfloat16)",
        "x, y, z",
    ),
    "as_dict": model(
        "pass",
        "return {'twice': x * 2, 'more': [x + 1, (x.sum(), None)]}",
        "torch.rand(30, 4)",
    ),
    "as_torch_returns_it": model("pass", "return torch.max(x, dim=1)", "torch.rand(30, 4)"),
    "as_dataclass": model(
        "pass", "y = x * 2\nreturn Out(y, Both(None, y + 1))", "torch.rand(30, 4)"
    ).replace(
        "\nclass Model",
        "\nimport dataclasses, typing\n@dataclasses.dataclass\nclass Out:\n    y: torch.Tensor\n    more: object = None\n"
        "class Both(typing.NamedTuple):\n    a: torch.Tensor\n    b: torch.Tensor\n\nclass Model",
    ),
    "made_for_inference": model("pass", "return x * 2", "torch.inference_mode()(lambda: torch.randn(30, 4) * 2)()"),
    "as_list": model("pass", "return [x * 2]", "torch.rand(30, 4)"),
    "rnn": model(
        "self.i = nn.Linear(12, 8)\nself.o = nn.Linear(8, 5)\nself.hidden = torch.randn(3, 8)",
        "self.hidden = self.hidden.to(x.device)\n"
        "self.hidden = torch.tanh(self.i(torch.cat((x, self.hidden), 1)))\nreturn self.o(self.hidden)",
        "torch.rand(3, 4)",
    ),
    "rnn_that_is_given_its_start": model(
        "self.hidden = torch.randn(3, 4)",
        "self.hidden.copy_(start)\nself.hidden = torch.tanh(x + self.hidden)\nreturn self.hidden * 2",
        "torch.rand(3, 4), torch.rand(3, 4)",
        "x, start",
    ),
    "part_of_an_attribute": model(
        "self.kept = torch.zeros(3, 4)",
        "self.kept[0] = x[0] + self.kept[1]\nself.kept[1:].mul_(2).add_(x[:2])\nreturn x + self.kept",
        "torch.rand(3, 4)",
    ),
    "rnn_that_is_given_its_start_and_moved": model(
        "self.hidden = torch.randn(3, 4)",
        "self.hidden.copy_(start)\nself.hidden = self.hidden.to(x.device)\n"
        "self.hidden = torch.tanh(x + self.hidden)\nreturn self.hidden * 2",
        "torch.rand(3, 4), torch.rand(3, 4)",
        "x, start",
    ),
    "pair": model(
        "self.h = torch.zeros(3, 4)\nself.c = torch.ones(3, 4)",
        "self.h, self.c = torch.tanh(x + self.c), self.h + 1\nreturn self.h",
        "torch.rand(3, 4)",
    ),
    "state_in_a_tuple": model(
        "self.r = nn.LSTM(6, 5, batch_first=True)\nself.hidden = (torch.zeros(1, 3, 5), torch.zeros(1, 3, 5))",
        "y, self.hidden = self.r(x, self.hidden)\nreturn y",
        "torch.randn(3, 7, 6)",
    ),
    "state_in_a_list": model(
        "self.inner = nn.Module()\nself.inner.kept = [torch.zeros(4), torch.ones(4)]",
        "self.inner.kept[0].add_(x[0])\nself.inner.kept[1] = self.inner.kept[1] * x[1]\n"
        "return x + self.inner.kept[0] * self.inner.kept[1]",
        "torch.rand(3, 4)",
    ),
    "counter_in_a_buffer": model(
        "self.register_buffer('calls', torch.zeros((), dtype=torch.int64))",
        "self.calls += 1\nreturn x * self.calls",
        "torch.rand(30, 4)",
    ),
    "running_sum": model(
        "self.inner = nn.Module()\nself.inner.register_buffer('total', torch.zeros(4))",
        "self.inner.total.add_(x.sum(0))\nreturn x + self.inner.total",
        "torch.rand(30, 4)",
    ),
    "ring": model(
        "self.register_buffer('ring', torch.zeros(5, 4))\nself.register_buffer('at', torch.tensor(0))",
        "y = x + self.ring.sum(0)\nself.ring[1:] = self.ring[:-1].clone()\nself.ring[0] = x[0]\nreturn y",
        "torch.rand(30, 4)",
    ),
    "in_its_input": model("pass", "x.mul_(2)\nreturn x + 1", "torch.rand(30, 4)"),
    "in_a_part_of_its_input": model("pass", "x[:, 0] = 1.0\nreturn x.sum(1)", "torch.rand(30, 4)"),
    "counts_for_nobody": model(
        "self.n = nn.BatchNorm1d(4)\nself.calls = 0\nself.last = None\nself.seen = []\n"
        "self.register_buffer('norm', torch.zeros(()))",
        "self.calls += 1\nself.last = x * 2\nself.seen.append(x.shape)\nself.norm.copy_(x.norm())\nreturn self.n(x)",
        "torch.rand(30, 4)",
    ),
    "logarithm": model("pass", "return x.log()", "torch.rand(1100, 4)"),
    "unobserved_dropout": model(
        "self.d = nn.Dropout(0.3)", "return self.d(x.clamp(max=0.0).clamp(0.0, 1.0))", "torch.randn(1100, 4)"
    ),
    "mixed_modes": model(
        "self.a, self.b, self.d = nn.BatchNorm1d(4), nn.BatchNorm1d(4).eval(), nn.Dropout(0.0)",
        "return self.d(self.a(x) + self.b(x))",
        "torch.randn(1100, 4)",
    ),
    "idle_modes": model(
        "self.d, self.r = nn.Dropout(0.0), nn.LSTM(4, 4, batch_first=True)\n"
        "self.e = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)",
        "return self.d(self.e(self.r(x)[0])) if self.training else self.d(self.e(self.r(x)[0]))",
        "torch.randn(20, 55, 4)",
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
    "too_large_to_record": (
        model("pass", "return x.sum()", "torch.randn(1 << 25) ** 2"),
        "no distribution that a task can have",
    ),
    "by_keyword": (
        model("pass", "return x * y", "torch.rand(30, 4), torch.rand(4)", "x, *, y"),
        "forward takes y by keyword alone",
    ),
    "too_few_inputs": (model("pass", "return x * y", "torch.rand(30, 4)", "x, y"), "'y'"),
    "complex": (
        model("pass", "return x.abs()", "torch.randn(30, dtype=torch.complex64)"),
        "is complex64; a task's tensors are float32,",
    ),
    "eighths": (
        model("pass", "return x.float() * 2", "torch.rand(30).to(torch.float8_e4m3fn)"),
        "is float8_e4m3fn; a task's tensors are",
    ),
    "as_an_object": (
        model("pass", "return Out(x * 2)", "torch.rand(30, 4)").replace(
            "\nclass Model", "\nclass Out:\n    def __init__(self, y):\n        self.y = y\n\nclass Model"
        ),
        "(as_an_object.py:14: `def forward(self, x):`); return tensors",
    ),
    "as_a_class_without_a_place": (
        model("pass", "Out = collections.namedtuple('Out', 'y')\nreturn make()(x)", "torch.rand(30, 4)").replace(
            "\nclass Model",
            "\ndef make():\n    class Out(typing.NamedTuple):\n        y: torch.Tensor\n    return Out\nimport typing, collections\nclass Model",
        ),
        "cannot be found by that name",
    ),
    "infinite": (
        model("pass", "return x * 2", "torch.full((4, 4), float('-inf')).triu(1)"),
        "give a mask as bool",
    ),
    "same_every_time": (
        model("pass", "return x * 2", "torch.linspace(0, 1, 1100)"),
        "its inputs have the same values in every call, and it has no weights",
    ),
    "wrong_code": (model("pass", "return x.no_such_method()", "torch.randn(1100, 4)"), "no_such_method"),
    "no_package": (f"import no_such_package_here\n{HEAD}", "no_such_package_here"),
    "no_model": (HEAD, "no_model.py defines no Model"),
    "imports_neighbour": ("from neighbour_of_it import f\n", "cannot import name 'f' from 'neighbour_of_it'"),
    "counts": (
        model("self.calls = 0", "self.calls += 1\nreturn x * self.calls", "torch.rand(30, 4)"),
        "forward changes self.calls (counts.py:11: `self.calls += 1`), which a task cannot keep",
    ),
    "counts_late": (
        model("self.calls = 0", "self.calls += 1\nreturn x if self.calls < 900 else x * 2", "torch.rand(30, 4)"),
        "forward changes self.calls (counts_late.py:11: `self.calls += 1`), which a task cannot keep",
    ),
    "begins_without": (
        model(
            "self.h = None",
            "if self.h is None:\n    self.h = torch.zeros(4)\nself.h = self.h + x[0]\nreturn x + self.h",
            "torch.rand(30, 4)",
        ),
        "forward changes self.h (begins_without.py:12: `self.h = torch.zeros(4)`), which a task cannot keep",
    ),
    "numbers_in_a_list": (
        model("self.n = [1.0, 2.0]", "self.n[0] += 1\nreturn x * torch.tensor(self.n).sum()", "torch.rand(30, 4)"),
        "forward changes self.n (numbers_in_a_list.py:11: `self.n[0] += 1`), which a task cannot keep",
    ),
    "tensors_in_a_dict": (
        model("self.kept = {'h': torch.zeros(4)}", "self.kept['h'] = self.kept['h'] + x[0]\nreturn x * self.kept['h']", "torch.rand(30, 4)"),
        "(tensors_in_a_dict.py:11: `self.kept['h'] = self.kept['h'] + x[0]`), which a task cannot keep",
    ),
    "cache_that_grows": (
        model(
            "self.cache = []",
            "self.cache.append(x)\nreturn torch.stack(self.cache).sum(0)",
            "torch.rand(30, 4)",
        ),
        "forward changes self.cache (cache_that_grows.py:11: `self.cache.append(x)`), which a task cannot keep",
    ),
    "grows": (
        model("self.h = torch.zeros(1, 4)", "self.h = torch.cat([self.h, x[:1]])\nreturn self.h.sum(0) + x", "torch.rand(30, 4)"),
        "self.h (grows.py:11: `self.h = torch.cat([self.h, x[:1]])`) is float32[1, 4] before a call and float32[2, 4] after it",
    ),
    "global_state": (
        model("pass", "KEPT.append(1)\nreturn x * len(KEPT)", "torch.rand(30, 4)").replace("\nclass Model", "\nKEPT = []\nclass Model"),
        "something that a recording cannot see",
    ),
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
            given = ["--json", "--jobs", "2", "--rules", CUDAL1]
            code = import_tasks.main([str(source), "--out", str(out), *given, *words])
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
        types = {"F32": torch.float32, "F16": torch.float16, "BOOL": torch.bool, "I64": torch.int64}
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

    def test_rounding_is_accepted_where_sums_are_made_by_other_kernels_and_shown(self) -> None:
        rounding = {line["name"]: line["rounding"] for line in self.report["imported"]}
        self.assertLess(rounding.pop("attention_fast_path"), 1.5e-5)
        self.assertEqual({k: v for k, v in rounding.items() if v}, {})

    def test_larger_differences_are_no_rounding(self) -> None:
        x = torch.linspace(-1, 1, 101)
        nothing = torch.where(x > 0, x, float("nan"))
        self.assertAlmostEqual(replay.rounding_between(x + 1e-5, x), 1e-5, delta=1e-7)
        for a, b in ((x + 2e-5, x), (x, x.double()), (x, x[1:]), (nothing, x), ((x * 9).long(), (x * 8).long())):
            self.assertIsNone(replay.rounding_between(a, b))
        self.assertIsNone(replay.rounding_between(x.half() * 1.01, x.half()))
        self.assertEqual(replay.rounding_between(nothing, nothing), 0)

    def test_refusals_give_the_reason(self) -> None:
        for name, (_, words) in BAD.items():
            with self.subTest(name):
                self.assertIn(words, self.refused.get(name, "(imported)"))
                self.assertFalse((self.root / "tasks" / f"{name}.json").exists())

    def test_refusals_name_the_line_of_the_users_source(self) -> None:
        """All that are not of what get_inputs gives, or of what the file lacks."""
        of_inputs = {"too_large_to_record", "complex", "eighths", "infinite"}
        of_files = {"no_package", "no_model", "same_every_time"}
        for name in BAD.keys() - of_inputs - of_files:
            with self.subTest(name):
                self.assertRegex(self.refused.get(name, "(imported)"), rf"\({name}\.py:\d+: `.+`\)")

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

    def test_the_modes_that_decide_what_is_computed_are_kept(self) -> None:
        def modes(name: str) -> dict:
            return self.task(name)["origin"]["modes"]

        self.assertEqual(modes("mixed_modes"), {"training": ["a", "d"], "evaluation": ["b"]})
        self.assertEqual(modes("idle_modes"), {"training": [], "evaluation": []})
        self.assertEqual(modes("linear_relu"), {"training": [], "evaluation": []})

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

    def test_distributions_are_read_off_what_was_called(self) -> None:
        even = {"distribution": "integer", "low": 0, "high": 2}
        signs = {"distribution": "signs"}
        self.assertEqual(self.draws("smooth_l1")[1], signs)
        self.assertEqual(
            self.draws("made_in_steps"),
            [
                signs,
                {"distribution": "uniform", "low": -1.0, "high": 1.0},
                {"distribution": "bernoulli", "probability": 0.75},
                {"distribution": "bernoulli", "probability": 0.2},
                even,
                {"distribution": "integer", "low": 1, "high": 4},
                {"distribution": "uniform", "low": -1.0, "high": 0.0},
            ],
        )
        recorded = ["content" in i for i in self.task("made_in_steps")["inputs"]]
        self.assertEqual(recorded, [False] * 5 + [True, False], "1 and 3, and never 2, are no distribution of a task")

    def test_a_random_scale_is_part_of_the_distribution(self) -> None:
        factor = {"low": 0.0, "high": 1.0}
        uniform = {"distribution": "uniform", "low": 0.0, "high": 1.0}
        self.assertEqual(
            self.draws("random_scale"),
            [
                {"distribution": "simplex", "of": {**uniform, "factor": factor}},
                {"distribution": "normal", "mean": 0.0, "std": 1.0, "factor": factor},
                {"distribution": "simplex", "of": uniform},
            ],
        )

    def test_what_is_of_no_known_distribution_is_recorded(self) -> None:
        notes = {line["name"]: line["notes"] for line in self.report["imported"]}
        self.assertEqual(notes["odd_values"], ["x is recorded: 8 draws", "y is recorded: 8 draws"])
        self.assertEqual(notes["smooth_l1"], [])
        first = self.task("odd_values")["inputs"][0]
        content = first["content"]
        self.assertEqual((content["tensor"], content["draws"], "fixed" in content), ("x", 8, False))
        self.assertEqual((first["draw"]["distribution"], first["draw"]["min"] >= 0), ("normal", True))
        kept = self.content(content["file"])
        torch.manual_seed(42)
        self.assertTrue(torch.equal(kept["x.0"], torch.randn(1100, 4) ** 2))
        self.assertEqual(set(kept), {f"{name}.{i}" for name in "xy" for i in range(8)})
        permutation = self.task("permuted")["inputs"][1]["content"]
        self.assertTrue(permutation["fixed"], "an index is never drawn in another way")
        for i in range(8):
            order = self.content(permutation["file"])[f"p.{i}"]
            self.assertTrue(torch.equal(order.sort().values, torch.arange(100)))

    def test_values_that_were_written_into_are_not_what_made_them(self) -> None:
        self.assertIn("content", self.task("written_into")["inputs"][0])

    def test_rows_with_a_single_one_are_found(self) -> None:
        x = self.task("one_hot")["inputs"][0]
        self.assertEqual((x["draw"]["distribution"], x["facts"]), ("integer", ["one_hot"]))

    def test_half_types_are_inputs(self) -> None:
        task = self.task("half_types")
        self.assertEqual([i["dtype"] for i in task["inputs"]], ["float16", "bfloat16", "bfloat16"])
        self.assertEqual(task["inputs"][2]["draw"], {"distribution": "normal", "mean": 1.0, "std": 0.5})
        self.assertEqual(task["weights"][0]["dtype"], "float16")

    def test_normal_values_of_half_types_are_recognized_although_they_are_coarse(self) -> None:
        x, y, z = self.task("many_half_values")["inputs"]
        for one in (x, y):
            self.assertEqual(one["draw"], {"distribution": "normal", "mean": 0.0, "std": 1.0})
            self.assertNotIn("content", one)
        self.assertIn("content", z, "a product of two is not normal")

    def test_what_forward_returns_keeps_its_containers(self) -> None:
        self.assertEqual(
            self.task("as_dict")["returns"],
            {"dict": [["twice", 0], ["more", {"list": [1, {"tuple": [2, None]}]}]]},
        )
        self.assertEqual(self.task("as_list")["returns"], {"list": [0]})
        self.assertEqual(self.task("many_outputs")["returns"], {"tuple": [0, {"tuple": [1, 2]}, 3]})
        self.assertEqual(
            self.task("as_dataclass")["returns"],
            {"object": ["Out", ["y", 0], ["more", {"object": ["Both", ["a", None], ["b", 1]]}]]},
        )
        self.assertNotIn("returns", self.task("aliases"))
        self.assertNotIn("returns", self.task("as_torch_returns_it"), "a tuple of two")
        self.assertEqual(self.draws("made_for_inference"), [{"distribution": "normal", "mean": 0.0, "std": 2.0}])

    def state(self, name: str) -> list[tuple]:
        task = self.task(name)
        places = {output: i for i, output in enumerate(task["outputs"])}
        return [(s["name"], s["kind"], s["input"], places[s["output"]]) for s in task["states"]]

    def test_what_forward_changes_is_an_input_and_an_output(self) -> None:
        self.assertEqual(self.state("rnn"), [("hidden", "assigned", "hidden", 1)])
        self.assertEqual(self.task("rnn")["returns"], 0)
        self.assertEqual(self.state("counter_in_a_buffer"), [("calls", "in_place", "calls", 1)])
        self.assertEqual(
            self.state("state_in_a_tuple"),
            [("hidden.0", "assigned", "hidden_0", 1), ("hidden.1", "assigned", "hidden_1", 2)],
        )
        self.assertEqual(
            self.state("state_in_a_list"),
            [("inner.kept.0", "in_place", "inner_kept_0", 1), ("inner.kept.1", "assigned", "inner_kept_1", 2)],
        )
        self.assertEqual(self.state("running_sum"), [("inner.total", "in_place", "inner_total", 1)])
        self.assertEqual(self.state("ring"), [("ring", "in_place", "ring", 1)])
        self.assertEqual(self.state("part_of_an_attribute"), [("kept", "in_place", "kept", 1)])
        self.assertEqual(self.state("in_its_input"), [("x", "argument", "x", 1)])
        self.assertEqual(self.state("in_a_part_of_its_input"), [("x", "argument", "x", 1)])
        self.assertEqual(
            self.state("pair"), [("c", "assigned", "c", 1), ("h", "assigned", "h", 0)], "h is what forward returns"
        )

    def test_states_are_drawn_from_recorded_calls(self) -> None:
        hidden = self.task("rnn")["inputs"][1]
        self.assertEqual((hidden["content"]["tensor"], hidden["content"]["draws"]), ("hidden", 6))
        kept = self.content(hidden["content"]["file"])
        module = {"__name__": "rnn"}
        exec(GOOD["rnn"], module)
        torch.manual_seed(42)
        model = module["Model"]()
        torch.manual_seed(42)
        (x,) = module["get_inputs"]()
        with torch.no_grad():
            for i in range(6):
                self.assertTrue(torch.equal(kept[f"hidden.{i}"], model.hidden), i)
                model(x)
        calls = self.task("counter_in_a_buffer")["inputs"][1]
        self.assertEqual(calls["draw"], {"distribution": "integer", "low": 0, "high": 6}, "as far as it was seen to go")

    def test_what_no_later_result_reads_is_not_kept_and_the_table_says_so(self) -> None:
        notes = {line["name"]: line["notes"] for line in self.report["imported"]}
        self.assertNotIn("states", self.task("counts_for_nobody"))
        self.assertEqual(
            notes["counts_for_nobody"],
            [
                "running statistics are not kept, since no output reads them (3 buffers)",
                "not kept, since no output reads them: norm, calls, last, seen",
            ],
        )
        self.assertEqual(notes["rnn_that_is_given_its_start"], ["not kept, since no output reads them: hidden"])
        self.assertEqual(notes["rnn"], ["hidden is kept from call to call"])

    def test_problems_that_download_their_weights_are_refused(self) -> None:
        folder = self.root / "level4"
        folder.mkdir()
        (folder / "1_bert.py").write_text("raise SystemExit('this must not run')\n")
        _, report = self.run_import(folder, self.root / "lines")
        self.assertIn("level 4 downloads pretrained models", report["refused"][0]["reason"])

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

    def test_a_checkout_of_kernelbench_is_its_problems(self) -> None:
        checkout = self.root / "KernelBench"
        for level in ("level1", "level4"):
            (checkout / "KernelBench" / level).mkdir(parents=True)
            (checkout / "KernelBench" / level / f"3_Of_{level}_.py").write_text(GOOD["loss"])
        (checkout / "KernelBench" / "test.py").write_text("")  # as v0.1 has one
        (checkout / "scripts").mkdir()
        (checkout / "scripts" / "2_eval.py").write_text("")
        for folder in (checkout, checkout / "KernelBench"):
            found = find_problems([str(folder)])
            self.assertEqual([(p.name, p.level) for p in found], [("level1_003_Of_level1", 1), ("level4_003_Of_level4", 4)])

    def test_what_steps_produce_is_recorded_as_quantiles(self) -> None:
        task = self.task("linear_relu")
        values = task["origin"]["values"]
        made = {s["aten"]: s["out"][0] for s in task["steps"]}
        relu, linear = values[made["aten::relu"]], values[made["aten::linear"]]
        self.assertEqual(len(relu), 33)
        self.assertEqual(relu, sorted(relu))
        self.assertEqual(relu[0], 0)
        self.assertLess(linear[0], 0)
        self.assertEqual(relu[-1], linear[-1])
        task = self.task("aliases")
        made = {s["aten"]: s["out"][0] for s in task["steps"]}
        self.assertIn(made["aten::maximum"], task["origin"]["values"])
        self.assertNotIn(made["aten::sigmoid"], task["origin"]["values"], "it is 0.5 everywhere")
        self.assertNotIn(made["aten::transpose.int"], task["origin"]["values"], "a view")
        self.assertNotIn(made["aten::gt.Scalar"], task["origin"]["values"], "of flags")

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
        records = [r for r in json.loads(operators.text_of(CUDAL1))["operators"] if r["name"] in few]
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
