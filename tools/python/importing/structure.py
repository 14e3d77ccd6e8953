"""What forward takes and returns its tensors in: tuples, lists, dicts, dataclasses and named tuples, nested."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from typing import Any, Iterator

import torch

from .refusal import Refused

pytree = torch.utils._pytree

_CONTAINERS = (tuple, list, dict, collections.OrderedDict)


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def fields_of(value: Any) -> list[tuple[str, Any]] | None:
    """Names and values of an object that is made of its fields: a dataclass (transformers' ModelOutput is a dict, too,
    and leaves out what is None), a named tuple. None for anything else."""
    if isinstance(value, dict):
        return list(value.items()) if _is_dataclass(value) else None
    if _is_dataclass(value):
        return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value) if f.init]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value))
    return None


def items_of(value: Any) -> list[Any] | None:
    """What a container holds, in the order of its leaves; None if it is no container."""
    fields = fields_of(value)
    if fields is not None:
        return [item for _, item in fields]
    # What torch.max and its like give is a tuple of their own kind.
    if type(value) in _CONTAINERS or type(value).__module__ == "torch.return_types":
        return list(value.values() if isinstance(value, dict) else value)
    return None


def register(value: Any) -> list[type]:
    """Makes torch's trees look into the dataclasses of a value, which are new to them; gives these classes."""
    new = []
    items = items_of(value)
    if _is_dataclass(value) and not isinstance(value, dict) and type(value) not in pytree.SUPPORTED_NODES:
        pytree.register_dataclass(type(value))
        new.append(type(value))
    return list(dict.fromkeys(new + [cls for item in items or () for cls in register(item)]))


def class_name(cls: type, source: str, where: str = "") -> str:
    """As a task's file names it: "Out" of the source (the module of that name) itself, or "package.module:Out"."""
    if "<" in cls.__qualname__ or not cls.__qualname__.isascii():
        raise Refused(
            f"forward has an object of the type {cls.__qualname__}{where}, which cannot be found by that name: define the "
            "class at the top of the file"
        )
    return cls.__qualname__ if cls.__module__ == source else f"{cls.__module__}:{cls.__qualname__}"


def check_returned(value: Any, where: str = "", name: str = "") -> None:
    """Before torch.export sees it, which knows more kinds of containers than a task, and says less of the others."""
    items = items_of(value)
    names = value.keys() if isinstance(value, dict) else [name for name, _ in fields_of(value) or ()]
    for key, item in itertools.zip_longest(names, items or ()):
        check_returned(item, where, key if isinstance(key, str) else "")
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        raise Refused(f"forward returns a dict whose keys are no strings{where}; use strings, or a tuple")
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise Refused(
            f"forward returns Python numbers that depend on values{where} (.item() or .tolist()); a task's outputs are tensors: "
            "return the tensor that they are taken from"
        )
    if items is None and value is not None and not isinstance(value, (torch.Tensor, int, float, str)):
        hint = " (use_cache=False in the model's configuration)" if name == "past_key_values" else ""
        raise Refused(
            f"forward returns {f'{name}, ' if name else ''}an object of type {type(value).__name__}{where}; return tensors, "
            f"alone or in tuples, lists, dicts, named tuples and dataclasses{hint}"
        )
    register(value)


def template(value: Any, places: Iterator[int | None], source: str, where: str = "") -> Any:
    """The containers of forward's result as a task's file has them; `places`: of each leaf among the outputs."""
    fields = fields_of(value)
    if fields is not None:
        # Torch's trees leave out what is None in a dataclass, and in nothing else.
        none_is_leaf = isinstance(value, tuple)
        items = [
            [n, None if x is None and not none_is_leaf else template(x, places, source, where)] for n, x in fields
        ]
        return {"object": [class_name(type(value), source, where), *items]}
    if isinstance(value, dict):
        return {"dict": [[key, template(item, places, source, where)] for key, item in value.items()]}
    items = items_of(value)
    if items is not None:
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [template(item, places, source, where) for item in items]}
    return next(places)


def places_in(returns: Any) -> Iterator[int]:
    """The outputs that forward returns, in the order of its result's leaves."""
    if isinstance(returns, dict):
        ((kind, items),) = returns.items()
        for item in items[1:] if kind == "object" else items:
            yield from places_in(item[1] if kind in ("dict", "object") else item)
    elif returns is not None:
        yield returns
