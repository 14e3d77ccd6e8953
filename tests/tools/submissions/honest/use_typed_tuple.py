# Groups its parameters in a typed named tuple, an enumeration and a data class.
# problem: block
import dataclasses
import enum
import typing
import torch
import torch.nn as nn


class Pair(typing.NamedTuple):
    weight: torch.Tensor
    bias: torch.Tensor


class Kind(enum.Enum):
    RELU = 1


@dataclasses.dataclass(frozen=True)
class Tile:
    rows: int = 64


T = typing.TypeVar("T")
Kinds = enum.Enum("Kinds", "A B")


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        p = Pair(self.linear.weight, self.linear.bias)
        return torch.relu(nn.functional.linear(x, p.weight, p.bias)) + x
