#!/usr/bin/env python3
"""By hand: the recipes for trainers (tools/python_client/recipes) at toy size: a tiny random model, chats of a search, and
answers that a node judges on `cpu`. Needs `pip install trl==1.16.0` in the environment that runs it.

    grpo_steps.py BIN [STEPS]
"""

import os
import pathlib
import subprocess
import sys
import tempfile

from served_node import ROOT, ServedNode

import torch
from datasets import load_dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

RECIPES = ROOT / "tools/python_client/recipes"
TEMPLATE = ("{% for m in messages %}<{{ m.role }}>\n{{ m.content }}\n{% if m.role == 'assistant' %}<eos>{% endif %}"
            "{% endfor %}{% if add_generation_prompt %}<assistant>\n{% endif %}")


def write_model(folder):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {c: i for i, c in enumerate(["<pad>", "<eos>", *alphabet])}
    raw = Tokenizer(models.BPE(words, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
                                 num_attention_heads=2, max_position_embeddings=32768, eos_token_id=1,
                                 pad_token_id=0)).save_pretrained(folder)


def main():
    steps = sys.argv[2] if len(sys.argv) > 2 else "10"
    node = ServedNode(sys.argv[1])
    try:
        environment = {**os.environ, "CUDAL1_URL": node.url, "CUDAL1_TASKS": node.environment["CUDAL1_TASKS"],
                       "PYTHONPATH": str(ROOT / "tools/python_client"), "TOKENIZERS_PARALLELISM": "false"}

        def run(*command):
            subprocess.run([str(word) for word in command], env=environment, check=True)

        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            write_model(folder / "tiny")
            cudal1 = [node.bin / "cudal1", "--data", node.data]
            run(*cudal1, "run", "--policy", "random", "--task", "gated_silu", "--evaluations", "6", "--device", "cpu")
            run(*cudal1, "chats", folder / "chats.jsonl", "--form", "program", "--device", "cpu", "--better", "1",
                "--least", "0", "--detail", "compact")
            run(sys.executable, RECIPES / "train_trl.py", "--model", folder / "tiny", "--task", "tiny", "--task",
                "gated_silu", "--chats", folder / "chats.jsonl", "--sft-steps", steps, "--grpo-steps", steps, "--batch", 1,
                "--group", 4, "--answer-tokens", 16, "--context", 8192, "--prompt-tokens",
                5000, "--cpu", "--out", folder / "out")
            run(sys.executable, RECIPES / "verl_data.py", folder / "rows.parquet", "--task", "tiny", "--rows", 3)
            rows = load_dataset("parquet", data_files=str(folder / "rows.parquet"))["train"]
            if len(rows) != 3 or rows[0]["reward_model"]["ground_truth"] != "tiny":
                raise SystemExit("the rows for verl are not as they should be")
            from cudal1.adapters.verl_reward import compute_score
            os.environ["CUDAL1_URL"] = node.url
            print("verl:", compute_score(rows[0]["data_source"], "no program", rows[0]["reward_model"]["ground_truth"]))
        jobs = node.client().jobs()
        answers = sum(j["evaluations"] for j in jobs)
        print(f"{len(jobs)} jobs, of {answers} answers")
        if answers < 4 * int(steps):
            raise SystemExit("not all answers were judged")
    finally:
        node.close()


if __name__ == "__main__":
    main()
