"""Writes random tasks: python3 tests/tools/random_tasks DIR [--seed N] [--count N]"""

import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from random_tasks import random_task  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--count", type=int, default=100)
o = parser.parse_args()
o.folder.mkdir(parents=True, exist_ok=True)
for i in range(o.count):
    task = random_task(f"random_{o.seed}_{i}", random.Random(f"{o.seed}/{i}"))
    (o.folder / f"{task['name']}.json").write_text(json.dumps(task, indent=1) + "\n")
