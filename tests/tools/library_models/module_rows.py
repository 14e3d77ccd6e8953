"""Modules as people write them: those of tests/tools/user_modules, larger, and those of modules/."""

from row import Row, Size


def _row(name: str, source: str, cpu: tuple[str, dict], gpu: tuple[str, dict] | None = None, **how: bool) -> Row:
    folder = "modules" if "/" not in source else ".."
    return Row(f"own_{name}", "own", Size(*cpu), Size(*gpu) if gpu else None, f"{folder}/{source}", **how)


def _normal(*shape: int, dtype: str = "") -> str:
    return f"torch.randn({', '.join(map(str, shape))}{f', dtype=torch.{dtype}' if dtype else ''})"


def _integers(high: int, *shape: int) -> str:
    return f"torch.randint(0, {high}, ({', '.join(map(str, shape))},))"


_BF16 = ".to(torch.bfloat16)"
_LLAMA, _PARTS = "user_modules/llama.py", "user_modules/transformer.py"
_VISION, _OTHERS = "user_modules/vision.py", "user_modules/others.py"

ROWS = [
    _row(
        "swiglu", _LLAMA,
        (f"FeedForward(256, 1024){_BF16}", {"x": _normal(4, 32, 256, dtype="bfloat16")}),
        (f"FeedForward(2048, 8192){_BF16}", {"x": _normal(8, 512, 2048, dtype="bfloat16")}),
    ),
    _row(
        "rms_norm", _LLAMA,
        (f"RMSNorm(512){_BF16}", {"x": _normal(8, 64, 512, dtype="bfloat16")}),
        (f"RMSNorm(4096){_BF16}", {"x": _normal(8, 2048, 4096, dtype="bfloat16")}),
    ),
    _row(
        "llama_block", _LLAMA,
        ("Block(ModelArgs(dim=128, max_seq_len=64))", {"x": _normal(2, 32, 128), "start_pos": "0"}),
    ),
    _row(
        "rotary_attention", "rotary_attention.py",
        (f"RotaryAttention(){_BF16}", {"x": _normal(2, 64, 256, dtype="bfloat16")}),
        (f"RotaryAttention(2048, 16){_BF16}", {"x": _normal(8, 1024, 2048, dtype="bfloat16")}),
    ),
    _row(
        "geglu", _PARTS,
        ("GEGLU(256, 512)", {"x": _normal(4, 64, 256)}),
        ("GEGLU(1024, 4096)", {"x": _normal(16, 512, 1024)}),
    ),
    _row(
        "residual_norm", "residual_norm.py",
        ("ResidualNorm(512)", {"x": _normal(8, 64, 512), "residual": _normal(8, 64, 512)}),
        (
            f"ResidualNorm(4096){_BF16}",
            {"x": _normal(8, 2048, 4096, dtype="bfloat16"), "residual": _normal(8, 2048, 4096, dtype="bfloat16")},
        ),
    ),
    _row(
        "masked_softmax", "masked_softmax.py",
        ("MaskedSoftmax(4)", {"scores": _normal(4, 4, 64, 64), "lengths": "torch.randint(1, 65, (4,))"}),
        ("MaskedSoftmax(16)", {"scores": _normal(8, 16, 512, 512), "lengths": "torch.randint(1, 513, (8,))"}),
    ),
    _row("top_k_router", _PARTS, ("MoE(64, 8)", {"x": _normal(2, 64, 64)}), ("MoE(512, 8)", {"x": _normal(8, 128, 512)})),
    _row(
        "cross_attention", _PARTS,
        ("CrossAttention(128, 96)", {"query": _normal(2, 64, 128), "context": _normal(2, 48, 96)}),
        by_keyword=True,
    ),
    _row("windowed_attention", _PARTS, ("Windowed(64, 4, 4)", {"x": _normal(2, 16, 16, 64)})),
    _row(
        "embedding_position", "embedding_position.py",
        ("Embeddings()", {"ids": _integers(5000, 8, 128), "segments": _integers(2, 8, 128)}),
        ("Embeddings(30000, 1024)", {"ids": _integers(30000, 32, 512), "segments": _integers(2, 32, 512)}),
    ),
    _row(
        "cross_entropy", _OTHERS,
        ("SampledLoss(32, 50_000)", {"hidden": _normal(32, 32), "targets": _integers(50_000, 32)}),
        (
            f"SampledLoss(1024, 50_000){_BF16}",
            {"hidden": _normal(2048, 1024, dtype="bfloat16"), "targets": _integers(50_000, 2048)},
        ),
    ),
    _row(
        "int8_linear", _OTHERS,
        ("Int8Linear(512, 512)", {"x": _normal(16, 512)}),
        (f"Int8Linear(4096, 4096){_BF16}", {"x": _normal(32, 4096, dtype="bfloat16")}),
    ),
    _row(
        "vit_block", "vit_block.py",
        ("Block()", {"x": _normal(2, 65, 192)}),
        (f"Block(768, 12){_BF16}", {"x": _normal(32, 197, 768, dtype="bfloat16")}),
    ),
    _row(
        "encoder_decoder", "encoder_decoder.py",
        ("Translator()", {"source": _integers(1000, 2, 48), "target": _integers(1000, 2, 32)}),
    ),
    _row(
        "vanilla_rnn", "vanilla_rnn.py",
        ("VanillaRNN()", {"x": _normal(16, 128)}),
        ("VanillaRNN(2048, 4096, 1024, 256)", {"x": _normal(256, 2048)}),
    ),
    _row(
        "unet", "unet.py",
        ("UNet()", {"x": "torch.rand(1, 3, 64, 64)"}),
        ("UNet(width=64)", {"x": "torch.rand(4, 3, 256, 256)"}),
    ),
    _row(
        "bottleneck_training", _VISION,
        ("Bottleneck(32)", {"x": "torch.rand(4, 32, 32, 32)"}),
        ("Bottleneck(256, 1)", {"x": "torch.rand(32, 256, 56, 56)"}),
        training=True,
    ),
    _row(
        "dit_block", "dit_block.py",
        (f"DiTBlock(){_BF16}", {"x": _normal(2, 64, 256, dtype="bfloat16"), "condition": _normal(2, 256, dtype="bfloat16")}),
        (
            f"DiTBlock(1152, 16){_BF16}",
            {"x": _normal(16, 256, 1152, dtype="bfloat16"), "condition": _normal(16, 1152, dtype="bfloat16")},
        ),
    ),
    _row(
        "click_model", "click_model.py",
        ("ClickModel()", {"dense": _normal(256, 13), "categories": _integers(7, 256, 5)}),
        ("ClickModel()", {"dense": _normal(65536, 13), "categories": _integers(7, 65536, 5)}),
    ),
]  # fmt: skip
