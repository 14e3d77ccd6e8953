"""What a row of the tables says of a model, and the file that is written of it."""

from __future__ import annotations

import dataclasses
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Size:
    """A model and what it is called with, as Python expressions."""

    module: str
    inputs: dict[str, str]  # by the names of forward's arguments


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    library: str
    cpu: Size
    gpu: Size | None  # worth measuring on one: some 0.2 to 10 ms a call
    source: str = ""  # a file with the module's class, beside the tables; the written file contains it
    by_keyword: bool = False  # the module takes its inputs by their names alone
    training: bool = False


def images(batch: int, pixels: int, dtype: str = "") -> dict[str, str]:
    kind = f", dtype=torch.{dtype}" if dtype else ""
    return {"images": f"torch.rand({batch}, 3, {pixels}, {pixels}{kind})"}


def tokens(batch: int, length: int, vocabulary: int = 1000, name: str = "input_ids") -> dict[str, str]:
    return {name: f"torch.randint(0, {vocabulary}, ({batch}, {length}))"}


_FILE = '''class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = {module}
        {mode}

    def forward(self, {names}):
        return self.inner({passed})


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
'''


def file_text(row: Row, size: str) -> str:
    """A model as KernelBench has them."""
    chosen = row.gpu if size == "gpu" else row.cpu
    if chosen is None:
        raise ValueError(f"{row.name} has no size for a GPU")
    head = (HERE / row.source).read_text(encoding="utf-8") if row.source else f"import torch\nimport {row.library}\n"
    names = list(chosen.inputs)
    return head.rstrip("\n") + "\n\n\n" + _FILE.format(
        module=chosen.module,
        mode="self.train()" if row.training else "self.eval()",
        names=", ".join(names),
        passed=", ".join(f"{n}={n}" if row.by_keyword else n for n in names),
        inputs=", ".join(chosen.inputs.values()),
    )
