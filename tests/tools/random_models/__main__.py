"""Writes random models: python3 tests/tools/random_models DIR [--seed N] [--count N]"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from random_models import random_model  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--count", type=int, default=200)
o = parser.parse_args()
o.folder.mkdir(parents=True, exist_ok=True)
for i in range(o.count):
    (o.folder / f"random_{o.seed}_{i}.py").write_text(random_model(f"{o.seed}/{i}"))
