"""What models write in several steps: norms by hand, gated layers, attention, rotary embeddings, residual blocks."""

from __future__ import annotations

import math

import torch

from .program import Program, Unfit, Value


def rms_norm(p: Program, v: Value) -> None:
    squares = p.call("pow.Tensor_Scalar", self=v, exponent=2)
    mean = p.call("mean.dim", self=squares, dim=[-1], keepdim=True)
    scale = p.call("rsqrt", self=p.call("add.Scalar", self=mean, other=1e-6))
    normed = p.call("mul.Tensor", self=v, other=scale)
    p.call("mul.Tensor", self=p.weight(p.shape(v)[-1]), other=normed)


def l2_norm(p: Program, v: Value) -> None:
    norm = p.call("linalg_vector_norm", self=v, ord=2, dim=[-1], keepdim=True)
    p.call("div.Tensor", self=v, other=p.call("clamp_min", self=norm, min=0.01))


def standardized(p: Program, v: Value) -> None:
    if p.shape(v)[-1] < 3:
        raise Unfit
    mean = p.call("mean.dim", self=v, dim=[-1], keepdim=True)
    centered = p.call("sub.Tensor", self=v, other=mean)
    variance = p.call("mean.dim", self=p.call("mul.Tensor", self=centered, other=centered), dim=[-1], keepdim=True)
    p.call("mul.Tensor", self=centered, other=p.call("rsqrt", self=p.call("add.Scalar", self=variance, other=1e-5)))


def gated_layer(p: Program, v: Value) -> None:
    """SwiGLU, GEGLU: two layers, or one whose result is halved."""
    wide = p.r.choice((4, 17, 32))
    if p.r.random() < 0.5:
        gate, up = (p.call("linear", input=v, weight=p.weight(wide, p.shape(v)[-1])) for _ in range(2))
    else:
        both = p.call("linear", input=v, weight=p.weight(2 * wide, p.shape(v)[-1]))
        gate, up = p.call("chunk", self=both, chunks=2, dim=-1)
    active = p.call(p.r.choice(("silu", "gelu", "relu", "sigmoid")), self=gate)
    made = p.call("mul.Tensor", self=active, other=up)
    p.call("linear", input=made, weight=p.weight(p.shape(v)[-1], wide))


def feed_forward(p: Program, v: Value) -> None:
    """With its residual and norm, before or after."""
    n = p.shape(v)[-1]
    if n < 3:
        raise Unfit
    first = p.r.random() < 0.5
    x = p.call("layer_norm", input=v, normalized_shape=[n], weight=p.weight(n), bias=p.weight(n)) if first else v
    hidden = p.call(p.r.choice(("relu", "gelu", "silu")), self=p.call("linear", input=x, weight=p.weight(2 * n, n)))
    made = p.call("add.Tensor", self=v, other=p.call("linear", input=hidden, weight=p.weight(n, 2 * n)))
    if not first:
        p.call("layer_norm", input=made, normalized_shape=[n])


def name_of(dtype: torch.dtype) -> str:
    return str(dtype)[6:]


def residual_norm(p: Program, v: Value) -> None:
    """Llama's: the norm in float32, its input an output of its own."""
    n, dtype = p.shape(v)[-1], p.tensor(v).dtype
    if n < 3:
        raise Unfit
    kept = p.call("add.Tensor", self=v, other=p.input(*p.shape(v), dtype=dtype))
    wide = p.call("to.dtype", self=kept, dtype="float32") if dtype != torch.float32 else kept
    mean = p.call("mean.dim", self=p.call("pow.Tensor_Scalar", self=wide, exponent=2), dim=[-1], keepdim=True)
    normed = p.call("mul.Tensor", self=wide, other=p.call("rsqrt", self=p.call("add.Scalar", self=mean, other=1e-6)))
    if dtype != torch.float32:
        normed = p.call("to.dtype", self=normed, dtype=name_of(dtype))
    p.call("mul.Tensor", self=p.weight(n, like=v), other=normed)
    p.call("mul.Scalar", self=kept, other=0.5)


