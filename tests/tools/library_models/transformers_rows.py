"""Models of transformers, made from configurations: two layers, 128 to 256 wide. For a GPU two layers as wide as those of
a small model, and some in bfloat16."""

from row import Row, Size, tokens

_SMALL = "hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512, vocab_size=1000"
_LLAMA = f"{_SMALL}, num_key_value_heads=2, use_cache=False"
_BASE = "num_hidden_layers=2, vocab_size=8000"
_BILLION = (
    "hidden_size=2048, num_hidden_layers=2, num_attention_heads=16, num_key_value_heads=4, intermediate_size=5632, "
    "vocab_size=8000, use_cache=False"
)
_IDS = tokens(2, 64)
_GPU_IDS = tokens(8, 256, 8000)
_LONG_IDS = tokens(4, 512, 8000)


def _made(name: str, config: str, dtype: str = "") -> str:
    """Model and configuration are named alike, but for the head: "Bert", or "Bert:ForMaskedLM"."""
    kind, _, head = name.partition(":")
    made = f"transformers.{kind}{head or 'Model'}(transformers.{kind}Config({config}))"
    return f"{made}.to(torch.{dtype})" if dtype else made


def _row(name: str, model: str, config: str, inputs: dict[str, str] = _IDS, gpu: Size | None = None) -> Row:
    return Row(f"transformers_{name}", "transformers", Size(_made(model, config), inputs), gpu, by_keyword=True)


def _text(model: str, config: str, dtype: str = "", inputs: dict[str, str] = _GPU_IDS) -> Size:
    return Size(_made(model, config, dtype), inputs)


_GPT2 = "n_embd=128, n_layer=2, n_head=4, vocab_size=1000, n_positions=128, use_cache=False"
_T5 = "d_model=128, d_kv=32, d_ff=512, num_layers=2, num_heads=4, vocab_size=1000, use_cache=False"
_BART = (
    "d_model=128, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, "
    "encoder_ffn_dim=512, decoder_ffn_dim=512, vocab_size=1000, use_cache=False"
)
_PAIR = {**tokens(2, 48), **tokens(2, 32, name="decoder_input_ids")}
_VISION = "hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512, image_size=64, patch_size=16"
_PIXELS = {"pixel_values": "torch.rand(2, 3, 64, 64)"}
_CLIP = (
    "text_config=dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512, vocab_size=1000, "
    f"max_position_embeddings=64), vision_config=dict({_VISION}), projection_dim=64"
)

ROWS = [
    _row("albert", "Albert", f"{_SMALL}, embedding_size=64"),
    _row("bert", "Bert", _SMALL, {**_IDS, "attention_mask": "torch.ones(2, 64, dtype=torch.int64)"}, _text("Bert", _BASE)),
    _row("bloom", "Bloom", "hidden_size=128, n_layer=2, n_head=4, vocab_size=1000, use_cache=False"),
    _row("distilbert", "DistilBert", "dim=128, n_layers=2, n_heads=4, hidden_dim=512, vocab_size=1000"),
    _row("electra", "Electra:ForMaskedLM", f"{_SMALL}, embedding_size=64"),
    _row("gemma2", "Gemma2", f"{_LLAMA}, head_dim=32", gpu=_text("Gemma2", f"{_BILLION}, head_dim=128", "bfloat16")),
    _row(
        "gpt2", "GPT2:LMHeadModel", _GPT2,
        gpu=_text("GPT2:LMHeadModel", "n_layer=2, vocab_size=8000, use_cache=False", "", _LONG_IDS),
    ),
    _row("falcon", "Falcon", "hidden_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=1000, use_cache=False"),
    _row("llama", "Llama:ForCausalLM", _LLAMA, gpu=_text("Llama:ForCausalLM", _BILLION, "bfloat16", _LONG_IDS)),
    _row("mamba", "Mamba", "hidden_size=128, num_hidden_layers=2, state_size=8, vocab_size=1000, use_cache=False"),
    _row("t5", "T5", _T5, _PAIR),
    _row("phi3", "Phi3", f"{_LLAMA}, pad_token_id=0", gpu=_text("Phi3", f"{_BILLION}, pad_token_id=0", "bfloat16", _LONG_IDS)),
    _row("qwen3", "Qwen3", f"{_LLAMA}, head_dim=32", gpu=_text("Qwen3", f"{_BILLION}, head_dim=128", "bfloat16", _LONG_IDS)),
    _row("mixtral", "Mixtral", f"{_LLAMA}, num_local_experts=4"),
    _row("opt", "OPT", "hidden_size=128, num_hidden_layers=2, num_attention_heads=4, ffn_dim=512, vocab_size=1000, "
         "word_embed_proj_dim=128, use_cache=False"),
    _row("gpt_neox", "GPTNeoX", f"{_SMALL}, use_cache=False"),
    _row("bart", "Bart", _BART, _PAIR),
    _row("vit", "ViT", _VISION, _PIXELS, Size(_made("ViT", "num_hidden_layers=4"), {"pixel_values": "torch.rand(16, 3, 224, 224)"})),
    _row(
        "wav2vec2", "Wav2Vec2",
        "hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512, conv_dim=(64, 64, 64), "
        "conv_stride=(5, 4, 4), conv_kernel=(10, 8, 8), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4",
        {"input_values": "torch.randn(2, 4000)"},
    ),
    _row("clip", "CLIP", _CLIP, {**tokens(2, 32), **_PIXELS}),
]  # fmt: skip
