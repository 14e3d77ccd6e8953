"""Modules as people write them (user_modules/): each is imported and gives what the model gives, or is refused with a
sentence that names its line. The first argument is the path of cudal1."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "python"))

import import_tasks  # noqa: E402

CUDAL1 = sys.argv.pop(1)
HERE = pathlib.Path(__file__).resolve().parent / "user_modules"


@dataclasses.dataclass
class Case:
    target: str
    inputs: str = ""  # those beside it
    steps: tuple[str, ...] = ()  # some that the task has
    without: tuple[str, ...] = ()  # some that it has not
    names: tuple[str, ...] = ()  # all of its inputs
    notes: tuple[str, ...] = ()
    returns: object = None
    rounding: bool = False  # sums are made in another order than the model's
    tasks: int = 1


def out(name: str, *items: list) -> dict:
    return {"object": [name, *items]}


IMPORTED = [
    Case("llama.py:RMSNorm", "activations", ("aten::to.dtype", "aten::rsqrt")),
    Case("llama.py:half_norm", "half_activations", ("aten::rsqrt",)),
    Case("llama.py:half_feed_forward", "activations", ("aten::silu",)),
    Case(
        "llama.py:block", "prompt", ("aten::stack", "aten::softmax.int"), names=("x", "attention_cache_k", "attention_cache_v"),
        notes=("attention.cache_k is kept from call to call",), rounding=True,
    ),
    Case("llama.py:block", "next_token", ("aten::stack",), without=("aten::triu",), rounding=True),
    Case("transformer.py:GEGLU", "", ("aten::gelu",)),
    Case(
        "transformer.py:MoE", "tokens", ("aten::topk", "aten::bmm"),
        returns=out("RouterOutput", ["output", 0], ["logits", 1], ["load", 2]),
    ),
    Case("transformer.py:cross_attention", "cross_inputs", ("aten::masked_fill.Scalar",), names=("query", "context", "mask")),
    Case(
        "transformer.py:cross_attention", "cross_inputs_with_weights", without=("aten::masked_fill.Scalar", "aten::dropout"),
        returns={"tuple": [0, 1]},
    ),
    Case(
        "transformer.py:LanguageModel", "text", ("aten::embedding",), names=("ids", "labels"), rounding=True, tasks=2,
        returns={"dict": [["loss", 0], ["logits", 1]]},
    ),
    Case(
        "transformer.py:LanguageModel", "prompts", names=("ids",), rounding=True,
        returns={"dict": [["loss", None], ["logits", 0]]},
    ),
    Case(
        "transformer.py:Decoder", "step", ("aten::cat",), names=("x", "past_key_values_0", "past_key_values_1"),
        returns={"tuple": [0, {"tuple": [1, 2]}]},
    ),
    Case("transformer.py:Decoder", "step_without_cache", without=("aten::cat",), returns={"tuple": [0, None]}),
    Case("transformer.py:Windowed", "", ("aten::roll", "aten::index.Tensor")),
    Case("vision.py:training", "images", ("aten::batch_norm",), notes=("running statistics are not kept",)),
    Case("vision.py:evaluating", "images", ("aten::_native_batch_norm_legit_no_training",)),
    # PyTorch may convolve channels-last images by another algorithm than the copied ones.
    Case("vision.py:evaluating", "channels_last_images", rounding=True),
    Case(
        "vision.py:Classifier", "labelled", ("aten::cross_entropy_loss",), names=("pixel_values", "labels"),
        returns=out("ClassifierOutput", ["logits", 0], ["loss", 1], ["hidden_states", None]),
    ),
    Case(
        "vision.py:Classifier", "with_states",
        returns=out("ClassifierOutput", ["logits", 0], ["loss", None], ["hidden_states", {"tuple": [1, 2, 3]}]),
    ),
    Case("vision.py:Classifier", "as_tuple", returns={"tuple": [0, None]}),
    Case("vision.py:Residual", "batch", ("aten::group_norm",), names=("batch_0", "batch_1"),
         returns={"dict": [["x", 0], ["emb", 1]]}),
    Case("vision.py:Mixed", "rows", ("aten::to.dtype", "aten::linear"), notes=('it casts as torch.autocast("cpu") does',)),
    Case("vision.py:MixedByDecorator", "rows", ("aten::to.dtype", "aten::bmm")),
    Case("vision.py:MixedProductsOnGpu", "rows", ("aten::to.dtype",)),
    Case("vision.py:Causal", "", ("aten::conv1d",), rounding=True),
    Case("others.py:Tagger", "sentences", ("aten::lstm.input",), returns={"tuple": [0, {"tuple": [1, 2]}]}),
    Case("others.py:Tagger", "sentences_and_state", names=("ids", "hidden_0", "hidden_1")),
    Case("others.py:Int8Linear", "features", ("aten::to.dtype", "aten::mul.Tensor")),
    Case("others.py:Int4Linear", "features",
         ("aten::bitwise_and.Scalar", "aten::bitwise_right_shift.Tensor_Scalar", "aten::stack")),
    Case("others.py:Nibbles", "codes_and_amount",
         ("aten::bitwise_left_shift.Tensor_Scalar", "aten::bitwise_right_shift.Tensor",
          "aten::bitwise_left_shift.Scalar_Tensor", "aten::bitwise_not"),
         names=("codes", "amount"), returns={"tuple": [0, 1, 2, 3, 4]}),
    Case("others.py:SampledLoss", "hidden_and_targets", ("aten::cross_entropy_loss",)),
    Case("others.py:masked_softmax", "scores_and_mask", notes=("mask is given by its values",)),
    Case("others.py:Bilinear", "pairs", ("aten::bmm",), names=("x", "y"),
         returns={"dict": [["joined", {"list": [0]}], ["grams", {"list": [1, 2]}]]}),
    Case("others.py:clip_loss", "image_and_text", names=("image_features", "text_features", "logit_scale")),
    Case("others.py:StateSpace", "", ("aten::softplus", "aten::stack")),
    Case("others.py:AutoEncoder", "with_options", without=("aten::mse_loss",), names=("x",), notes=("not kept, since no output",)),
    Case("others.py:AutoEncoder", "with_extra", ("aten::mse_loss",), names=("x", "extra_0", "extra_1")),
    Case("others.py:Bags", "bags", ("aten::embedding", "aten::index_add"), names=("words", "offsets")),
    Case("others.py:Spectrum", "", ("aten::matmul", "aten::sqrt"), rounding=True),
    Case("others.py:Beamform", "", ("aten::cos", "aten::sqrt"), returns={"tuple": [0, 1, 2]}, rounding=True),
]  # fmt: skip

# What names the line: a sentence with what to write instead.
REFUSED = {
    ("llama.py:FeedForward", "half_activations"): r"\(llama.py:118: `return .*`\): input is float16.* weight is float32",
    ("transformer.py:RandomDepth", "tokens"): r"\(transformer.py:190: `return x\[keep\]`\).*torch\.where",
    ("transformer.py:Sampler", "tokens"): r"aten::multinomial\) \(transformer.py:200: .*make the random tensor an input",
    ("transformer.py:Branching", "tokens"): r"\(transformer.py:205: `if x.norm\(\) > 1.0:`\).*torch\.where",
    ("transformer.py:Logged", "tokens"): r"depend on values \(transformer.py:213: `self.log = f.*torch\.where",
    ("others.py:ComplexOut", ""): r"complex numbers \(others.py:213: `def forward\(self, x\):`\); return torch.view_as_real",
    ("others.py:Cached", ""): r"past_key_values, an object of type Cache \(others.py:236: .*return tensors, .*use_cache=False",
    ("unsupported.py:WithScript", "matrix"): r"its module inner was made by torch.jit \(Linear\).*keep the Python module",
    ("unsupported.py:PerRow", "matrix"): r"it calls torch.vmap \(unsupported.py:23: .*torch.bmm",
    ("unsupported.py:Ragged", "matrix"): r"it makes a nested tensor \(unsupported.py:28: .*padded",
    ("unsupported.py:Twice", "ragged_rows"): r"input 0 of get_inputs is a nested tensor.*padded",
    ("unsupported.py:Twice", "jagged_rows"): r"input 0 of get_inputs is a nested tensor.*padded",
}


class Users(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.addClassCleanup(os.chdir, os.getcwd())
        cls.root = pathlib.Path(folder.name)
        os.chdir(HERE)

    def run_import(self, target: str, inputs: str) -> dict:
        words = [target, *(["--inputs", inputs] if inputs else []), "--out", str(self.root / "tasks"), "--json"]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            import_tasks.main([*words, "--rules", CUDAL1])
        return json.loads(said.getvalue())

    def task(self, line: dict) -> dict:
        return json.loads((self.root / "tasks" / line["file"]).read_text())

    def test_modules_are_imported_and_give_what_the_model_gives(self) -> None:
        for case in IMPORTED:
            with self.subTest(f"{case.target} {case.inputs}"):
                report = self.run_import(case.target, case.inputs)
                self.assertEqual(report["refused"], [])
                self.assertEqual(len(report["imported"]), case.tasks)
                for line in report["imported"]:
                    self.check(case, line, self.task(line))
        words = [CUDAL1, "tasks", "--tasks", str(self.root / "tasks")]
        by_our_rules = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(by_our_rules.returncode, 0, by_our_rules.stderr)

    def check(self, case: Case, line: dict, task: dict) -> None:
        self.assertTrue(line["verified"])
        if not case.rounding:
            self.assertEqual(line["rounding"], 0)
        steps = {s["aten"] for s in task["steps"]}
        self.assertLessEqual(set(case.steps), steps)
        self.assertFalse(set(case.without) & steps)
        if case.names:
            self.assertEqual([i["name"] for i in task["inputs"]], list(case.names))
        for note in case.notes:
            self.assertIn(note, "\n".join(line["notes"]))
        if case.returns is not None:
            count = len(task["outputs"])
            self.assertEqual(task.get("returns", {"tuple": list(range(count))}), case.returns)

    def test_others_are_refused_with_their_line_and_what_to_write(self) -> None:
        for (target, inputs), words in REFUSED.items():
            with self.subTest(target):
                report = self.run_import(target, inputs)
                self.assertEqual(report["imported"], [])
                self.assertRegex(report["refused"][0]["reason"], words)

    @unittest.skipUnless(importlib.util.find_spec("triton"), "there is no Triton")
    def test_a_triton_kernel_is_named(self) -> None:
        report = self.run_import("with_triton.py:Doubled", "rows")
        self.assertRegex(
            report["refused"][0]["reason"],
            r"it launches the Triton kernel doubled \(with_triton.py:17: .*operators of PyTorch alone",
        )

    def test_names_keep_their_letters(self) -> None:
        source = self.root / "nétz.py"
        source.write_text("import torch\ndef forward(x): return x * 2\ndef example_inputs(): return torch.randn(3, 4)\n")
        (line,) = self.run_import(f"{source}:forward", "")["imported"]
        self.assertEqual(line["name"], "nétz.forward")
        shown = subprocess.run([CUDAL1, "tasks", str(self.root / "tasks" / line["file"])], capture_output=True, text=True)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("nétz.forward", shown.stdout)

    def test_the_casts_of_a_gpus_autocast_are_recorded_and_not_compared(self) -> None:
        """On a CPU, autocast leaves a layer norm in half precision."""
        (line,) = self.run_import("vision.py:MixedOnGpu", "rows")["imported"]
        self.assertFalse(line["verified"])
        self.assertIn('it casts as torch.autocast("cuda") does, and a CPU does not', line["notes"][-1])
        casts = [s["args"]["dtype"] for s in self.task(line)["steps"] if s["aten"] == "aten::to.dtype"]
        self.assertEqual(casts, ["bfloat16"] * 3 + ["float32"])

    def test_types_that_only_a_gpu_makes_must_not_be_asked_for(self) -> None:
        report = self.run_import("vision.py:MixedAndAsked", "rows")
        self.assertRegex(report["refused"][0]["reason"], r"asks for types of tensors \(x\.dtype\)")

    def test_bytes_are_drawn_and_indices_are_not(self) -> None:
        """A program may have computed with a buffer that no seed changes; one of quantised weights is a weight."""

        def fixed(target: str, inputs: str) -> dict[str, bool]:
            (line,) = self.run_import(target, inputs)["imported"]
            return {w["name"]: w["content"].get("fixed", False) for w in self.task(line)["weights"]}

        def indices(weights: dict[str, bool]) -> set[bool]:
            return {is_fixed for name, is_fixed in weights.items() if name.startswith("constant_")}

        self.assertEqual(fixed("others.py:Int8Linear", "features"), {"bias": False, "weight": False, "scale": False})
        self.assertEqual(indices(fixed("transformer.py:Windowed", "")), {True})
        self.assertEqual(indices(fixed("llama.py:block", "prompt")), {True})


if __name__ == "__main__":
    unittest.main()
