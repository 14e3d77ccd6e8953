"""torch.export of a model, in its training form (composite operators whole), read into a Program."""

from __future__ import annotations

import contextlib
import inspect
import operator
from typing import Any, Iterator

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from . import lines, structure, unsupported
from .autocasting import Region
from .complex_numbers import Complex
from .program import Program, Value, may_share_memory
from .reading import Reader, line_of
from .refusal import Refused
from .source import OnCpu
from .state import Change, Watch
from .tracing import as_in_a_call, forward_only, refusal_of, whole_recurrence


def _inline(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Inlines regions under torch.no_grad and torch.autocast; what is in one of these knows of it."""
    for node in list(graph_module.graph.nodes):
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            kind, place = node.target.name(), 1
            is_autocast = kind == "wrap_with_autocast"
            if is_autocast:
                place = 4  # after device, dtype, enabled, cache_enabled
            elif kind != "wrap_with_set_grad_enabled":
                raise Refused(
                    f"it uses {kind}{line_of(node)}, which a task's steps cannot express: write the region as "
                    "plain operators"
                )
            region = node.args[place]
            inner = _inline(getattr(graph_module, region.target))
            if is_autocast:
                device, dtype, enabled = node.args[:3]
                for n in inner.graph.nodes:
                    n.meta.setdefault("autocast", Region(device, dtype) if enabled else None)
            env = dict(zip((n for n in inner.graph.nodes if n.op == "placeholder"), node.args[place + 1 :]))
            with graph_module.graph.inserting_before(node):
                results = graph_module.graph.graph_copy(inner.graph, env)
            for user in list(node.users):
                user.replace_all_uses_with(results[user.args[1]])
                graph_module.graph.erase_node(user)
            graph_module.graph.erase_node(node)
            if not region.users:
                graph_module.graph.erase_node(region)
    return graph_module


def _aliases(nodes: list[torch.fx.Node]) -> dict[torch.fx.Node, torch.fx.Node]:
    """The node whose memory each may share."""
    base: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in nodes:
        base[node] = node
        if node.op != "call_function":
            continue
        shares = node.target is operator.getitem or (
            isinstance(node.target, torch._ops.OpOverload) and may_share_memory(node.target)
        )
        if shares and node.args and isinstance(node.args[0], torch.fx.Node):
            base[node] = base[node.args[0]]
    return base


def _writes_through_views(graph: torch.fx.Graph) -> bool:
    """True if an in-place operator changes memory that is read later under another name."""
    nodes = list(graph.nodes)
    base = _aliases(nodes)
    place = {node: i for i, node in enumerate(nodes)}
    same: dict[
        torch.fx.Node, torch.fx.Node
    ] = {}  # an in-place operator returns the tensor that it changed
    for node in nodes:
        if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable:
            continue
        target = node.args[0]
        same[node] = same.get(target, target)
        for other in nodes:
            if same.get(other, other) is same[node] or base[other] is not base[target]:
                continue
            if any(place[user] > place[node] for user in other.users):
                return True
    return False


def _placeholder_names(model: torch.nn.Module, arguments: list[Any]) -> list[str]:
    """forward's parameter for each leaf of the arguments."""
    signature = inspect.signature(model.forward)
    required = [
        p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY and p.default is p.empty
    ]
    if required:
        raise Refused(
            f"forward takes {', '.join(required)} by keyword alone{lines.of_function(model.forward)}, and is called with "
            "the items of get_inputs by position: give a dict of them, or take the * out of its parameters"
        )
    try:
        bound = signature.bind(*arguments)
    except TypeError as e:
        raise Refused(
            f"forward is called with the items of get_inputs by position (there are {len(arguments)}), and this is "
            f"no such call of it{lines.of_function(model.forward)}: {e}"
        ) from e
    names = []
    for name, value in bound.arguments.items():
        leaves = torch.utils._pytree.tree_leaves(value)
        names += [name] if len(leaves) == 1 else [f"{name}_{i}" for i in range(len(leaves))]
    return names


@contextlib.contextmanager
def _attributes_as_buffers(model: torch.nn.Module) -> Iterator[None]:
    """While it is entered, tensors that are plain attributes are buffers, as torch.export wants those that forward
    writes into through views."""
    moved = []
    for module in model.modules():
        for name, value in list(module.__dict__.items()):
            if isinstance(value, torch.Tensor):
                moved.append((module, name, module.__dict__.pop(name)))
                module._buffers[name] = value
    try:
        yield
    finally:
        for module, name, value in moved:
            del module._buffers[name]
            module.__dict__[name] = value


def _recorded(model: torch.nn.Module, arguments: tuple) -> torch.export.ExportedProgram:
    """Without writes through views, which a program has no step for."""
    exported = torch.export.export(model, arguments, strict=False)
    if not _writes_through_views(exported.graph):
        return exported
    try:
        return exported.run_decompositions({})
    except RuntimeError as e:
        if "is mutated in the forward method" not in str(e):
            raise
    with _attributes_as_buffers(model):
        return torch.export.export(model, arguments, strict=False).run_decompositions({})


def export(model: torch.nn.Module, arguments: list[Any], source: str = "") -> tuple[Program, Watch]:
    """Weights are Values of kind "weight" with the tensor as data; what the export lifted has the kind "constant".
    `source`: the name of the module that the model is defined in."""
    unsupported.check_model(model)
    watch = Watch(model, lambda result: structure.check_returned(result, lines.of_function(model.forward)))
    names = _placeholder_names(model, arguments)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    leaves, spec = torch.utils._pytree.tree_flatten(arguments)
    fakes = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in leaves]
    fake_arguments = torch.utils._pytree.tree_unflatten(fakes, spec)
    recording = (forward_only(), OnCpu(), whole_recurrence(), as_in_a_call(), unsupported.without_triton())
    with contextlib.ExitStack() as entered:
        for context in (torch.no_grad(), *recording, watch.entered()):
            entered.enter_context(context)
        try:
            exported = _recorded(model, tuple(fake_arguments))
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as e:  # noqa: B036  (torch.export raises what the model raises)
            raise refusal_of(e) from e
    with torch.no_grad(), whole_recurrence():
        return _read(model, exported, names, mode, watch, source), watch


