"""Tiny random models in the layouts of Llama, Qwen2 and Qwen3, and what transformers computes with them."""

import json
import os

import numpy
import torch
from safetensors.torch import save_file
from transformers import (LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

TOKENS = 40  # of the text whose logits are compared
GREEDY = 32


def write_expected(model, folder, tokens):
    """The logits of a text, and what follows it by greedy choice."""
    model.eval()
    text = torch.tensor([tokens])
    with torch.no_grad():
        logits = model(text).logits[0].float()
        made = model.generate(text, attention_mask=torch.ones_like(text), max_new_tokens=GREEDY, do_sample=False,
                              eos_token_id=None, pad_token_id=0)
    save_file({"tokens": text[0], "logits": logits.contiguous(), "greedy": made[0, len(tokens):].contiguous()},
              os.path.join(folder, "expected.safetensors"))


def enlarge(model, seed):
    """Weights of a size at which every part matters: as initialised, attention would be nearly uniform."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                centre = 0.0 if name.endswith("bias") else 1.0
                weight.copy_(centre + 0.3 * torch.randn(weight.shape, generator=generator))
            else:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 1.5 / weight.shape[1] ** 0.5)


def rewrite_config(folder, change):
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    change(config)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)


def as_older_config(config):
    """Positions as folders before transformers 5 state them."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope if rope.get("rope_type", "default") != "default" else None


SIZES = dict(vocab_size=151, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=256)
SCALINGS = {
    "default": None,
    "linear": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
    "llama3": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
    "yarn": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64},
}


def make_folders(out):
    tokens = numpy.random.default_rng(7).integers(0, SIZES["vocab_size"], TOKENS).tolist()

    def make(name, model, seed, older=False, dtype=torch.float32, shard="10GB"):
        folder = os.path.join(out, name)
        enlarge(model, seed)
        model = model.to(dtype)
        model.save_pretrained(folder, max_shard_size=shard)
        if older:
            rewrite_config(folder, as_older_config)
        # Read again: `to` rounds the frequencies of positions to a half type, too.
        write_expected(type(model).from_pretrained(folder, dtype=torch.float32), folder, tokens)

    for number, (name, rope) in enumerate(SCALINGS.items()):
        config = LlamaConfig(**SIZES, rope_parameters=rope, tie_word_embeddings=number % 2 == 1)
        make(f"llama_{name}", LlamaForCausalLM(config), number, older=number % 2 == 0)
    make("qwen2", Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)), 10, shard="20KB")
    make("qwen2_half", Qwen2ForCausalLM(Qwen2Config(**SIZES)), 11, older=True, dtype=torch.bfloat16)
    make("qwen3", Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16)), 12, older=True)
    make("llama_float16", LlamaForCausalLM(LlamaConfig(**SIZES, head_dim=24)), 13, dtype=torch.float16)
