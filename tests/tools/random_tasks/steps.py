"""The steps of random tasks: one function for each family of operators. Each takes the program and a value of it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import torch

from .idioms import IDIOMS
from .program import Program, Unfit, Value

SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 33, 64, 65, 127, 128, 257, 300, 1024)
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
UNARY = ("relu", "sigmoid", "tanh", "silu", "gelu", "abs", "neg", "mish", "hardswish", "hardsigmoid", "elu", "selu",
         "celu", "softplus", "leaky_relu", "relu6", "erf", "log_sigmoid", "softshrink", "hardtanh",
         "atan", "asinh", "detach", "clone")  # fmt: skip
BINARY = ("add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum", "rsub.Tensor")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def start(p: Program) -> None:
    """The first inputs: now and then with a second one that is broadcast to the first."""
    r = p.r
    rank = r.choice((1, 2, 2, 2, 3, 3, 4, 4, 5))
    shape = [r.choice(SIZES if rank < 3 else SIZES[:16] if rank == 3 else SIZES[:10]) for _ in range(rank)]
    while math.prod(shape) > 1 << 17:
        shape[shape.index(max(shape))] = r.choice((2, 3, 17))
    p.input(*shape, dtype=p.dtype if r.random() < 0.9 else r.choice(FLOATS))
    if r.random() < 0.4:
        p.input(*(n if r.random() < 0.6 else 1 for n in shape))


def floats(p: Program) -> list[Value]:
    return [Value(n) for n, t in p.values.items() if t.is_floating_point() and not n.startswith("w")]


def step(p: Program) -> None:
    values = floats(p)
    # Late results more often: chains are what moves work on.
    v = p.r.choices(values, [2 ** min(i, 8) for i in range(len(values))])[0]
    if p.tensor(v).dtype != p.dtype and p.r.random() < 0.5:
        v = p.call("to.dtype", self=v, dtype=str(p.dtype)[6:])
    families = list(FAMILIES)
    family = p.r.choices(families, [FAMILIES[f] for f in families])[0]
    family(p, v)


def any_dim(p: Program, v: Value) -> int:
    if p.rank(v) == 0:
        raise Unfit
    return p.r.choice((p.rank(v) - 1, p.r.randrange(p.rank(v)), -p.r.randint(1, p.rank(v))))


def some_dims(p: Program, v: Value) -> list[int]:
    if p.rank(v) == 0:
        raise Unfit
    return p.r.choice(([any_dim(p, v)], sorted(p.r.sample(range(p.rank(v)), p.r.randint(1, p.rank(v))))))


def bounded(p: Program, v: Value) -> Value:
    return p.call(p.r.choice(("tanh", "sigmoid", "hardtanh")), self=v)


def positive(p: Program, v: Value) -> Value:
    return p.call("add.Scalar", self=p.call(p.r.choice(("abs", "softplus", "relu")), self=v), other=0.25)


def partner(p: Program, v: Value) -> Value:
    """A value that broadcasts with v, or a new parameter that does."""
    shape = p.shape(v)
    def fits(n: str) -> bool:
        pairs = zip(reversed(p.shape(n)), reversed(shape))
        return n != v and p.tensor(n).is_floating_point() and all(a == b or 1 in (a, b) for a, b in pairs)
    found = [Value(n) for n in p.values if fits(n)]
    if found and p.r.random() < 0.7:
        return p.r.choice(found)
    new = [n if p.r.random() < 0.6 else 1 for n in shape][p.r.randint(0, len(shape)):]
    return p.weight(*new) if p.r.random() < 0.5 else p.input(*new)


# ---- elementwise ----

def unary(p: Program, v: Value) -> None:
    p.call(p.r.choice(UNARY), self=v)


def guarded_unary(p: Program, v: Value) -> None:
    op = p.r.choice(("exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "square", "sin", "cos",
                     "pow.Tensor_Scalar"))
    if op in ("exp", "expm1", "square", "sin", "cos"):
        p.call(op, self=bounded(p, v))
    elif op == "pow.Tensor_Scalar":
        exponent = p.r.choice((2, 3, 0.5, -0.5, -1, 1, 2.5, 0))
        p.call(op, self=positive(p, bounded(p, v)), exponent=exponent)
    else:
        p.call(op, self=positive(p, v))


def scalar(p: Program, v: Value) -> None:
    number = p.r.choice((0.5, -1.25, 2.0, 1, 0, 1.0, 3))
    op = p.r.choice(("add.Scalar", "mul.Scalar", "sub.Scalar", "rsub.Scalar", "div.Scalar", "clamp", "clamp_min",
                     "clamp_max", "threshold", "gelu", "elu", "softplus", "leaky_relu", "hardtanh"))
    more: dict[str, Any] = {
        "div.Scalar": {"other": number or 4}, "clamp": p.r.choice(({"min": -1.5, "max": 1.5}, {"min": 0}, {"max": 0.5})),
        "clamp_min": {"min": number}, "clamp_max": {"max": number}, "threshold": {"threshold": 0.5, "value": 0.5},
        "gelu": {"approximate": "tanh"}, "elu": {"alpha": 0.5}, "softplus": {"beta": 2, "threshold": 5},
        "leaky_relu": {"negative_slope": 0.2}, "hardtanh": {"min_val": -0.5, "max_val": 2},
    }.get(op, {"other": number})  # fmt: skip
    p.call(op, self=v, **more)


def binary(p: Program, v: Value) -> None:
    other = partner(p, v)
    if p.r.random() < 0.2:
        p.call("div.Tensor", self=v, other=positive(p, other))
        return
    op = p.r.choice(BINARY)
    more = {"alpha": p.r.choice((0.5, 2, -1))} if op.startswith(("add", "sub")) and p.r.random() < 0.2 else {}
    first, second = (v, other) if p.r.random() < 0.7 else (other, v)
    p.call(op, self=first, other=second, **more)


def ternary(p: Program, v: Value) -> None:
    a, b = partner(p, v), partner(p, v)
    p.r.choice((
        lambda: p.call("lerp.Scalar", self=v, end=a, weight=0.3),
        lambda: p.call("addcmul", self=v, tensor1=a, tensor2=b, value=0.5),
        lambda: p.call("where.self", condition=mask(p, v), self=v, other=a),
        lambda: p.call("masked_fill.Scalar", self=v, mask=mask(p, v), value=p.r.choice((0, -1.5))),
        lambda: p.call("prelu", self=v, weight=p.weight(1)),
        lambda: p.call("clamp.Tensor", self=v, min=a),
    ))()  # fmt: skip


def mask(p: Program, v: Value) -> Value:
    """Of a parameter: comparisons of computed values depend on their last bit."""
    shape = [n if p.r.random() < 0.7 else 1 for n in p.shape(v)]
    parameters = [n for n in floats(p) if p.is_parameter(n) and p.shape(n) == p.shape(v)]
    if parameters and p.r.random() < 0.5:
        return p.call(p.r.choice(COMPARISONS) + ".Scalar", self=p.r.choice(parameters), other=0.25)
    if p.r.random() < 0.3:
        labels = p.indices(*shape, below=4, dtype=p.r.choice((torch.int64, torch.int32, torch.uint8)))
        return p.call(p.r.choice(COMPARISONS) + ".Scalar", self=labels, other=2)
    return p.input(*shape, dtype=torch.bool)


def integers(p: Program, v: Value) -> None:
    dtype = p.r.choice((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool))
    shape = [n if p.r.random() < 0.8 else 1 for n in p.shape(v)]
    a = p.input(*shape, dtype=dtype) if dtype == torch.bool else p.indices(*shape, below=9, dtype=dtype)
    if p.r.random() < 0.6:
        op = p.r.choice(("add.Scalar", "mul.Scalar", "sub.Scalar", "add.Tensor", "mul.Tensor"))
        a = p.call(op, self=a, other=3 if op.endswith("Scalar") else p.indices(*shape, below=5))
    if p.r.random() < 0.3:
        a = p.call("cumsum", self=a, dim=any_dim(p, a))
    if p.r.random() < 0.5:
        a = p.call("to.dtype", self=a, dtype="float32")
    p.call(p.r.choice(("add.Tensor", "mul.Tensor")), self=v, other=a)


def another_type(p: Program, v: Value) -> None:
    dtype = p.r.choice(("float16", "bfloat16", "float64", "float32"))
    made = p.call("to.dtype", self=bounded(p, v), dtype=dtype)
    if p.r.random() < 0.5:
        p.call("to.dtype", self=p.call(p.r.choice(("relu", "neg", "clone")), self=made), dtype="float32")


# ---- rows ----

def reduction(p: Program, v: Value) -> None:
    r, keepdim = p.r, p.r.random() < 0.7
    op = r.choice(("sum.dim_IntList", "mean.dim", "amax", "amin", "max.dim", "min.dim", "var.correction", "logsumexp",
                   "linalg_vector_norm", "std.correction", "sum", "mean", "norm.ScalarOpt_dim", "var.dim"))
    if op in ("sum", "mean"):
        made = p.call(op, self=v)
    elif op in ("max.dim", "min.dim"):
        made = p.call(op, self=v, dim=any_dim(p, v), keepdim=keepdim)[0]
    elif op == "linalg_vector_norm":
        made = p.call(op, self=v, ord=r.choice((1, 2)), dim=some_dims(p, v), keepdim=keepdim)
    elif op == "norm.ScalarOpt_dim":
        made = p.call(op, self=v, p=2, dim=some_dims(p, v), keepdim=keepdim)
    elif op.endswith("correction"):
        made = p.call(op, self=v, dim=some_dims(p, v), correction=r.choice((0, 1)), keepdim=keepdim)
    else:
        made = p.call(op, self=v, dim=some_dims(p, v), keepdim=keepdim)
    if r.random() < 0.5:  # the rows meet their statistic
        scale = p.call("rsqrt", self=positive(p, made)) if r.random() < 0.5 else made
        p.call(r.choice(("mul.Tensor", "sub.Tensor", "add.Tensor")), self=v, other=scale)


def normalization(p: Program, v: Value) -> None:
    r, shape = p.r, p.shape(v)
    affine = {"weight", "bias"} if r.random() < 0.6 else {"weight"} if r.random() < 0.5 else set()
    op = r.choice(("softmax", "softmax", "log_softmax", "layer_norm", "layer_norm", "rms_norm", "group_norm",
                   "batch_norm", "instance_norm"))
    if op.endswith("softmax"):
        p.call(op + ".int", self=v, dim=any_dim(p, v))
        return
    if op in ("layer_norm", "rms_norm"):
        last = shape[-r.randint(1, max(1, len(shape))):]
        given = {n: p.weight(*last, like=v) for n in sorted(affine) if op == "layer_norm" or n == "weight"}
        if math.prod(last) > 2:
            p.call(op, input=v, normalized_shape=last, eps=1e-5, **given)
        return
    if len(shape) < 2 or math.prod(shape[2:]) * shape[0] < 3:
        raise Unfit
    channels = shape[1]
    given = {n: p.weight(channels, like=v) if n in affine else None for n in ("weight", "bias")}
    if op == "group_norm":
        groups = r.choice([g for g in range(1, channels + 1) if channels % g == 0])
        if math.prod(shape[2:]) * channels // groups > 2:
            p.call(op, input=v, num_groups=groups, eps=1e-5, **given)
    elif op == "batch_norm":
        training = r.random() < 0.4
        kept = {} if training else {"running_mean": p.weight(channels, like=v),
                                    "running_var": p.weight(channels, like=v, positive=True)}  # fmt: skip
        p.call(op, input=v, **{"running_mean": None, "running_var": None, **kept, **given}, training=training,
               momentum=0.1, eps=1e-5, cudnn_enabled=True)
    elif math.prod(shape[2:]) > 2:
        p.call(op, input=v, running_mean=None, running_var=None, use_input_stats=True, momentum=0.1, eps=1e-5,
               cudnn_enabled=True, **given)


def scan(p: Program, v: Value) -> None:
    op = p.r.choice(("cumsum", "cumsum", "cumprod", "logcumsumexp", "cummax"))
    p.call(op, self=bounded(p, v) if op == "cumprod" else v, dim=any_dim(p, v))


def loss_of_rows(p: Program, v: Value, target: Value, how: int) -> None:
    r, norm = p.r, p.r.choice((2, 2, 2, 1, 3))
    op = r.choice(("cosine_similarity", "pairwise_distance", "triplet_margin_loss", "cosine_embedding_loss"))
    if op == "cosine_similarity":
        p.call(op, x1=v, x2=target, dim=any_dim(p, v))
    elif op == "pairwise_distance":
        p.call(op, x1=v, x2=target, p=norm, keepdim=r.random() < 0.5)
    elif op == "triplet_margin_loss":
        p.call(op, anchor=v, positive=target, negative=p.input(*p.shape(v)), margin=r.choice((1, 0.3)), p=norm,
               swap=r.random() < 0.5, reduction=how)
    elif p.rank(v) == 2:
        signs = p.call("sign", self=p.input(p.shape(v)[0]))
        p.call(op, input1=v, input2=target, target=signs, margin=r.choice((0, 0.2)), reduction=how)
    else:
        raise Unfit


def loss_of_elements(p: Program, v: Value, target: Value, how: int) -> None:
    op = p.r.choice(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "soft_margin_loss",
                     "hinge_embedding_loss", "margin_ranking_loss", "binary_cross_entropy",
                     "binary_cross_entropy_with_logits"))
    if op in ("soft_margin_loss", "hinge_embedding_loss", "margin_ranking_loss"):
        target = p.call("sign", self=target)
    elif op.startswith(("kl", "binary")):
        target = p.call("sigmoid", self=target)
    if op == "margin_ranking_loss":
        p.call(op, input1=v, input2=p.input(*p.shape(v)), target=target, margin=0.2, reduction=how)
    else:
        p.call(op, self=p.call("sigmoid", self=v) if op == "binary_cross_entropy" else v, target=target, reduction=how)


def loss(p: Program, v: Value) -> None:
    r, how = p.r, p.r.choice((0, 1, 1, 2))
    if r.random() < 0.3 and p.rank(v) == 2:
        rows, classes = p.shape(v)
        p.call("cross_entropy_loss", self=v, target=p.indices(rows, below=classes), reduction=how)
    elif r.random() < 0.4 and p.rank(v) >= 1:
        loss_of_rows(p, v, p.input(*p.shape(v)), how)
    else:
        loss_of_elements(p, v, p.input(*p.shape(v)), how)


# ---- products, convolutions, pools ----

def product(p: Program, v: Value) -> None:
    r, s = p.r, p.shape(v)
    if not s:
        raise Unfit
    columns = r.choice((1, 2, 8, 33, 64))
    op = r.choice(("linear", "linear", "mm", "matmul", "bmm", "addmm", "baddbmm", "einsum", "fact", "row_sum"))
    if op == "linear":
        bias = {"bias": p.weight(columns, like=v)} if r.random() < 0.7 else {}
        p.call(op, input=v, weight=p.weight(columns, s[-1], like=v), **bias)
    elif op == "row_sum":  # pulled through the layer
        made = p.call("linear", input=v, weight=p.weight(columns, s[-1], like=v))
        p.call(r.choice(("sum.dim_IntList", "mean.dim")), self=made, dim=[-1], keepdim=r.random() < 0.5)
    elif op == "fact" and len(s) == 2 and s[1] <= 257:
        fact = r.choice(("diagonal", "upper_triangular", "lower_triangular"))
        p.call("mm", self=v, mat2=p.input(s[1], s[1], facts=[fact]))
    elif op in ("mm", "addmm") and len(s) == 2:
        other = p.weight(s[1], columns) if r.random() < 0.6 else p.call("t", self=p.weight(columns, s[1]))
        if op == "mm":
            p.call(op, self=v, mat2=other)
        else:
            p.call(op, self=p.weight(columns), mat1=v, mat2=other, alpha=r.choice((1, 0.5)), beta=r.choice((1, 2)))
    elif op in ("bmm", "baddbmm") and len(s) == 3:
        other = p.input(s[0], s[2], columns)
        if op == "bmm":
            p.call(op, self=v, mat2=other)
        else:
            p.call(op, self=p.input(s[0], 1, columns), batch1=v, batch2=other)
    elif op == "einsum" and len(s) == 3:
        p.call(op, equation=r.choice(("bij,jk->bik", "bij,jk->bki")), tensors=[v, p.weight(s[2], columns)])
    elif op == "matmul":
        if len(s) > 1 and r.random() < 0.5:  # a Gram matrix
            p.call(op, self=v, other=p.call("transpose.int", self=v, dim0=-2, dim1=-1))
        else:
            p.call(op, self=v, other=p.weight(s[-1], columns) if r.random() < 0.7 else p.weight(s[-1]))


def convolution(p: Program, v: Value) -> None:
    r, s = p.r, p.shape(v)
    n = len(s) - 2
    if n not in (1, 2, 3):
        raise Unfit
    made = r.choice((1, 2, 4, 8, 12)) if n < 3 else 2
    groups = r.choice((1, 1, math.gcd(s[1], made)))
    size = [r.choice((1, 2, 3, 3, 5)) if n < 3 else r.choice((1, 2, 3)) for _ in range(n)]
    common = {"stride": [r.choice((1, 1, 2))] * n, "padding": [r.choice((0, 1, 2))] * n, "groups": groups}
    if r.random() < 0.3:
        name = "conv_transpose1d" if n == 1 else f"conv_transpose{n}d.input"
        p.call(name, input=v, weight=p.weight(s[1], made // groups, *size, like=v), **common)
        return
    bias = {"bias": p.weight(made, like=v)} if r.random() < 0.7 else {}
    p.call(f"conv{n}d", input=v, weight=p.weight(made, s[1] // groups, *size, like=v), **bias,
           dilation=[r.choice((1, 1, 2))] * n, **common)


def pool(p: Program, v: Value) -> None:
    r, n = p.r, p.rank(v) - 2
    if n not in (1, 2, 3):
        raise Unfit
    op = r.choice(("avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_avg_pool", "upsample", "global"))
    if op == "adaptive_avg_pool":
        p.call(f"adaptive_avg_pool{n}d", self=v, output_size=[r.choice((1, 1, 2, 3))] * n)
    elif op == "global":
        p.call("mean.dim", self=v, dim=list(range(2, n + 2)), keepdim=r.random() < 0.5)
    elif op == "upsample":
        p.call(f"upsample_nearest{n}d.vec", input=v, output_size=None, scale_factors=[2.0] * n)
    else:
        size = r.choice((2, 3))
        p.call(f"{op}{n}d", self=v, kernel_size=[size] * n, stride=[r.choice((1, 2, size))] * n,
               padding=[r.choice((0, 1))] * n, ceil_mode=r.random() < 0.3)


# ---- layouts ----

def view(p: Program, v: Value) -> None:
    r, s = p.r, p.shape(v)
    if not s:
        raise Unfit
    d = any_dim(p, v)
    size = s[d]
    p.r.choice((
        lambda: p.call("transpose.int", self=v, dim0=any_dim(p, v), dim1=any_dim(p, v)),
        lambda: p.call("transpose.int", self=v, dim0=-2, dim1=-1),
        lambda: p.call("permute", self=v, dims=r.sample(range(len(s)), len(s))),
        lambda: p.call("reshape", self=v, shape=other_shape(r, s)),
        lambda: p.call("flatten.using_ints", self=v, start_dim=r.randrange(len(s))),
        lambda: p.call("slice.Tensor", self=v, dim=d, start=r.randrange(size), end=size, step=r.choice((1, 1, 2))),
        lambda: p.call("slice.Tensor", self=v, dim=d, start=0, end=(size + 1) // 2),
        lambda: p.call("select.int", self=v, dim=d, index=r.randrange(size)),
        lambda: p.call("unsqueeze", self=v, dim=r.randrange(len(s) + 1)),
        lambda: p.call("squeeze", self=v),
        lambda: p.call("expand", self=p.call("unsqueeze", self=v, dim=0), size=[r.choice((1, 2, 5)), *s]),
        lambda: p.call("diagonal", self=v, dim1=-2, dim2=-1),
        lambda: p.call("contiguous", self=p.call("transpose.int", self=v, dim0=0, dim1=-1)),
        lambda: p.call("unfold", self=v, dimension=d, size=min(2, size), step=r.choice((1, 2))),
    ))()  # fmt: skip


def other_shape(r: random.Random, s: list[int]) -> list[int]:
    """The same elements, with one dimension split or two merged, or flat."""
    at = r.randrange(len(s))
    divisors = [k for k in range(1, s[at] + 1) if s[at] % k == 0]
    k = r.choice(divisors)
    split = [*s[:at], k, s[at] // k, *s[at + 1:]]
    merged = [*s[:at], s[at] * s[at + 1], *s[at + 2:]] if at + 1 < len(s) else [-1]
    return r.choice((split, merged, [-1]))


def rearrangement(p: Program, v: Value) -> None:
    r, s = p.r, p.shape(v)
    if not s:
        raise Unfit
    d = any_dim(p, v)
    p.r.choice((
        lambda: p.call("cat", tensors=[v, r.choice([Value(n) for n in floats(p) if p.shape(n) == s])], dim=d),
        lambda: p.call("stack", tensors=[v, p.input(*s)], dim=r.randrange(len(s) + 1)),
        lambda: p.call("flip", self=v, dims=[d]),
        lambda: p.call("roll", self=v, shifts=[1], dims=[d]),
        lambda: p.call("constant_pad_nd", self=v, pad=[1, 2], value=r.choice((0, 0.5))),
        lambda: p.call("repeat", self=v, repeats=[2] * len(s)),
        lambda: p.call("repeat_interleave.self_int", self=v, repeats=2, dim=d),
        lambda: p.call(r.choice(("tril", "triu")), self=v, diagonal=r.choice((-1, 0, 1))),
        lambda: p.call("glu", self=v, dim=d),
        lambda: p.call("pixel_shuffle", self=v, upscale_factor=2),
        lambda: halves(p, v, d),
        lambda: p.call("index_select", self=v, dim=d, index=p.indices(r.choice((1, 3, 9)), below=s[d])),
        lambda: p.call("gather", self=v, dim=d, index=p.indices(*s, below=s[d])),
        lambda: p.call("embedding", weight=p.weight(11, s[-1]), indices=p.indices(*s[:-1], below=11)),
    ))()  # fmt: skip


def halves(p: Program, v: Value, d: int) -> None:
    parts = p.call("chunk", self=v, chunks=2, dim=d)
    if len(parts) != 2 or p.shape(parts[0]) != p.shape(parts[1]):
        raise Unfit
    p.call("mul.Tensor", self=p.call(p.r.choice(("silu", "sigmoid", "gelu")), self=parts[0]), other=parts[1])


def idiom(p: Program, v: Value) -> None:
    if p.rank(v) == 0:
        raise Unfit
    p.r.choice(IDIOMS)(p, v)


FAMILIES: dict[Callable[[Program, Value], None], float] = {
    unary: 3, guarded_unary: 2, scalar: 2.5, binary: 3, ternary: 1, integers: 0.7, another_type: 0.5, reduction: 2.5,
    normalization: 2, scan: 0.7, loss: 0.6, product: 2, convolution: 1.5, pool: 1, view: 2, rearrangement: 1.2,
    idiom: 1.5,
}  # fmt: skip