def _read(
    model: torch.nn.Module,
    exported: torch.export.ExportedProgram,
    names: list[str],
    mode: FakeTensorMode,
    watch: Watch,
    source: str,
) -> Program:
    graph = _inline(exported.graph_module).graph
    program = Program([], [], [], [], mode)
    reader = Reader(program)
    nodes = {n.name: n for n in graph.nodes if n.op == "placeholder"}
    user_inputs = 0
    for spec in exported.graph_signature.input_specs:
        node = nodes[spec.arg.name]
        if spec.kind == InputKind.USER_INPUT:
            fake = node.meta.get("val")
            if isinstance(fake, torch.Tensor):
                name = names[user_inputs] if user_inputs < len(names) else node.name
                value = Value(name, mode.from_tensor(fake) if fake.fake_mode is not mode else fake, "input")
                program.inputs.append(value)
                reader.env[node] = value
            else:
                reader.env[node] = fake
            user_inputs += 1
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            data = (
                exported.constants.get(spec.target)
                if spec.kind == InputKind.CONSTANT_TENSOR
                else _attribute(model, spec.target)
            )
            if data is None:
                data = _attribute(model, spec.target)
            data = data.detach()
            kind = "weight" if spec.kind == InputKind.PARAMETER else "constant"
            if data.is_complex():
                reader.env[node] = _complex_constant(program, node.name, data, kind, spec.target)
                continue
            reader.env[node] = Value(node.name, mode.from_tensor(data), kind, data, spec.target)
            program.weights.append(reader.env[node])
        else:
            raise Refused(f"its graph has an input of a kind that tasks have no word for ({spec.kind.name})")
    by_path = {v.target: v for v in program.weights}
    by_path.update({s.target: reader.env[nodes[s.arg.name]] for s in exported.graph_signature.input_specs if s.target})
    by_path.update({watch.in_rows[a]: v for v in program.weights if (a := v.data.data_ptr()) in watch.in_rows})
    _order_weights(model, program)
    given = dict(reader.env)
    try:
        reader.read(graph)
    except Exception as e:
        refusal = refusal_of(e, whole=False, where=reader.where)
        raise refusal if refusal is not None else e from e
    changes = {c.path: c for c in _changes_in_place(exported, nodes, given, reader.env, watch)}
    result = next(n for n in graph.nodes if n.op == "output").args[0]
    places: list[int | None] = []
    for spec, node in zip(exported.graph_signature.output_specs, result):
        if spec.kind != OutputKind.USER_OUTPUT:
            continue  # see _changes_in_place
        if isinstance(spec.arg, ConstantArgument) or not isinstance(node, torch.fx.Node):
            if getattr(spec.arg, "value", None) is None:
                places.append(None)
                continue
            raise Refused(
                f"forward returns the Python value {spec.arg.value!r}{lines.of_function(model.forward)}; a task's outputs "
                "are tensors: leave it out, or make it a tensor"
            )
        places.append(len(program.outputs))
        program.outputs.append(reader.env[node])
    if watch.assigned:
        set_anew = [program.outputs[place] for place in places[-len(watch.assigned) :]]
        for path, new in zip(watch.assigned, set_anew):
            # An attribute that is set to what it was has not changed.
            changes.pop(path, None)
            if by_path.get(path) is not new:
                changes[path] = Change(path, "assigned", by_path.get(path), new)
        del program.outputs[len(program.outputs) - len(set_anew) :]
    if any(isinstance(v, Complex) for v in program.outputs):
        raise Refused(
            f"forward returns complex numbers{lines.of_function(model.forward)}; return torch.view_as_real of them"
        )
    changes = {path: c for path, c in changes.items() if not isinstance(c.new, Complex) or c.new is not c.old}
    if any(isinstance(v, Complex) for c in changes.values() for v in (c.old, c.new)):
        raise Refused(
            f"forward changes complex numbers that it keeps{lines.of_function(model.forward)}; keep torch.view_as_real of them"
        )
    if not program.outputs:
        raise Refused(f"forward returns no tensor{lines.of_function(model.forward)}; return what it computes")
    program.returns = structure.template(watch.result, iter(places), source, lines.of_function(model.forward))
    program.changes = list(changes.values())
    program.where, program.chosen_rows = watch.where, watch.chosen_rows
    return program


