#!/usr/bin/env python3
"""`cudal1 verify PACKAGE`: the package's own check, `python -m PACKAGE`, of a folder or an installed package."""

from __future__ import annotations

import importlib
import sys
import warnings

from opened_package import NoPackage, opened


def main(words: list[str]) -> int:
    warnings.filterwarnings("ignore")
    sys.dont_write_bytecode = True  # the package's folder stays as it is
    try:
        package = opened(words[0])
    except NoPackage as e:
        print(f"cudal1: {e}", file=sys.stderr)
        return 2
    return importlib.import_module(f"{package.name}._cudal1.verify").main(package, words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
