"""A graph that TorchDynamo has captured, as a module that another process can import: its parameters and buffers are the
module's, the rest of its placeholders are forward's arguments. Needs torch."""

from __future__ import annotations

import copy
from typing import Any, List, Sequence

import torch


class CompiledGraph(torch.nn.Module):
    """`weights`: the places of placeholders that are tensors of the module, which are in `tensors` in this order."""

    def __init__(self, graph: torch.fx.GraphModule, weights: Sequence[int], tensors: Sequence[torch.Tensor]):
        super().__init__()
        self.graph, self.places = graph, tuple(weights)
        for i, t in enumerate(tensors):
            if isinstance(t, torch.nn.Parameter):
                self.register_parameter(f"w{i}", t)
            else:
                self.register_buffer(f"w{i}", t)

    def forward(self, *given: torch.Tensor) -> Any:
        own = {place: getattr(self, f"w{i}") for i, place in enumerate(self.places)}
        rest = iter(given)
        return self.graph(*[own[i] if i in own else next(rest) for i in range(len(own) + len(given))])

    def extra_repr(self) -> str:
        """What tells graphs apart: their code."""
        return f"{self.places}\n{self.graph.code}"


def alike(t: torch.Tensor) -> torch.Tensor:
    """A tensor of the type of another, which may be a fake one, with values: small ones, that index nothing outside."""
    made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
    return made.normal_() if t.dtype.is_floating_point else made.zero_()


def in_aten(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy without the operators of prims that Inductor's decompositions bring and that ATen has as well."""
    made = copy.deepcopy(graph)
    aten = torch.ops.aten
    fma, convert = (getattr(getattr(torch.ops.prims, name, None), "default", None) for name in ("fma", "convert_element_type"))
    for node in list(made.graph.nodes):
        with made.graph.inserting_before(node):
            if node.op == "call_function" and node.target is fma:
                a, b, c = node.args
                product = made.graph.call_function(aten.mul.Tensor, (a, b))
                new = made.graph.call_function(aten.add.Tensor, (product, c))
            elif node.op == "call_function" and node.target is convert:
                new = made.graph.call_function(aten._to_copy.default, (node.args[0],), {"dtype": node.args[1]})
            else:
                continue
        node.replace_all_uses_with(new)
        made.graph.erase_node(node)
    made.recompile()
    return made


def problem_with(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> str:
    """Why a graph cannot be a module of its own; "" if it can."""
    if any(not isinstance(t, torch.Tensor) for t in inputs):
        return "its shapes are symbolic"
    if any(n.op in ("get_attr", "call_module") for n in graph.graph.nodes):
        return "it has tensors or modules of its own"
    output = next(n for n in graph.graph.nodes if n.op == "output")
    if any(v is not None and not isinstance(v, torch.fx.Node) for v in output.args[0]):
        return "it returns something that is no tensor"
    return ""


def weights_of(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> List[int]:
    """The places of placeholders that are parameters or buffers of a model."""
    nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
    static = [(n.meta.get("tensor_dict") or {}).get("_dynamo_static_input_type") is not None for n in nodes]
    return [i for i, t in enumerate(inputs) if isinstance(t, torch.nn.Parameter) or static[i]]
