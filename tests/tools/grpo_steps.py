#!/usr/bin/env python3
"""By hand: TRL's GRPOTrainer with a tiny random model, whose reward is judged by a node on `cpu`. Needs `pip install
trl==1.16.0` in the environment that runs it.

    grpo_steps.py BIN [STEPS]
"""

import sys
import tempfile

from served_node import ServedNode

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from cudal1.adapters import Judge
from cudal1.adapters.trl_reward import reward_function, rows


def tokenizer():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {c: i for i, c in enumerate(["<pad>", "<eos>", *alphabet])}
    raw = Tokenizer(models.BPE(words, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>")


def main():
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    torch.manual_seed(1)
    words = tokenizer()
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
                                         num_attention_heads=2, max_position_embeddings=4096))
    node = ServedNode(sys.argv[1])
    try:
        judge = Judge(node.client())
        prompts = [{**row, "prompt": row["prompt"][-400:]} for row in rows(["tiny"], 2 * steps, judge)]
        with tempfile.TemporaryDirectory() as folder:
            settings = GRPOConfig(output_dir=folder, max_steps=steps, per_device_train_batch_size=4, num_generations=4,
                                  max_completion_length=16, report_to=[], use_cpu=True, logging_steps=1, save_strategy="no")
            trainer = GRPOTrainer(model=model, processing_class=words, reward_funcs=reward_function(judge), args=settings,
                                  train_dataset=Dataset.from_list(prompts))
            trainer.train()
        rewards = [log["reward"] for log in trainer.state.log_history if "reward" in log]
        jobs = node.client().jobs()
        print(f"{len(rewards)} steps; rewards {min(rewards)} to {max(rewards)}; {len(jobs)} jobs, of "
              f"{sum(j['evaluations'] for j in jobs)} answers")
        if len(rewards) != steps:
            raise SystemExit("not all steps were taken")
    finally:
        node.close()


if __name__ == "__main__":
    main()
