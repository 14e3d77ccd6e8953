"""Adapters (LoRA) by PEFT for the tiny models, and what PEFT computes with them.

    adapters.py FOLDER MODEL ADAPTER    compares: loads the adapter in the folder ADAPTER, which has tokens and logits
                                        of its own in expected.safetensors, into FOLDER/MODEL. Ends with 1 where PEFT
                                        computes others."""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.join(sys.argv[1], "packages"))
    os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from safetensors.torch import load_file, save_file

RANK, ALPHA = 4, 10
ADAPTED = {
    "llama_default": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    "qwen2": ["q_proj", "v_proj"],
    "qwen3": ["k_proj", "o_proj", "up_proj", "down_proj"],
}
PREFIX, ENDING = "base_model.model.", ".default.weight"


def name_of(parameter):
    """model.layers.0.self_attn.q_proj.weight.lora_A for PEFT's base_model.model.(...).q_proj.lora_A.default.weight"""
    name, factor = parameter[len(PREFIX):-len(ENDING)].rsplit(".", 1)
    return f"{name}.weight.{factor}"


def make_adapters(out):
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM
    for number, (name, targets) in enumerate(ADAPTED.items()):
        base = AutoModelForCausalLM.from_pretrained(os.path.join(out, name), dtype=torch.float32)
        model = get_peft_model(base, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets, lora_dropout=0.0,
                                                task_type="CAUSAL_LM"))
        generator = torch.Generator().manual_seed(100 + number)
        trained = {name_of(key): value for key, value in model.named_parameters() if value.requires_grad}
        with torch.no_grad():
            for value in trained.values():
                value.copy_(torch.randn(value.shape, generator=generator) * 0.4 / value.shape[1] ** 0.5)
        folder = os.path.join(out, "adapters", name)
        model.save_pretrained(folder)
        tokens = load_file(os.path.join(out, name, "expected.safetensors"))["tokens"]
        logits = model(tokens[None]).logits[0]
        # The second half of the text is what was written.
        half = len(tokens) // 2
        loss = torch.nn.functional.cross_entropy(logits[half - 1:-1], tokens[half:])
        loss.backward()
        save = {"tokens": tokens, "logits": logits.detach().contiguous(), "loss": loss.detach().reshape(1)}
        save.update({f"gradient/{key}": value.grad.contiguous() for key, value in trained.items()})
        save_file(save, os.path.join(folder, "expected.safetensors"))


def compare(out, name, adapter):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM
    base = AutoModelForCausalLM.from_pretrained(os.path.join(out, name), dtype=torch.float32)
    model = PeftModel.from_pretrained(base, adapter)
    expected = load_file(os.path.join(adapter, "expected.safetensors"))
    with torch.no_grad():
        logits = model(expected["tokens"][None]).logits[0]
    most = (logits - expected["logits"]).abs().max().item()
    print(f"largest difference of logits: {most:.2e}")
    return 0 if most < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(compare(*sys.argv[1:]))
