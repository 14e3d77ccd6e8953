"""Tensors by name in one file, as safetensors has them: the length of the header, the header as JSON, the bytes."""

from __future__ import annotations

import ctypes
import json
import pathlib

import torch

_DTYPES = {"BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32,
           "I64": torch.int64, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}


def read_tensors(path: pathlib.Path, only: str | None = None) -> dict[str, torch.Tensor]:
    """`only`: one of them."""
    found = {}
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        for name, entry in header.items():
            if name == "__metadata__" or only not in (None, name):
                continue
            begin, end = entry["data_offsets"]
            file.seek(8 + length + begin)
            data = bytearray(file.read(end - begin))
            dtype = _DTYPES[entry["dtype"]]
            flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
            found[name] = flat.reshape(entry["shape"])
    return found


def tensors_text(tensors: dict[str, torch.Tensor]) -> bytes:
    """The file's content."""
    names = {dtype: name for name, dtype in _DTYPES.items()}
    header, parts, at = {}, [], 0
    for name, t in tensors.items():
        flat = t.detach().cpu().contiguous()
        data = ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size()) if flat.numel() else b""
        header[name] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)
