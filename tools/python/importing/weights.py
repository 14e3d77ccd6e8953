"""Weights: their names, how the randomised kinds of draws make them, and the file that holds their values."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import pathlib
import re
import tempfile
from typing import Any, Callable

import torch

from .program import Program, Value

_SAFETENSORS = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float64: "F64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
DTYPES = tuple(_SAFETENSORS)  # that a task's tensors may have


def is_running_statistic(v: Value) -> bool:
    return v.target.rsplit(".", 1)[-1] in ("running_mean", "running_var")


def is_statistic(path: str) -> bool:
    """Of a batch norm in training mode, by its name in the module."""
    return path.rsplit(".", 1)[-1] in ("running_mean", "running_var", "num_batches_tracked")


def fixed_test(make_model: Callable[[int], torch.nn.Module], seed: int) -> Callable[[Value], bool]:
    """Values that the seed changes are drawn, like parameters; the others belong to the definition.
    `make_model` is called with another seed, only if that is needed."""
    other: list[torch.nn.Module] = []

    def is_fixed(v: Value) -> bool:
        # Whole numbers may be indices, which must not be drawn; bytes are numbers that are scaled.
        if not v.fake.dtype.is_floating_point and not v.fake.dtype.is_complex and v.fake.dtype not in (torch.int8, torch.uint8):
            return True
        if is_running_statistic(v):
            return False
        at: Any = None
        if not other:
            other.append(make_model(seed + 1))
        try:
            at = other[0]
            for part in v.target.split("."):
                at = getattr(at, part)
        except AttributeError:
            return True  # made in forward, from numbers in the file
        return not isinstance(at, torch.Tensor) or bool(torch.equal(at.detach(), v.data))

    return is_fixed


def _rounded(x: float) -> float:
    return float(f"{x:.6g}")


def _draw(v: Value) -> tuple[dict[str, Any], list[str]]:
    """How to draw similar values, and the facts of those draws."""
    if v.target.rsplit(".", 1)[-1] == "running_var":
        return {"distribution": "uniform", "low": 0.5, "high": 1.5, "min": 0.01}, ["non_negative"]
    if not v.fake.dtype.is_floating_point:
        if v.fake.dtype == torch.bool:
            return {"distribution": "bernoulli", "probability": 0.5}, []
        low, high = (int(x) for x in v.data.aminmax())
        return {"distribution": "integer", "low": low, "high": high + 1}, []
    data = v.data.double()
    finite = data[data.isfinite()]
    mean = float(finite.mean()) if finite.numel() else 0.0
    std = float(finite.std(correction=0)) if finite.numel() > 1 else 0.0
    if std <= 1e-6 * max(1.0, abs(mean)):  # a gain of ones, a bias of zeros: values around it
        return {"distribution": "normal", "mean": _rounded(mean), "std": 0.2}, []
    return {"distribution": "normal", "mean": _rounded(mean), "std": _rounded(std)}, []


def _identifier(text: str, taken: set[str]) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)[:150] or "tensor"
    name = name if not name[0].isdigit() else f"_{name}"
    unique, n = name, 2
    while unique in taken:
        unique, n = f"{name}_{n}", n + 1
    taken.add(unique)
    return unique


def name_values(program: Program) -> None:
    """Inputs first, so that they keep the names that users know."""
    taken: set[str] = set()
    for v in program.inputs:
        v.name = _identifier(v.name, taken)
    for v in program.weights:
        v.target = v.target if v.target and not v.target.startswith("lifted_tensor") else v.name
        v.name = _identifier(v.target, taken)
        if v.target.startswith(("constant_", "c_lifted")):
            v.target = v.name
    for step in program.steps:
        for out in step.outs:
            if out is not None:
                out.name = _identifier(out.name, taken)


def declare_weights(program: Program, blob: str) -> list[dict[str, Any]]:
    declared = []
    for v in program.weights:
        draw, facts = _draw(v)
        content: dict[str, Any] = {"file": blob, "tensor": v.target}
        if v.kind == "constant":
            content["fixed"] = True
        declared.append(
            {
                "name": v.name,
                "dtype": dtype_name(v.fake.dtype),
                "shape": list(v.fake.shape),
                "draw": draw,
                "facts": facts,
                "content": content,
            }
        )
    return declared


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _bytes_of(t: torch.Tensor) -> memoryview:
    """Little-endian, as on every machine that runs CUDA."""
    flat = t.detach().contiguous()
    flat = flat.as_strided((flat.numel(),), (1,)).view(torch.uint8)  # one element may have any stride
    return memoryview((ctypes.c_char * flat.numel()).from_address(flat.data_ptr())).cast("B")


def tensor_hash(t: torch.Tensor) -> str:
    return hashlib.sha256(_bytes_of(t)).hexdigest() if t.numel() else ""


def write_weights(program: Program, folder: pathlib.Path) -> str | None:
    """DIR/HASH.safetensors; its name, or None where there are none."""
    tensors = {v.target: v.data for v in program.weights}
    return write_tensors(tensors, folder) if tensors else None


def write_tensors(tensors: dict[str, torch.Tensor], folder: pathlib.Path) -> str:
    """The format: the header's length in 8 bytes, a JSON header, the tensors' bytes in its order."""
    tensors = {name: t.detach().contiguous() for name, t in tensors.items()}
    header, at = {}, 0
    for name in sorted(tensors):
        size = tensors[name].numel() * tensors[name].element_size()
        header[name] = {
            "dtype": _SAFETENSORS[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [at, at + size],
        }
        at += size
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    parts = [len(text).to_bytes(8, "little"), text]
    return _write_blob(folder, "safetensors", parts + [_bytes_of(tensors[name]) for name in sorted(tensors)])


def write_source(code: bytes, folder: pathlib.Path) -> str:
    return _write_blob(folder, "py", [code])


def _write_blob(folder: pathlib.Path, kind: str, parts: list[Any]) -> str:
    """Writes a file named by the SHA-256 of its bytes, atomically."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    name = f"{digest.hexdigest()}.{kind}"
    size = sum(len(part) for part in parts)
    if (folder / name).is_file() and (folder / name).stat().st_size == size:
        return name
    folder.mkdir(parents=True, exist_ok=True)
    handle, path = tempfile.mkstemp(dir=folder, prefix=".unfinished_")
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
        os.chmod(path, 0o644)
        os.replace(path, folder / name)
    except BaseException:
        os.unlink(path)
        raise
    return name
