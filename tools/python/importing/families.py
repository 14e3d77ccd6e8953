"""The kind of task that a program is, by its operators."""

from __future__ import annotations

from .operators import kind_of
from .program import Program, Step

# Kinds of operators that may be between the two products of attention.
_BETWEEN = {"pointwise", "view", "copy", "normalization"}


def _is_free_product(step: Step) -> bool:
    """True if it multiplies two tensors of any rank, as attention does."""
    return step.name in ("aten::bmm", "aten::matmul")


def _feeds_product(program: Program, first: Step) -> bool:
    """True if a product reaches another one through a softmax or a mask, and operators of _BETWEEN only."""
    reached = set(first.outs)
    masked = False
    for step in program.steps[program.steps.index(first) + 1 :]:
        if not reached.intersection(step.reads()):
            continue
        if _is_free_product(step):
            return masked
        if kind_of(step) in _BETWEEN:
            masked = masked or step.name.startswith(("aten::softmax", "aten::masked_fill"))
            reached.update(step.outs)
    return False


def _convolution(program: Program, convolutions: list[Step], level: int | None) -> str:
    if len(convolutions) > 2 or level == 3:
        return "convnet"
    first = convolutions[0]
    name = first.name.removeprefix("aten::")
    channels = first.args["input"].fake.shape[1]
    if any(s.args.get("groups", 1) == s.args["input"].fake.shape[1] > 1 for s in convolutions):
        return "depthwise" if not name.startswith("conv_transpose") or channels > 1 else "conv_transpose"
    if name.startswith("conv_transpose3d"):
        return "conv_transpose3d"
    if name.startswith("conv_transpose"):
        return "conv_transpose"
    return "conv3d" if name.startswith("conv3d") else "conv"


def family_of(program: Program, level: int | None) -> str:
    kinds = {kind_of(s) for s in program.steps}
    if any(kind_of(s) == "recurrent" and "params" in s.args for s in program.steps):
        return "recurrent"
    products = [s for s in program.steps if _is_free_product(s)]
    if "attention" in kinds or any(_feeds_product(program, s) for s in products):
        return "attention"
    convolutions = [s for s in program.steps if kind_of(s) == "convolution"]
    if convolutions:
        return _convolution(program, convolutions, level)
    if "product" in kinds:
        return "matmul"
    return _small_family(program, kinds)


def _small_family(program: Program, kinds: set[str]) -> str:
    output = program.outputs[0].fake
    if "scan" in kinds:
        return "scan"
    if "loss" in kinds or (len(program.inputs) > 1 and output.dim() == 0):
        return "loss"
    if "pool" in kinds:
        return "pooling"
    reduces = "reduction" in kinds
    whole = output.shape == program.inputs[0].fake.shape if program.inputs else False
    if "normalization" in kinds or (reduces and whole):
        return "normalization"
    if reduces:
        return "reduction"
    elementwise = all(
        s.outs[0] is None or s.outs[0].fake.dim() <= max((v.fake.dim() for v in s.reads()), default=0)
        for s in program.steps
    )
    return "pointwise" if elementwise and whole else "other"