def masked_softmax(p: Program, v: Value) -> None:
    s = p.shape(v)
    scores = p.call("mul.Scalar", self=v, other=0.125)
    mask = p.input(*s[-2:], dtype=torch.bool)
    scores = p.call("masked_fill.Scalar", self=scores, mask=mask, value=p.r.choice((-1e4, -3e4)))
    more = {"dtype": "float32"} if p.r.random() < 0.3 else {}
    p.call("softmax.int", self=scores, dim=-1, **more)


def embedding_and_position(p: Program, v: Value) -> None:
    words, length, width = p.r.choice((5, 40)), p.r.choice((1, 7, 32)), p.r.choice((3, 16, 40))
    ids = p.indices(p.r.choice((1, 3)), length, below=words)
    words_of = p.call("embedding", weight=p.weight(words, width), indices=ids)
    made = p.call("add.Tensor", self=words_of, other=p.weight(length, width))
    if p.r.random() < 0.5:
        p.call("layer_norm", input=made, normalized_shape=[width], weight=p.weight(width), bias=p.weight(width))


def dequantized_layer(p: Program, v: Value) -> None:
    n, wide, dtype = p.shape(v)[-1], p.r.choice((4, 17, 32)), p.tensor(v).dtype
    codes = p.indices(wide, n, below=100, dtype=p.r.choice((torch.int8, torch.uint8)))
    weight = p.call("to.dtype", self=codes, dtype=name_of(dtype))
    if p.r.random() < 0.5:
        weight = p.call("sub.Scalar", self=weight, other=50)
    weight = p.call("mul.Tensor", self=weight, other=p.call("mul.Scalar", self=p.weight(wide, 1, like=v), other=0.01))
    p.call("linear", input=v, weight=weight)


def interleaved_rotary(p: Program, v: Value) -> None:
    """Pairs of neighbours are turned."""
    s = p.shape(v)
    if p.rank(v) < 2 or s[-1] % 2:
        raise Unfit
    even, odd = (p.call("slice.Tensor", self=v, dim=-1, start=k, end=s[-1], step=2) for k in (0, 1))
    both = p.call("stack", tensors=[p.call("neg", self=odd), p.call("clone", self=even)], dim=-1)
    turned = p.call("flatten.using_ints", self=both, start_dim=-2)
    angles = p.input(*s[-2:], dtype=p.tensor(v).dtype)
    one = p.call("mul.Tensor", self=v, other=p.call("cos", self=angles))
    p.call("add.Tensor", self=one, other=p.call("mul.Tensor", self=turned, other=p.call("sin", self=angles)))


