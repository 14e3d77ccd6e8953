"""What models of torchvision, timm and transformers do and KernelBench's do not: layouts that our rules refuse (the
importer asks cudal1, and copies), parts without elements, caches, regions of autocast.

The first argument is the path of cudal1."""

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

CUDAL1 = sys.argv.pop(1)

MODEL = """import torch
import torch.nn.functional as F
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}
        self.eval()
    def forward(self, {inputs}):
        {body}
def get_inputs():
    return [{given}]
def get_init_inputs():
    return []
"""


CONV = "self.conv = torch.nn.Conv2d(4, 4, 3, padding=1)"


def model(body: str, inputs: str = "x", given: str = "torch.rand(2, 4, 6, 6)", init: str = CONV) -> str:
    return MODEL.format(body=body, inputs=inputs, given=given, init=init)


HEADS = "torch.rand(2, 5, 3, 8).transpose(1, 2)"

MODELS = {
    "channels_last": model("return torch.relu(self.conv(x.permute(0, 3, 1, 2)))", given="torch.rand(2, 6, 6, 4)"),
    "wish_for_channels_last": model(
        "y = self.conv(x.to(memory_format=torch.channels_last))\n"
        "        return y.permute(0, 2, 3, 1).view(2, 6, 24).sum(1)"
    ),
    "batch_second": model(
        "return self.layer(x.transpose(0, 1)) + self.layer(x[:, :1]).transpose(0, 1) + x.transpose(0, 1) @ self.table",
        given="torch.rand(2, 5, 6)",
        init="self.layer = torch.nn.Linear(6, 6)\n        self.register_buffer('table', torch.rand(6, 6))",
    ),
    "expanded_mask": model(
        "return F.scaled_dot_product_attention(q, q, q, attn_mask=(m > 0.5).expand(2, 1, 5, 5))",
        "q, m",
        f"{HEADS}, torch.rand(5, 5)",
    ),
    "first_part_is_empty": model("return torch.cat([x.new_zeros(0), x * 2], dim=0)"),
    "rest_is_empty": model("return torch.cat([torch.sin(x[..., :6]), x[..., 6:]], dim=-1)"),
    "padding_by_nothing": model("return F.pad(x, (0, 0, 0, 0)) * 2"),
    "one_head_of_keys": model(
        "return F.scaled_dot_product_attention(q, k, k, attn_mask=m)",
        "q, k, m",
        "torch.rand(2, 3, 5, 8), torch.rand(2, 1, 5, 8), torch.rand(3, 5, 5)",
    ),
    "dropout_in_place": model("return self.drop(x * 2)", init="self.drop = torch.nn.Dropout(0.2, inplace=True)"),
    "weight_norm": model(
        "return self.conv(x)", init=CONV.replace("torch.nn", "torch.nn.utils.parametrizations.weight_norm(torch.nn") + ")"
    ),
    "autocast_off": model("with torch.autocast('cpu', enabled=False):\n            return x.float() * 2"),
    "autocast_on": model(
        "with torch.autocast('cpu', torch.bfloat16):\n            return self.layer(x)", init="self.layer = torch.nn.Linear(6, 5)"
    ),
    "cached_bias": model(
        "if 'cpu' not in self.cache:\n"
        "            self.cache['cpu'] = self.bias[:, self.places]\n"
        "        return x + self.cache['cpu']",
        init="self.cache = {}\n"
        "        self.bias = torch.nn.Parameter(torch.rand(4, 3))\n"
        "        self.register_buffer('places', torch.randint(0, 3, (6, 6)))",
    ),
    "cached_input": model(
        "if not self.cache:\n            self.cache['x'] = x\n        return x + self.cache['x']",
        init="self.cache = {}",
    ),
    "mask_put": model("y = x * 2\n        y[x > 0.5] = 0\n        return y"),
    "floats_of_integers": model("return x * torch.sin(p)", "x, p", "torch.rand(6), torch.randint(0, 9, (6,))"),
    "weighted_probabilities": model(
        "return F.cross_entropy(x, torch.softmax(t, 1), weight=self.weight)",
        "x, t",
        "torch.rand(5, 4), torch.rand(5, 4)",
        "self.register_buffer('weight', torch.rand(4))",
    ),
    "masked_transformer": model(
        "return self.whole(x, x, tgt_mask=self.mask, src_mask=m)",
        "x, m",
        "torch.rand(2, 5, 8), torch.randn(5, 5)",
        "self.whole = torch.nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)\n"
        "        self.register_buffer('mask', torch.nn.Transformer.generate_square_subsequent_mask(5))",
    ),
    "mixture_of_experts": "import torch\n@torch.library.custom_op('transformers::grouped_mm_fallback', mutates_args=())\n"
    "def experts(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n"
    "experts.register_fake(torch.empty_like)\n" + model("return experts(x)"),
    "no_rule_for_it": model("y = x * 2\n        return torch.relu(y[:, :0].sum(1))"),
}


