"""Random PyTorch models for the importer: casts, views, copies, constants and in-place writes around a little arithmetic.

Each line of forward is run as it is written, and left out where PyTorch refuses it or its result is not finite."""

from __future__ import annotations

import random

import torch

from .lines import Lines, Unfit

HEAD = "import torch\nimport torch.nn.functional as F\n\n\nclass Model(torch.nn.Module):\n"


def random_model(seed: int | str) -> str:
    """The text of a file with Model, get_inputs and get_init_inputs."""
    r = random.Random(seed)
    lines = Lines(r)
    wanted = r.randint(3, 14)
    for _ in range(8 * wanted):
        if len(lines.text) < wanted:
            try:
                lines.add()
            except Unfit:
                pass
    return text_of(lines)


def text_of(lines: Lines) -> str:
    results = lines.results()
    body = [*lines.text, f"return {', '.join(results)}"]
    init = ["super().__init__()", *lines.attributes]
    indent = "\n        "
    return (
        f"{HEAD}    def __init__(self):{indent}{indent.join(init)}\n\n"
        f"    def forward(self, {', '.join(lines.inputs)}):{indent}{indent.join(body)}\n\n\n"
        f"def get_inputs():\n    return [{', '.join(lines.inputs.values())}]\n\n\ndef get_init_inputs():\n    return []\n"
    )


def values_of(text: str, seed: int) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    """The model with its weights, and inputs."""
    module: dict = {"__name__": "random_model"}
    exec(text, module)
    torch.manual_seed(42)
    model = module["Model"]()
    torch.manual_seed(seed)
    return model, module["get_inputs"]()
