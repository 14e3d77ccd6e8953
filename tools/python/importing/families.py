"""The kind of task that a program is, by its operators."""

from __future__ import annotations

from .program import Program, Step

_PRODUCTS = {
    "aten::mm",
    "aten::bmm",
    "aten::matmul",
    "aten::addmm",
    "aten::baddbmm",
    "aten::linear",
    "aten::mv",
    "aten::dot",
    "aten::outer",
}
_NORMS = {
    "aten::batch_norm",
    "aten::layer_norm",
    "aten::group_norm",
    "aten::instance_norm",
    "aten::rms_norm",
    "aten::softmax.int",
    "aten::log_softmax.int",
}
_SCANS = {"aten::cumsum", "aten::cumprod", "aten::logcumsumexp"}
_REDUCTIONS = (
    "aten::sum",
    "aten::mean",
    "aten::max",
    "aten::min",
    "aten::amax",
    "aten::amin",
    "aten::argm",
    "aten::prod",
    "aten::var",
    "aten::std",
    "aten::norm",
    "aten::linalg_vector_norm",
    "aten::logsumexp",
    "aten::frobenius_norm",
)
_LOSSES = (
    "aten::kl_div",
    "aten::cosine_similarity",
    "aten::binary_cross_entropy",
    "aten::nll_loss",
    "aten::cross_entropy",
    "aten::triplet_margin",
)
# Between the two products of attention.
_BETWEEN = (
    "aten::mul",
    "aten::div",
    "aten::add",
    "aten::masked_fill",
    "aten::where",
    "aten::softmax",
    "aten::relu",
    "aten::view",
    "aten::reshape",
    "aten::transpose",
    "aten::permute",
    "aten::contiguous",
    "aten::expand",
    "aten::slice",
    "aten::unsqueeze",
    "aten::sub",
    "aten::dropout",
    "aten::clone",
)


def _feeds_product(program: Program, first: Step) -> bool:
    """Whether a product of two computed tensors reaches another one through a softmax or a mask alone."""
    reached = set(first.outs)
    masked = False
    for step in program.steps[program.steps.index(first) + 1 :]:
        if not reached.intersection(step.reads()):
            continue
        if step.name in ("aten::bmm", "aten::matmul"):
            return masked
        if step.name.startswith(_BETWEEN):
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
    names = [s.name for s in program.steps]
    if any(n.endswith(".input") and n.startswith(("aten::lstm", "aten::gru", "aten::rnn_")) for n in names):
        return "recurrent"
    products = [s for s in program.steps if s.name in ("aten::bmm", "aten::matmul")]
    if "aten::scaled_dot_product_attention" in names or any(_feeds_product(program, s) for s in products):
        return "attention"
    convolutions = [s for s in program.steps if s.name.startswith("aten::conv")]
    convolutions = [s for s in convolutions if "weight" in s.args]
    if convolutions:
        return _convolution(program, convolutions, level)
    if _PRODUCTS.intersection(names):
        return "matmul"
    return _small_family(program, names)


def _small_family(program: Program, names: list[str]) -> str:
    output = program.outputs[0].fake
    if _SCANS.intersection(names):
        return "scan"
    if any("_loss" in n or n.startswith(_LOSSES) for n in names) or (
        len(program.inputs) > 1 and output.dim() == 0
    ):
        return "loss"
    if any("_pool" in n for n in names):
        return "pooling"
    reduces = any(n.startswith(_REDUCTIONS) and ".other" not in n for n in names)
    whole = output.shape == program.inputs[0].fake.shape if program.inputs else False
    if _NORMS.intersection(names) or (reduces and whole):
        return "normalization"
    if reduces:
        return "reduction"
    elementwise = all(
        s.outs[0] is None or s.outs[0].fake.dim() <= max((v.fake.dim() for v in s.reads()), default=0)
        for s in program.steps
    )
    return "pointwise" if elementwise and whole else "other"