class Idioms(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = pathlib.Path(cls.folder.name)
        for name, text in MODELS.items():
            (cls.root / f"{name}.py").write_text(text)
        words = [str(cls.root), "--out", str(cls.root / "tasks"), "--json", "--jobs", "2"]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            import_tasks.main([*words, "--rules", CUDAL1])
        report = json.loads(said.getvalue())
        cls.imported = {line["name"]: line for line in report["imported"]}
        cls.refused = {line["name"]: line["reason"] for line in report["refused"]}

    def steps(self, name: str) -> list[dict]:
        self.assertNotIn(name, self.refused)
        self.assertTrue(self.imported[name]["verified"])
        return json.loads((self.root / "tasks" / f"{name}.json").read_text())["steps"]

    def names(self, name: str) -> list[str]:
        return [s["aten"] for s in self.steps(name)]

    def test_every_task_is_one_by_our_rules(self) -> None:
        """As the importer in C++ checks them."""
        words = [CUDAL1, "tasks", "--tasks", str(self.root / "tasks")]
        checked = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_channels_last_operands_stay_as_they_are(self) -> None:
        self.assertEqual(self.names("channels_last"), ["aten::permute", "aten::conv2d", "aten::relu"])

    def test_a_batch_that_is_no_matrix_is_copied_before_a_product_with_a_parameter(self) -> None:
        """Since PyTorch does for parameters, which require gradients. A slice is still a matrix, and a buffer requires
        none."""
        steps = self.steps("batch_second")
        copied = [s for s in steps if s["aten"] == "aten::clone"]
        self.assertEqual(len(copied), 1)
        layers = [s["args"]["input"] for s in steps if s["aten"] == "aten::linear"]
        self.assertEqual([name in copied[0]["out"] for name in layers], [True, False])
        self.assertEqual(copied[0]["args"]["memory_format"], "contiguous_format")

    def test_a_wish_for_a_layout_is_dropped(self) -> None:
        """A view of the result may then be none."""
        names = self.names("wish_for_channels_last")
        self.assertEqual(names, ["aten::conv2d", "aten::permute", "aten::reshape", "aten::sum.dim_IntList"])

    def test_a_put_through_a_mask_is_a_choice(self) -> None:
        self.assertIn("aten::where.self", self.names("mask_put"))

    def test_integers_of_which_floats_are_made_are_converted_first(self) -> None:
        """In float64 the step has a float64 result then."""
        self.assertEqual(self.names("floats_of_integers"), ["aten::to.dtype", "aten::sin", "aten::mul.Tensor"])

    def test_what_the_rules_refuse_is_computed_by_parts(self) -> None:
        self.assertIn("aten::_log_softmax", self.names("weighted_probabilities"))
        notes = self.imported["weighted_probabilities"]["notes"]
        self.assertIn("computed by parts, since the rules refuse the whole: aten::cross_entropy_loss", notes)

    def test_a_transformer_applies_the_masks_that_it_is_given(self) -> None:
        """It branches on whether a mask is causal, in a call; a task has no branches."""
        names = self.names("masked_transformer")
        self.assertEqual(names.count("aten::scaled_dot_product_attention"), 3)

    def test_only_the_operand_that_is_in_the_way_is_copied(self) -> None:
        copied = [s["args"]["self"] for s in self.steps("expanded_mask") if s["aten"] == "aten::clone"]
        self.assertEqual(len(copied), 1)
        self.assertNotEqual(copied, ["q"])

    def test_parts_without_elements_are_not_joined(self) -> None:
        self.assertNotIn("aten::cat", self.names("first_part_is_empty"))
        self.assertEqual(self.names("rest_is_empty"), ["aten::sin"])

    def test_padding_by_nothing_is_nothing(self) -> None:
        self.assertEqual(self.names("padding_by_nothing"), ["aten::mul.Scalar"])

    def test_heads_and_masks_that_several_queries_share_are_repeated(self) -> None:
        names = self.names("one_head_of_keys")
        self.assertEqual(names.count("aten::expand"), 2)
        self.assertEqual(names.count("aten::view"), 1)

    def test_dropout_in_place_does_nothing_in_evaluation_mode(self) -> None:
        self.assertEqual(self.names("dropout_in_place"), ["aten::mul.Scalar"])

    def test_operators_outside_the_core_set_are_decomposed(self) -> None:
        names = self.names("weight_norm")
        self.assertIn("aten::conv2d", names)
        self.assertNotIn("aten::_weight_norm_interface", names)

    def test_a_region_of_autocast_has_its_casts(self) -> None:
        self.assertEqual(self.names("autocast_off"), ["aten::mul.Scalar"])
        casts = [s["args"] for s in self.steps("autocast_on") if s["aten"] == "aten::to.dtype"]
        self.assertEqual([c["dtype"] for c in casts], ["bfloat16"] * 3)

    def test_a_cache_of_what_depends_on_no_input_is_not_kept(self) -> None:
        self.assertIn("aten::add.Tensor", self.names("cached_bias"))
        self.assertIn("not kept, since no output reads them: cache", self.imported["cached_bias"]["notes"])
        self.assertRegex(self.refused["cached_input"], r"^forward changes self\.cache")

    def test_a_librarys_own_operator_is_refused_with_the_setting_that_avoids_it(self) -> None:
        self.assertRegex(
            self.refused["mixture_of_experts"],
            r'^it calls transformers::grouped_mm_fallback \(mixture_of_experts.py:14: `return experts\(x\)`\).*"batched_mm"',
        )

    def test_a_refusal_names_the_users_line(self) -> None:
        self.assertRegex(self.refused["no_rule_for_it"], r"\(no_rule_for_it.py:10: `return torch.relu\(y\[:, :0\].sum\(1\)\)`\): ")


if __name__ == "__main__":
    unittest.main()
