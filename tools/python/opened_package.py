"""Finds a package of variants by its folder or by the name under which it is installed."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
from typing import Any


class NoPackage(Exception):
    """The text says what was looked for, and what to do."""


def module_folder(place: pathlib.Path) -> pathlib.Path | None:
    """The folder that Python imports: that itself, or the one in an exported folder."""
    if (place / "index.json").is_file() and (place / "_cudal1").is_dir():
        return place
    inside = [p for p in sorted(place.iterdir()) if (p / "index.json").is_file() and (p / "_cudal1").is_dir()]
    return inside[0] if len(inside) == 1 else None


def opened(named: str) -> Any:
    """The Package. Raises NoPackage."""
    place = pathlib.Path(named)
    if place.is_dir():
        folder = module_folder(place)
        if folder is None:
            raise NoPackage(f"{named} is no package of variants; `cudal1 export {named} --format torch` writes one")
        sys.path.insert(0, str(folder.resolve().parent))
        name = folder.name
    elif named.isidentifier() and importlib.util.find_spec(named) is not None:
        name = named
    else:
        raise NoPackage(f"{named} is neither a folder nor an installed package; `cudal1 export DIR --format torch` writes "
                        "one, and `pip install DIR` installs it")
    try:
        return importlib.import_module(name)._package
    except Exception as e:  # a damaged package
        raise NoPackage(f"{named} cannot be imported: {type(e).__name__}: {e}") from e
