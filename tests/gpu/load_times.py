#!/usr/bin/env python3
"""How long exported files take to load, which is to compile: each in a process of its own and from nothing, the same
files of several exports in turns. Needs PyTorch and nvcc; without a GPU files load as well.

    load_times.py EXPORT...            all files of each export's index.json
    load_times.py --count 12 OLD NEW   twelve of the files that all have
    load_times.py --jobs 8 EXPORT      eight at a time, as an export builds them
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

LOAD = """
import resource, sys, time
import torch
import torch.utils.cpp_extension
begin = time.perf_counter()
exec(compile(open(sys.argv[1]).read(), "<string>", "exec"), {})
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.perf_counter() - begin, used.ru_utime + used.ru_stime)
"""


def load(file: pathlib.Path) -> tuple[float, float]:
    """Seconds without the import of PyTorch, and seconds that the compilers computed."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", LOAD, file], capture_output=True, text=True, check=True,
                              env={**os.environ, "TORCH_EXTENSIONS_DIR": folder})
    wall, computed = done.stdout.split()[-2:]
    return float(wall), float(computed)


def files_of(export: pathlib.Path) -> set[str]:
    return {task["file"] for task in json.loads((export / "index.json").read_text())["tasks"] if task["file"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exports", nargs="+", type=pathlib.Path)
    parser.add_argument("--count", type=int, help="of the files, evenly spread")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    names = sorted(set.intersection(*map(files_of, options.exports)))
    if options.count and options.count < len(names):
        names = [names[i * len(names) // options.count] for i in range(options.count)]
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        loads = [(name, export, pool.submit(load, export / name)) for name in names for export in options.exports]
        times = {export: [] for export in options.exports}
        for name, export, loaded in loads:
            times[export].append(loaded.result())
            print(f"{name:60} {str(export):30} {loaded.result()[0]:6.1f} s, compilers {loaded.result()[1]:6.1f} s",
                  flush=True)
    for export, found in times.items():
        wall, computed = zip(*found)
        print(f"{export}: {len(found)} files, median {statistics.median(wall):.1f} s, at most {max(wall):.1f} s; "
              f"compilers {statistics.median(computed):.1f} s, at most {max(computed):.1f} s")
    print(f"{time.perf_counter() - begin:.0f} s in all, {options.jobs} at a time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
