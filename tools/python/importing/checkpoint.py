"""A file with a model's state_dict: found, read and put into the model."""

from __future__ import annotations

import json
import mmap
import pathlib
import pickle
from typing import Any

import torch

from .refusal import Refused
from .source import one_line

DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
MARK = "CUDAL1_WEIGHTS"
_ENDINGS = (".safetensors", ".pt", ".pth")
# What training loops save a state_dict under, and what wrappers put before its names.
_KEYS = ("state_dict", "model_state_dict", "model")
_PREFIXES = ("module.", "_orig_mod.")


def read_tensors(path: pathlib.Path) -> dict[str, torch.Tensor]:
    """Of a safetensors file."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in DTYPES:
            raise Refused(f"{path.name}: {name} is {entry['dtype']}; a task's tensors are {', '.join(DTYPES)}")
        begin, end = entry["data_offsets"]
        dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
        if begin == end:
            tensors[name] = torch.empty(shape, dtype=dtype)
            continue
        flat = torch.frombuffer(data, dtype=torch.uint8, count=end - begin, offset=8 + length + begin)
        tensors[name] = flat.clone().view(dtype).reshape(shape)
    return tensors


def _read(path: pathlib.Path) -> dict[str, torch.Tensor]:
    if not path.is_file():
        raise Refused(f"--weights {path}: there is no such file")
    try:
        if path.suffix == ".safetensors":
            return read_tensors(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as e:
        raise Refused(
            f"{path} holds more than tensors, and what it holds would be executed: save the state_dict alone, "
            "torch.save(model.state_dict(), FILE)"
        ) from e
    except (OSError, RuntimeError, ValueError, KeyError, EOFError) as e:
        raise Refused(f"{path} is no checkpoint that can be read: {one_line(e)}") from e
    for key in _KEYS:
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(t, torch.Tensor) for t in state.values()):
        raise Refused(f"{path} holds no state_dict; save one with torch.save(model.state_dict(), FILE)")
    return state


def _named(items: list[str]) -> str:
    return ", ".join(items[:4]) + (f" and {len(items) - 4} more" if len(items) > 4 else "")


def put(state: dict[str, torch.Tensor], model: torch.nn.Module, what: str) -> None:
    """Into the model, all of it; a tensor that is tied to another may be missing."""
    own = model.state_dict(keep_vars=True)
    for prefix in _PREFIXES:
        if state and all(name.startswith(prefix) for name in state) and not any(n.startswith(prefix) for n in own):
            state = {name.removeprefix(prefix): t for name, t in state.items()}
    given = {t.data_ptr() for name, t in own.items() if name in state}
    missing = [name for name, t in own.items() if name not in state and t.data_ptr() not in given and t.numel()]
    unknown = [name for name in state if name not in own]
    if missing or unknown:
        parts = [f"it has no {_named(missing)}"] * bool(missing) + [f"the model has no {_named(unknown)}"] * bool(unknown)
        raise Refused(f"{what} is not the state_dict of this model: {'; '.join(parts)}")
    shapes = [f"{n} {list(state[n].shape)} for {list(own[n].shape)}" for n in state if state[n].shape != own[n].shape]
    if shapes:
        raise Refused(f"{what} is not the state_dict of this model: it has {_named(shapes)}")
    model.load_state_dict(state, strict=False)


class Checkpoint:
    """The weights that a task has instead of those that its seed makes. `named`: asked for, by --weights."""

    def __init__(self, path: pathlib.Path, named: bool) -> None:
        self.path, self.named = path, named
        self.state = _read(path)

    def put(self, model: torch.nn.Module) -> None:
        put(self.state, model, str(self.path) if self.named else self.path.name)


def find(asked: str, folder: str | None, file: str | None) -> tuple[Checkpoint | None, list[str]]:
    """What --weights names, else what is beside the file; and a note where that cannot be read."""
    if asked:
        return Checkpoint(pathlib.Path(asked).resolve(), True), []
    for ending in _ENDINGS if folder and file else ():
        beside = pathlib.Path(folder, file).with_suffix(ending)
        if beside.is_file():
            try:
                return Checkpoint(beside, False), []
            except Refused as e:
                return None, [f"{beside.name} was not taken: {e}"]
    return None, []


def fitting(found: Checkpoint | None, model: Any) -> tuple[Checkpoint | None, list[str]]:
    """Puts the weights into a model. What is only beside the file may be another model's."""
    if found is None:
        return None, []
    try:
        found.put(model)
    except Refused as e:
        if found.named:
            raise
        return None, [f"{found.path.name} was not taken: {e}"]
    return found, [f"its weights are those of {found.path.name}"]


def marked(code: bytes, taken: Checkpoint | None) -> bytes:
    """The source of a task whose weights are not those of its seed."""
    if taken is None:
        return code
    words = f"# The task's weights are those of this checkpoint.\n{MARK} = {taken.path.name!r}\n"
    return code.rstrip(b"\n") + b"\n\n\n" + words.encode()