def _complex_constant(program: Program, name: str, data: torch.Tensor, kind: str, target: str) -> Complex:
    """A complex tensor of the module, as two constants."""
    if kind == "weight":
        raise Refused(f"its parameter {target} is complex; a task's weights are real: make it torch.view_as_real of that")
    parts = []
    for part in ("real", "imag"):
        values = getattr(data, part).contiguous()
        parts.append(Value(f"{name}_{part}", program.mode.from_tensor(values), kind, values, f"{target}.{part}", part))
    program.weights += parts
    return Complex(*parts)


def _changes_in_place(
    exported: torch.export.ExportedProgram,
    nodes: dict[str, torch.fx.Node],
    given: dict[torch.fx.Node, Any],
    now: dict[torch.fx.Node, Any],
    watch: Watch,
) -> Iterator[Change]:
    """Tensors of the module and inputs that forward writes into: as the graph has it, or as its signature says where
    the graph was made one without such writes. `given`: what the placeholders were before the graph was read."""
    signature = exported.graph_signature
    by_name = {}
    for spec in signature.input_specs:
        node = nodes[spec.arg.name]
        is_input = spec.kind == InputKind.USER_INPUT
        path = (given[node].name if isinstance(given[node], Value) else "") if is_input else spec.target
        kind = "argument" if is_input else "in_place"
        if spec.kind == InputKind.CONSTANT_TENSOR:
            path = watch.in_rows.get(given[node].data.data_ptr(), path)
        by_name[spec.arg.name if is_input else spec.target] = (path, kind, given[node])
        if now[node] is not given[node]:
            yield Change(path, kind, given[node], now[node])
    result = next(n for n in exported.graph.nodes if n.op == "output").args[0]
    for spec, node in zip(signature.output_specs, result):
        if spec.kind not in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT) and spec.target in by_name:
            path, kind, old = by_name[spec.target]
            yield Change(path, kind, old, now[node])


def _order_weights(model: torch.nn.Module, program: Program) -> None:
    """Orders weights as the module lists them, each under its first name."""
    first: dict[int, str] = {}
    for name, tensor in (
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ):
        first.setdefault(id(tensor), name)
    place = {name: i for i, name in enumerate(first.values())}
    for value in program.weights:
        try:
            value.target = first.get(id(_attribute(model, value.target)), value.target)
        except AttributeError:
            pass  # a tensor that forward makes
    program.weights.sort(key=lambda v: place.get(v.target, len(place)))


def _attribute(model: torch.nn.Module, path: str) -> torch.Tensor:
    at: Any = model
    for part in path.split("."):
        at = getattr(at, part)
    return at
