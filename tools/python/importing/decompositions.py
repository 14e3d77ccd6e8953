"""Operators that a task does not have and PyTorch takes apart by values, or not at all, written with others."""

from __future__ import annotations

import struct
from typing import Any

import torch

from .refusal import Refused

aten = torch.ops.aten


def _istft(
    x: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> torch.Tensor:
    """ATen's also looks at whether the windows cover the whole; where they do not, this gives NaN or infinite values."""
    if onesided is False or return_complex:
        raise Refused(
            "it computes torch.istft of both sides of a spectrum, which a task has no steps for: give it one (onesided=True)"
        )
    hop, width = hop_length or n_fft // 4, win_length or n_fft
    window = torch.ones(width, dtype=x.real.dtype) if window is None else window
    left = (n_fft - width) // 2
    window = torch.nn.functional.pad(window, (left, n_fft - width - left))
    batch, (rows, count) = x.shape[:-2], x.shape[-2:]
    frames = torch.fft.irfft(x.reshape(-1, rows, count).transpose(1, 2), n_fft, norm="ortho" if normalized else "backward")
    total = n_fft + hop * (count - 1)

    def joined(frames: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.fold(frames.transpose(1, 2), (1, total), (1, n_fft), stride=(1, hop)).reshape(-1, total)

    y = joined(frames * window) / joined((window * window).expand(1, count, n_fft))
    start = n_fft // 2 if center else 0
    end = total - start if length is None else min(start + length, total)
    y = y[:, start:end]
    if length is not None and length > y.shape[1]:
        y = torch.nn.functional.pad(y, (0, length - y.shape[1]))
    return y.reshape(*batch, y.shape[1])


def _searchsorted(
    sequence: torch.Tensor,
    x: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """The number of elements of an ascending row that are smaller (right: or equal)."""
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    of_all = sequence if sequence.dim() == 1 else sequence.unsqueeze(-2)
    smaller = of_all <= x.unsqueeze(-1) if right or side == "right" else of_all < x.unsqueeze(-1)
    return smaller.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def _quantised(x: torch.Tensor, scale: Any, zero: Any, low: int, high: int) -> tuple[torch.Tensor, torch.Tensor]:
    at = torch.round(x * (1 / scale)) + zero
    return (at.clamp(low, high) - zero) * scale, (at >= low) & (at <= high)


def _quantise_tensor(x: torch.Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> tuple:
    scale = scale if isinstance(scale, torch.Tensor) else struct.unpack("f", struct.pack("f", scale))[0]
    return _quantised(x, scale, zero_point, quant_min, quant_max)


def _quantise_channels(
    x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple:
    shape = [-1 if d == axis % x.dim() else 1 for d in range(x.dim())]
    return _quantised(x, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)


def embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
    each: int = 0,
) -> tuple:
    """`each`: the number of indices of every bag, where they have the same. Of the four results only the first is made."""
    bags = offsets.shape[0] - (1 if include_last_offset else 0)
    rows = torch.nn.functional.embedding(indices, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    counted = None
    if padding_idx >= 0:
        counted = (indices != padding_idx).to(rows.dtype)
        rows = rows * counted.unsqueeze(-1)
    if each and bags * each == indices.shape[0] and (counted is None or mode == 0):
        rows = rows.reshape(bags, each, -1)
        made = rows.sum(1) if mode == 0 else rows.mean(1) if mode == 1 else rows.amax(1)
        return made, offsets, offsets, offsets
    if mode == 2:
        raise Refused(
            "it computes the maximum of bags of different sizes (aten::embedding_bag), which a task has no steps for: pad them"
        )
    place = torch.arange(indices.shape[0], device=indices.device).unsqueeze(1)
    bag = (offsets[:bags].unsqueeze(0) <= place).sum(1) - 1
    made = torch.zeros(bags, weight.shape[1], dtype=weight.dtype).index_add(0, bag, rows)
    if mode == 1:
        counted = torch.ones(indices.shape[0], dtype=weight.dtype) if counted is None else counted
        count = torch.zeros(bags, dtype=weight.dtype).index_add(0, bag, counted)
        made = made / count.clamp(min=1).unsqueeze(1)
    return made, offsets, offsets, offsets


ALL = {
    aten._embedding_bag_forward_only.default: embedding_bag,
    aten.istft.default: _istft,
    aten.searchsorted.Tensor: _searchsorted,
    aten.fake_quantize_per_tensor_affine_cachemask.default: _quantise_tensor,
    aten.fake_quantize_per_channel_affine_cachemask.default: _quantise_channels,
}
