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


# As libraries have them: made otherwise than Python's, or unchangeable.
CONTAINERS = """class Frozen(dict):
    class Scales(list):
        pass
    def update(self, *_):
        raise RuntimeError("frozen")
class Kind(tuple):
    def __new__(cls, n):
        return tuple.__new__(cls, (int(n), 1))
    def __len__(self):
        raise NotImplementedError
"""

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
    "others_containers": model(
        "return x * self.rank",
        init="self.config = Frozen(width=4)\n        self.kind = Kind(4)\n        self.rank = self.kind[0]",
    ).replace("class Model", CONTAINERS + "class Model"),
    "mask_of_ones": model(
        "m = torch.ones(4, dtype=torch.uint8)\n"
        "        m[self.count :] = 0\n"
        "        n = int(m.sum())\n"
        "        return torch.where(m[None, :, None, None], x[:, :n].sum(), x) if m.any() and not m.all() else x",
        init="self.register_buffer('count', torch.tensor(3))",
    ),
    "branch_on_what_changes": model(
        "self.calls += 1\n        return x * 2 if self.calls > 3 else x * 3", init="self.register_buffer('calls', torch.zeros(()))"
    ),
    "branch_on_random_buffer": model(
        "return x * 2 if self.gate > 0.5 else x * 3", init="self.register_buffer('gate', torch.rand(()))"
    ),
    "flag_of_first_call": model(
        "if not self.ready:\n"
        "            self.scale.append(2.0)\n"
        "            self.ready = True\n"
        "        return x * self.scale[0]",
        init="self.ready = False\n        self.scale = Frozen.Scales()",
    ).replace("class Model", CONTAINERS + "class Model"),
    "module_in_its_place": model("return self.conv.to(x.device)(x)"),
    "rows_written_in_a_loop": model(
        "out = torch.empty(5, 3, 6)\n"
        "        out[0] = x[:, 0]\n"
        "        for t in range(1, 5):\n"
        "            out[t] = torch.tanh(out[t - 1] + x[:, t])\n"
        "            out[t, 1:, :2] = 0.5\n"
        "        return out",
        given="torch.randn(3, 5, 6)",
    ),
    "part_not_written": model("out = torch.empty(2, 6)\n        out[0] = x\n        return out", given="torch.randn(6)"),
    "rows_of_experts": model(
        "p, i = self.gate(x).softmax(-1).max(-1)\n"
        "        y, z = torch.zeros_like(x), torch.zeros_like(x)\n"
        "        for e in range(2):\n"
        "            m = i == e\n"
        "            y[m] = self.layer(x[m]) * p[m, None] + e\n"
        "            r = torch.where(i == e)[0]\n"
        "            z.index_add_(0, r, F.gelu(x[r]) * p[r, None])\n"
        "        z[x > 0] += torch.log(x[x > 0])\n"
        "        z[~(x > 0)] *= 2\n"
        "        return y, z",
        given="torch.randn(7, 4)",
        init="self.gate, self.layer = torch.nn.Linear(4, 2), torch.nn.Linear(4, 4)",
    ),
    "rows_together": model("y = x.clone()\n        m = x[:, 0] > 0\n        y[m] = x[m] - x[m].mean(0)\n        return y", given="torch.randn(7, 4)"),
    "rows_counted": model(
        "y = x.clone()\n"
        "        m = x[:, 0] > 0\n"
        "        if x[m].shape[0] == 0:\n"
        "            return y\n"
        "        y[m] = x[m] / x[m].size(0)\n"
        "        return y",
        given="torch.randn(7, 4)",
    ),
    "rows_returned": model("return x[x[:, 0] > 0] * 2", given="torch.randn(7, 4)"),
    "transforms": model(
        "f = torch.fft.fft(x, n=700)\n"
        "        g = torch.zeros(2, 351, dtype=torch.cfloat)\n"
        "        g[:, :50] = f[:, :50] * (0.5 + 2j) / (f[:, 50:100] + 3)\n"
        "        s = torch.stft(x, 32, 8, window=self.window, return_complex=True)\n"
        "        h = torch.fft.fft2(y, norm='ortho')\n"
        "        return (torch.fft.irfft(g, n=700), torch.istft(s, 32, 8, window=self.window), s.abs(), h.real + h.imag,\n"
        "                torch.fft.irfft(torch.fft.rfft(y, n=9), n=9), torch.fft.ifft(1j * x[:, :30]).imag)",
        "x, y",
        "torch.randn(2, 640), torch.randn(6, 10)",
        "self.register_buffer('window', torch.hann_window(32))",
    ),
    "complex_numbers_of_more_bits": model(
        "z = torch.view_as_complex(x).to(torch.complex128)\n        return torch.view_as_real(z * z)",
        given="torch.randn(4, 8, 2)",
    ),
    "bags": model(
        "return self.mean(i), self.mean(i[0], o), self.sum(i, per_sample_weights=w)",
        "i, o, w",
        "torch.randint(0, 20, (6, 4)), torch.tensor([0, 1, 1, 3]), torch.rand(6, 4)",
        "self.mean = torch.nn.EmbeddingBag(20, 8, mode='mean')\n        self.sum = torch.nn.EmbeddingBag(20, 8, mode='sum')",
    ),
    "places_in_rows": model(
        "c = torch.cumsum(x, -1)\n        return torch.searchsorted(c, y, right=True), torch.searchsorted(c[0], y[0])",
        "x, y",
        "torch.rand(3, 8), torch.rand(3, 5)",
    ),
    "rounded_as_quantised": model(
        "w = torch.fake_quantize_per_channel_affine(self.w, self.scale, self.zero, 0, -128, 127)\n"
        "        return F.linear(torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127), w)",
        given="torch.randn(4, 16) * 9",
        init="self.w = torch.nn.Parameter(torch.randn(8, 16))\n"
        "        self.register_buffer('scale', torch.full((8,), 0.02))\n"
        "        self.register_buffer('zero', torch.zeros(8, dtype=torch.int32))",
    ),
    "windows_in_memory": model(
        "return x.as_strided((3, 3, 5), (16, 4, 1)) * 2, x.as_strided((4, 6), (5, 3), 2).cos()", given="torch.randn(3, 16)"
    ),
    "mask_that_is_expanded": model(
        "return x.masked_fill(m, 0)", "x, m", "torch.randn(4, 6), (torch.rand(1, 6) > 0.5).expand(4, 6)"
    ),
    "made_otherwise_again": model(
        "return x * self.scale", init="self.scale = torch.nn.Parameter(torch.full((6,), __import__('time').perf_counter()))"
    ),
    "numbers_returned": model("return x * 2, x.sum().item()"),
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

    def test_containers_of_libraries_are_left_alone(self) -> None:
        self.assertEqual(self.names("others_containers"), ["aten::mul.Scalar"])

    def test_a_branch_on_what_no_input_decides_is_recorded(self) -> None:
        self.assertIn("aten::where.self", self.names("mask_of_ones"))

    def test_a_branch_on_what_changes_or_is_drawn_is_refused(self) -> None:
        self.assertRegex(self.refused["branch_on_what_changes"], r"depend on self.calls \(\w+.py:9: `self.calls \+= 1`\), which forward")
        self.assertRegex(self.refused["branch_on_random_buffer"], r"depend on the values of self.gate .*, which are random")

    def test_a_flag_that_the_first_call_sets_is_not_kept(self) -> None:
        self.assertEqual(self.names("flag_of_first_call"), ["aten::mul.Scalar"])

    def test_a_module_that_is_moved_to_where_it_is_stays(self) -> None:
        self.assertEqual(self.names("module_in_its_place"), ["aten::conv2d"])

    def test_rows_that_a_loop_writes_are_joined_once(self) -> None:
        names = self.names("rows_written_in_a_loop")
        self.assertEqual(names.count("aten::tanh"), 4)
        self.assertFalse([name for name in names if "empty" in name or "scatter" in name])
        whole = [s for s in self.steps("rows_written_in_a_loop") if s["aten"] == "aten::cat" and len(s["args"]["tensors"]) == 5]
        self.assertEqual(len(whole), 1)
        self.assertRegex(self.refused["part_not_written"], r"uninitialised memory")

    def test_rows_that_a_mask_chooses_are_computed_all_and_put_there(self) -> None:
        names = self.names("rows_of_experts")
        self.assertNotIn("aten::index_put", names)
        self.assertRegex(" ".join(self.imported["rows_of_experts"]["notes"]), "rows that a mask chooses are all computed")
        self.assertIn("aten::where.self", names)
        self.assertRegex(self.refused["rows_together"], r"11: .*mean does not compute each by itself")
        self.assertRegex(self.refused["rows_counted"], r"13: .*computes with the number of rows")
        self.assertRegex(self.refused["rows_returned"], r"9: `return x\[x.*and forward returns them")

    def test_transforms_are_products_with_tables(self) -> None:
        names = self.names("transforms")
        self.assertIn("aten::matmul", names)
        self.assertLess(self.imported["transforms"]["rounding"], 2e-6)
        self.assertRegex(" ".join(self.imported["transforms"]["notes"]), "transforms of 6, 9, 10, 30, 32, 700 elements are products")

    def test_what_pytorch_takes_apart_by_values_is_taken_apart_otherwise(self) -> None:
        self.assertIn("aten::index_add", self.names("bags"))
        self.assertIn("aten::lt.Tensor", self.names("places_in_rows"))
        self.assertIn("aten::round", self.names("rounded_as_quantised"))
        self.assertIn("aten::unfold", self.names("windows_in_memory"))

    def test_an_input_whose_elements_share_memory_is_copied(self) -> None:
        self.steps("mask_that_is_expanded")
        inputs = json.loads((self.root / "tasks" / "mask_that_is_expanded.json").read_text())["inputs"]
        self.assertNotIn("strides", inputs[1])

    def test_a_weight_that_no_seed_decides_is_named(self) -> None:
        self.assertRegex(self.refused["made_otherwise_again"], r"^self.scale has other values when the model is made again")

    def test_numbers_that_depend_on_values_are_no_results(self) -> None:
        self.assertRegex(self.refused["numbers_returned"], r"returns Python numbers that depend on values .*return the tensor")

    def test_a_librarys_own_operator_is_refused_with_the_setting_that_avoids_it(self) -> None:
        self.assertRegex(
            self.refused["mixture_of_experts"],
            r'^it calls transformers::grouped_mm_fallback \(mixture_of_experts.py:14: `return experts\(x\)`\).*"batched_mm"',
        )

    def test_a_refusal_names_the_users_line(self) -> None:
        self.assertRegex(self.refused["no_rule_for_it"], r"\(no_rule_for_it.py:10: `return torch.relu\(y\[:, :0\].sum\(1\)\)`\): ")


if __name__ == "__main__":
    unittest.main()
