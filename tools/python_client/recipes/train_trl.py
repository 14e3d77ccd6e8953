#!/usr/bin/env python3
"""Trains a Hugging Face model with TRL 1.16 on what a cudal1 node measures: chats first (SFT), then groups of answers
(GRPO). For models that need more than one GPU: start it with `accelerate launch`, and let vLLM write the answers.

    train_trl.py --model MODEL --task NAME... --out DIR [--chats FILE.jsonl] [--sft-steps N] [--grpo-steps N] [--vllm]

The node is the one that $CUDAL1_URL and $CUDAL1_TOKEN name, else the one that serves on the data folder of this machine.
README.md beside this file has the whole way.
"""

import argparse
import json
import pathlib

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from cudal1.adapters import Judge
from cudal1.adapters.trl_reward import reward_function, rows


def read_chats(path):
    """What `cudal1 chats` has written: the loss is of the answers alone."""
    out = []
    for line in pathlib.Path(path).read_text().splitlines():
        messages = json.loads(line)["messages"]
        out.append({"prompt": messages[:-1], "completion": messages[-1:]})
    return Dataset.from_list(out)


def learn_chats(model, words, o):
    settings = SFTConfig(output_dir=str(o.out / "sft"), max_steps=o.sft_steps, per_device_train_batch_size=o.batch,
                         learning_rate=o.rate, max_length=o.context, logging_steps=1, save_strategy="no", report_to=[],
                         use_cpu=o.cpu, bf16=not o.cpu, seed=o.seed)
    trainer = SFTTrainer(model=model, processing_class=words, args=settings, train_dataset=read_chats(o.chats))
    trainer.train()
    return [log["loss"] for log in trainer.state.log_history if "loss" in log]


def learn_answers(model, words, o, judge):
    # With earlier variants and their scores, as they are when this begins.
    prompts = rows(o.task, o.grpo_steps * o.prompts, judge, contrastive=True, as_messages=True,
                   tokens=o.prompt_tokens)
    settings = GRPOConfig(output_dir=str(o.out / "grpo"), max_steps=o.grpo_steps,
                          per_device_train_batch_size=o.prompts * o.group, num_generations=o.group,
                          max_completion_length=o.answer_tokens, learning_rate=o.rate, beta=o.kl, logging_steps=1,
                          save_strategy="no", report_to=[], use_cpu=o.cpu, bf16=not o.cpu, use_vllm=o.vllm, seed=o.seed)
    trainer = GRPOTrainer(model=model, processing_class=words, reward_funcs=reward_function(judge), args=settings,
                          train_dataset=Dataset.from_list(prompts))
    trainer.train()
    return [log["reward"] for log in trainer.state.log_history if "reward" in log]


def read_options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True, help="a folder, or a name of the Hugging Face hub")
    p.add_argument("--task", required=True, action="append", help="a task of the node; may be repeated")
    p.add_argument("--out", required=True, type=pathlib.Path)
    p.add_argument("--chats",
                   help="JSON lines of `cudal1 chats --form program`: learned first, but for those longer than --context")
    p.add_argument("--sft-steps", type=int, default=100)
    p.add_argument("--grpo-steps", type=int, default=100)
    p.add_argument("--batch", type=int, default=8, help="chats a step of SFT")
    p.add_argument("--prompts", type=int, default=1, help="of a step of GRPO")
    p.add_argument("--group", type=int, default=8, help="answers to each prompt")
    p.add_argument("--answer-tokens", type=int, default=2048)
    p.add_argument("--prompt-tokens", type=int, help="of a prompt, at most (default: as the node's configuration says)")
    p.add_argument("--context", type=int, default=8192)
    p.add_argument("--rate", type=float, default=1e-5)
    p.add_argument("--kl", type=float, default=0.02)
    p.add_argument("--device", help="that measures: cpu, cuda:0, ...; default: the node's first")
    p.add_argument("--vllm", action="store_true", help="answers are written by vLLM on the trainer's GPUs")
    p.add_argument("--cpu", action="store_true", help="the trainer is on the processor: for a trial")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def main():
    o = read_options()
    words = AutoTokenizer.from_pretrained(o.model)
    model = AutoModelForCausalLM.from_pretrained(o.model)
    if o.chats:
        losses = learn_chats(model, words, o)
        print(f"SFT: {len(losses)} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}")
    judge = Judge(device=o.device)
    rewards = learn_answers(model, words, o, judge)
    print(f"GRPO: {len(rewards)} steps, mean reward {rewards[0]:.3f} to {rewards[-1]:.3f}")
    model.save_pretrained(o.out / "model")
    words.save_pretrained(o.out / "model")
    print(f"kept: {o.out / 'model'}, which `cudal1 run --model` takes, too")


if __name__ == "__main__":
    main()
