#!/usr/bin/env python3
"""Models of torchvision, timm and transformers, and modules as people write them, with random weights: writes them as
files with Model, get_inputs and get_init_inputs, and searches each as a user does.

    python3 tests/tools/library_models write DIR [--size cpu|gpu] [--only NAME,...]
    python3 tests/tools/library_models search BIN DIR [--device cpu] [--time 60s] [--only NAME,...] [--out FOLDER]

`write` makes one file for each model. With --size gpu it makes those that are worth measuring on a GPU, at the size of
real use, some in bfloat16. `search` runs BIN/cudal1 on each file of DIR, one after the other, and prints a line for each:
its steps, evaluations, best speedup over the task's own program, failures by outcome, and what is remarkable. It needs a
Python with torch, torchvision, timm and transformers in CUDAL1_PYTHON. FOLDER (default: a temporary one) gets the data
folder of each model, and the report and log of each search; of those that end without a fault only the report is kept.

A fault is a crash, a hang, a write out of bounds, a failure that only a bug of cudal1 explains, a lost attempt, or an
error. Exit codes: 0 no model has a fault (some may be refused by the importer); 1 one has; 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import row  # noqa: E402
import searching  # noqa: E402
import table  # noqa: E402


def chosen(names: list[str], words: str) -> list[str]:
    """All, or those whose names begin with one of the words."""
    wanted = [w for w in words.split(",") if w]
    for word in wanted:
        if not any(name.startswith(word) for name in names):
            raise SystemExit(f"library_models: --only {word}: there is no such model")
    return [name for name in names if not wanted or any(name.startswith(w) for w in wanted)]


def write(o: argparse.Namespace) -> int:
    rows = {r.name: r for r in table.ROWS if o.size == "cpu" or r.gpu is not None}
    names = chosen(list(rows), o.only)
    o.folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (o.folder / f"{name}.py").write_text(row.file_text(rows[name], o.size), encoding="utf-8")
    print(f"{len(names)} files in {o.folder}")
    return 0


def search(o: argparse.Namespace) -> int:
    files = {path.stem: path for path in sorted(o.folder.glob("*.py"))}
    if not files:
        print(f"library_models: {o.folder} has no models; `write {o.folder}` makes them", file=sys.stderr)
        return 2
    return searching.run([files[name] for name in chosen(list(files), o.only)], o)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="library_models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    writer = commands.add_parser("write", help="writes the models as files")
    writer.add_argument("folder", type=pathlib.Path, metavar="DIR")
    writer.add_argument("--size", choices=("cpu", "gpu"), default="cpu", help="for two cores, or for a GPU (default cpu)")
    writer.set_defaults(command=write)
    searcher = commands.add_parser("search", help="searches each of them")
    searcher.add_argument("bin", type=pathlib.Path, metavar="BIN", help="with cudal1, as in build/bin")
    searcher.add_argument("folder", type=pathlib.Path, metavar="DIR")
    searcher.add_argument("--device", default="cpu")
    searcher.add_argument("--time", default="60s", help="of each search (default 60s)")
    searcher.add_argument("--out", type=pathlib.Path, metavar="FOLDER")
    searcher.set_defaults(command=search)
    for one in (writer, searcher):
        one.add_argument("--only", default="", metavar="NAME,...", help="names, or beginnings of names")
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse()
    sys.exit(arguments.command(arguments))