def rotary(p: Program, v: Value) -> None:
    n = p.shape(v)[-1]
    if p.rank(v) < 2 or n % 2:
        raise Unfit
    low = p.call("slice.Tensor", self=v, dim=-1, start=0, end=n // 2)
    high = p.call("slice.Tensor", self=v, dim=-1, start=n // 2, end=n)
    turned = p.call("cat", tensors=[p.call("neg", self=high), low], dim=-1)
    angles = p.input(*p.shape(v)[-2:])
    one = p.call("mul.Tensor", self=v, other=p.call("cos", self=angles))
    p.call("add.Tensor", self=one, other=p.call("mul.Tensor", self=turned, other=p.call("sin", self=angles)))


def attention(p: Program, v: Value) -> None:
    """Of one or several heads, masked by values, by a boolean mask, by a bias for each head (T5), or not at all."""
    r, s = p.r, p.shape(v)
    if p.rank(v) != 3 or s[1] > 65:
        raise Unfit
    batch, length, width = s
    heads = r.choice([h for h in (1, 2, 4) if width % h == 0])

    def split(x: Value) -> Value:
        parts = p.call("view", self=x, size=[batch, length, heads, width // heads])
        return p.call("transpose.int", self=parts, dim0=1, dim1=2)

    if r.random() < 0.4:
        q, k, x = p.call("split.Tensor", self=p.call("linear", input=v, weight=p.weight(3 * width, width)),
                         split_size=width, dim=2)  # fmt: skip
        q, k, x = (split(p.call("contiguous", self=each)) for each in (q, k, x))
    else:
        q, k, x = (split(p.call("linear", input=v, weight=p.weight(width, width))) for _ in range(3))
    if r.random() < 0.2:
        made = p.call("scaled_dot_product_attention", query=q, key=k, value=x, is_causal=r.random() < 0.5)
    else:
        scores = p.call("matmul", self=q, other=p.call("transpose.int", self=k, dim0=-2, dim1=-1))
        scores = p.call("div.Scalar", self=scores, other=math.sqrt(width // heads))
        if r.random() < 0.3:
            mask = p.input(batch, 1, 1, length, dtype=torch.bool)
            scores = p.call("masked_fill.Scalar", self=scores, mask=mask, value=-1e9)
        elif r.random() < 0.6:
            near = p.call("embedding", weight=p.weight(32, heads), indices=p.indices(length, length, below=32))
            bias = p.call("unsqueeze", self=p.call("permute", self=near, dims=[2, 0, 1]), dim=0)
            scores = p.call("add.Tensor", self=scores, other=bias)
        made = p.call("matmul", self=p.call("softmax.int", self=scores, dim=-1), other=x)
    joined = p.call("reshape", self=p.call("transpose.int", self=made, dim0=1, dim1=2), shape=[batch, length, width])
    p.call("add.Tensor", self=v, other=p.call("linear", input=joined, weight=p.weight(width, width)))


def residual_block(p: Program, v: Value) -> None:
    if p.rank(v) != 4:
        raise Unfit
    channels = p.shape(v)[1]
    made = p.call("conv2d", input=v, weight=p.weight(channels, channels, 3, 3), padding=[1, 1])
    statistics = {"running_mean": p.weight(channels), "running_var": p.weight(channels, positive=True)}
    made = p.call("batch_norm", input=made, weight=p.weight(channels), bias=p.weight(channels), **statistics,
                  training=False, momentum=0.1, eps=1e-5, cudnn_enabled=True)  # fmt: skip
    p.call("relu", self=p.call("add.Tensor", self=made, other=v))


def channel_attention(p: Program, v: Value) -> None:
    if p.rank(v) != 4:
        raise Unfit
    channels = p.shape(v)[1]
    pooled = p.call("mean.dim", self=v, dim=[2, 3], keepdim=False)
    gate = p.call("sigmoid", self=p.call("linear", input=pooled, weight=p.weight(channels, channels)))
    p.call("mul.Tensor", self=v, other=p.call("view", self=gate, size=[*p.shape(gate), 1, 1]))


def gelu_by_hand(p: Program, v: Value) -> None:
    cube = p.call("mul.Tensor", self=v, other=p.call("mul.Tensor", self=v, other=v))
    inner = p.call("add.Tensor", self=v, other=cube, alpha=0.044715)
    grown = p.call("add.Scalar", self=p.call("tanh", self=p.call("mul.Scalar", self=inner, other=0.79788456)), other=1)
    p.call("mul.Tensor", self=p.call("mul.Scalar", self=v, other=0.5), other=grown)


def recurrent_cell(p: Program, v: Value) -> None:
    """One step of a vanilla network, which keeps its state."""
    if p.rank(v) != 2:
        raise Unfit
    batch, n = p.shape(v)
    wide = p.r.choice((3, 16, 32))
    hidden = p.input(batch, wide)
    both = p.call("cat", tensors=[v, hidden], dim=1)
    kept = p.call("tanh", self=p.call("linear", input=both, weight=p.weight(wide, n + wide), bias=p.weight(wide)))
    p.call("linear", input=kept, weight=p.weight(5, wide))


def scaled_layer(p: Program, v: Value) -> None:
    """A layer whose features are scaled and shifted by numbers, weights, a batch norm or the layer itself, or that is
    followed by another one."""
    n, wide = p.shape(v)[-1], p.r.choice((3, 8, 33))
    convolves = p.rank(v) == 4 and p.r.random() < 0.6
    if convolves:
        wide = p.r.choice((2, 5))
        weight = p.weight(wide, p.shape(v)[1], 3, 3)
        bias = {"bias": p.weight(wide)} if p.r.random() < 0.5 else {}
        layer = made = p.call("conv2d", input=v, weight=weight, padding=[1, 1], **bias)
    else:
        bias = {"bias": p.weight(wide)} if p.r.random() < 0.5 else {}
        layer = made = p.call("linear", input=v, weight=p.weight(wide, n), **bias)
    one_each = (wide, 1, 1) if convolves else (wide,)
    for _ in range(p.r.randrange(1, 4)):
        kind = p.r.randrange(7)
        if kind == 0:
            made = p.call(p.r.choice(("mul", "add", "sub", "div")) + ".Scalar", self=made, other=p.r.choice((0.5, -3, 2)))
        elif kind == 1:
            made = p.call(p.r.choice(("mul.Tensor", "add.Tensor", "sub.Tensor")), self=made, other=p.weight(*one_each))
        elif kind == 2:
            made = p.call("div.Tensor", self=made, other=p.weight(*one_each, positive=True))
        elif kind == 3:
            made = p.call("add.Tensor", self=made, other=layer, alpha=p.r.choice((1, 2)))
        elif kind == 4:
            made = p.call("neg", self=made)
        elif kind == 5 and (convolves or p.rank(made) == 2):
            statistics = {"running_mean": p.weight(wide), "running_var": p.weight(wide, positive=True)}
            made = p.call("batch_norm", input=made, weight=p.weight(wide), bias=p.weight(wide), **statistics,
                          training=False, momentum=0.1, eps=1e-5, cudnn_enabled=True)  # fmt: skip
        elif kind == 6 and not convolves:
            made = layer = p.call("linear", input=made, weight=p.weight(wide, wide), bias=p.weight(wide))


def convolution_before_mean(p: Program, v: Value) -> None:
    """A convolution, transposed or not, whose channels are scaled and shifted, and a mean of some kind behind it."""
    if p.rank(v) not in (3, 4, 5):
        raise Unfit
    dims, inputs, outputs = p.rank(v) - 2, p.shape(v)[1], p.r.choice((2, 4, 6))
    transposed = p.r.random() < 0.5
    each = lambda *choices: [p.r.choice(choices) for _ in range(dims)]  # noqa: E731
    groups = p.r.choice([g for g in (1, 1, 2) if inputs % g == 0])
    kernel, stride = each(1, 2, 3, 4), each(1, 1, 2) if p.r.random() < 0.5 else [1] * dims
    dilation = each(1, 1, 2)
    padding = [p.r.randrange(0, d * (k - 1) + 1) for d, k in zip(dilation, kernel)]
    more = {"bias": p.weight(outputs)} if p.r.random() < 0.5 else {}
    if transposed:
        weight = p.weight(inputs, outputs // groups, *kernel)
        more["output_padding"] = [p.r.randrange(0, max(s, d)) for s, d in zip(stride, dilation)]
    else:
        weight = p.weight(outputs, inputs // groups, *kernel)
    op = f"conv_transpose{dims}d" + (".input" if dims > 1 else "") if transposed else f"conv{dims}d"
    made = p.call(op, input=v, weight=weight, stride=stride, padding=padding, dilation=dilation, groups=groups, **more)
    for _ in range(p.r.choice((0, 0, 1, 2))):
        if p.r.random() < 0.2:
            statistics = {"running_mean": p.weight(outputs), "running_var": p.weight(outputs, positive=True)}
            made = p.call("batch_norm", input=made, weight=p.weight(outputs), bias=p.weight(outputs), **statistics,
                          training=False, momentum=0.1, eps=1e-5, cudnn_enabled=True)  # fmt: skip
        elif p.r.random() < 0.5:
            made = p.call(p.r.choice(("mul", "add", "div")) + ".Scalar", self=made, other=p.r.choice((0.5, -3, 2)))
        else:
            shape = (outputs, *[1] * dims)
            made = p.call(p.r.choice(("mul.Tensor", "add.Tensor", "sub.Tensor")), self=made, other=p.weight(*shape))
    space = list(range(2, dims + 2))
    kind = p.r.randrange(5)
    if kind == 0:
        window = [p.r.randint(1, min(3, n)) for n in p.shape(made)[2:]]
        p.call(f"avg_pool{dims}d", self=made, kernel_size=window, stride=each(1, 2) if p.r.random() < 0.5 else window)
    elif kind == 1:
        p.call("mean.dim", self=made, dim=space, keepdim=p.r.random() < 0.5)
    elif kind == 2:
        p.call(f"adaptive_avg_pool{dims}d", self=made, output_size=[1] * dims)
    elif kind == 3:
        p.call(p.r.choice(("mean.dim", "sum.dim_IntList")), self=made, dim=[1], keepdim=p.r.random() < 0.5)
    else:
        p.call("relu", self=made)


def strided_transposed_convolution(p: Program, v: Value) -> None:
    """A transposed convolution whose windows move by several elements, and steps that work in its result's shape."""
    if p.rank(v) not in (3, 4, 5):
        raise Unfit
    dims, inputs, outputs = p.rank(v) - 2, p.shape(v)[1], p.r.choice((2, 4, 6))
    groups = p.r.choice([g for g in (1, 1, 1, 2) if inputs % g == 0])
    kernel, stride, dilation = ([p.r.choice(of) for _ in range(dims)] for of in ((1, 2, 3, 4, 5), (1, 2, 2, 2, 3), (1, 1, 1, 2, 3)))  # fmt: skip
    made = p.call(
        f"conv_transpose{dims}d" + (".input" if dims > 1 else ""),
        input=v, weight=p.weight(inputs, outputs // groups, *kernel), stride=stride, dilation=dilation, groups=groups,
        padding=[p.r.randrange(0, d * (k - 1) + 1) for d, k in zip(dilation, kernel)],
        output_padding=[p.r.randrange(0, max(s, d)) for s, d in zip(stride, dilation)],
        **({"bias": p.weight(outputs)} if p.r.random() < 0.5 else {}),
    )  # fmt: skip
    space, weight = list(range(2, dims + 2)), lambda: p.weight(outputs)
    for _ in range(p.r.choice((0, 1, 2, 3))):
        kind = p.r.randrange(9)
        if kind == 0:
            made = p.call(p.r.choice(("relu", "tanh", "sigmoid", "silu")), self=made)
        elif kind == 1:
            made = p.call(p.r.choice(("mul.Tensor", "add.Tensor")), self=made, other=p.weight(outputs, *[1] * dims))
        elif kind == 2:
            made = p.call("softmax.int", self=made, dim=1)
        elif kind == 3:
            made = p.call("group_norm", input=made, num_groups=2, weight=weight(), bias=weight())
        elif kind == 4:
            made = p.call("instance_norm", input=made, weight=None, bias=None, running_mean=None, running_var=None,
                          use_input_stats=True, momentum=0.1, eps=1e-05, cudnn_enabled=True)  # fmt: skip
        elif kind == 5:
            last = p.shape(made)[-p.r.randint(1, dims) :]
            made = p.call("layer_norm", input=made, normalized_shape=last, weight=p.weight(*last), bias=None)
        elif kind == 6:
            made = p.call("add.Tensor", self=made, other=p.input(*p.shape(made)))
        elif kind == 7:
            made = p.call("mul.Tensor", self=made, other=p.call("mean.dim", self=made, dim=space, keepdim=True))
        else:
            made = p.call("sub.Tensor", self=made, other=p.call("amax", self=made, dim=[1], keepdim=True))
    kind = p.r.randrange(4)
    if kind == 0 and all(n >= s for n, s in zip(p.shape(made)[2:], stride)):
        p.call(p.r.choice((f"max_pool{dims}d", f"avg_pool{dims}d")), self=made, kernel_size=stride, stride=stride)
    elif kind == 1:
        p.call(p.r.choice(("mean.dim", "sum.dim_IntList")), self=made, dim=p.r.choice(([1], space, space[-1:])))
    else:
        p.call("tanh", self=made)
def unit_convolutions(p: Program, v: Value) -> None:
    """Convolutions whose kernels have one element along some dimensions or all of them, and elementwise operators."""
    if p.rank(v) not in (3, 4, 5):
        raise Unfit
    dims, made = p.rank(v) - 2, v
    if dims > 1 and p.r.random() < 0.4:
        last = "channels_last" if dims == 2 else "channels_last_3d"
        made = p.call("contiguous", self=v, memory_format=last)
    for _ in range(p.r.choice((1, 2))):
        wide, inputs = p.r.choice((1, 4, 6, 8)), p.shape(made)[1]
        is_product = p.r.random() < 0.5
        kernel = [1 if is_product or p.r.random() < 0.6 else min(p.r.choice((2, 3)), n) for n in p.shape(made)[2:]]
        padding = [p.r.randrange(k) for k in kernel]
        stride = [p.r.choice((1, 1, 1, 1, 2)) for _ in kernel]
        more = {"bias": p.weight(wide)} if p.r.random() < 0.5 else {}
        if is_product and p.r.random() < 0.3:
            op, weight = f"conv_transpose{dims}d" + (".input" if dims > 1 else ""), p.weight(inputs, wide, *kernel)
        else:
            op, weight = f"conv{dims}d", p.weight(wide, inputs, *kernel)
            more["dilation"] = [p.r.choice((1, 1, 2)) if k > 1 and n > 2 * k else 1
                                for k, n in zip(kernel, p.shape(made)[2:])]  # fmt: skip
        made = first = p.call(op, input=made, weight=weight, stride=stride, padding=padding, **more)
        for _ in range(p.r.choice((0, 1, 2, 3))):
            kind = p.r.randrange(7)
            if kind == 0:
                statistics = {"running_mean": p.weight(wide), "running_var": p.weight(wide, positive=True)}
                made = p.call("batch_norm", input=made, weight=p.weight(wide), bias=p.weight(wide), **statistics,
                              training=False, momentum=0.1, eps=1e-5, cudnn_enabled=True)  # fmt: skip
            elif kind == 1:
                made = p.call(p.r.choice(("relu", "sigmoid", "tanh")), self=made)
            elif kind == 2:
                made = p.call("mul.Tensor", self=made, other=p.weight(wide, *[1] * dims))
            elif kind == 3:
                made = p.call("add.Tensor", self=p.weight(*p.shape(made)[-1:]), other=made)
            elif kind == 4:
                gate = p.call("mean.dim", self=first, dim=list(range(2, dims + 2)), keepdim=True)
                made = p.call("mul.Tensor", self=made, other=p.call("sigmoid", self=gate))
            elif kind == 5:
                made = p.call("sub.Tensor", self=first, other=made)
            else:
                made = p.call("mul.Scalar", self=made, other=-0.5)


def layer_with_rows(p: Program, v: Value) -> None:
    """A layer, and an operator over the rows of its result, or over groups of a row."""
    wide = p.r.choice((2, 5, 10, 16, 24, 32, 48, 64, 100, 128))
    bias = {"bias": p.weight(wide)} if p.r.random() < 0.7 else {}
    made = layer = p.call("linear", input=v, weight=p.weight(wide, p.shape(v)[-1]), **bias)
    if p.r.random() < 0.5:
        made = p.call(p.r.choice(("gelu", "tanh", "relu", "sigmoid")), self=made)
    kind = p.r.randrange(6)
    if kind == 0:
        p.call(p.r.choice(("softmax.int", "log_softmax.int")), self=made, dim=-1)
    elif kind == 1:
        affine = {"weight": p.weight(wide), "bias": p.weight(wide)} if p.r.random() < 0.5 else {}
        p.call("layer_norm", input=made, normalized_shape=[wide], **affine)
    elif kind == 2:
        if p.rank(made) != 2 or wide % 8 != 0:
            raise Unfit
        groups = p.r.choice([g for g in (1, 2, 3, 4, 8) if wide % g == 0 and wide // g > 2])
        norm = p.call("group_norm", input=made, num_groups=groups, weight=p.weight(wide), bias=p.weight(wide))
        p.call("silu", self=norm)
    elif kind == 3:
        l2_norm(p, made)
    elif kind == 4:
        p.call("add.Tensor", self=layer, other=p.call("amax", self=made, dim=[-1], keepdim=True))
    else:
        p.call(p.r.choice(("sum.dim_IntList", "mean.dim")), self=made, dim=[-1], keepdim=p.r.random() < 0.5)


def layers_of_one_value(p: Program, v: Value) -> None:
    """Projections, gates or experts: layers that differ in how they are written, and in what reads them."""
    n, made = p.shape(v)[-1], []
    as_rows = p.r.random() < 0.7
    for _ in range(p.r.randint(2, 4)):
        wide = p.r.choice((1, 8, 12, 17, 32))
        bias = p.weight(wide) if p.r.random() < 0.4 else None
        weight = p.weight(wide, n) if as_rows else p.weight(n, wide)
        if as_rows and p.r.random() < 0.7:
            layer = p.call("linear", input=v, weight=weight, **({"bias": bias} if bias else {}))
        else:
            right = p.call("t", self=weight) if as_rows else weight
            is_sum = bias is not None and p.rank(v) == 2
            layer = p.call("addmm", self=bias, mat1=v, mat2=right) if is_sum else p.call("matmul", self=v, other=right)
        made.append(layer)
    for layer in made:
        kind = p.r.randrange(8)
        s = p.shape(layer)
        if kind == 0:
            p.call("softmax.int", self=layer, dim=-1)
        elif kind == 1 and s[-1] % 4 == 0:
            heads = p.call("view", self=layer, size=[*s[:-1], 4, s[-1] // 4])
            p.call("relu", self=p.call("transpose.int", self=heads, dim0=-2, dim1=-1))
        elif kind == 2:
            p.call("tanh", self=p.call("reshape", self=layer, shape=[math.prod(s[:-1]), s[-1]]))
        elif kind == 3:
            p.call("sigmoid", self=p.call("flatten.using_ints", self=layer, start_dim=0))
        elif kind == 4:
            p.call("linear", input=layer, weight=p.weight(5, s[-1]), bias=p.weight(5))
        elif kind == 5:
            p.call("mul.Tensor", self=layer, other=p.call("silu", self=p.r.choice(made)))
        elif kind == 6:
            p.call("amax", self=layer, dim=[-1], keepdim=True)
        else:
            p.call("gelu", self=layer)


IDIOMS = (rms_norm, l2_norm, standardized, gated_layer, feed_forward, rotary, attention, residual_block,
          channel_attention, gelu_by_hand, recurrent_cell, residual_norm, scaled_layer, masked_softmax,
          embedding_and_position, dequantized_layer, interleaved_rotary, layer_with_rows,
          layers_of_one_value, convolution_before_mean, strided_transposed_convolution, unit_convolutions)  # fmt: skip
